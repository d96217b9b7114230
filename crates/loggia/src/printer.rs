//! The one place that writes to standard error: progress in kpt's words, colours, the live line.
//!
//! Whatever is written passes [`printable`] first, so that nothing of a package is obeyed by the terminal; colours are
//! added after that.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loggia_go::{printable, quote};
use loggia_krm::FunctionResult;
use loggia_render::{Ending, Progress};

use crate::failure::Failure;

/// How long a function runs before a live line says so.
const PATIENCE: Duration = Duration::from_millis(300);

/// Writes for people, or not at all.
#[derive(Debug)]
pub(crate) struct Printer {
    quiet: bool,
    colours: bool,
    terminal: bool,
    live: Option<Live>,
}

/// What a piece of text looks like on a terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look {
    Plain,
    Red,
    Green,
    Yellow,
    Cyan,
    Bold,
}

/// Texts and what each looks like.
type Pieces<'a> = &'a [(Look, &'a str)];

impl Printer {
    /// To standard error, with colours on a terminal unless `NO_COLOR` is set.
    pub(crate) fn stderr() -> Self {
        let terminal = io::stderr().is_terminal();
        Self { quiet: false, colours: terminal && colours_wanted(), terminal, live: None }
    }

    /// Says nothing but failures.
    pub(crate) fn quiet() -> Self {
        Self { quiet: true, ..Self::stderr() }
    }

    /// Writes some text.
    pub(crate) fn say(&mut self, text: &str) {
        self.show(&[(Look::Plain, text)]);
    }

    fn show(&mut self, pieces: Pieces<'_>) {
        if !self.quiet {
            write(&painted(pieces, self.colours));
        }
    }

    /// Writes why a command failed, also if it is quiet otherwise.
    pub(crate) fn failure(&mut self, failure: &Failure, whole_chain: bool) {
        let (mark, rest) = failure.parts(whole_chain);
        write(&painted(&[(Look::Red, mark), (Look::Plain, &rest)], self.colours));
    }

    fn results(&self, result: &FunctionResult) -> String {
        if result.results.0.is_empty() {
            return String::new();
        }
        let lines = result.results.0.iter().map(|item| format!("    {}\n", item.to_line()));
        format!("  [Results]:\n{}", lines.collect::<String>())
    }

    fn stderr_of(&self, result: &FunctionResult) -> String {
        if result.stderr.is_empty() {
            return String::new();
        }
        let lines = result.stderr.split('\n').map(|line| format!("    {}\n", line.trim()));
        format!("  Stderr:\n{}", lines.collect::<String>())
    }
}

impl Progress for Printer {
    fn package(&mut self, display_path: &str) {
        let line = format!("Package {}:", quote(display_path));
        self.show(&[(Look::Bold, &line), (Look::Plain, "\n")]);
    }

    fn started(&mut self, function: &str, resources: Option<usize>, package: Option<&str>) {
        let count = resources.map(|count| format!(" on {count} resource(s)")).unwrap_or_default();
        let package = package.map(|package| format!(" on package {}", quote(package))).unwrap_or_default();
        let rest = format!(" {}{count}{package}\n", quote(function));
        self.show(&[(Look::Yellow, "[RUNNING]"), (Look::Plain, &rest)]);
        if self.terminal && !self.quiet {
            self.live = Live::start(function);
        }
    }

    fn ended(&mut self, function: &str, ending: &Ending<'_>) {
        self.live = None;
        let took = Duration::from_millis(u64::try_from(ending.took.as_millis()).unwrap_or(u64::MAX));
        let took = loggia_go::Duration::from(took);
        let mark = if ending.passed { (Look::Green, "[PASS]") } else { (Look::Red, "[FAIL]") };
        let mut text = format!(" {} in {took}\n", quote(function));
        if let Some(result) = ending.result {
            text.push_str(&self.results(result));
            if ending.passed || ending.exited {
                text.push_str(&self.stderr_of(result));
            }
            if ending.exited {
                text.push_str(&format!("  Exit code: {}\n\n", result.exit_code));
            }
        }
        self.show(&[mark, (Look::Plain, &text)]);
    }

    fn pipeline_ended(&mut self) {
        self.say("\n");
    }
}

/// The texts in a row, each made printable and then coloured.
pub(crate) fn painted(pieces: Pieces<'_>, colours: bool) -> String {
    let mut text = String::new();
    for (look, piece) in pieces.iter().filter(|(_, piece)| !piece.is_empty()) {
        let code = match look {
            Look::Plain => None,
            Look::Red => Some("31"),
            Look::Green => Some("32"),
            Look::Yellow => Some("33"),
            Look::Cyan => Some("36"),
            Look::Bold => Some("1"),
        };
        let shown = printable(piece);
        match code.filter(|_| colours) {
            Some(code) => text.push_str(&format!("\u{1b}[{code}m{shown}\u{1b}[0m")),
            None => text.push_str(&shown),
        }
    }
    text
}

/// Whether colours are wanted at all (no-color.org).
pub(crate) fn colours_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

fn write(text: &str) {
    // Nobody is left to tell if this fails.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// A line that shows how long the function has been running, gone when it ends.
#[derive(Debug)]
struct Live {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Live {
    fn start(function: &str) -> Option<Self> {
        let (end, ended) = mpsc::channel::<()>();
        let name = function.rsplit('/').next().unwrap_or(function);
        let name = loggia_go::printable_line(name).into_owned();
        let show = move || {
            let start = Instant::now();
            let mut shown = false;
            let mut pause = PATIENCE;
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                write(&format!("\r\u{1b}[2K  … {name} {:.1}s", start.elapsed().as_secs_f32()));
                shown = true;
                pause = Duration::from_millis(100);
            }
            if shown {
                write("\r\u{1b}[2K");
            }
        };
        let thread = std::thread::Builder::new().spawn(show).ok()?;
        Some(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A live line that failed is none.
            let _ = thread.join();
        }
    }
}
