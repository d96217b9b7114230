//! What gRPC says in headers, and how grpc-go words what its limits refuse.

use std::time::Duration;

use http::HeaderMap;
use loggia_function::Context;
use tokio::time::Instant;
use tonic::metadata::MetadataMap;

/// The header of an answer that says how long the process of the function ran, in microseconds.
pub(crate) const RAN_HEADER: &str = "loggia-ran";

/// When a request's headers came, which is when its deadline began to count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival(pub(crate) Instant);

/// When a request came.
pub(crate) fn arrival<T>(request: &tonic::Request<T>) -> Instant {
    request.extensions().get::<Arrival>().map_or_else(Instant::now, |arrival| arrival.0)
}

/// When the caller of a request stops waiting, counted from when its headers came.
pub fn deadline<T>(request: &tonic::Request<T>) -> Option<Instant> {
    timeout(request.metadata()).and_then(|timeout| arrival(request).checked_add(timeout))
}

/// How long the caller will wait, from `grpc-timeout`.
fn timeout(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
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
        let read = |text: &'static str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", tonic::metadata::MetadataValue::from_static(text));
            timeout(&metadata)
        };
        assert_eq!(read("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(read("3M"), Some(Duration::from_secs(180)));
        assert_eq!(read("4S"), Some(Duration::from_secs(4)));
        assert_eq!(read("200m"), Some(Duration::from_millis(200)));
        assert_eq!(read("99999999u"), Some(Duration::from_micros(99_999_999)));
        assert_eq!(read("0n"), Some(Duration::ZERO));
        for bad in ["", "S", "5", "-1S", "123456789S", "1d", "1 S"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(timeout(&MetadataMap::new()), None);
    }
}
