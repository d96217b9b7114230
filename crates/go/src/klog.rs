//! Log lines in the shape of klog, which log pipelines of Kubernetes components already parse.
//!
//! `I0314 15:09:26.535898       1 server.rs:42] Listening on :9445`

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Writes events as klog lines on standard error.
#[derive(Debug)]
struct Klog {
    most_detailed: Level,
    pid: u32,
}

/// Sends every event of this process to standard error as klog lines.
///
/// `verbosity` is klog's: up to 2 shows errors, warnings and what happens in normal operation, 3 also
/// health checks and other chatter, 4 and more everything.
pub fn init(verbosity: i64) {
    let most_detailed = match verbosity {
        ..=2 => Level::INFO,
        3 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let klog = Klog { most_detailed, pid: std::process::id() };
    // It fails only if a subscriber is set already, and then that one was meant to stay.
    let _ = tracing::subscriber::set_global_default(klog);
}

// === impl Klog ===

impl Subscriber for Klog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // The libraries below speak of frames and wake-ups at these levels, not of what we do.
        let ours = |target: &str| {
            target.starts_with("loggia") || target.contains("_runner") || target.contains("_server")
        };
        let level = metadata.level();
        *level <= self.most_detailed && (*level <= Level::WARN || ours(metadata.target()))
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::opening(event.metadata(), self.pid, SystemTime::now());
        event.record(&mut line);
        line.text.push('\n');
        // A closed standard error leaves nobody to tell.
        let _ = std::io::stderr().write_all(line.text.as_bytes());
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// One line while it is being written.
struct Line {
    text: String,
}

// === impl Line ===

impl Line {
    fn opening(metadata: &Metadata<'_>, pid: u32, now: SystemTime) -> Self {
        let severity = match *metadata.level() {
            Level::ERROR => 'E',
            Level::WARN => 'W',
            _ => 'I',
        };
        let file = metadata.file().unwrap_or("?");
        let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let moment = Moment(now);
        let line = metadata.line().unwrap_or(0);
        Self { text: format!("{severity}{moment} {pid:>7} {file}:{line}] ") }
    }

    /// A value from outside must not be able to look like a line of its own.
    fn field(&mut self, name: &str, value: &str) {
        let plain = !value.is_empty() && value.bytes().all(|b| b.is_ascii_graphic() && b != b'"');
        let _ = match (name, plain) {
            ("message", _) => self.text.write_str(&value.replace('\n', "\\n")),
            (_, true) => write!(self.text, " {name}={value}"),
            (_, false) => write!(self.text, " {name}={}", crate::quote(value)),
        };
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.field(field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.field(field.name(), &format!("{value:?}"));
    }
}

/// A point in time as klog prints it, in UTC.
struct Moment(SystemTime);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (day, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let (month, day) = month_and_day(day);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let micros = since.subsec_micros();
        write!(f, "{month:02}{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}")
    }
}

/// The month and the day of the month, so many days after 1 January 1970.
fn month_and_day(mut day: u64) -> (u64, u64) {
    let leap = |year: u64| {
        u64::from(year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)))
    };
    let mut year = 1970;
    while day >= 365 + leap(year) {
        day -= 365 + leap(year);
        year += 1;
    }
    let lengths = [31, 28 + leap(year), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    for (month, length) in (1..).zip(lengths) {
        if day < length {
            return (month, day + 1);
        }
        day -= length;
    }
    (12, 31)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_moment_is_month_day_and_microseconds() {
        let moment =
            |seconds, micros: u32| Moment(UNIX_EPOCH + Duration::new(seconds, micros * 1000)).to_string();
        assert_eq!(moment(0, 0), "0101 00:00:00.000000");
        assert_eq!(moment(951_782_399, 1), "0228 23:59:59.000001");
        assert_eq!(moment(951_782_400, 0), "0229 00:00:00.000000");
        assert_eq!(moment(1_735_689_599, 999_999), "1231 23:59:59.999999");
    }

    #[test]
    fn a_value_cannot_forge_a_second_line() {
        let mut line = Line { text: String::new() };
        line.field("message", "Evaluated");
        line.field("image", "x:v1");
        line.field("cause", "a\nI0101 forged");
        line.field("empty", "");
        assert_eq!(line.text, r#"Evaluated image=x:v1 cause="a\nI0101 forged" empty="""#);
    }
}
