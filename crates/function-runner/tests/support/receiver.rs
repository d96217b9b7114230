//! A collector of OpenTelemetry that keeps what it receives, over HTTP and gRPC.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use loggia_function::Chain;
use loggia_grpc::server::{self, Routes};
use loggia_grpc::{Evaluations, Lifecycle};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message as _;

/// Every request, and the `x-key` that it came with.
#[derive(Clone, Default)]
pub struct Collector {
    metrics: Arc<Mutex<Vec<ResourceMetrics>>>,
    traces: Arc<Mutex<Vec<ResourceSpans>>>,
    keys: Arc<Mutex<Vec<String>>>,
}

// === impl Collector ===

impl Collector {
    /// Receives over HTTP at this address, and returns the endpoint.
    pub fn over_http(&self, at: SocketAddr) -> String {
        let collector = self.clone();
        over_http(TcpListener::bind(at).unwrap(), move |request| collector.answer(&request))
    }

    /// Receives over gRPC, and returns the endpoint.
    pub async fn over_grpc(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let lifecycle = Lifecycle::default();
        let routes = Routes::new(Evaluations::of(Arc::new(Chain::default())), &lifecycle, 1 << 20)
            .with(MetricsServiceServer::new(self.clone()), &["Export"])
            .with(TraceServiceServer::new(self.clone()), &["Export"]);
        lifecycle.serve();
        tokio::spawn(server::serve(listener, routes));
        endpoint
    }

    /// The status of a request over HTTP.
    pub fn answer(&self, Received { head, body }: &Received) -> &'static str {
        assert!(head.contains("\ncontent-type: application/x-protobuf\r"), "{head}");
        let key = head.lines().find_map(|line| line.strip_prefix("x-key: ")).unwrap_or_default();
        self.keys.lock().unwrap().push(key.to_owned());
        match head.split(' ').nth(1).unwrap() {
            "/v1/metrics" => self.take_metrics(ExportMetricsServiceRequest::decode(&**body).unwrap()),
            "/v1/traces" => self.take_traces(ExportTraceServiceRequest::decode(&**body).unwrap()),
            other => panic!("{other}"),
        }
        "200 OK"
    }

    fn take_metrics(&self, request: ExportMetricsServiceRequest) {
        let [metrics] = <[_; 1]>::try_from(request.resource_metrics).unwrap();
        self.metrics.lock().unwrap().push(metrics);
    }

    fn take_traces(&self, request: ExportTraceServiceRequest) {
        self.traces.lock().unwrap().extend(request.resource_spans);
    }

    fn take_key<T>(&self, request: &tonic::Request<T>) {
        let key = request.metadata().get("x-key").map_or("", |key| key.to_str().unwrap());
        self.keys.lock().unwrap().push(key.to_owned());
    }

    /// How many times metrics were received.
    pub fn pushes(&self) -> usize {
        self.metrics.lock().unwrap().len()
    }

    /// The metrics that were received last.
    pub fn last(&self) -> Option<ResourceMetrics> {
        self.metrics.lock().unwrap().last().cloned()
    }

    pub fn spans(&self) -> Vec<Span> {
        let traces = self.traces.lock().unwrap().clone();
        traces.into_iter().flat_map(|one| one.scope_spans).flat_map(|scope| scope.spans).collect()
    }

    /// The attributes of the services that sent spans.
    pub fn services(&self) -> Vec<Vec<KeyValue>> {
        let traces = self.traces.lock().unwrap();
        traces.iter().map(|one| one.resource.clone().unwrap().attributes).collect()
    }

    pub fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap().clone()
    }
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportMetricsServiceRequest>,
    ) -> Result<tonic::Response<ExportMetricsServiceResponse>, tonic::Status> {
        self.take_key(&request);
        self.take_metrics(request.into_inner());
        Ok(tonic::Response::new(ExportMetricsServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        self.take_key(&request);
        self.take_traces(request.into_inner());
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

/// The value of an attribute that is text.
pub fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    match attributes.iter().find(|pair| pair.key == key)?.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

pub fn anywhere() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// An address at which nothing listens.
pub fn nowhere() -> SocketAddr {
    TcpListener::bind(anywhere()).unwrap().local_addr().unwrap()
}

/// A request to it, in small letters but for the body.
pub struct Received {
    pub head: String,
    pub body: Vec<u8>,
}

/// Answers every request at this listener with the status that is returned, and says where it is.
pub fn over_http(
    listener: TcpListener,
    mut take: impl FnMut(Received) -> &'static str + Send + 'static,
) -> String {
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            answer(&mut stream, &mut take);
        }
    });
    address
}

/// Answers one request of a connection.
pub fn answer(stream: &mut (impl Read + Write), mut take: impl FnMut(Received) -> &'static str) {
    let Some(request) = receive(stream) else { return };
    let status = take(request);
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(answer.as_bytes());
}

/// Nothing if the peer leaves before it is done.
fn receive(stream: &mut impl Read) -> Option<Received> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    let mut more = |bytes: &mut Vec<u8>| {
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
        Some(())
    };
    let end = loop {
        match bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            Some(end) => break end,
            None => more(&mut bytes)?,
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let length: usize = length.parse().unwrap();
    while bytes.len() < end + 4 + length {
        more(&mut bytes)?;
    }
    Some(Received { head, body: bytes.split_off(end + 4) })
}
