//! Whether what is emitted is what the documentation says, and the other way round.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use loggia_function::{
    Budget, Call, CallId, Code, Context, Exit, FunctionRef, Image, Knows, Observed, Outcome, Recorded,
    RunError, Running, Runtime,
};
use loggia_grpc::{Ended, Lifecycle};
use loggia_pods::{FunctionView, InstanceState, InstanceView, Observer as _, Phase, Snapshot};
use loggia_registry::{Found, Observer as _};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::resource::v1::Resource;

use super::evaluated::Evaluated;
use super::push;
use crate::{Sources, Telemetry};

fn evaluated(image: &str, code: Code) -> Evaluated {
    Evaluated {
        at: SystemTime::now(),
        call: CallId::new(),
        traced: None,
        image: image.to_owned(),
        evaluator: "pod",
        code,
        total: Duration::from_millis(30),
        recorded: Recorded {
            runtime: Some("pod"),
            queued: Some(Duration::from_millis(10)),
            called: Some(Duration::from_millis(20)),
            ran: None,
            pod: Some("x-v1-1-00".into()),
            exit: Some(Exit::Code(0)),
            results: None,
        },
        input: Some(100),
        output: Some(200),
        cause: (code != Code::Ok).then(|| "exit status 1".to_owned()),
    }
}

fn snapshot() -> Snapshot {
    let instance = |state| InstanceView {
        pod: Some("x-v1-1-00-abcde".to_owned()),
        node: Some("node-1".to_owned()),
        state,
        running: usize::from(state == InstanceState::Busy),
        idle: None,
        age: Some(Duration::from_secs(90)),
        ours: true,
        outdated: false,
    };
    Snapshot {
        functions: vec![FunctionView {
            image: "r.io/x:v1".to_owned(),
            waiting: 3,
            instances: vec![instance(InstanceState::Busy), instance(InstanceState::Busy)],
            failure: Some("no node".to_owned()),
        }],
        to_warm: 2,
        trouble: None,
    }
}

/// What `/metrics` shows of it.
async fn eventful() -> String {
    eventful_telemetry().metrics().await
}

/// Telemetry to which everything has happened once.
fn eventful_telemetry() -> Telemetry {
    let telemetry = Telemetry::new("1.2.3");
    telemetry.look_at(Sources::default());
    let (context, took) = (Context::read(|_| None), Duration::from_millis(7));
    loggia_grpc::Observer::ended(
        &telemetry,
        Ended { service: "s", method: "M", code: tonic::Code::Ok, took, context: &context, caller: None },
    );
    loggia_grpc::Observer::denied(&telemetry, Some("ci"));
    telemetry.shared.runner.note(&evaluated("r.io/x:v1", Code::Ok));
    Phase::ALL.into_iter().for_each(|phase| telemetry.phase(phase, Duration::from_secs(1)));
    telemetry.started("r.io/x:v1", true, Duration::from_secs(2));
    telemetry.left("r.io/x:v1", "expired");
    loggia_pods::Observer::asked(&telemetry, "create", "pods", Some(201), Duration::from_millis(5));
    loggia_registry::Observer::asked(&telemetry, "r.io", None, Duration::from_millis(5));
    telemetry.looked_up(Found::Fetched);
    telemetry.shared.runner.metrics.show(&snapshot());
    telemetry
}

/// The names of families as queries use them, with their kinds.
fn families(text: &str) -> BTreeMap<String, String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types
        .map(|line| {
            let (name, kind) = line.split_once(' ').unwrap();
            let suffix = if kind == "counter" { "_total" } else { "" };
            (format!("{name}{suffix}"), kind.to_owned())
        })
        .collect()
}

/// The rows of the table of metrics in the documentation: name and kind.
fn documented() -> BTreeMap<String, String> {
    let page = include_str!("../../../../docs/operating.md");
    let section = page.split("\n## ").find(|section| section.starts_with("Metrics\n")).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let mut cells = row.split('|').map(|cell| cell.trim().trim_matches('`').to_owned());
        (cells.next().unwrap(), cells.next().unwrap())
    })
    .collect()
}

