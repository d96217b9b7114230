//! Where metrics are sent and how often, from the variables of OpenTelemetry.
//!
//! `opentelemetry-otlp` reads most of them too, but only into an exporter that takes the SDK's own metrics and
//! nothing else, and it ignores values that it cannot use without a warning.

use std::time::Duration;

use http::uri::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use crate::environment::{Refusal, Variables, is_grpc};

const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
const INSECURE: [&str; 2] = ["OTEL_EXPORTER_OTLP_METRICS_INSECURE", "OTEL_EXPORTER_OTLP_INSECURE"];
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL";
const REQUEST_TIMEOUT: [&str; 2] = ["OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
const TEMPORALITY: &str = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";

/// Where metrics are sent, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub(super) to: Destination,
    pub(super) every: Duration,
    pub(super) timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    Http {
        url: Uri,
        headers: HeaderMap,
    },
    Grpc {
        url: Uri,
        headers: HeaderMap,
    },
    /// Standard output, in the text form of OpenMetrics.
    Console,
}

/// What the variables say for this exporter: `otlp`, `console`, or none, for which there must be an endpoint.
pub(crate) fn settings(
    exporter: Option<&str>,
    set: Variables<'_>,
    warnings: &mut Vec<String>,
) -> Result<Option<Settings>, Refusal> {
    let to = match exporter {
        Some("console") => Some(Destination::Console),
        // OpenTelemetry's libraries would send to `localhost`.
        None if first(set, &ENDPOINTS).is_none() => None,
        _ => collector(set, warnings)?,
    };
    let Some(to) = to else { return Ok(None) };
    let mut time = |names: &[&'static str], default| milliseconds(set, names, default, warnings);
    let every = time(&["OTEL_METRIC_EXPORT_INTERVAL"], 60_000);
    // There is one request for each push, so the shorter of both holds.
    let timeout = time(&["OTEL_METRIC_EXPORT_TIMEOUT"], 30_000).min(time(&REQUEST_TIMEOUT, 10_000));
    Ok(Some(Settings { to, every, timeout }))
}

/// Nothing, and a warning, if the endpoint cannot be used.
fn collector(set: Variables<'_>, warnings: &mut Vec<String>) -> Result<Option<Destination>, Refusal> {
    let grpc = is_grpc(set, PROTOCOL)?;
    if let Some(other) = set(TEMPORALITY).filter(|value| !value.eq_ignore_ascii_case("cumulative")) {
        warnings.push(format!("{TEMPORALITY}: `{other}` is not supported; using `cumulative`"));
    }
    let headers = headers(set, warnings);
    match endpoint(set, grpc) {
        Ok(url) if grpc => Ok(Some(Destination::Grpc { url, headers })),
        Ok(url) => Ok(Some(Destination::Http { url, headers })),
        Err(reason) => {
            warnings.push(format!("No metrics are sent: {reason}"));
            Ok(None)
        }
    }
}

/// The first of these variables that is set, and its value.
fn first(set: Variables<'_>, names: &[&'static str]) -> Option<(&'static str, String)> {
    names.iter().find_map(|name| Some((*name, set(name)?)))
}

