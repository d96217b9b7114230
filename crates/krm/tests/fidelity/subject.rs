//! Loggia as the tests see it: it answers the oracle's questions through the crate's public interface.

use std::path::Path;

use loggia_krm::package::{Paths, ReadOptions, Sources, WriteOptions, changes};
use loggia_krm::{Files, Kptfile, Package, ResourceList, Results, StreamOptions, kptfile};
use loggia_yaml::Fidelity;

use crate::question::{Answer, FOLDER, Question, on_disk};

pub(crate) fn answer(question: &Question) -> Answer {
    match question {
        Question::Package(files) => {
            let on_disk = on_disk(files, |folder| outcome(package(folder)));
            let in_memory = package_in_memory(files);
            // Both forms have one meaning; errors differ in what they call the package.
            match (&on_disk, &in_memory) {
                (Answer::Error(disk), Answer::Error(memory)) => {
                    assert_eq!(disk.replace(&format!("{FOLDER}/"), ""), *memory);
                }
                _ => assert_eq!(on_disk, in_memory),
            }
            on_disk
        }
        Question::Items(files) => outcome(items(files)),
        Question::Write(files, stream) => on_disk(files, |folder| outcome(write(folder, stream))),
        Question::Texts(mode, texts) => outcome(text(mode, texts)),
    }
}

fn outcome(result: Result<String, String>) -> Answer {
    match result {
        Ok(text) => Answer::Text(text),
        Err(text) => Answer::Error(text),
    }
}

const WRITING: WriteOptions = WriteOptions { prune: true, fidelity: Fidelity::Exact, paths: Paths::Any };

fn reading() -> ReadOptions {
    ReadOptions { subpackages: true, fidelity: Fidelity::Exact, ..ReadOptions::default() }
}

fn package(folder: &str) -> Result<String, String> {
    let package = Package::from_folder(Path::new(folder), &reading()).map_err(|error| error.to_string())?;
    package.write(&WRITING).map_err(|error| error.to_string())?;
    Ok(String::new())
}

fn package_in_memory(files: &Files) -> Answer {
    let mut files = files.clone();
    let result = Package::from_files(&files, &reading())
        .map_err(|error| error.to_string())
        .and_then(|package| package.changes(&WRITING).map_err(|error| error.to_string()))
        .and_then(|changes| changes.apply_to_files(&mut files).map_err(|error| error.to_string()));
    match result {
        Ok(()) => Answer::Files(files),
        Err(error) => Answer::Error(error),
    }
}

fn items(files: &Files) -> Result<String, String> {
    let mut options = reading();
    options.annotations.insert("internal.config.kubernetes.io/package-path".into(), "/pkg".into());
    let package = Package::from_files(files, &options).map_err(|error| format!("{FOLDER}/{error}"))?;
    Ok(ResourceList::new(package.resources).emit_with(Fidelity::Exact))
}

fn write(folder: &str, stream: &str) -> Result<String, String> {
    let list = ResourceList::parse(stream.as_bytes(), StreamOptions::default())
        .map_err(|error| error.to_string())?;
    changes(list.items, &Sources::default(), folder, &WRITING)
        .and_then(|changes| changes.apply_to_folder(Path::new(folder)))
        .map_err(|error| error.to_string())?;
    Ok(String::new())
}

fn text(mode: &str, texts: &[String]) -> Result<String, String> {
    match mode {
        "stream" => ResourceList::parse(texts[0].as_bytes(), StreamOptions { sequence_style: true })
            .map(|list| list.emit_with(Fidelity::Exact))
            .map_err(|error| error.to_string()),
        "kptfile" => {
            Kptfile::parse(&texts[0], FOLDER).map(|kptfile| kptfile.to_canonical_yaml()).map_err(|error| {
                let text = error.to_string();
                text.split_once("Details:\n").map_or(text.clone(), |(_, cause)| cause.to_owned())
            })
        }
        "results" => {
            let document = loggia_yaml::parse_first(&texts[0]).map_err(|error| error.to_string())?;
            let mut results =
                Results::from_node(&document.unwrap_or_default().root).map_err(|error| error.to_string())?;
            results.sort();
            Ok(results.to_string())
        }
        "ignore" => Ok(is_ignored(&texts[0], &texts[1], texts[2] == "folder").to_string()),
        "image" => kptfile::check_image(&texts[0]).map(|()| String::new()).map_err(|error| {
            let error = error.to_string();
            error.split_once(" is invalid: ").map_or(error.clone(), |(_, cause)| cause.to_owned())
        }),
        _ => panic!("unknown mode `{mode}`"),
    }
}

/// Patterns are seen at work on a package: an ignored file or folder supplies no resource.
fn is_ignored(patterns: &str, path: &str, is_folder: bool) -> bool {
    let file = if is_folder { format!("{path}/resource.yaml") } else { path.to_owned() };
    let files = Files::from([(".krmignore".to_owned(), patterns.into()), (file, b"kind: A\n".to_vec())]);
    let package = Package::from_files(&files, &ReadOptions::default()).expect("can be read");
    package.resources.is_empty()
}
