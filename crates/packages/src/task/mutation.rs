//! A render from files to files.

use std::collections::HashSet;

use loggia_function::Runtime;
use loggia_go::quote;
use loggia_krm::package::KPTFILE;
use loggia_krm::{Files, FunctionResult, FunctionResultList, Severity, path};
use loggia_render::{Cause, Options, Progress, RenderError, Renderer, Source};

use super::RenderStatus;

/// What a render made of files.
#[derive(Debug)]
pub(super) struct Mutated {
    /// The files to go on with. After a failure these are the old ones with a status in the Kptfile, or what was
    /// reached if the Kptfile asks for that.
    pub(super) files: Files,
    pub(super) status: RenderStatus,
    pub(super) failed: bool,
    pub(super) warnings: Vec<String>,
}

/// Renders the package that files hold, wherever in them it is.
pub(super) async fn render(
    files: Files,
    options: &Options,
    runtime: &dyn Runtime,
    progress: &mut dyn Progress,
) -> Mutated {
    let folder = match top_package(&files) {
        Ok(Some(folder)) => folder,
        Ok(None) => {
            let warnings = vec!["skipping render as no package was found".to_owned()];
            return Mutated { files, status: RenderStatus::default(), failed: false, warnings };
        }
        Err(text) => return Mutated::failed(files, FunctionResultList::default(), text),
    };
    let (package, others) = take(files, &folder);
    let source = Source::Files(package);
    let ended = Renderer { options, runtime }.render(&source, progress).await;
    let mut package = match source {
        Source::Files(files) => files,
        Source::Folder(_) => Files::new(),
    };
    let rendered = match ended {
        Ok(rendered) => rendered,
        Err(error) => {
            let files = put_back(package, others, &folder);
            return Mutated::failed(files, FunctionResultList::default(), error.to_string());
        }
    };
    let written = rendered
        .changes()
        .map_err(|error| error.to_string())
        .and_then(|changes| changes.apply_to_files(&mut package).map_err(|error| error.to_string()));
    let files = put_back(package, others, &folder);
    let error = match (rendered.error, written) {
        (Some(error), _) => describe(error, &rendered.results),
        (None, Err(text)) => text,
        (None, Ok(())) => {
            let status = RenderStatus { result: rendered.results, error: String::new() };
            return Mutated { files, status, failed: false, warnings: Vec::new() };
        }
    };
    Mutated::failed(files, rendered.results, error)
}

impl Mutated {
    fn failed(files: Files, mut result: FunctionResultList, error: String) -> Self {
        result.exit_code = 1;
        Self { files, status: RenderStatus { result, error }, failed: true, warnings: Vec::new() }
    }
}

/// The folder of the package above all others, if there is one.
///
/// # Errors
/// If there are several with nothing above them: any choice would be a guess.
pub(super) fn top_package(files: &Files) -> Result<Option<String>, String> {
    let folders = package_folders(files);
    let has_parent = |folder: &&str| parents(folder).any(|parent| folders.contains(parent));
    let mut tops: Vec<&str> = folders.iter().copied().filter(|folder| !has_parent(folder)).collect();
    tops.sort_unstable();
    match tops.as_slice() {
        [] => Ok(None),
        [top] => Ok(Some((*top).to_owned())),
        several => {
            const MOST: usize = 20;
            let names: Vec<String> = several.iter().take(MOST).map(|folder| format!("`{folder}`")).collect();
            let more = if several.len() > MOST { ", …" } else { "" };
            Err(format!(
                "there are {} packages and none of them holds the others: {}{more}; add a Kptfile above them or handle them one by one",
                several.len(),
                names.join(", ")
            ))
        }
    }
}

/// The folders that hold a Kptfile.
pub(super) fn package_folders(files: &Files) -> HashSet<&str> {
    files.keys().filter(|path| path::base_name(path) == KPTFILE).map(|path| path::folder(path)).collect()
}

/// The folders that a path is in, from the inside out; the empty one is the last.
pub(super) fn parents(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors((!path.is_empty()).then(|| path::folder(path)), |folder| {
        (!folder.is_empty()).then(|| path::folder(folder))
    })
}

/// The files of a package by their paths in it, and all others.
fn take(files: Files, folder: &str) -> (Files, Files) {
    if folder.is_empty() {
        return (files, Files::new());
    }
    let below = format!("{folder}/");
    let (inside, others): (Files, Files) = files.into_iter().partition(|(path, _)| path.starts_with(&below));
    (inside.into_iter().map(|(path, content)| (path[below.len()..].to_owned(), content)).collect(), others)
}

fn put_back(package: Files, mut others: Files, folder: &str) -> Files {
    if folder.is_empty() {
        return package;
    }
    others.extend(package.into_iter().map(|(path, content)| (path::inside(folder, &path), content)));
    others
}

/// The whole chain, with what the function said in the place of kpt's `already handled error`.
fn describe(mut error: RenderError, results: &FunctionResultList) -> String {
    if let (Cause::FunctionFailed, Some(last)) = (&error.cause, results.items.last()) {
        error.cause = Cause::Other(failure_of(last));
    }
    error.to_string()
}

fn failure_of(result: &FunctionResult) -> String {
    let name = if result.image.is_empty() { &result.exec } else { &result.image };
    let first_error = || {
        let error = result.results.0.iter().find(|item| item.severity == Some(Severity::Error));
        error.map(ToString::to_string).unwrap_or_default()
    };
    let said = match result.stderr.trim() {
        "" => first_error(),
        stderr => stderr.to_owned(),
    };
    let exit = match result.exit_code {
        -1 => "ended by a signal".to_owned(),
        code => format!("exit status {code}"),
    };
    let said = if said.is_empty() { said } else { format!(" ({said})") };
    format!("func eval {} failed: {exit}{said}", quote(name))
}
