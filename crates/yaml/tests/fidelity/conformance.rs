//! The YAML of the conformance cases, which lie beside the repository and are not part of it.

use std::path::{Path, PathBuf};

use crate::compare::Report;
use crate::oracle::{self, Answer};
use crate::subject;

/// Every YAML text below `../shared/conformance`, or none with a line that says so.
fn texts() -> Option<Vec<(PathBuf, Vec<u8>)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/cases");
    if !folder.is_dir() {
        loggia_testing::left_out("no conformance cases in ../shared/conformance");
        return None;
    }
    let mut texts = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml")
                || path.file_name().is_some_and(|n| n == "Kptfile")
            {
                let text = std::fs::read(&path).unwrap();
                texts.push((path, text));
            }
        }
    }
    texts.sort();
    Some(texts)
}

#[test]
fn conformance_files_give_the_same_nodes_and_bytes() {
    let (Some(texts), Some(mut oracle)) = (texts(), oracle::start()) else { return };
    let mut report = Report::new("conformance files");
    for (_, text) in &texts {
        for mode in ["nodes:compact", "nodes:wide", "dump", "seqindent"] {
            report.ask(&mut oracle, mode, &[text]);
        }
    }
    report.finish(0, Some(&mut oracle));
}

#[test]
fn conformance_files_come_back_from_a_package_round_trip_as_from_kyaml() {
    let (Some(texts), Some(mut oracle)) = (texts(), oracle::start()) else { return };
    let mut report = Report::new("conformance round trips");
    for (_, text) in &texts {
        let answer = oracle.ask("roundtrip", &[text]);
        // A file that is no mapping cannot be annotated; refusing it is the business of the layer above.
        if !matches!(&answer, Answer::Error(error) if error.starts_with("wrong node kind")) {
            report.hold("roundtrip", &[text], answer);
        }
    }
    report.finish(0, Some(&mut oracle));
}

#[test]
fn conformance_files_settle_after_one_round_trip() {
    let Some(texts) = texts() else { return };
    for (path, text) in &texts {
        let Answer::Text(once) = subject::ask("faithful:compact", &[text]) else { continue };
        let twice = subject::ask("faithful:compact", &[&once]);
        assert_eq!(twice, Answer::Text(once), "{}", path.display());
    }
}