#[tokio::test]
async fn every_metric_is_documented_and_every_documented_metric_is_emitted() {
    assert_eq!(families(&eventful().await), documented());
}

#[tokio::test]
async fn every_documented_metric_is_sent_to_a_collector() {
    let request = push::request(&eventful_telemetry(), &Resource::default()).await;
    let [resource] = &*request.resource_metrics else { panic!("{request:?}") };
    let [scope] = &*resource.scope_metrics else { panic!("{request:?}") };
    let metrics = &scope.metrics;
    let kind = |metric: &Metric| match metric.data.as_ref().unwrap() {
        Data::Gauge(_) => "gauge",
        Data::Sum(sum) if sum.is_monotonic => "counter",
        Data::Histogram(_) => "histogram",
        other => panic!("{other:?}"),
    };
    let sent: BTreeMap<_, _> =
        metrics.iter().map(|metric| (metric.name.clone(), kind(metric).to_owned())).collect();
    assert_eq!(sent, documented());
    assert_eq!(metrics.len(), sent.len(), "a family is sent twice");
}

#[tokio::test]
async fn the_text_is_what_prometheus_reads() {
    let text = eventful().await;
    assert!(text.ends_with("# EOF\n"), "{text}");
    for line in [
        r#"loggia_build_info{version="1.2.3"} 1"#,
        r#"loggia_evaluations_total{image="r.io/x:v1",evaluator="pod",outcome="OK"} 1"#,
        r#"loggia_pods{image="r.io/x:v1",state="busy"} 2"#,
        r#"loggia_pods{image="r.io/x:v1",state="idle"} 0"#,
        r#"loggia_pod_waiters{image="r.io/x:v1"} 3"#,
        "loggia_pod_queue_length 3",
        "loggia_pod_watch_up 1",
        r#"loggia_registry_requests_total{registry="r.io",code="none"} 1"#,
        r#"loggia_kubernetes_requests_total{verb="create",resource="pods",code="201"} 1"#,
        r#"loggia_pod_start_phase_duration_seconds_count{phase="pull"} 1"#,
        r#"rpc_server_duration_milliseconds_count{rpc_system="grpc",rpc_service="s",rpc_method="M",rpc_grpc_status_code="0"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
    // Porch's own tests look for these prefixes.
    assert!(text.contains("\nrpc_server_") && text.contains("\nrpc_client_"));
}

#[tokio::test]
async fn names_and_units_follow_the_conventions() {
    for (name, kind) in families(&eventful().await) {
        let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(plain, "{name}");
        match kind.as_str() {
            "counter" => assert!(name.ends_with("_total"), "{name}"),
            "histogram" => assert!(name.ends_with("_seconds") || name.starts_with("rpc_"), "{name}"),
            _ => assert!(!name.ends_with("_total"), "{name}"),
        }
    }
}

#[tokio::test]
async fn made_up_images_do_not_multiply_series() {
    let telemetry = Telemetry::new("1");
    for number in 0..1000 {
        telemetry.shared.runner.note(&evaluated(&format!("junk-{number}"), Code::NotFound));
        telemetry.shared.runner.note(&evaluated(&format!("real-{number}"), Code::Ok));
    }
    let text = telemetry.metrics().await;
    let images: BTreeSet<_> =
        text.lines().filter(|line| line.starts_with("loggia_evaluations_total")).collect();
    assert_eq!(images.len(), 200 + 2, "200 images, and the others in both outcomes");
    assert!(!text.contains("junk-"));
    let status = telemetry.status().await;
    assert_eq!(status["functions"].as_array().unwrap().len(), 201);
    assert_eq!(status["evaluations"].as_array().unwrap().len(), 100);
    assert_eq!(status["errors"].as_array().unwrap().len(), 50);
}

/// Waits forever, or fails, as the image says.
#[derive(Debug)]
struct Moody;

impl Runtime for Moody {
    fn name(&self) -> &'static str {
        "exec"
    }

    fn knows(&self, _: &FunctionRef) -> Knows {
        Knows::Yes
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(async move {
            call.record.note(|recorded| recorded.runtime = Some("exec"));
            match call.function.name() {
                "hangs" => std::future::pending().await,
                "fails" => Err(RunError::Unavailable("not now")),
                _ => Ok(Outcome::default()),
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn every_end_of_an_evaluation_is_counted_once() {
    let telemetry = Telemetry::new("1");
    let lifecycle = Lifecycle::default();
    lifecycle.serve();
    telemetry.look_at(Sources { lifecycle, evaluators: vec!["exec"], ..Sources::default() });
    let observed = Observed { runtime: Moody, observer: Arc::new(telemetry.clone()) };
    let now = tokio::time::Instant::now();
    let call = |image: &str, deadline| {
        Call::of_image(Image::new(image), "in".into(), Budget { deadline, ..Budget::UNBOUNDED })
    };
    observed.run(&call("works", None)).await.unwrap();
    observed.run(&call("fails", None)).await.unwrap_err();
    for deadline in [None, Some(now + Duration::from_secs(1))] {
        let hangs = call("hangs", deadline);
        tokio::time::timeout(Duration::from_secs(5), observed.run(&hangs)).await.unwrap_err();
    }
    let text = telemetry.metrics().await;
    for (image, outcome) in
        [("works", "OK"), ("fails", "Unavailable"), ("hangs", "Canceled"), ("hangs", "DeadlineExceeded")]
    {
        let line =
            format!(r#"loggia_evaluations_total{{image="{image}",evaluator="exec",outcome="{outcome}"}} 1"#);
        assert!(text.contains(&line), "{line} is not in {text}");
    }
    let status = telemetry.status().await;
    assert_eq!(status["phase"], "serving");
    assert_eq!(status["evaluators"][0], "exec");
    let outcomes: Vec<_> =
        status["evaluations"].as_array().unwrap().iter().map(|entry| entry["outcome"].clone()).collect();
    assert_eq!(outcomes, ["DeadlineExceeded", "Canceled", "Unavailable", "OK"]);
    assert_eq!(status["errors"][2]["cause"], "not now");
    let works = status["functions"].as_array().unwrap().iter().find(|one| one["image"] == "works").unwrap();
    assert_eq!((&works["evaluations"], &works["failed"]), (&1.into(), &0.into()));
}

/// The metrics that a text names, as queries name them.
fn named_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
    let ours = words.filter(|word| {
        ["loggia_", "process_", "rpc_"]
            .iter()
            .any(|prefix| word.starts_with(prefix) && word.len() > prefix.len())
    });
    ours.map(str::to_owned).collect()
}

#[tokio::test]
async fn every_metric_of_the_dashboard_and_the_alerts_exists() {
    let families = families(&eventful().await);
    let mut series: BTreeSet<String> = BTreeSet::new();
    for (name, kind) in &families {
        match kind.as_str() {
            "histogram" => series.extend(["_bucket", "_sum", "_count"].map(|part| format!("{name}{part}"))),
            _ => drop(series.insert(name.clone())),
        }
    }
    let dashboard: serde_json::Value =
        serde_json::from_str(include_str!("../../../../deploy/observability/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let expressions: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(expressions.len() > 20);
    let alerts = include_str!("../../../../deploy/observability/alerts.yaml");
    let rules = alerts.lines().filter(|line| !line.trim_start().starts_with("summary:"));
    let rules = rules.collect::<Vec<_>>().join("\n");
    for text in expressions.iter().copied().chain([rules.as_str()]) {
        let named = named_in(text);
        assert!(!named.is_empty(), "{text}");
        for name in named {
            assert!(series.contains(&name), "{name} of {text} does not exist");
        }
    }
}

#[test]
fn every_alert_is_documented() {
    let alerts = include_str!("../../../../deploy/observability/alerts.yaml");
    let page = include_str!("../../../../docs/operating.md");
    let names: Vec<_> = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(names.len() >= 5);
    for name in &names {
        assert!(page.contains(&format!("| `{name}` |")), "{name} is not in docs/operating.md");
    }
    let section = page.split("\n## ").find(|section| section.starts_with("Alerts\n")).unwrap();
    assert_eq!(section.lines().filter(|line| line.starts_with("| `")).count(), names.len());
}
