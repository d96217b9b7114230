//! Metrics that are sent: to a collector over HTTP and gRPC, to one that is not there, and to the console.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use loggia_evaluator::server::{self, Routes};
use loggia_evaluator::{Lifecycle, Multi};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, ResourceMetrics};
use prost::Message as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

mod support;

use support::receiver::{self, Received};
use support::{Authority, Called as _, Functions, Server, evaluate, eventually, output};

/// A collector that keeps every push, and the `x-key` it came with.
#[derive(Clone, Default)]
struct Collector {
    pushes: Arc<Mutex<Vec<ResourceMetrics>>>,
    keys: Arc<Mutex<Vec<String>>>,
}

impl Collector {
    fn take(&self, key: &str, request: ExportMetricsServiceRequest) {
        let [metrics] = <[_; 1]>::try_from(request.resource_metrics).unwrap();
        self.keys.lock().unwrap().push(key.to_owned());
        self.pushes.lock().unwrap().push(metrics);
    }

    /// Takes metrics over HTTP at this address, and says where.
    fn over_http(&self, at: SocketAddr) -> String {
        let collector = self.clone();
        receiver::over_http(TcpListener::bind(at).unwrap(), move |request| collector.answer(&request))
    }

    /// The same over TLS, as an authority says that it is.
    fn over_tls(&self, authority: &Authority) -> String {
        let (cert, key) = authority.server();
        let chain = CertificateDer::pem_file_iter(cert).unwrap().collect::<Result<_, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_file(key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth();
        let config = Arc::new(config.with_single_cert(chain, key).unwrap());
        let listener = TcpListener::bind(anywhere()).unwrap();
        let address = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let collector = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = rustls::StreamOwned::new(connection, stream);
                receiver::answer(&mut stream, |request| collector.answer(&request));
            }
        });
        address
    }

    fn answer(&self, Received { head, body }: &Received) -> &'static str {
        assert!(head.starts_with("post /v1/metrics "), "{head}");
        assert!(head.contains("\ncontent-type: application/x-protobuf\r"), "{head}");
        let key = head.lines().find_map(|line| line.strip_prefix("x-key: ")).unwrap_or_default();
        self.take(key, ExportMetricsServiceRequest::decode(&**body).unwrap());
        "200 OK"
    }

    async fn over_grpc(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let lifecycle = Lifecycle::default();
        let routes = Routes::new(Arc::new(Multi::default()), &lifecycle, 1 << 20)
            .with(MetricsServiceServer::new(self.clone()));
        lifecycle.serve();
        tokio::spawn(server::serve(listener, routes));
        endpoint
    }

    fn pushes(&self) -> usize {
        self.pushes.lock().unwrap().len()
    }

    fn last(&self) -> ResourceMetrics {
        self.pushes.lock().unwrap().last().unwrap().clone()
    }

    /// How many evaluations the last push tells of.
    fn evaluations(&self) -> i64 {
        let last = self.pushes.lock().unwrap().last().cloned();
        last.map_or(0, |last| sum_of(&metrics(&last), "loggia_evaluations_total"))
    }
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportMetricsServiceRequest>,
    ) -> Result<tonic::Response<ExportMetricsServiceResponse>, tonic::Status> {
        let key = request.metadata().get("x-key").map_or("", |key| key.to_str().unwrap()).to_owned();
        self.take(&key, request.into_inner());
        Ok(tonic::Response::new(ExportMetricsServiceResponse::default()))
    }
}

fn anywhere() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// An address at which nobody listens.
fn nowhere() -> SocketAddr {
    TcpListener::bind(anywhere()).unwrap().local_addr().unwrap()
}

/// Hangs up on all who call at an address, and counts them.
fn hanging_up(address: SocketAddr) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let (listener, callers) = (TcpListener::bind(address).unwrap(), Arc::clone(&count));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            drop(stream);
            callers.fetch_add(1, Ordering::Relaxed);
        }
    });
    count
}

fn functions() -> Functions {
    Functions::new().with("echo", &["echo"], "cat").with("fails", &["fails"], "exit 3")
}

fn command(functions: &Functions, endpoint: &str, protocol: &str, interval: &str) -> Command {
    let mut command = functions.command(&[]);
    command
        .env("OTEL_METRICS_EXPORTER", "otlp")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        .env("OTEL_METRIC_EXPORT_INTERVAL", interval)
        .env("OTEL_TRACES_EXPORTER", "none");
    command
}

fn metrics(push: &ResourceMetrics) -> Vec<Metric> {
    push.scope_metrics.iter().flat_map(|scope| scope.metrics.clone()).collect()
}

