//! Recorded answers as digests, for inputs that come out of the generator again and again.
//!
//! A recording is one file. Its first line is `modes` and the modes that were asked. Each other line is a case: its name,
//! the digest of its input, and for each mode the digest of the answer, or `-` where the original panicked or repeated
//! its answer to the first mode. A digest is the first 16 hexadecimal digits of a SHA-256: enough to notice a change, not
//! to show what it was. For that the oracle is asked.

use std::fmt::Write as _;

use loggia_testing::sha256;

use crate::oracle::{Answer, Oracle};
use crate::{recording, subject};

/// How many differing answers a failing test shows in full.
const SHOWN: usize = 12;

const NO_ANSWER: &str = "-";

/// An input that can be made anew: its name in the recording, and the text.
pub(crate) type Input = (String, Vec<u8>);

/// Holds Loggia against a recording of these inputs.
pub(crate) fn compare(file: &str, inputs: &[Input]) {
    let text =
        std::fs::read_to_string(recording::path(file)).expect("the recording is part of the repository");
    let mut lines = text.lines();
    let modes = lines.next().and_then(|line| line.strip_prefix("modes ")).expect("the modes come first");
    let modes: Vec<_> = modes.split(' ').collect();
    let (mut compared, mut different, mut shown) = (0, 0, String::new());
    let mut inputs = inputs.iter();
    for line in lines {
        let [case, recorded, answers @ ..] = &line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{file}: a case has a name and an input: {line:?}");
        };
        let (name, input) = inputs.next().unwrap_or_else(|| panic!("{file}: {ANEW}"));
        assert_eq!((*case, *recorded), (name.as_str(), digest(b"", input).as_str()), "{file}: {ANEW}");
        assert_eq!(answers.len(), modes.len(), "{file}: {line:?}");
        for (mode, expected) in modes.iter().zip(answers).filter(|(_, expected)| **expected != NO_ANSWER) {
            let got = subject::ask(mode, &[input]);
            compared += 1;
            if of_answer(&got).as_deref() != Some(*expected) {
                different += 1;
                if different <= SHOWN {
                    show(&mut shown, mode, name, input, &got);
                }
            }
        }
    }
    assert!(inputs.next().is_none(), "{file}: {ANEW}");
    eprintln!("{file}: {compared} compared, {different} different");
    assert!(compared > 0, "{file}: nothing was compared");
    assert!(
        different == 0,
        "{file}: {different} of {compared} differ; build the oracle (make tools) to see the original's answers\n{shown}"
    );
}

const ANEW: &str =
    "the generator makes other inputs than when this was recorded; record anew with the oracle built";

/// Asks the oracle every mode about every input and writes the digests of what it says.
pub(crate) fn record(
    oracle: &mut Oracle,
    file: &str,
    inputs: &[Input],
    modes: &[&str],
) -> std::io::Result<()> {
    let mut out = format!("modes {}\n", modes.join(" "));
    for (name, input) in inputs {
        write!(out, "{name} {}", digest(b"", input)).expect("text");
        let mut first = None;
        for mode in modes {
            let answer = oracle.ask(mode, &[input]);
            let digest = of_answer(&answer).filter(|_| first.as_ref() != Some(&answer));
            if digest.is_some() {
                first.get_or_insert(answer);
            }
            write!(out, " {}", digest.as_deref().unwrap_or(NO_ANSWER)).expect("text");
        }
        out.push('\n');
    }
    std::fs::write(recording::path(file), out)
}

/// Nothing for a panic.
fn of_answer(answer: &Answer) -> Option<String> {
    match answer {
        Answer::Text(text) => Some(digest(b"ok\n", text)),
        Answer::Error(error) => Some(digest(b"error\n", error.as_bytes())),
        Answer::Panic(_) => None,
    }
}

fn digest(head: &[u8], body: &[u8]) -> String {
    let mut digest = sha256(&[head, body].concat());
    digest.truncate(16);
    digest
}

fn show(out: &mut String, mode: &str, name: &str, input: &[u8], got: &Answer) {
    writeln!(out, "--- {mode} of {name}\n  input {:?}", String::from_utf8_lossy(input)).expect("text");
    match got {
        Answer::Text(text) => writeln!(out, "  ours  {:?}", String::from_utf8_lossy(text)).expect("text"),
        Answer::Error(error) => writeln!(out, "  ours  error {error:?}").expect("text"),
        Answer::Panic(panic) => writeln!(out, "  ours  panic {panic:?}").expect("text"),
    }
}
