//! Metrics that are sent to a collector, every so often and once more at the end.
//!
//! What is sent is all that was counted since the start. So a push that fails is made good by the next one:
//! nothing is kept for a collector that is away, and nothing is sent twice.

mod settings;

use std::error::Error;
use std::io::{self, Write as _};
use std::time::Duration;

use http::{HeaderMap, Uri};
use loggia_function::Code;
use loggia_go::chain;
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

use self::settings::Destination;
use super::SetupError;
use super::otlp::{self, Times};
use crate::Telemetry;

pub use self::settings::Settings;
pub(crate) use self::settings::settings;

/// How long the last push may take when the program ends.
const LAST_TIME: Duration = Duration::from_secs(2);

/// The largest answer that is read.
const MOST_OF_ANSWER: u64 = 64 << 10;

/// The most of a collector's answer that is logged, in characters.
const MOST_OF_REASON: usize = 300;

/// The task that sends.
#[derive(Debug)]
pub(crate) struct Push {
    /// Dropped to make the task send for the last time.
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

struct Task {
    telemetry: Telemetry,
    transport: Transport,
    resource: Resource,
    every: Duration,
    timeout: Duration,
    /// The last push did not arrive.
    failing: bool,
}

/// A destination with what it takes to send to it.
enum Transport {
    Http {
        client: reqwest::Client,
        url: Uri,
        headers: HeaderMap,
    },
    Grpc {
        client: MetricsServiceClient<Channel>,
        headers: MetadataMap,
    },
    /// `printing` is the last write, which does not end while the reader of a pipe is stuck.
    Console {
        printing: Option<JoinHandle<io::Result<()>>>,
    },
}

// === impl Push ===

impl Push {
    /// Sends from now on, in a task of the runtime that this is called in.
    pub(crate) fn start(telemetry: Telemetry, settings: Settings) -> Result<Self, SetupError> {
        let Settings { to, every, timeout } = settings;
        let attributes = ResourceAttributesWithSchema::from(&otlp::resource()).attributes.0;
        let resource = Resource { attributes, ..Resource::default() };
        let transport = Transport::to(to, timeout)?;
        let task = Task { telemetry, transport, resource, every, timeout, failing: false };
        let (stop, stopped) = oneshot::channel();
        Ok(Self { stop, task: tokio::spawn(task.run(stopped)) })
    }

    /// Sends for the last time, if that is soon done.
    pub(crate) async fn stop(self) {
        let Self { stop, mut task } = self;
        drop(stop);
        if tokio::time::timeout(LAST_TIME, &mut task).await.is_err() {
            task.abort();
        }
    }
}

// === impl Task ===

impl Task {
    async fn run(mut self, stopped: oneshot::Receiver<()>) {
        tokio::select! {
            _ = stopped => {}
            () = self.push_forever() => {}
        }
        self.push().await;
    }

    async fn push_forever(&mut self) {
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
                "Metrics are not sent: {reason}; this is logged once and retried every {:?}",
                self.every
            ),
            Ok(()) if self.failing => info!("Metrics are sent again"),
            _ => {}
        }
        self.failing = sent.is_err();
    }

    async fn send(&mut self) -> Result<(), String> {
        let Self { telemetry, transport, resource, .. } = self;
        match transport {
            Transport::Http { client, url, headers } => {
                let body = request(telemetry, resource).await.encode_to_vec();
                over_http(client, url, headers.clone(), body).await
            }
            Transport::Grpc { client, headers } => {
                let mut request = tonic::Request::new(request(telemetry, resource).await);
                *request.metadata_mut() = headers.clone();
                let answer = client.export(request).await.map_err(|status| reason_of(&status))?;
                accepted(answer.into_inner())
            }
            Transport::Console { printing } => print(telemetry.metrics().await, printing).await,
        }
    }
}

/// All metrics as they are now.
pub(super) async fn request(telemetry: &Telemetry, resource: &Resource) -> ExportMetricsServiceRequest {
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
    let causes = |error: reqwest::Error| short(&chain(&error.without_url()));
    let answer = request.send().await.map_err(causes)?;
    if !answer.status().is_success() {
        return Err(format!("the collector answered {}", answer.status()));
    }
    if answer.content_length().is_none_or(|length| length > MOST_OF_ANSWER) {
        return Ok(());
    }
    let bytes = answer.bytes().await.map_err(causes)?;
    ExportMetricsServiceResponse::decode(bytes).map_or(Ok(()), accepted)
}

/// Whether a collector accepted all of it.
fn accepted(answer: ExportMetricsServiceResponse) -> Result<(), String> {
    match answer.partial_success {
        Some(part) if part.rejected_data_points > 0 => Err(format!(
            "the collector rejected {} data points: {}",
            part.rejected_data_points,
            short(&part.error_message)
        )),
        _ => Ok(()),
    }
}

async fn print(text: String, printing: &mut Option<JoinHandle<io::Result<()>>>) -> Result<(), String> {
    if printing.as_ref().is_some_and(|task| !task.is_finished()) {
        return Err("standard output is not read".to_owned());
    }
    let task = tokio::task::spawn_blocking(move || io::stdout().write_all(text.as_bytes()));
    let printed = printing.insert(task).await;
    printed.map_or(Ok(()), |written| written.map_err(|error| format!("standard output: {error}")))
}

fn reason_of(status: &Status) -> String {
    let mut reason = format!("{}: {}", Code::from_number(status.code() as i32), status.message());
    if let Some(source) = status.source() {
        reason = format!("{reason}: {}", chain(source));
    }
    short(&reason)
}

/// One line of bounded length.
fn short(text: &str) -> String {
    let printable = |char: char| if char.is_control() { ' ' } else { char };
    text.chars().map(printable).take(MOST_OF_REASON).collect()
}

// === impl Transport ===

impl Transport {
    fn to(destination: Destination, timeout: Duration) -> Result<Self, SetupError> {
        Ok(match destination {
            Destination::Http { url, headers } => {
                let client = otlp::http_client().map_err(SetupError::new)?;
                Self::Http { client, url, headers }
            }
            Destination::Grpc { url, headers } => {
                let endpoint = Endpoint::from(url).connect_timeout(timeout).user_agent(otlp::USER_AGENT);
                let channel = endpoint.map_err(SetupError::new)?.connect_lazy();
                let headers = MetadataMap::from_headers(headers);
                Self::Grpc { client: MetricsServiceClient::new(channel), headers }
            }
            Destination::Console => Self::Console { printing: None },
        })
    }
}