fn find<'a>(metrics: &'a [Metric], name: &str) -> &'a Metric {
    let names: Vec<_> = metrics.iter().map(|metric| &metric.name).collect();
    metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no {name} in {names:?}"))
}

fn sum_of(metrics: &[Metric], name: &str) -> i64 {
    let Some(metric) = metrics.iter().find(|metric| metric.name == name) else { return 0 };
    let Some(Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
    let value = |value: Option<Number>| match value {
        Some(Number::AsInt(value)) => value,
        other => panic!("{other:?}"),
    };
    sum.data_points.iter().map(|point| value(point.value)).sum()
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    match attributes.iter().find(|pair| pair.key == key)?.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

/// What three calls of `echo` and one of `fails` look like.
fn assert_told(collector: &Collector, started: std::time::SystemTime) {
    let push = collector.last();
    let attributes = &push.resource.as_ref().unwrap().attributes;
    assert_eq!(text(attributes, "service.name"), Some("porch-function-runner"), "{attributes:?}");
    assert_eq!(text(attributes, "deployment.environment"), Some("test"), "{attributes:?}");
    assert_eq!(push.scope_metrics[0].scope.as_ref().unwrap().name, "loggia");
    let metrics = metrics(&push);
    let evaluations = find(&metrics, "loggia_evaluations_total");
    let Some(Data::Sum(sum)) = &evaluations.data else { panic!("{evaluations:?}") };
    assert!(sum.is_monotonic);
    assert_eq!(sum.aggregation_temporality(), AggregationTemporality::Cumulative);
    let mut points: Vec<_> = sum
        .data_points
        .iter()
        .map(|point| {
            let label = |key| text(&point.attributes, key).unwrap();
            (label("image"), label("evaluator"), label("outcome"), point.value.unwrap())
        })
        .collect();
    points.sort_by_key(|point| point.0);
    let expected =
        [("echo", "exec", "OK", Number::AsInt(3)), ("fails", "exec", "Internal", Number::AsInt(1))];
    assert_eq!(points, expected);

    let calls = find(&metrics, "loggia_evaluation_call_duration_seconds");
    assert_eq!(calls.unit, "s");
    let Some(Data::Histogram(histogram)) = &calls.data else { panic!("{calls:?}") };
    assert_eq!(histogram.aggregation_temporality(), AggregationTemporality::Cumulative);
    let [point] = &*histogram.data_points else { panic!("{histogram:?}") };
    assert_eq!((point.count, point.bucket_counts.iter().sum::<u64>()), (4, 4));
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
    assert!(point.explicit_bounds.is_sorted() && point.sum.unwrap() > 0.0, "{point:?}");
    let start = started.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    assert!(point.start_time_unix_nano >= start, "counting begins with the process");
    assert!(point.start_time_unix_nano <= point.time_unix_nano, "{point:?}");

    let memory = find(&metrics, "process_resident_memory_bytes");
    assert!(matches!(memory.data, Some(Data::Gauge(_))) && memory.unit == "By", "{memory:?}");
}

async fn told_over(protocol: &str) {
    let collector = Collector::default();
    let endpoint = match protocol {
        "grpc" => collector.over_grpc().await,
        _ => collector.over_http(anywhere()),
    };
    let functions = functions();
    let started = std::time::SystemTime::now();
    let mut server = Server::start(
        command(&functions, &endpoint, protocol, "100")
            .env("OTEL_SERVICE_NAME", "porch-function-runner")
            .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,service.name=another")
            .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=canary%2D5"),
    );
    server.wait_for_line("Metrics are sent");
    for _ in 0..3 {
        evaluate(&server.client(), "echo", "x").await.unwrap();
    }
    evaluate(&server.client(), "fails", "x").await.unwrap_err();
    eventually("the calls are told", || collector.evaluations() == 4).await;
    assert_told(&collector, started);
    let pushes = collector.pushes();
    eventually("it goes on", || collector.pushes() > pushes + 2).await;
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
    assert_told(&collector, started);
    assert!(collector.keys.lock().unwrap().iter().all(|key| key == "canary-5"));
    let log = server.log().join("\n");
    assert!(!log.contains("canary") && !log.contains("not sent"), "{log}");
}

#[tokio::test]
async fn a_collector_is_told_over_http() {
    told_over("http/protobuf").await;
}

#[tokio::test]
async fn a_collector_is_told_over_grpc() {
    told_over("grpc").await;
}

#[tokio::test]
async fn over_tls_only_a_collector_that_an_authority_vouches_for_is_told() {
    let (authority, collector, functions) = (Authority::new("test"), Collector::default(), functions());
    let mut known = command(&functions, &collector.over_tls(&authority), "http/protobuf", "50");
    let known = Server::start(known.env("SSL_CERT_FILE", authority.file("ca.crt")));
    eventually("it is told", || collector.pushes() > 0).await;
    assert_eq!(warnings(&known), 0, "{:#?}", known.log());
    drop(known);
    let pushes = collector.pushes();
    let stranger = Authority::new("stranger");
    let mut unknown = command(&functions, &collector.over_tls(&stranger), "http/protobuf", "50");
    let unknown = Server::start(unknown.env("SSL_CERT_FILE", authority.file("ca.crt")));
    let line = unknown.wait_for_line("Metrics are not sent: ");
    assert!(line.to_lowercase().contains("certificate"), "{line}");
    assert_eq!(collector.pushes(), pushes);
}

#[tokio::test]
async fn a_system_without_authorities_reaches_a_collector_that_needs_none() {
    let (collector, functions) = (Collector::default(), functions());
    let mut command = command(&functions, &collector.over_http(anywhere()), "http/protobuf", "50");
    // Nobody is at the place for traces; what sends them is made all the same.
    command
        .env("OTEL_TRACES_EXPORTER", "otlp")
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("http://{}", nowhere()))
        .env("SSL_CERT_FILE", "/dev/null")
        .env("SSL_CERT_DIR", "/nonexistent");
    let server = Server::start(&mut command);
    server.wait_for_line("Traces are sent");
    eventually("it is told", || collector.pushes() > 0).await;
    evaluate(&server.client(), "echo", "x").await.unwrap();
}

#[tokio::test]
async fn an_endpoint_is_enough_and_the_last_push_has_everything() {
    let collector = Collector::default();
    let endpoint = collector.over_http(anywhere());
    let functions = functions();
    let mut command = functions.command(&[]);
    // The address for metrics alone is taken as it is, and no traces go there.
    command.env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", format!("{endpoint}/v1/metrics"));
    let mut server = Server::start(&mut command);
    evaluate(&server.client(), "echo", "x").await.unwrap();
    assert_eq!(collector.pushes(), 0, "a minute has not passed");
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!((collector.pushes(), collector.evaluations()), (1, 1));
    let push = collector.last();
    let attributes = &push.resource.as_ref().unwrap().attributes;
    assert_eq!(text(attributes, "service.name"), Some("function-runner"), "{attributes:?}");
}

fn warnings(server: &Server) -> usize {
    server.log().iter().filter(|line| line.contains("Metrics are not sent: ")).count()
}

#[tokio::test]
async fn a_collector_that_is_away_is_told_of_once_and_costs_nothing() {
    let functions = functions();
    for protocol in ["http/protobuf", "grpc"] {
        let nowhere = nowhere();
        let mut server =
            Server::start(&mut command(&functions, &format!("http://{nowhere}"), protocol, "20"));
        let line = server.wait_for_line("Metrics are not sent: ");
        assert!(line.contains("onnection refused"), "{line}");
        let begin = Instant::now();
        for _ in 0..20 {
            evaluate(&server.client(), "echo", "x").await.unwrap();
        }
        assert!(begin.elapsed().as_secs() < 5, "{:?}", begin.elapsed());
        // Ten more pushes fail, and nothing is said of them.
        let failures = hanging_up(nowhere);
        eventually("ten more pushes fail", || failures.load(Ordering::Relaxed) >= 10).await;
        server.terminate();
        let begin = Instant::now();
        assert_eq!(server.wait().code(), Some(0));
        assert!(begin.elapsed().as_secs() < 4, "{:?}", begin.elapsed());
        assert_eq!(warnings(&server), 1, "{:#?}", server.log());
    }
}

#[tokio::test]
async fn a_collector_that_comes_back_learns_what_it_missed() {
    let functions = functions();
    let address = nowhere();
    let server = Server::start(&mut command(&functions, &format!("http://{address}"), "http/protobuf", "50"));
    evaluate(&server.client(), "echo", "x").await.unwrap();
    server.wait_for_line("Metrics are not sent: ");
    let collector = Collector::default();
    collector.over_http(address);
    server.wait_for_line("Metrics are sent again");
    assert_eq!(collector.evaluations(), 1);
    assert_eq!(warnings(&server), 1, "{:#?}", server.log());
}

#[tokio::test]
async fn a_collector_that_refuses_or_never_answers_is_as_good_as_away() {
    let functions = functions();
    let refusing = receiver::over_http(TcpListener::bind(anywhere()).unwrap(), |_| "503 Busy");
    let server = Server::start(&mut command(&functions, &refusing, "http/protobuf", "20"));
    let line = server.wait_for_line("Metrics are not sent: ");
    assert!(line.contains("the collector answered 503"), "{line}");

    // Connections are made for it by the kernel; it reads nothing.
    let silent = TcpListener::bind(anywhere()).unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    for protocol in ["http/protobuf", "grpc"] {
        let mut server = Server::start(
            command(&functions, &endpoint, protocol, "20").env("OTEL_METRIC_EXPORT_TIMEOUT", "100"),
        );
        let line = server.wait_for_line("Metrics are not sent: ");
        assert!(line.contains("no answer within 100ms"), "{line}");
        evaluate(&server.client(), "echo", "x").await.unwrap();
        server.terminate();
        assert_eq!(server.wait().code(), Some(0));
        // Also where a push may take longer than the end.
        let mut server = Server::start(&mut command(&functions, &endpoint, protocol, "20"));
        server.terminate();
        let begin = Instant::now();
        assert_eq!(server.wait().code(), Some(0));
        assert!(begin.elapsed().as_secs() < 4, "{:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn values_that_cannot_be_meant_are_told_and_functions_run() {
    let functions = functions();
    let server = Server::start(
        command(&functions, "collector:4318", "http/protobuf", "soon")
            .env("OTEL_METRIC_EXPORT_TIMEOUT", "-1"),
    );
    server.wait_for_line(
        "No metrics are sent: OTEL_EXPORTER_OTLP_ENDPOINT: not a URL that begins with http:// or https://",
    );
    evaluate(&server.client(), "echo", "x").await.unwrap();
    let server = Server::start(
        command(&functions, &format!("http://{}", nowhere()), "grpc", "soon")
            .env("OTEL_METRIC_EXPORT_TIMEOUT", "-1"),
    );
    server.wait_for_line("OTEL_METRIC_EXPORT_INTERVAL: `soon` is no number of milliseconds; it is 60000");
    server.wait_for_line("OTEL_METRIC_EXPORT_TIMEOUT: `-1` is no number of milliseconds; it is 30000");
    evaluate(&server.client(), "echo", "x").await.unwrap();
    let (code, _, stderr) = output(&mut command(&functions, "http://c", "http/json", "1"));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("OTEL_EXPORTER_OTLP_PROTOCOL: there is no protocol `http/json`"), "{stderr}");
}

#[tokio::test]
async fn the_console_gets_the_text_of_prometheus() {
    let functions = functions();
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut command = functions.command(&[]);
    command.env("OTEL_METRICS_EXPORTER", "console").stdout(Stdio::from(file.reopen().unwrap()));
    let mut server = Server::start(&mut command);
    evaluate(&server.client(), "echo", "x").await.unwrap();
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
    let text = std::fs::read_to_string(file.path()).unwrap();
    let line = r#"loggia_evaluations_total{image="echo",evaluator="exec",outcome="OK"} 1"#;
    assert!(text.lines().any(|found| found == line) && text.ends_with("# EOF\n"), "{text}");
}

#[tokio::test]
async fn a_console_that_nobody_reads_costs_nothing() {
    let functions = functions();
    let mut command = functions.command(&[]);
    command
        .env("OTEL_METRICS_EXPORTER", "console")
        .env("OTEL_METRIC_EXPORT_INTERVAL", "10")
        .env("OTEL_METRIC_EXPORT_TIMEOUT", "100")
        .stdout(Stdio::piped());
    let mut server = Server::start(&mut command);
    server.wait_for_line("Metrics are not sent: no answer within 100ms");
    evaluate(&server.client(), "echo", "x").await.unwrap();
    server.terminate();
    let begin = Instant::now();
    assert_eq!(server.wait().code(), Some(0));
    assert!(begin.elapsed().as_secs() < 4, "{:?}", begin.elapsed());
    assert_eq!(warnings(&server), 1, "{:#?}", server.log());
}

#[tokio::test]
async fn the_server_in_a_pod_starts_and_sends_nothing() {
    let collector = Collector::default();
    let mut command = support::wrapper(&[], &["/bin/cat"]);
    command
        .env("OTEL_METRICS_EXPORTER", "otlp")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.over_http(anywhere()))
        .env("OTEL_METRIC_EXPORT_INTERVAL", "10");
    let mut server = Server::start(&mut command);
    evaluate(&server.client(), "x", "kind: ResourceList\n").await.unwrap();
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(collector.pushes(), 0);
}
