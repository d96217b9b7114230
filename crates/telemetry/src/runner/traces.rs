//! Traces: what was measured anyway, sent on as spans to a collector.
//!
//! Spans are made when they are over. Only their ids must be known before, so that what happens elsewhere can
//! name them: [`Telemetry`](crate::Telemetry) draws those when a call begins. Sending happens
//! on a thread of its own, out of a queue that drops what does not fit: a collector that is slow, wrong or away
//! costs no call anything.

use std::error::Error;
use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{Request, Response};
use loggia_function::{Code, Trace};
use loggia_go::random_id;
use loggia_grpc::Ended;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{self as export, BatchSpanProcessor, SpanData, SpanProcessor as _};
use tokio::runtime::Handle;

use super::evaluated::Evaluated;
use super::otlp::{http_client, resource};
use crate::environment;

/// How long the last spans may take to leave when the program ends.
const LAST_TIME: Duration = Duration::from_secs(2);

/// Sends spans to a collector.
#[derive(Debug)]
pub(crate) struct Traces {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
}

/// A span to be.
struct Span {
    id: u64,
    parent: Option<u64>,
    remote: bool,
    kind: SpanKind,
    name: String,
    begin: SystemTime,
    took: Duration,
    code: Code,
    attributes: Vec<KeyValue>,
}

/// The HTTP client of the exporter. Its thread knows no runtime, so requests go to ours.
#[derive(Debug)]
struct Http {
    client: reqwest::Client,
    runtime: Handle,
}

/// Writes spans to standard output, one in each line, as JSON.
#[derive(Debug)]
struct Console;

// === impl Traces ===

impl Traces {
    /// Sends to where the variables of OpenTelemetry say, as the library reads them.
    pub(crate) fn new(to: environment::Traces) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let mut processor = match to {
            environment::Traces::Grpc => batches(SpanExporter::builder().with_tonic().build()?),
            environment::Traces::Http => {
                let http = Http { client: http_client()?, runtime: Handle::current() };
                let builder = SpanExporter::builder().with_http().with_http_client(http);
                batches(builder.with_protocol(Protocol::HttpBinary).build()?)
            }
            environment::Traces::Console => batches(Console),
        };
        processor.set_resource(&resource());
        Ok(Self { processor, scope: InstrumentationScope::builder("loggia").build() })
    }

    /// Sends what is left. It blocks for a moment.
    pub(crate) fn stop(&self) {
        let _ = self.processor.shutdown_with_timeout(LAST_TIME);
    }

    /// A call that this server answered.
    pub(crate) fn served(&self, call: &Ended<'_>) {
        let Some(trace) = call.context.trace().filter(|trace| trace.sampled) else { return };
        let Ended { service, method, code, took, caller, .. } = *call;
        let attributes = vec![
            KeyValue::new("rpc.system", "grpc"),
            KeyValue::new("rpc.service", service),
            KeyValue::new("rpc.method", method.to_owned()),
            KeyValue::new("rpc.grpc.status_code", i64::from(code as i32)),
            KeyValue::new("loggia.call", call.context.id().to_string()),
        ];
        self.send(
            trace,
            Span {
                id: trace.parent,
                parent: caller,
                remote: true,
                kind: SpanKind::Server,
                name: format!("{service}/{method}"),
                begin: SystemTime::now() - took,
                took,
                code: Code::from_number(code as i32),
                attributes,
            },
        );
    }

    /// An evaluation, with what is known of its parts.
    pub(crate) fn evaluated(&self, evaluated: &Evaluated) {
        let Evaluated { at, image, evaluator, code, total, recorded, traced, .. } = evaluated;
        let Some((trace, inside)) = traced else { return };
        let begin = *at - *total;
        let attributes =
            vec![KeyValue::new("loggia.image", image.clone()), KeyValue::new("loggia.evaluator", *evaluator)];
        let span = |id, parent, kind, name: &str, begin, took, attributes| Span {
            id,
            parent: Some(parent),
            remote: false,
            kind,
            name: name.to_owned(),
            begin,
            took,
            code: *code,
            attributes,
        };
        let (internal, own, call) = (SpanKind::Internal, random_id(), inside.parent);
        let whole = span(own, trace.parent, internal.clone(), "evaluate", begin, *total, attributes);
        self.send(trace, whole);
        let queued = recorded.queued.unwrap_or_default();
        if recorded.queued.is_some() {
            let queue = span(random_id(), own, internal.clone(), "wait", begin, queued, vec![]);
            self.send(trace, Span { code: Code::Ok, ..queue });
        }
        let Some(called) = evaluated.called() else { return };
        let begin = begin + queued;
        let Some(pod) = &recorded.pod else {
            return self.send(trace, span(call, own, internal, "process", begin, called, vec![]));
        };
        let attributes = vec![KeyValue::new("k8s.pod.name", pod.to_string())];
        self.send(trace, span(call, own, SpanKind::Client, "pod", begin, called, attributes));
        // The server in the pod says how long its process ran, and not when: half of the rest is the way there.
        if let Some(ran) = recorded.ran.filter(|ran| *ran <= called) {
            let begin = begin + (called - ran) / 2;
            self.send(trace, span(random_id(), call, internal, "process", begin, ran, vec![]));
        }
    }

    fn send(&self, trace: &Trace, span: Span) {
        let Span { id, parent, remote, kind, name, begin, took, code, attributes } = span;
        self.processor.on_end(SpanData {
            span_context: SpanContext::new(
                TraceId::from(trace.id),
                SpanId::from(id),
                TraceFlags::SAMPLED,
                false,
                TraceState::default(),
            ),
            parent_span_id: parent.map_or(SpanId::INVALID, SpanId::from),
            parent_span_is_remote: remote && parent.is_some(),
            span_kind: kind,
            name: name.into(),
            start_time: begin,
            end_time: begin + took,
            attributes,
            dropped_attributes_count: 0,
            events: Default::default(),
            links: Default::default(),
            status: match code {
                Code::Ok => Status::Unset,
                code => Status::error(code.name()),
            },
            instrumentation_scope: self.scope.clone(),
        });
    }
}

fn batches(exporter: impl export::SpanExporter + 'static) -> BatchSpanProcessor {
    BatchSpanProcessor::builder(exporter).build()
}

// === impl Http ===

#[tonic::async_trait]
impl HttpClient for Http {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move {
            let answer = client.execute(request.try_into()?).await?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            let mut response = Response::new(answer.bytes().await?);
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            Ok::<_, reqwest::Error>(response)
        });
        Ok(sent.await??)
    }
}

// === impl Console ===

impl export::SpanExporter for Console {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        let lines: String = spans.iter().map(|span| format!("{}\n", shown(span))).collect();
        let written = std::io::stdout().write_all(lines.as_bytes());
        written.map_err(|error| OTelSdkError::InternalFailure(error.to_string()))
    }
}

fn shown(span: &SpanData) -> serde_json::Value {
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    let attributes: serde_json::Map<_, _> =
        span.attributes.iter().map(|pair| (pair.key.to_string(), pair.value.to_string().into())).collect();
    serde_json::json!({
        "name": span.name,
        "trace": span.span_context.trace_id().to_string(),
        "span": span.span_context.span_id().to_string(),
        "parent": (span.parent_span_id != SpanId::INVALID).then(|| span.parent_span_id.to_string()),
        "start": seconds(span.start_time),
        "end": seconds(span.end_time),
        "error": match &span.status {
            Status::Error { description } => Some(description),
            _ => None,
        },
        "attributes": attributes,
    })
}
