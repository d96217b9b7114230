//! Recorded answers of the original, so that it is held against Loggia also where Go is not.
//!
//! A recording is one file of cases. A case is `case LEN…`, a line break and the texts; its answers follow, each
//! `answer MODE VERDICT LEN`, a line break and a body. The verdict `same` stands for the first text come back unchanged.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::oracle::{Answer, Oracle};

/// Some texts and what the original makes of them, mode by mode.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) texts: Vec<Vec<u8>>,
    pub(crate) answers: Vec<(String, Answer)>,
}

pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Reads a recording; a file that does not hold one fails the test.
pub(crate) fn read(name: &str) -> Vec<Case> {
    let bytes = std::fs::read(path(name)).expect("the recording is part of the repository");
    let mut rest = &bytes[..];
    let mut cases: Vec<Case> = Vec::new();
    while !rest.is_empty() {
        let header = String::from_utf8(take_line(&mut rest)).expect("a header is text");
        let words: Vec<&str> = header.split(' ').collect();
        match words[..] {
            ["case", ref lengths @ ..] => {
                let texts = lengths.iter().map(|length| take(&mut rest, length)).collect();
                cases.push(Case { texts, answers: Vec::new() });
            }
            ["answer", mode, verdict, length] => {
                let body = take(&mut rest, length);
                let case = cases.last_mut().expect("an answer follows its case");
                let answer = match verdict {
                    "same" => Answer::Text(case.texts[0].clone()),
                    "ok" => Answer::Text(body),
                    _ => Answer::Error(String::from_utf8(body).expect("an error is text")),
                };
                case.answers.push((mode.to_owned(), answer));
            }
            _ => panic!("{name}: unknown header {header:?}"),
        }
        assert_eq!(take(&mut rest, "1"), b"\n", "{name}: a frame ends with a line break");
    }
    cases
}

/// Asks the oracle every mode about every case and writes what it says. Modes whose answer repeats the first mode's are
/// left out, and so are panics.
pub(crate) fn record(
    oracle: &mut Oracle,
    name: &str,
    cases: &[Vec<Vec<u8>>],
    modes: &[&str],
) -> std::io::Result<()> {
    let mut out = Vec::new();
    for texts in cases {
        let mut header = "case".to_owned();
        for text in texts {
            write!(header, " {}", text.len()).expect("text");
        }
        out.extend_from_slice(header.as_bytes());
        out.push(b'\n');
        texts.iter().for_each(|text| out.extend_from_slice(text));
        out.push(b'\n');
        let borrowed: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let mut first = None;
        for mode in modes {
            let answer = oracle.ask(mode, &borrowed);
            let (verdict, body) = match &answer {
                Answer::Panic(_) => continue,
                _ if first.as_ref() == Some(&answer) => continue,
                Answer::Text(text) if *text == texts[0] => ("same", &[][..]),
                Answer::Text(text) => ("ok", &text[..]),
                Answer::Error(error) => ("error", error.as_bytes()),
            };
            out.extend(format!("answer {mode} {verdict} {}\n", body.len()).bytes());
            out.extend_from_slice(body);
            out.push(b'\n');
            first.get_or_insert(answer);
        }
    }
    std::fs::create_dir_all(path("").as_path())?;
    std::fs::write(path(name), out)
}

fn take_line(rest: &mut &[u8]) -> Vec<u8> {
    let end = rest.iter().position(|b| *b == b'\n').expect("a header ends with a line break");
    let line = rest[..end].to_vec();
    *rest = &rest[end + 1..];
    line
}

fn take(rest: &mut &[u8], length: &str) -> Vec<u8> {
    let (head, tail) = rest.split_at(length.parse().expect("a length is a number"));
    *rest = tail;
    head.to_vec()
}
