//! Log lines in the shape of klog, which log pipelines of Kubernetes components already parse, or as JSON.
//!
//! `I0314 15:09:26.535898       1 server.rs:42] Listening on :9445`
//!
//! Fields of the spans that surround an event are at the end of its line.
//!
//! This is a [`Subscriber`] written by hand for one reason: `wrapper-server` is copied into every function pod
//! and has a budget of 3 MiB, which tracing-subscriber's registry and formatters would exceed. The price is a
//! lock around the fields of all spans.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::printable::{is_hidden, printable_line};

/// How lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// As klog writes them.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Which events are logged, by the beginning of their target, which is the path of a module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Targets {
    /// Logged up to the verbosity. Other targets, those of libraries, are logged from warnings on: below, they
    /// log frames and wake-ups.
    pub own: &'static [&'static str],
    /// Not logged even if they warn, because their user reports the same in its own words.
    pub muted: &'static [&'static str],
}

/// Writes events as lines on standard error.
#[derive(Debug)]
struct Klog {
    most_detailed: Level,
    format: Format,
    targets: Targets,
    pid: u32,
    /// The fields of spans, as they are printed, and how many references each span has.
    spans: Mutex<HashMap<u64, (String, usize)>>,
    last_span: AtomicU64,
}

thread_local! {
    /// The spans that this thread is in.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Logs the events of this process to standard error. The message of a panic may quote any input, so it is
/// logged only if it is a constant of the program.
///
/// `verbosity` is klog's: up to 2 shows errors, warnings and what happens in normal operation, 3 also
/// health checks and other chatter, 4 and more everything.
pub fn init(verbosity: i64, format: Format, targets: Targets) {
    let most_detailed = match verbosity {
        ..=2 => Level::INFO,
        3 => Level::DEBUG,
        _ => Level::TRACE,
    };
    // It fails only if a subscriber is set already, and then that one was meant to stay.
    let _ = tracing::subscriber::set_global_default(Klog::new(most_detailed, format, targets));
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.payload().downcast_ref::<&'static str>().copied().unwrap_or("(not shown)");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "A panic: {text}");
    }));
}

// === impl Klog ===

impl Klog {
    fn new(most_detailed: Level, format: Format, targets: Targets) -> Self {
        let pid = std::process::id();
        Self { most_detailed, format, targets, pid, spans: Mutex::default(), last_span: AtomicU64::new(0) }
    }

    fn spans(&self) -> MutexGuard<'_, HashMap<u64, (String, usize)>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&self, event: &Event<'_>, now: SystemTime) -> String {
        let mut line = Line::opening(self.format, event.metadata(), self.pid, now);
        event.record(&mut line);
        INSIDE.with_borrow(|inside| {
            if !inside.is_empty() {
                let spans = self.spans();
                inside
                    .iter()
                    .filter_map(|id| spans.get(id))
                    .for_each(|(fields, _)| line.text.push_str(fields));
            }
        });
        line.text.push_str(match self.format {
            Format::Text => "\n",
            Format::Json => "}\n",
        });
        line.text
    }
}

