//! What gRPC says in headers, and how grpc-go words what its limits refuse.

use std::time::Duration;

use http::HeaderMap;
use loggia_function::{Context, RunError};
use tokio::time::Instant;
use tonic::metadata::MetadataMap;

/// The header of an answer that says how long the process of the function ran, in microseconds.
pub(crate) const RAN_HEADER: &str = "loggia-ran";

/// The flag that limits calls whose callers set no deadline.
const CALL_TIME_FLAG: &str = "--call-timeout";

/// When a request's headers came, which is when its deadline began to count, and when it must be over.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimit {
    pub(crate) arrival: Instant,
    /// When the work must be over.
    pub deadline: Option<Instant>,
    /// Our own limit, where the caller set none.
    pub default: Option<Duration>,
}

/// When a request must be over: when its caller stops waiting, or after our own limit for those that do not say.
pub fn time_limit<T>(request: &tonic::Request<T>) -> TimeLimit {
    request.extensions().get::<TimeLimit>().copied().unwrap_or_else(|| {
        let text = request.metadata().get("grpc-timeout").and_then(|text| text.to_str().ok());
        TimeLimit::new(text.and_then(timeout), Instant::now(), None)
    })
}

/// As [`time_limit`], without saying whose limit it is.
pub fn deadline<T>(request: &tonic::Request<T>) -> Option<Instant> {
    time_limit(request).deadline
}

// === impl TimeLimit ===

impl TimeLimit {
    /// The limit of a request that came at this time. `default` is for callers that set no deadline.
    pub(crate) fn of(headers: &HeaderMap, arrival: Instant, default: Option<Duration>) -> Self {
        let text = headers.get("grpc-timeout").and_then(|text| text.to_str().ok());
        Self::new(text.and_then(timeout), arrival, default)
    }

    fn new(asked: Option<Duration>, arrival: Instant, default: Option<Duration>) -> Self {
        let asked = asked.and_then(|timeout| arrival.checked_add(timeout));
        let default = default.filter(|_| asked.is_none());
        let deadline = asked.or_else(|| default.and_then(|time| arrival.checked_add(time)));
        Self { arrival, deadline, default }
    }

    /// An error of a call whose time is up names the flag if the limit was ours.
    #[must_use]
    pub fn explain(&self, error: RunError) -> RunError {
        match (self.default, error) {
            (Some(limit), RunError::TimedOut) => RunError::OverTime { limit, flag: CALL_TIME_FLAG },
            (_, error) => error,
        }
    }
}

/// How long the caller will wait, from `grpc-timeout`.
fn timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

/// The context that a request comes with.
pub(crate) fn context(headers: &HeaderMap) -> Context {
    Context::read(|name| headers.get(name).and_then(|value| value.to_str().ok()))
}

/// Puts the context of this task into a request to another server.
pub(crate) fn inject_context(metadata: &mut MetadataMap) {
    let Some(context) = Context::current() else { return };
    context.write(|name, value| {
        if let Ok(value) = value.parse() {
            metadata.insert(name, value);
        }
    });
}

/// The size and the limit in tonic's refusal of a long message. tonic has them in no other form than this text; the
/// tests of the programs show that it still reads so.
pub(crate) fn too_large(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("Error, decoded message length too large: found ")?;
    let (size, rest) = rest.split_once(" bytes, the limit is: ")?;
    Some((size, rest.strip_suffix(" bytes")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_in_every_unit() {
        let read = timeout;
        assert_eq!(read("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(read("3M"), Some(Duration::from_secs(180)));
        assert_eq!(read("4S"), Some(Duration::from_secs(4)));
        assert_eq!(read("200m"), Some(Duration::from_millis(200)));
        assert_eq!(read("99999999u"), Some(Duration::from_micros(99_999_999)));
        assert_eq!(read("0n"), Some(Duration::ZERO));
        for bad in ["", "S", "5", "-1S", "123456789S", "1d", "1 S"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn callers_without_a_deadline_get_ours() {
        let now = Instant::now();
        let minute = Some(Duration::from_secs(60));
        let limit = TimeLimit::of(&HeaderMap::new(), now, minute);
        assert_eq!(limit.deadline, now.checked_add(Duration::from_secs(60)));
        let text = limit.explain(RunError::TimedOut).describe("x");
        assert!(text.contains("60s (--call-timeout)"), "{text}");
        let mut headers = HeaderMap::new();
        headers.insert("grpc-timeout", http::HeaderValue::from_static("2H"));
        let limit = TimeLimit::of(&headers, now, minute);
        assert_eq!(limit.deadline, now.checked_add(Duration::from_secs(7200)));
        assert!(matches!(limit.explain(RunError::TimedOut), RunError::TimedOut));
    }
}
