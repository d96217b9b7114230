//! Recorded answers: a few hundred cases that need no Go.
//!
//! Record anew, with the oracle built, after the generator or the original's version changed:
//! `cargo test -p loggia-yaml --test fidelity -- --ignored record`

use crate::compare::Report;
use crate::generator::{Kind, document};
use crate::mutator::mutate;
use crate::random::Random;
use crate::{digests, oracle, recording, scalars};

const DOCUMENTS: &str = "documents.digests";
const MUTATED: &str = "mutated.cases";
const SCALARS: &str = "scalars.digests";
const SETTERS: &str = "setters.cases";
const MARSHALLED: &str = "marshalled.cases";

/// Recorded documents come from seeds the live comparison does not start at.
const FIRST_SEED: u64 = 1_000_000;

/// The documents that answers are recorded of, by kind and seed.
fn documents() -> Vec<digests::Input> {
    let kinds = [("manifest", Kind::Manifest), ("wild", Kind::Wild), ("lines", Kind::Lines)];
    let named =
        |seed: u64| kinds.map(|(name, kind)| (format!("{name}-{seed}"), document(kind, seed).into_bytes()));
    (FIRST_SEED..FIRST_SEED + 200).flat_map(named).collect()
}

/// The strings that answers are recorded of, by their place among all of them.
fn strings() -> Vec<digests::Input> {
    let values = scalars::values().into_iter().take(220);
    values.enumerate().map(|(place, value)| (format!("string-{place}"), value)).collect()
}

fn compare_recorded(name: &'static str, file: &str) {
    let mut report = Report::new(name);
    for case in recording::read(file) {
        let texts: Vec<&[u8]> = case.texts.iter().map(Vec::as_slice).collect();
        for (mode, answer) in case.answers {
            report.hold(&mode, &texts, answer);
        }
    }
    report.finish(0, None);
}

#[test]
fn recorded_documents_come_out_byte_for_byte() {
    digests::compare(DOCUMENTS, &documents());
}

#[test]
fn recorded_faults_get_the_recorded_message() {
    compare_recorded("recorded faults", MUTATED);
}

#[test]
fn recorded_scalars_are_quoted_alike_wherever_they_stand() {
    digests::compare(SCALARS, &strings());
}

#[test]
fn recorded_strings_are_set_alike() {
    compare_recorded("recorded setters", SETTERS);
}

#[test]
fn recorded_maps_of_strings_are_marshalled_alike() {
    compare_recorded("recorded maps", MARSHALLED);
}

#[test]
#[ignore = "writes the recordings; run it by name with the oracle built"]
fn record() {
    let mut oracle = oracle::start().expect("the oracle is built");
    let modes = ["nodes:compact", "nodes:wide", "seqindent"];
    digests::record(&mut oracle, DOCUMENTS, &documents(), &modes).unwrap();
    digests::record(&mut oracle, SCALARS, &strings(), &scalars::modes()).unwrap();

    let mut random = Random::new(FIRST_SEED);
    let mutated: Vec<_> = (0..400)
        .map(|n| document(Kind::Wild, 2 * FIRST_SEED + n))
        .filter(|text| text.len() < 400)
        .map(|text| vec![mutate(&mut random, text.as_bytes())])
        .collect();
    recording::record(&mut oracle, MUTATED, &mutated, &["nodes:compact"]).unwrap();

    let values = scalars::values();
    let settings: Vec<_> = values.iter().map(|value| scalars::setting(value)).collect();
    recording::record(&mut oracle, SETTERS, &settings, &["setter"]).unwrap();
    let keys = scalars::sortable(&values);
    let maps: Vec<_> =
        keys.chunks(5).map(|group| group.iter().flat_map(|v| [v.clone(), v.clone()]).collect()).collect();
    recording::record(&mut oracle, MARSHALLED, &maps, &["marshal"]).unwrap();
}
