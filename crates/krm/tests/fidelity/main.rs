//! Loggia held against the original: whole packages read and written, streams, Kptfiles, results, patterns.
//!
//! The original is `e2e/oracle/krm`. Where it is not built, or there is no Go to build it, the recorded answers
//! in `tests/fixtures` are compared all the same.

#![allow(clippy::print_stderr, reason = "tests say what they skip and what differs")]

mod cases;
mod laws;
mod oracle;
mod packages;
mod question;
mod random;
mod subject;
mod texts;

use std::path::{Path, PathBuf};

use crate::oracle::Oracle;
use crate::question::{Answer, Question};

/// Asks both sides and shows every difference; fails if there are more than `allowed`.
fn compare(name: &str, questions: &[Question], oracle: &mut Oracle, allowed: usize) {
    let mut different = 0;
    let mut passed_over = 0;
    for question in questions {
        match question.ask(oracle) {
            // The original crashed; there is nothing to hold anyone against, but we must not.
            Answer::Panic(_) => {
                let _ = subject::answer(question);
                passed_over += 1;
            }
            expected => {
                let answer = subject::answer(question);
                if answer != expected {
                    different += 1;
                    eprintln!("--- {question:?}\n  original: {expected:?}\n  ours:     {answer:?}");
                }
            }
        }
    }
    let count = questions.len();
    eprintln!("{name}: {count} asked, {different} different, {passed_over} crashed the original");
    assert!(different <= allowed, "{name}: {different} of {count} differ, at most {allowed} may");
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/recorded.cases")
}

#[test]
fn recorded_answers_are_ours() {
    let recorded =
        question::read_all(&std::fs::read(fixtures()).expect("the recording is part of the repository"));
    assert!(recorded.len() >= 48, "only {} cases are recorded", recorded.len());
    for (question, expected) in &recorded {
        assert_eq!(&subject::answer(question), expected, "{question:?}");
    }
}

/// `cargo test -p loggia-krm --test fidelity -- --ignored record` writes the recording anew.
#[test]
#[ignore = "writes the fixtures"]
fn record() {
    let Some(mut oracle) = Oracle::start() else { return };
    let mut questions = cases::packages();
    questions.extend(cases::writes());
    questions.extend(cases::texts());
    let mut out = Vec::new();
    for question in &questions {
        let answer = question.ask(&mut oracle);
        if !matches!(answer, Answer::Panic(_)) {
            question::write(question, &answer, &mut out);
        }
    }
    std::fs::write(fixtures(), out).expect("the repository can be written");
}

#[test]
fn small_cases_are_as_in_the_original() {
    let Some(mut oracle) = Oracle::start() else { return };
    compare("packages", &cases::packages(), &mut oracle, 0);
    compare("writes", &cases::writes(), &mut oracle, 0);
    compare("texts", &cases::texts(), &mut oracle, 0);
}

#[test]
fn conformance_packages_are_as_in_the_original() {
    let Some(questions) = packages::conformance() else { return };
    let Some(mut oracle) = Oracle::start() else { return };
    compare("conformance packages", &questions, &mut oracle, 0);
}

#[test]
fn generated_packages_are_as_in_the_original() {
    let Some(mut oracle) = Oracle::start() else { return };
    let count = std::env::var("LOGGIA_KRM_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(400);
    compare("generated packages", &packages::generated(count), &mut oracle, 0);
}

#[test]
fn generated_texts_are_as_in_the_original() {
    let Some(mut oracle) = Oracle::start() else { return };
    compare("generated Kptfiles", &texts::kptfiles(600), &mut oracle, 0);
    compare("generated patterns", &texts::patterns(500), &mut oracle, 0);
    compare("generated results", &texts::results(300), &mut oracle, 0);
    compare("generated images", &texts::images(3000), &mut oracle, 0);
    compare("generated streams", &texts::streams(400), &mut oracle, 0);
}