fn milliseconds(
    set: Variables<'_>,
    names: &[&'static str],
    default: u64,
    warnings: &mut Vec<String>,
) -> Duration {
    let Some((name, value)) = first(set, names) else { return Duration::from_millis(default) };
    let number = value.trim().parse().ok().filter(|&number| number > 0);
    if number.is_none() {
        warnings.push(format!("{name}: `{value}` is not a number of milliseconds; using {default}"));
    }
    Duration::from_millis(number.unwrap_or(default))
}

fn endpoint(set: Variables<'_>, grpc: bool) -> Result<Uri, String> {
    let default = if grpc { "http://localhost:4317" } else { "http://localhost:4318" };
    let (name, mut url) = first(set, &ENDPOINTS).unwrap_or(("default", default.to_owned()));
    if grpc && !url.contains("://") {
        let insecure = first(set, &INSECURE).is_some_and(|(_, value)| value.eq_ignore_ascii_case("true"));
        url = format!("{}://{url}", if insecure { "http" } else { "https" });
    } else if !grpc && name != ENDPOINTS[0] {
        // The variable for metrics holds the whole URL, that for all signals what each adds its path to.
        url = format!("{}/v1/metrics", url.trim_end_matches('/'));
    }
    let url = url.parse().ok().filter(is_http).ok_or_else(|| {
        let schemes = if grpc { "http://" } else { "http:// or https://" };
        format!("{name}: not a URL that begins with {schemes}")
    })?;
    if grpc && url.scheme() == Some(&Scheme::HTTPS) {
        return Err(format!(
            "{name}: TLS over gRPC is not supported; use http:// or the protocol http/protobuf"
        ));
    }
    Ok(url)
}

fn is_http(url: &Uri) -> bool {
    let scheme = url.scheme();
    let known = scheme == Some(&Scheme::HTTP) || scheme == Some(&Scheme::HTTPS);
    known && url.host().is_some_and(|host| !host.is_empty())
}

/// Headers as `name=value,…`, the values percent-encoded. No message shows a value: it may be a secret.
fn headers(set: Variables<'_>, warnings: &mut Vec<String>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let Some((variable, list)) = first(set, &HEADERS) else { return headers };
    for (number, pair) in list.split(',').enumerate().filter(|(_, pair)| !pair.trim().is_empty()) {
        match header(pair) {
            Some((name, value)) => {
                headers.insert(name, value);
            }
            None => warnings.push(format!(
                "{variable}: entry {} is not a header as `name=value`; it is ignored",
                number + 1
            )),
        }
    }
    headers
}

fn header(pair: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = pair.split_once('=')?;
    let value = value.trim();
    let decoded: Vec<u8> = percent_decode_str(value).collect();
    // A `%` without two digits after it stays as it is; each other one makes three characters one byte.
    if decoded.len() + 2 * value.matches('%').count() != value.len() {
        return None;
    }
    let mut value = HeaderValue::from_bytes(&decoded).ok()?;
    value.set_sensitive(true);
    Some((HeaderName::from_bytes(name.trim().as_bytes()).ok()?, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;

    fn read(pairs: &[(&str, &str)]) -> (Option<Settings>, Vec<String>) {
        let environment = Environment::read(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        });
        let Environment { push, warnings, .. } = environment.unwrap();
        (push, warnings)
    }

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let (settings, warnings) = read(pairs);
        assert_eq!(warnings, [""; 0]);
        settings.unwrap()
    }

    fn url(pairs: &[(&str, &str)]) -> String {
        match settings(pairs).to {
            Destination::Http { url, .. } | Destination::Grpc { url, .. } => url.to_string(),
            Destination::Console => "standard output".to_owned(),
        }
    }

    const OTLP: (&str, &str) = ("OTEL_METRICS_EXPORTER", "otlp");
    const GRPC: (&str, &str) = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc");
    const ALL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    const OWN: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";

    #[test]
    fn metrics_go_where_the_variables_say() {
        assert_eq!(url(&[OTLP]), "http://localhost:4318/v1/metrics");
        assert_eq!(url(&[OTLP, GRPC]), "http://localhost:4317/");
        assert_eq!(url(&[(ALL, "http://c:1/x/")]), "http://c:1/x/v1/metrics");
        assert_eq!(url(&[(ALL, "http://c:1"), (OWN, "https://d/y")]), "https://d/y");
        assert_eq!(url(&[(ALL, "http://c:1"), GRPC]), "http://c:1/");
        let insecure = ("OTEL_EXPORTER_OTLP_INSECURE", "true");
        assert_eq!(url(&[(OWN, "c:1"), GRPC, insecure]), "http://c:1/");
        assert_eq!(url(&[("OTEL_METRICS_EXPORTER", "console")]), "standard output");
        assert_eq!(read(&[("OTEL_METRICS_EXPORTER", "none"), (ALL, "http://c:1")]), (None, vec![]));
        assert_eq!(read(&[("OTEL_METRICS_EXPORTER", "prometheus"), (ALL, "http://c:1")]), (None, vec![]));
        assert_eq!(read(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:1")]), (None, vec![]));
    }

    #[test]
    fn an_endpoint_that_cannot_be_used_is_a_warning_and_nothing_is_sent() {
        for (pairs, part) in [
            (
                &[(ALL, "c:4318")][..],
                "OTEL_EXPORTER_OTLP_ENDPOINT: not a URL that begins with http:// or https://",
            ),
            (&[(OWN, "ftp://c")], "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: not a URL"),
            (&[(OWN, "http://")], "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: not a URL"),
            (
                &[(OWN, "https://c:1"), GRPC],
                "TLS over gRPC is not supported; use http:// or the protocol http/protobuf",
            ),
            (&[(OWN, "c:1"), GRPC], "TLS over gRPC is not supported"),
        ] {
            let (settings, warnings) = read(pairs);
            assert_eq!(settings, None);
            assert!(
                warnings[0].starts_with("No metrics are sent: ") && warnings[0].contains(part),
                "{warnings:?}"
            );
        }
    }

    #[test]
    fn times_are_milliseconds_and_the_shorter_timeout_holds() {
        let times = |pairs: &[(&str, &str)]| {
            let settings = settings(&[&[OTLP], pairs].concat());
            (settings.every.as_millis(), settings.timeout.as_millis())
        };
        assert_eq!(times(&[]), (60_000, 10_000));
        let (export, request) = ("OTEL_METRIC_EXPORT_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT");
        assert_eq!(times(&[("OTEL_METRIC_EXPORT_INTERVAL", "250"), (export, "40")]), (250, 40));
        let own = ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "20000");
        assert_eq!(times(&[(request, "5"), own]), (60_000, 20_000));
        assert_eq!(times(&[("OTEL_METRIC_EXPORT_INTERVAL", &u64::MAX.to_string())]).1, 10_000);
        for bad in ["x", "0", "-1", "1s"] {
            let (settings, warnings) = read(&[OTLP, ("OTEL_METRIC_EXPORT_INTERVAL", bad)]);
            let expected =
                format!("OTEL_METRIC_EXPORT_INTERVAL: `{bad}` is not a number of milliseconds; using 60000");
            assert_eq!((settings.unwrap().every.as_secs(), warnings), (60, vec![expected]));
        }
    }

    #[test]
    fn headers_are_decoded_and_never_shown() {
        let list = ("OTEL_EXPORTER_OTLP_HEADERS", " Authorization = Bearer%20s3cret%3D , x-b=1=2,,");
        let Destination::Http { headers, .. } = settings(&[OTLP, list]).to else { panic!() };
        assert_eq!(headers["authorization"], "Bearer s3cret=");
        assert_eq!(headers["x-b"], "1=2");
        assert!(!format!("{headers:?}").contains("s3cret"), "{headers:?}");
        let own = ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "s3cret,a=%zz,b=%4,c=\u{7f},d=ok");
        let (settings, warnings) = read(&[OTLP, list, own]);
        let Some(Settings { to: Destination::Http { headers, .. }, .. }) = settings else { panic!() };
        assert_eq!((headers.len(), &headers["d"]), (1, &HeaderValue::from_static("ok")));
        let expected =
            "OTEL_EXPORTER_OTLP_METRICS_HEADERS: entry 2 is not a header as `name=value`; it is ignored";
        assert_eq!((warnings.len(), warnings[1].as_str()), (4, expected));
        assert!(!warnings.concat().contains("s3cret"), "{warnings:?}");
    }

    #[test]
    fn unsupported_values_are_reported() {
        let (settings, warnings) = read(&[OTLP, (TEMPORALITY, "delta")]);
        assert!(settings.is_some());
        assert_eq!(warnings, [format!("{TEMPORALITY}: `delta` is not supported; using `cumulative`")]);
        let refused = Environment::read(|name| {
            [OTLP, (PROTOCOL, "http/json")]
                .into_iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.to_owned())
        });
        let expected = "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: unknown protocol `http/json`; expected `http/protobuf` or `grpc`";
        assert_eq!(refused.unwrap_err().to_string(), expected);
    }
}
