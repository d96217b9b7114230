//! Traces: one from the caller through the runner to the process, sent to a collector that may not be there.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::time::Instant;

use loggia_function::Context;
use loggia_grpc::wire::{EvaluateFunctionRequest, FunctionEvaluatorClient};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use tonic::transport::Endpoint;

mod support;

use support::receiver::{Collector, anywhere, nowhere, text};
use support::{Called as _, Functions, Server, eventually};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

fn serve(functions: &Functions, endpoint: &str, protocol: &str) -> Server {
    Server::start(
        functions
            .command(&[])
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
            .env("OTEL_METRICS_EXPORTER", "none")
            .env("OTEL_SERVICE_NAME", "porch-function-runner")
            .env("OTEL_BSP_SCHEDULE_DELAY", "50"),
    )
}

/// Calls as a caller does that is at a place of a trace.
async fn call(server: &Server, image: &str, traceparent: Option<&str>) -> Result<(), tonic::Status> {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address())).unwrap();
    let mut client = FunctionEvaluatorClient::new(endpoint.connect_lazy());
    let mut request =
        tonic::Request::new(EvaluateFunctionRequest { image: image.into(), resource_list: "x".into() });
    if let Some(parent) = traceparent {
        request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    }
    client.evaluate_function(request).await.map(drop)
}

fn functions() -> Functions {
    Functions::new().with("echo", &["echo"], "cat").with("fails", &["fails"], "echo canary-11 >&2; exit 1")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn find<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name} in {spans:#?}"))
}

/// The tree of one call to an exec function.
fn assert_tree(spans: &[Span]) {
    let server = find(spans, "evaluator.FunctionEvaluator/EvaluateFunction");
    assert_eq!(hex(&server.parent_span_id), CALLER);
    assert_eq!(server.kind(), SpanKind::Server);
    let evaluate = find(spans, "evaluate");
    assert_eq!(evaluate.parent_span_id, server.span_id);
    for name in ["wait", "process"] {
        let part = find(spans, name);
        assert_eq!(part.parent_span_id, evaluate.span_id, "{name}");
        assert!(part.start_time_unix_nano <= part.end_time_unix_nano);
        assert!(part.end_time_unix_nano <= server.end_time_unix_nano + 50_000_000);
    }
    for span in spans {
        assert_eq!(hex(&span.trace_id), TRACE, "{span:#?}");
    }
}

#[tokio::test]
async fn a_call_is_one_trace_from_the_caller_to_the_process() {
    let collector = Collector::default();
    let functions = functions();
    let server = serve(&functions, &collector.over_http(anywhere()), "http/protobuf");
    call(&server, "echo", Some(&format!("00-{TRACE}-{CALLER}-01"))).await.unwrap();
    eventually("all spans arrive", || collector.spans().len() >= 4).await;
    assert_tree(&collector.spans());
    assert_eq!(text(&collector.services()[0], "service.name"), Some("porch-function-runner"));
}

#[tokio::test]
async fn the_same_arrives_over_grpc() {
    let collector = Collector::default();
    let functions = functions();
    let server = serve(&functions, &collector.over_grpc().await, "grpc");
    call(&server, "echo", Some(&format!("00-{TRACE}-{CALLER}-01"))).await.unwrap();
    eventually("all spans arrive", || collector.spans().len() >= 4).await;
    assert_tree(&collector.spans());
}

#[tokio::test]
async fn a_failure_is_marked_and_quotes_nothing_and_a_caller_that_does_not_sample_is_left_alone() {
    let collector = Collector::default();
    let functions = functions();
    let mut server = serve(&functions, &collector.over_http(anywhere()), "http/protobuf");
    call(&server, "echo", Some(&format!("00-{TRACE}-{CALLER}-00"))).await.unwrap();
    call(&server, "fails", None).await.unwrap_err();
    // What is left is sent at the end.
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
    let spans = collector.spans();
    let root = find(&spans, "evaluator.FunctionEvaluator/EvaluateFunction");
    assert!(root.parent_span_id.is_empty(), "a caller without a trace begins one");
    assert_eq!(root.status.as_ref().unwrap().message, "Internal");
    assert!(spans.iter().all(|span| span.trace_id == root.trace_id), "{spans:#?}");
    assert!(!format!("{spans:?}").contains("canary"), "{spans:#?}");
}

#[tokio::test]
async fn the_console_gets_a_line_for_each_span() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let functions = functions();
    let mut command = functions.command(&[]);
    command.env("OTEL_TRACES_EXPORTER", "console").stdout(file.reopen().unwrap());
    let mut server = Server::start(&mut command);
    call(&server, "fails", Some(&format!("00-{TRACE}-{CALLER}-01"))).await.unwrap_err();
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
    let text = std::fs::read_to_string(file.path()).unwrap();
    let spans: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{text}"));
    let (root, evaluate) = (of("evaluator.FunctionEvaluator/EvaluateFunction"), of("evaluate"));
    assert_eq!((&root["trace"], &root["parent"]), (&TRACE.into(), &CALLER.into()));
    assert_eq!((&evaluate["parent"], &evaluate["error"]), (&root["span"], &"Internal".into()));
    assert_eq!(evaluate["attributes"]["loggia.image"], "fails");
    assert!(evaluate["start"].as_f64() <= evaluate["end"].as_f64() && !text.contains("canary"), "{text}");
}

#[tokio::test]
async fn a_collector_that_is_away_costs_nothing() {
    let nowhere = nowhere();
    let functions = functions();
    for protocol in ["http/protobuf", "grpc"] {
        let mut server = serve(&functions, &format!("http://{nowhere}"), protocol);
        let begin = Instant::now();
        for _ in 0..20 {
            call(&server, "echo", None).await.unwrap();
        }
        assert!(begin.elapsed().as_secs() < 5, "{:?}", begin.elapsed());
        server.terminate();
        let begin = Instant::now();
        assert_eq!(server.wait().code(), Some(0));
        assert!(begin.elapsed().as_secs() < 4, "{:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn id_and_trace_go_along_to_the_server_in_a_pod_and_its_time_comes_back() {
    let server =
        Server::start(&mut support::wrapper(&["--verbosity=3"], &["/bin/sh", "-c", "sleep 0.05; cat"]));
    let context = Context::read(|_| None);
    let id = context.id();
    let list = "kind: ResourceList\n";
    let client = server.client();
    let evaluation = client.evaluate("x", list.into(), None);
    let answer = context.scope(evaluation).await.unwrap();
    assert_eq!(answer.resource_list, list);
    server.wait_for_line(&format!("call={id}"));
    let ran = answer.ran.unwrap();
    assert!(ran.as_millis() >= 50 && ran.as_secs() < 10, "{ran:?}");
}
