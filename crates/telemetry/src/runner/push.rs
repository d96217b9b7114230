//! Metrics that are sent to a collector, every so often and once more at the end.
//!
//! What is sent is all that was counted since the start. So a push that fails is made good by the next one:
//! nothing is kept for a collector that is away, and nothing is sent twice.

use std::error::Error;
use std::io::{self, Write as _};
use std::time::Duration;

use http::uri::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use loggia_evaluator::{causes, code_name};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use prost::Message as _;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tracing::{info, warn};

use super::otlp::{self, Times};
use crate::Telemetry;
use crate::environment::{Refusal, is_grpc};

/// How long the last push may take when the program ends.
const LAST_TIME: Duration = Duration::from_secs(2);

/// The largest answer that is read.
const MOST_OF_ANSWER: u64 = 64 << 10;

/// How much of what a collector says is worth a line of the log.
const MOST_OF_REASON: usize = 300;

const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
const INSECURE: [&str; 2] = ["OTEL_EXPORTER_OTLP_METRICS_INSECURE", "OTEL_EXPORTER_OTLP_INSECURE"];
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL";
const REQUEST_TIMEOUT: [&str; 2] = ["OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
const TEMPORALITY: &str = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";

/// Where metrics are sent, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    to: Destination,
    every: Duration,
    timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Destination {
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

/// The task that sends.
#[derive(Debug)]
pub(crate) struct Push {
    /// Gone when the task is to send for the last time.
    going: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

struct Task {
    telemetry: Telemetry,
    way: Way,
    resource: Resource,
    every: Duration,
    timeout: Duration,
    /// The last push did not arrive.
    failing: bool,
}

/// A destination that is made ready.
enum Way {
    Http {
        client: reqwest::Client,
        url: Uri,
        headers: HeaderMap,
    },
    Grpc {
        client: MetricsServiceClient<Channel>,
        headers: MetadataMap,
    },
    /// With what was printed last, which is not over while nobody reads it.
    Console {
        printing: Option<JoinHandle<io::Result<()>>>,
    },
}

// === impl Settings ===

impl Settings {
    /// What the variables say of a collector. If they name none that could be reached, there is a warning
    /// and nothing is sent.
    pub(crate) fn of_collector(
        set: &impl Fn(&str) -> Option<String>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Self>, Refusal> {
        let grpc = is_grpc(set, PROTOCOL)?;
        if let Some(other) = set(TEMPORALITY).filter(|value| !value.eq_ignore_ascii_case("cumulative")) {
            warnings.push(format!("{TEMPORALITY}={other}: sums are only sent as cumulative ones"));
        }
        let headers = headers(set, warnings);
        let url = match grpc {
            true => grpc_endpoint(set),
            false => http_endpoint(set),
        };
        let to = match url {
            Ok(url) if grpc => Destination::Grpc { url, headers },
            Ok(url) => Destination::Http { url, headers },
            Err(reason) => {
                warnings.push(format!("No metrics are sent: {reason}"));
                return Ok(None);
            }
        };
        Ok(Some(Self::to(to, set, warnings)))
    }

    pub(crate) fn of_console(set: &impl Fn(&str) -> Option<String>, warnings: &mut Vec<String>) -> Self {
        Self::to(Destination::Console, set, warnings)
    }

    fn to(to: Destination, set: &impl Fn(&str) -> Option<String>, warnings: &mut Vec<String>) -> Self {
        let mut time = |names: &[&'static str], default| milliseconds(set, names, default, warnings);
        let every = time(&["OTEL_METRIC_EXPORT_INTERVAL"], 60_000);
        // There is one request for each push, so the shorter of both holds.
        let timeout = time(&["OTEL_METRIC_EXPORT_TIMEOUT"], 30_000).min(time(&REQUEST_TIMEOUT, 10_000));
        Self { to, every, timeout }
    }
}

/// Whether somebody said where metrics are sent.
pub(crate) fn has_endpoint(set: &impl Fn(&str) -> Option<String>) -> bool {
    first(set, &ENDPOINTS).is_some()
}

/// The first of these that is set, and its value.
fn first(set: &impl Fn(&str) -> Option<String>, names: &[&'static str]) -> Option<(&'static str, String)> {
    names.iter().find_map(|name| Some((*name, set(name)?)))
}

fn milliseconds(
    set: &impl Fn(&str) -> Option<String>,
    names: &[&'static str],
    default: u64,
    warnings: &mut Vec<String>,
) -> Duration {
    let Some((name, value)) = first(set, names) else { return Duration::from_millis(default) };
    let number = value.trim().parse().ok().filter(|&number| number > 0);
    if number.is_none() {
        warnings.push(format!("{name}: `{value}` is no number of milliseconds; it is {default} instead"));
    }
    Duration::from_millis(number.unwrap_or(default))
}

/// The variable for all signals names a place for all of them, that for metrics the very address.
fn http_endpoint(set: &impl Fn(&str) -> Option<String>) -> Result<Uri, String> {
    let (name, url) = first(set, &ENDPOINTS).unwrap_or(("default", "http://localhost:4318".to_owned()));
    let whole = match name == ENDPOINTS[0] {
        true => url,
        false => format!("{}/v1/metrics", url.trim_end_matches('/')),
    };
    let parsed: Option<Uri> = whole.parse().ok().filter(is_http);
    parsed.ok_or_else(|| format!("{name}: not a URL that begins with http:// or https://"))
}

fn grpc_endpoint(set: &impl Fn(&str) -> Option<String>) -> Result<Uri, String> {
    let (name, mut url) = first(set, &ENDPOINTS).unwrap_or(("default", "http://localhost:4317".to_owned()));
    if !url.contains("://") {
        let insecure = first(set, &INSECURE).is_some_and(|(_, value)| value.eq_ignore_ascii_case("true"));
        url = format!("{}://{url}", if insecure { "http" } else { "https" });
    }
    let parsed: Option<Uri> = url.parse().ok().filter(is_http);
    let url = parsed.ok_or_else(|| format!("{name}: not a URL that begins with http://"))?;
    match url.scheme() == Some(&Scheme::HTTPS) {
        true => Err(format!("{name}: there is no TLS over gRPC; use http:// or the protocol http/protobuf")),
        false => Ok(url),
    }
}

fn is_http(url: &Uri) -> bool {
    let scheme = url.scheme();
    let known = scheme == Some(&Scheme::HTTP) || scheme == Some(&Scheme::HTTPS);
    known && url.host().is_some_and(|host| !host.is_empty())
}

/// Headers as `name=value,…`, the values percent-encoded. No message shows a value: it may be a secret.
fn headers(set: &impl Fn(&str) -> Option<String>, warnings: &mut Vec<String>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let Some((variable, list)) = first(set, &HEADERS) else { return headers };
    for (number, pair) in list.split(',').enumerate().filter(|(_, pair)| !pair.trim().is_empty()) {
        let header = pair.split_once('=').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            let mut value = HeaderValue::from_bytes(&decoded(value.trim())?).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        match header {
            Some((name, value)) => drop(headers.insert(name, value)),
            None => warnings.push(format!("{variable}: entry {} is no header and is left out", number + 1)),
        }
    }
    headers
}

/// A text with `%20` and the like resolved.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let [high, low, after @ ..] = rest else { return None };
        let digit = |digit: &u8| char::from(*digit).to_digit(16);
        bytes.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
        rest = after;
    }
    Some(bytes)
}

// === impl Push ===

impl Push {
    /// Sends from now on, in a task of the runtime that this is called in.
    pub(crate) fn start(telemetry: Telemetry, settings: Settings) -> Result<Self, String> {
        let Settings { to, every, timeout } = settings;
        let attributes = ResourceAttributesWithSchema::from(&otlp::resource()).attributes.0;
        let resource = Resource { attributes, ..Resource::default() };
        let way = Way::to(to, timeout)?;
        let task = Task { telemetry, way, resource, every, timeout, failing: false };
        let (going, stopping) = oneshot::channel();
        Ok(Self { going, task: tokio::spawn(task.run(stopping)) })
    }

    /// Sends for the last time, if that is soon done.
    pub(crate) async fn stop(self) {
        let Self { going, mut task } = self;
        drop(going);
        if tokio::time::timeout(LAST_TIME, &mut task).await.is_err() {
            task.abort();
        }
    }
}

// === impl Task ===

impl Task {
    async fn run(mut self, stopping: oneshot::Receiver<()>) {
        tokio::select! {
            _ = stopping => {}
            () = self.go_on() => {}
        }
        self.push().await;
    }

    async fn go_on(&mut self) {
        loop {
            tokio::time::sleep(self.every).await;
            self.push().await;
        }
    }

    async fn push(&mut self) {
        let sent = tokio::time::timeout(self.timeout, self.send()).await;
        let sent = sent.unwrap_or_else(|_| Err(format!("no answer within {:?}", self.timeout)));
        match &sent {
            Err(reason) if !self.failing => warn!(
                "Metrics are not sent: {reason}; this is said once and tried again every {:?}",
                self.every
            ),
            Ok(()) if self.failing => info!("Metrics are sent again"),
            _ => {}
        }
        self.failing = sent.is_err();
    }

    async fn send(&mut self) -> Result<(), String> {
        let Self { telemetry, way, resource, .. } = self;
        match way {
            Way::Http { client, url, headers } => {
                let body = request(telemetry, resource).await.encode_to_vec();
                over_http(client, url, headers.clone(), body).await
            }
            Way::Grpc { client, headers } => {
                let mut request = tonic::Request::new(request(telemetry, resource).await);
                *request.metadata_mut() = headers.clone();
                let answer = client.export(request).await.map_err(|status| reason_of(&status))?;
                taken(answer.into_inner())
            }
            Way::Console { printing } => print(telemetry.metrics().await, printing).await,
        }
    }
}

/// All metrics as they are now.
async fn request(telemetry: &Telemetry, resource: &Resource) -> ExportMetricsServiceRequest {
    let families = telemetry.families().await;
    let runner = &telemetry.shared.runner;
    let times = Times::since(runner.started);
    let scope_metrics = ScopeMetrics {
        scope: Some(InstrumentationScope {
            name: "loggia".to_owned(),
            version: runner.version.to_owned(),
            ..InstrumentationScope::default()
        }),
        metrics: families.into_iter().filter_map(|family| otlp::metric(family, times)).collect(),
        schema_url: String::new(),
    };
    let metrics = ResourceMetrics {
        resource: Some(resource.clone()),
        scope_metrics: vec![scope_metrics],
        schema_url: String::new(),
    };
    ExportMetricsServiceRequest { resource_metrics: vec![metrics] }
}

async fn over_http(
    client: &reqwest::Client,
    url: &Uri,
    headers: HeaderMap,
    body: Vec<u8>,
) -> Result<(), String> {
    let request = client
        .post(url.to_string())
        .headers(headers)
        .header(http::header::CONTENT_TYPE, "application/x-protobuf")
        .body(body);
    // The address may hold a password.
    let causes = |error: reqwest::Error| short(&causes(&error.without_url()));
    let answer = request.send().await.map_err(causes)?;
    if !answer.status().is_success() {
        return Err(format!("the collector answered {}", answer.status()));
    }
    if answer.content_length().is_none_or(|length| length > MOST_OF_ANSWER) {
        return Ok(());
    }
    let bytes = answer.bytes().await.map_err(causes)?;
    ExportMetricsServiceResponse::decode(bytes).map_or(Ok(()), taken)
}

/// Whether a collector took all of it.
fn taken(answer: ExportMetricsServiceResponse) -> Result<(), String> {
    match answer.partial_success {
        Some(part) if part.rejected_data_points > 0 => Err(format!(
            "the collector took all but {} figures: {}",
            part.rejected_data_points,
            short(&part.error_message)
        )),
        _ => Ok(()),
    }
}

async fn print(text: String, printing: &mut Option<JoinHandle<io::Result<()>>>) -> Result<(), String> {
    if printing.as_ref().is_some_and(|task| !task.is_finished()) {
        return Err("nobody reads standard output".to_owned());
    }
    let task = tokio::task::spawn_blocking(move || io::stdout().write_all(text.as_bytes()));
    let printed = printing.insert(task).await;
    printed.map_or(Ok(()), |written| written.map_err(|error| format!("standard output: {error}")))
}

fn reason_of(status: &Status) -> String {
    let mut reason = format!("{}: {}", code_name(status.code()), status.message());
    if let Some(source) = status.source() {
        reason = format!("{reason}: {}", causes(source));
    }
    short(&reason)
}

/// One line of bounded length.
fn short(text: &str) -> String {
    let printable = |char: char| if char.is_control() { ' ' } else { char };
    text.chars().map(printable).take(MOST_OF_REASON).collect()
}

// === impl Way ===

impl Way {
    fn to(destination: Destination, timeout: Duration) -> Result<Self, String> {
        Ok(match destination {
            Destination::Http { url, headers } => {
                let client = otlp::http_client().map_err(|error| causes(&error))?;
                Self::Http { client, url, headers }
            }
            Destination::Grpc { url, headers } => {
                let endpoint = Endpoint::from(url).connect_timeout(timeout).user_agent(otlp::USER_AGENT);
                let channel = endpoint.map_err(|error| causes(&error))?.connect_lazy();
                let headers = MetadataMap::from_headers(headers);
                Self::Grpc { client: MetricsServiceClient::new(channel), headers }
            }
            Destination::Console => Self::Console { printing: None },
        })
    }
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
    fn an_address_that_cannot_be_meant_is_told_and_nothing_is_sent() {
        for (pairs, part) in [
            (
                &[(ALL, "c:4318")][..],
                "OTEL_EXPORTER_OTLP_ENDPOINT: not a URL that begins with http:// or https://",
            ),
            (&[(OWN, "ftp://c")], "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: not a URL"),
            (&[(OWN, "http://")], "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: not a URL"),
            (
                &[(OWN, "https://c:1"), GRPC],
                "there is no TLS over gRPC; use http:// or the protocol http/protobuf",
            ),
            (&[(OWN, "c:1"), GRPC], "there is no TLS over gRPC"),
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
            let expected = format!(
                "OTEL_METRIC_EXPORT_INTERVAL: `{bad}` is no number of milliseconds; it is 60000 instead"
            );
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
        let told = "OTEL_EXPORTER_OTLP_METRICS_HEADERS: entry 2 is no header and is left out";
        assert_eq!((warnings.len(), warnings[1].as_str()), (4, told));
        assert!(!warnings.concat().contains("s3cret"), "{warnings:?}");
    }

    #[test]
    fn what_is_not_done_is_told() {
        let (settings, warnings) = read(&[OTLP, (TEMPORALITY, "delta")]);
        assert!(settings.is_some());
        assert_eq!(warnings, [format!("{TEMPORALITY}=delta: sums are only sent as cumulative ones")]);
        let refused = Environment::read(|name| {
            [OTLP, (PROTOCOL, "http/json")]
                .into_iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.to_owned())
        });
        let told = "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: there is no protocol `http/json`; there are http/protobuf and grpc";
        assert_eq!(refused.unwrap_err().to_string(), told);
    }
}
