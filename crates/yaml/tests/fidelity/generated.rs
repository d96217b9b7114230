//! Generated documents, whole and mutated, against the running oracle.

use crate::compare::Report;
use crate::generator::{Kind, document};
use crate::mutator::mutate;
use crate::oracle::{self, Answer};
use crate::random::Random;
use crate::{cases, setting};

/// What is asked about every document.
const MODES: [&str; 3] = ["nodes:compact", "nodes:wide", "dump"];

fn seeds() -> std::ops::Range<u64> {
    let start = setting("LOGGIA_YAML_SEED", 0);
    start..start + cases()
}

fn compare_documents(name: &'static str, kind: Kind) {
    let Some(mut oracle) = oracle::start() else { return };
    let mut report = Report::new(name);
    for seed in seeds() {
        let text = document(kind, seed);
        MODES.iter().for_each(|mode| report.ask(&mut oracle, mode, &[text.as_bytes()]));
    }
    report.finish(1000, Some(&mut oracle));
}

#[test]
fn generated_manifests_give_the_same_nodes_and_bytes() {
    compare_documents("generated manifests", Kind::Manifest);
}

#[test]
fn generated_yaml_of_every_style_gives_the_same_nodes_and_bytes() {
    compare_documents("generated yaml", Kind::Wild);
}

#[test]
fn short_lines_thrown_together_give_the_same_nodes_and_bytes() {
    compare_documents("short lines", Kind::Lines);
}

#[test]
fn generated_documents_decode_to_the_same_values_or_are_rejected_alike() {
    let Some(mut oracle) = oracle::start() else { return };
    let mut report = Report::of_verdicts("decoded values");
    for seed in seeds() {
        for kind in [Kind::Manifest, Kind::Wild, Kind::Lines] {
            let text = document(kind, seed);
            let answer = oracle.ask("values", &[text.as_bytes()]);
            // A collection as a key: Go's maps cannot hold it, and the message shows Go's types. Ours can.
            if !matches!(&answer, Answer::Error(error) if error.starts_with("yaml: invalid map key")) {
                report.hold("values", &[text.as_bytes()], answer);
            }
        }
    }
    report.finish(1000, Some(&mut oracle));
}

#[test]
fn mutated_documents_are_accepted_and_rejected_alike_with_the_same_message() {
    let Some(mut oracle) = oracle::start() else { return };
    let mut report = Report::new("mutated documents");
    for seed in seeds() {
        let mut random = Random::new(seed ^ 0x006d_7574_6174_6564);
        for kind in [Kind::Manifest, Kind::Wild] {
            let text = mutate(&mut random, document(kind, seed).as_bytes());
            report.ask(&mut oracle, "nodes:compact", &[&text]);
            report.ask(&mut oracle, "dump", &[&text]);
        }
    }
    report.finish(1000, Some(&mut oracle));
}

#[test]
fn the_sequence_style_of_generated_documents_is_detected_alike() {
    let Some(mut oracle) = oracle::start() else { return };
    let mut report = Report::new("sequence styles");
    for seed in seeds() {
        for kind in [Kind::Manifest, Kind::Wild] {
            report.ask(&mut oracle, "seqindent", &[document(kind, seed).as_bytes()]);
        }
    }
    report.finish(0, Some(&mut oracle));
}

/// What a fuzzer found worth keeping is worth comparing too: `LOGGIA_YAML_CORPUS` names its folder. Texts that are no
/// UTF-8 are only counted.
#[test]
fn texts_of_a_fuzzing_corpus_give_the_same_nodes_and_bytes() {
    let Some(folder) = std::env::var_os("LOGGIA_YAML_CORPUS") else { return };
    let Some(mut oracle) = oracle::start() else { return };
    let mut report = Report::new("fuzzing corpus");
    let mut garbled = Report::new("fuzzing corpus not UTF-8");
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read(entry.unwrap().path()).unwrap();
        let report = if std::str::from_utf8(&text).is_ok() { &mut report } else { &mut garbled };
        MODES.iter().for_each(|mode| report.ask(&mut oracle, mode, &[&text]));
    }
    garbled.finish(1, None);
    report.finish(1000, Some(&mut oracle));
}
