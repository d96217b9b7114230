//! Loggia beside the original: counts what was compared, keeps what differs, shows it small.

use std::fmt::Write as _;

use crate::oracle::{Answer, Oracle};
use crate::shrink::shrink;
use crate::subject;

/// How many differing cases a failing test shows in full.
const SHOWN: usize = 12;

/// One question both sides answered differently.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    pub(crate) mode: String,
    pub(crate) texts: Vec<Vec<u8>>,
    pub(crate) expected: Answer,
    pub(crate) got: Answer,
}

/// The outcome of a run of questions.
#[derive(Debug, Default)]
pub(crate) struct Report {
    name: &'static str,
    /// Rejecting alike is enough, whatever the message.
    any_message: bool,
    compared: usize,
    accepted: usize,
    unanswered: usize,
    differences: Vec<Difference>,
}

impl Report {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    /// A report that lets messages differ, for where several faults compete to be named.
    pub(crate) fn of_verdicts(name: &'static str) -> Self {
        Self { any_message: true, ..Self::new(name) }
    }

    fn agree(&self, expected: &Answer, got: &Answer) -> bool {
        expected == got || self.any_message && matches!((expected, got), (Answer::Error(_), Answer::Error(_)))
    }

    /// Asks the oracle and Loggia the same.
    pub(crate) fn ask(&mut self, oracle: &mut Oracle, mode: &str, texts: &[&[u8]]) {
        let expected = oracle.ask(mode, texts);
        self.hold(mode, texts, expected);
    }

    /// Holds Loggia against an answer that is already there.
    pub(crate) fn hold(&mut self, mode: &str, texts: &[&[u8]], expected: Answer) {
        if matches!(expected, Answer::Panic(_)) {
            self.unanswered += 1;
            return;
        }
        let got = subject::ask(mode, texts);
        self.compared += 1;
        self.accepted += usize::from(matches!(expected, Answer::Text(_)));
        if !self.agree(&expected, &got) {
            let texts = texts.iter().map(|text| text.to_vec()).collect();
            self.differences.push(Difference { mode: mode.to_owned(), texts, expected, got });
        }
    }

    /// The same difference in the least text that shows it.
    fn smaller(&self, oracle: &mut Oracle, difference: &Difference) -> Difference {
        let [text] = &difference.texts[..] else { return difference.clone() };
        let text = shrink(text, 3000, |candidate| {
            let expected = oracle.ask(&difference.mode, &[candidate]);
            !matches!(expected, Answer::Panic(_)) && same_class(&expected, &difference.expected) && {
                let got = subject::ask(&difference.mode, &[candidate]);
                !self.agree(&expected, &got) && same_class(&got, &difference.got)
            }
        });
        let expected = oracle.ask(&difference.mode, &[&text]);
        let got = subject::ask(&difference.mode, &[&text]);
        Difference { mode: difference.mode.clone(), texts: vec![text], expected, got }
    }

    /// Prints the figures and fails when more than one in `per` differs (0: none may). With an oracle at hand each shown
    /// difference is first made as small as it gets.
    pub(crate) fn finish(self, per: usize, mut oracle: Option<&mut Oracle>) {
        eprintln!(
            "{}: {} compared ({} accepted by the original), {} different, {} where the original panicked",
            self.name,
            self.compared,
            self.accepted,
            self.differences.len(),
            self.unanswered
        );
        assert!(self.compared > 0, "{}: nothing was compared", self.name);
        let mut shown = String::new();
        let mut seen = Vec::new();
        for difference in &self.differences {
            if seen.len() == SHOWN {
                break;
            }
            let small = oracle
                .as_deref_mut()
                .map_or_else(|| difference.clone(), |oracle| self.smaller(oracle, difference));
            if !seen.contains(&small.texts) {
                shown.push_str(&show(&small));
                seen.push(small.texts);
            }
        }
        if let Some(path) = std::env::var_os("LOGGIA_YAML_REPORT").filter(|_| !shown.is_empty()) {
            let path = std::path::Path::new(&path).join(format!("{}.txt", self.name.replace(' ', "-")));
            std::fs::write(path, &shown).expect("the report's folder is there");
        }
        let allowed = self.compared.checked_div(per).unwrap_or(0);
        assert!(
            self.differences.len() <= allowed,
            "{}: {} of {} differ\n{shown}",
            self.name,
            self.differences.len(),
            self.compared
        );
        eprint!("{shown}");
    }
}

/// Both accept, or both reject: a difference must not turn into another kind while it shrinks.
fn same_class(left: &Answer, right: &Answer) -> bool {
    std::mem::discriminant(left) == std::mem::discriminant(right)
}

fn show(difference: &Difference) -> String {
    let mut out = format!("--- {}\n", difference.mode);
    for text in &difference.texts {
        writeln!(out, "  input    {:?}", String::from_utf8_lossy(text)).expect("text");
    }
    match (&difference.expected, &difference.got) {
        (Answer::Text(expected), Answer::Text(got)) if expected.len() > 200 => {
            let at = expected.iter().zip(got).take_while(|(e, g)| e == g).count();
            let around = |bytes: &[u8]| {
                let bytes = &bytes[at.saturating_sub(80).min(bytes.len())..(at + 60).min(bytes.len())];
                String::from_utf8_lossy(bytes).into_owned()
            };
            writeln!(
                out,
                "  expected …{:?}…\n  got      …{:?}… (from byte {at} on)",
                around(expected),
                around(got)
            )
            .expect("text");
        }
        (expected, got) => {
            writeln!(out, "  expected {}\n  got      {}", line(expected), line(got)).expect("text");
        }
    }
    out
}

fn line(answer: &Answer) -> String {
    match answer {
        Answer::Text(text) if text.len() > 400 => {
            format!("{:?}… ({} bytes)", String::from_utf8_lossy(&text[..400]), text.len())
        }
        Answer::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
        Answer::Error(error) => format!("error {error:?}"),
        Answer::Panic(panic) => format!("panic {panic:?}"),
    }
}
