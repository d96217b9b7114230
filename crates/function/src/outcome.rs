//! What a function that ran left behind.

use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use bytes::Bytes;
use loggia_krm::{ResourceList, Results, sdk};

use crate::{Payload, Remote};

/// What a function that ran left behind, also one that failed.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What it wrote to standard output. After a failure only its results count.
    pub output: Payload,
    pub stderr: Stderr,
    pub exit: Exit,
    /// What the server said that ran the function for us, if it failed there.
    pub remote: Option<Box<Remote>>,
}

/// How a function ended. Displayed in Go's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself.
    Code(i32),
    Signal {
        number: i32,
        core_dumped: bool,
    },
}

/// What a function wrote to standard error, as far as it was kept.
#[derive(Clone, Default)]
pub struct Stderr {
    kept: Bytes,
    total: u64,
}

// === impl Outcome ===

impl Outcome {
    /// A function that failed on another machine: of what it wrote, only the results came along.
    #[must_use]
    pub fn failed_elsewhere(results: &Results, stderr: Stderr, exit: Exit, remote: Remote) -> Self {
        let mut list = ResourceList::default();
        list.set_results(results);
        Self { output: Payload::List(list), stderr, exit, remote: Some(Box::new(remote)) }
    }

    /// The results that the function wrote; none if they cannot be read.
    #[must_use]
    pub fn results(&self) -> Results {
        match &self.output {
            Payload::Bytes(bytes) => sdk::results(bytes).unwrap_or_default(),
            Payload::List(list) => list.results().unwrap_or_default(),
        }
    }
}

// === impl Exit ===

impl Exit {
    #[must_use]
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }

    /// The exit code; -1 for a signal, as in Go.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal { .. } => -1,
        }
    }

    /// The signal that ended it.
    #[must_use]
    pub fn signal(self) -> Option<i32> {
        match self {
            Self::Code(_) => None,
            Self::Signal { number, .. } => Some(number),
        }
    }

    fn status(self) -> ExitStatus {
        // As wait(2) has it: the code in the second byte, or the signal in the first with a bit for the dump.
        ExitStatus::from_raw(match self {
            Self::Code(code) => (code & 0xff) << 8,
            Self::Signal { number, core_dumped } => number | i32::from(core_dumped) << 7,
        })
    }
}

impl Default for Exit {
    fn default() -> Self {
        Self::Code(0)
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (None, Some(number)) => Self::Signal { number, core_dumped: status.core_dumped() },
            (code, _) => Self::Code(code.unwrap_or(1)),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit status {code}"),
            Self::Signal { .. } => loggia_go::Exit(self.status()).fmt(f),
        }
    }
}

// === impl Stderr ===

impl Stderr {
    /// What was kept of `total` bytes.
    #[must_use]
    pub fn new(kept: Bytes, total: u64) -> Self {
        Self { kept, total }
    }

    /// How many bytes the function wrote.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.kept
    }

    /// The same as text, for messages.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept).into_owned()
    }
}

impl From<String> for Stderr {
    fn from(text: String) -> Self {
        let total = text.len() as u64;
        Self { kept: text.into(), total }
    }
}

/// The size only: it may quote a package.
impl fmt::Debug for Stderr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_keeps_what_the_kernel_said() {
        for (raw, text, code) in [
            (0, "exit status 0", 0),
            (3 << 8, "exit status 3", 3),
            (9, "signal: killed", -1),
            (11 | 0x80, "signal: segmentation fault (core dumped)", -1),
        ] {
            let exit = Exit::from(ExitStatus::from_raw(raw));
            assert_eq!((exit.to_string().as_str(), exit.code()), (text, code));
            assert_eq!(exit.status().into_raw(), raw);
        }
    }

    #[test]
    fn results_come_from_text_or_tree() {
        let text = "kind: ResourceList\nresults:\n- message: a\n";
        let of_text = Outcome { output: Payload::Bytes(text.into()), ..Outcome::default() };
        assert_eq!(of_text.results().0[0].message, "a");
        let remote = Remote::default();
        let of_tree = Outcome::failed_elsewhere(&of_text.results(), Stderr::default(), Exit::Code(1), remote);
        assert_eq!(of_tree.results(), of_text.results());
        assert!(Outcome::default().results().is_empty());
    }
}