impl Subscriber for Klog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let level = metadata.level();
        let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| metadata.target().starts_with(prefix));
        let warns = *level <= Level::WARN && metadata.is_event() && !begins(self.targets.muted);
        *level <= self.most_detailed && (warns || begins(self.targets.own))
    }

    /// Lets callers drop more detailed events after one comparison.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.most_detailed.into())
    }

    fn event(&self, event: &Event<'_>) {
        // A failure to write to standard error cannot be reported anywhere.
        let _ = std::io::stderr().write_all(self.line(event, SystemTime::now()).as_bytes());
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = Line { format: self.format, text: String::new() };
        attributes.record(&mut fields);
        let id = self.last_span.fetch_add(1, Ordering::Relaxed) + 1;
        self.spans().insert(id, (fields.text, 1));
        Id::from_u64(id)
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some((_, references)) = self.spans().get_mut(&id.into_u64()) {
            *references += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut spans = self.spans();
        let Some((_, references)) = spans.get_mut(&id.into_u64()) else { return false };
        *references -= 1;
        let last = *references == 0;
        if last {
            spans.remove(&id.into_u64());
        }
        last
    }

    fn enter(&self, id: &Id) {
        INSIDE.with_borrow_mut(|inside| inside.push(id.into_u64()));
    }

    fn exit(&self, id: &Id) {
        INSIDE.with_borrow_mut(|inside| {
            if let Some(index) = inside.iter().rposition(|one| *one == id.into_u64()) {
                inside.remove(index);
            }
        });
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
}

/// One line while it is being written.
struct Line {
    format: Format,
    text: String,
}

// === impl Line ===

impl Line {
    fn opening(format: Format, metadata: &Metadata<'_>, pid: u32, now: SystemTime) -> Self {
        let file = metadata.file().unwrap_or("?");
        let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let line = metadata.line().unwrap_or(0);
        let (letter, word) = match *metadata.level() {
            Level::ERROR => ('E', "error"),
            Level::WARN => ('W', "warning"),
            Level::INFO => ('I', "info"),
            _ => ('I', "debug"),
        };
        let moment = Moment::of(now);
        let text = match format {
            Format::Text => format!("{letter}{} {pid:>7} {file}:{line}] ", moment.in_klog()),
            Format::Json => {
                format!(r#"{{"ts":"{}","level":"{word}","caller":"{file}:{line}""#, moment.in_json())
            }
        };
        Self { format, text }
    }

    /// A value from outside must not be able to look like a line of its own, nor be obeyed by a terminal.
    fn field(&mut self, name: &str, value: &str) {
        match self.format {
            Format::Text => self.text_field(name, value),
            Format::Json => {
                let name = if name == "message" { "msg" } else { name };
                let _ = write!(self.text, r#","{name}":{}"#, JsonString(value));
            }
        }
    }

    fn text_field(&mut self, name: &str, value: &str) {
        let plain = !value.is_empty() && value.bytes().all(|b| b.is_ascii_graphic() && b != b'"');
        let _ = match (name, plain) {
            ("message", _) => self.text.write_str(&printable_line(value)),
            (_, true) => write!(self.text, " {name}={value}"),
            (_, false) => write!(self.text, " {name}={}", printable_line(&crate::quote(value))),
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

/// A text as JSON has it.
struct JsonString<'a>(&'a str);

impl fmt::Display for JsonString<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                '\n' => f.write_str("\\n")?,
                hidden if is_hidden(hidden) => {
                    for unit in hidden.encode_utf16(&mut [0; 2]) {
                        write!(f, "\\u{unit:04x}")?;
                    }
                }
                other => f.write_char(other)?,
            }
        }
        f.write_char('"')
    }
}

/// A point in time by the calendar, in UTC.
#[derive(Debug)]
struct Moment {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    micros: u32,
}

// === impl Moment ===

impl Moment {
    fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        Self { year, month, day, hour, minute, second, micros: since.subsec_micros() }
    }

    fn in_klog(&self) -> String {
        let Self { month, day, hour, minute, second, micros, .. } = self;
        format!("{month:02}{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}")
    }

    fn in_json(&self) -> String {
        let Self { year, month, day, hour, minute, second, micros } = self;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

/// The year, the month and the day of the month, so many days after 1 January 1970.
fn date(mut day: u64) -> (u64, u64, u64) {
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
            return (year, month, day + 1);
        }
        day -= length;
    }
    (year, 12, 31)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_moment_is_month_day_and_microseconds() {
        let moment = |seconds, micros: u32| Moment::of(UNIX_EPOCH + Duration::new(seconds, micros * 1000));
        assert_eq!(moment(0, 0).in_klog(), "0101 00:00:00.000000");
        assert_eq!(moment(951_782_399, 1).in_klog(), "0228 23:59:59.000001");
        assert_eq!(moment(951_782_400, 0).in_klog(), "0229 00:00:00.000000");
        assert_eq!(moment(1_735_689_599, 999_999).in_klog(), "1231 23:59:59.999999");
        assert_eq!(moment(951_782_400, 7).in_json(), "2000-02-29T00:00:00.000007Z");
    }

    #[test]
    fn a_value_cannot_forge_a_second_line() {
        let mut line = Line { format: Format::Text, text: String::new() };
        line.field("message", "Evaluated");
        line.field("image", "x:v1");
        line.field("cause", "a\nI0101 forged");
        line.field("empty", "");
        assert_eq!(line.text, r#"Evaluated image=x:v1 cause="a\nI0101 forged" empty="""#);
        let mut line = Line { format: Format::Json, text: "{".to_owned() };
        line.field("message", "a\n\"b\"\\\u{1}ü");
        assert_eq!(line.text, "{,\"msg\":\"a\\n\\\"b\\\"\\\\\\u0001ü\"");
    }

    #[test]
    fn no_line_has_anything_that_a_terminal_obeys() {
        let nasty = "a\u{1b}[2J\r\u{9b}1m\u{7f}\u{202e}\u{115f}\u{e0041}b";
        let shown = r"a\x1b[2J\r\x9b1m\x7f\u{202e}\u{115f}\u{e0041}b";
        let mut line = Line { format: Format::Text, text: String::new() };
        line.field("message", nasty);
        assert_eq!(line.text, shown);
        line.field("cause", nasty);
        line.field("image", "x\u{1b}c");
        assert!(!line.text.chars().any(is_hidden), "{:?}", line.text);
        let mut line = Line { format: Format::Json, text: "{".to_owned() };
        line.field("message", nasty);
        assert_eq!(line.text, r#"{,"msg":"a\u001b[2J\u000d\u009b1m\u007f\u202e\u115f\udb40\udc41b""#);
    }

    /// Collects the lines that it would write.
    struct Collector {
        klog: Klog,
        lines: Arc<Mutex<Vec<String>>>,
    }

    impl Subscriber for Collector {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            self.klog.enabled(metadata)
        }
        fn event(&self, event: &Event<'_>) {
            self.lines.lock().unwrap().push(self.klog.line(event, UNIX_EPOCH));
        }
        fn new_span(&self, attributes: &Attributes<'_>) -> Id {
            self.klog.new_span(attributes)
        }
        fn clone_span(&self, id: &Id) -> Id {
            self.klog.clone_span(id)
        }
        fn try_close(&self, id: Id) -> bool {
            let closed = self.klog.try_close(id);
            if closed && self.klog.spans().is_empty() {
                self.lines.lock().unwrap().push("no spans are left".to_owned());
            }
            closed
        }
        fn enter(&self, id: &Id) {
            self.klog.enter(id);
        }
        fn exit(&self, id: &Id) {
            self.klog.exit(id);
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
    }

    fn lines(format: Format) -> Vec<String> {
        let lines = Arc::new(Mutex::default());
        let targets = Targets { own: &["loggia_go"], muted: &["noisy"] };
        let collector =
            Collector { klog: Klog::new(Level::INFO, format, targets), lines: Arc::clone(&lines) };
        tracing::subscriber::with_default(collector, || {
            let span = tracing::info_span!("call", call = "ab12");
            let again = span.clone();
            span.in_scope(|| tracing::info!(image = "x:v1", "Evaluated"));
            drop(span);
            again.in_scope(|| tracing::info!("Done"));
            drop(again);
            tracing::info!("Alone");
            tracing::debug!("Too much");
            tracing::info!(target: "library", "Too much");
            tracing::warn!(target: "library::part", "Loud");
            tracing::warn!(target: "noisy::part", "Muted");
        });
        let lines = lines.lock().unwrap();
        lines
            .iter()
            .map(|line| line[line.find("] ").or(line.find(r#""msg"#)).unwrap_or(0)..].to_owned())
            .collect()
    }

    #[test]
    fn every_line_inside_a_span_has_its_fields_and_libraries_only_warn() {
        let expected = [
            "] Evaluated image=x:v1 call=ab12\n",
            "] Done call=ab12\n",
            "no spans are left",
            "] Alone\n",
            "] Loud\n",
        ];
        assert_eq!(lines(Format::Text), expected);
        let expected = [
            "\"msg\":\"Evaluated\",\"image\":\"x:v1\",\"call\":\"ab12\"}\n",
            "\"msg\":\"Done\",\"call\":\"ab12\"}\n",
            "no spans are left",
            "\"msg\":\"Alone\"}\n",
            "\"msg\":\"Loud\"}\n",
        ];
        assert_eq!(lines(Format::Json), expected);
    }
}
