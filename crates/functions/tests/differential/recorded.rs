//! Recorded answers of the originals: what the tests hold on to where Go is not installed.
//!
//! A file is a sequence of cases: `### input`, `### exit CODE`, `### stderr`, `### stdout`, each with its text below.

use std::fs;
use std::path::PathBuf;

use crate::oracle::Answer;

/// How many answers are kept of each comparison.
pub(crate) const SAMPLE: usize = 12;

fn path(function: &str, version: &str, inputs: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(function)
        .join(format!("{version}-{inputs}.cases"))
}

pub(crate) fn write(function: &str, version: &str, inputs: &str, cases: &[(String, Answer)]) {
    let mut out = String::new();
    for (input, Answer { stdout, stderr, exit_code }) in cases {
        out += &format!("### input\n{input}### exit {exit_code}\n### stderr\n{stderr}\n### stdout\n{stdout}");
    }
    let path = path(function, version, inputs);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, out).unwrap();
}

pub(crate) fn read(function: &str, version: &str, inputs: &str) -> Vec<(String, Answer)> {
    let text = fs::read_to_string(path(function, version, inputs)).unwrap_or_default();
    let cases = text.split("### input\n").skip(1);
    cases
        .map(|case| {
            let (input, rest) = case.split_once("### exit ").unwrap();
            let (exit_code, rest) = rest.split_once("\n### stderr\n").unwrap();
            let (stderr, stdout) = rest.split_once("\n### stdout\n").unwrap();
            let exit_code = exit_code.parse().unwrap();
            let answer = Answer { stdout: stdout.to_owned(), stderr: stderr.to_owned(), exit_code };
            (input.to_owned(), answer)
        })
        .collect()
}
