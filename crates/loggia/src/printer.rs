//! The one place that writes to standard error: progress in kpt's words, colours, the live line.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loggia_go::quote;
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

#[derive(Clone, Copy)]
enum Colour {
    Red,
    Green,
    Yellow,
    Bold,
}

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
        if !self.quiet {
            write(text);
        }
    }

    /// Writes why a command failed, also if it is quiet otherwise.
    pub(crate) fn failure(&mut self, failure: &Failure, whole_chain: bool) {
        let (mark, rest) = failure.parts(whole_chain);
        let mark = if mark.is_empty() { String::new() } else { self.paint(Colour::Red, mark) };
        write(&format!("{mark}{rest}"));
    }

    fn paint(&self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Red => "31",
            Colour::Green => "32",
            Colour::Yellow => "33",
            Colour::Bold => "1",
        };
        if self.colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
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
        let line = self.paint(Colour::Bold, &format!("Package {}:", quote(display_path)));
        self.say(&format!("{line}\n"));
    }

    fn started(&mut self, function: &str, resources: Option<usize>, package: Option<&str>) {
        let mark = self.paint(Colour::Yellow, "[RUNNING]");
        let count = resources.map(|count| format!(" on {count} resource(s)")).unwrap_or_default();
        let package = package.map(|package| format!(" on package {}", quote(package))).unwrap_or_default();
        self.say(&format!("{mark} {}{count}{package}\n", quote(function)));
        if self.terminal && !self.quiet {
            self.live = Live::start(function);
        }
    }

    fn ended(&mut self, function: &str, ending: &Ending<'_>) {
        self.live = None;
        let took = Duration::from_millis(u64::try_from(ending.took.as_millis()).unwrap_or(u64::MAX));
        let took = loggia_go::Duration::from(took);
        let mark = if ending.passed {
            self.paint(Colour::Green, "[PASS]")
        } else {
            self.paint(Colour::Red, "[FAIL]")
        };
        let mut text = format!("{mark} {} in {took}\n", quote(function));
        if let Some(result) = ending.result {
            text.push_str(&self.results(result));
            if ending.passed || ending.exited {
                text.push_str(&self.stderr_of(result));
            }
            if ending.exited {
                text.push_str(&format!("  Exit code: {}\n\n", result.exit_code));
            }
        }
        self.say(&text);
    }

    fn pipeline_ended(&mut self) {
        self.say("\n");
    }
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
        let name = function.rsplit('/').next().unwrap_or(function).to_owned();
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
