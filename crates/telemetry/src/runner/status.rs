//! The status page, and the state of the service as the JSON document that it draws.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::http::StatusCode;
use loggia_grpc::{MemoryUse, MessageMemory};
use loggia_pods::{FunctionView, InstanceView, Snapshot};
use serde_json::{Value, json};

use super::recent::{Entry, Figures, Recent};
use crate::Telemetry;
use crate::http::{self, Answer};
use crate::process::Figures as ProcessFigures;

const PAGE: &str = include_str!("status.html");

/// The pages that only a function runner has.
pub(crate) async fn page(telemetry: &Telemetry, path: &str) -> Option<Answer> {
    let (status, kind, text) = match path {
        "/" => (StatusCode::OK, "text/html; charset=utf-8", PAGE.to_owned()),
        "/status.json" => (StatusCode::OK, "application/json", telemetry.status().await.to_string()),
        // For probes where the service speaks TLS, which those of Kubernetes cannot.
        "/healthz" => (StatusCode::OK, "text/plain", "alive\n".to_owned()),
        "/readyz" if telemetry.is_serving() => (StatusCode::OK, "text/plain", "serving\n".to_owned()),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, "text/plain", "not serving\n".to_owned()),
        _ => return None,
    };
    Some(http::page(status, kind, text))
}

impl Telemetry {
    /// What the service does now and did lately. It holds nothing of a package.
    pub async fn status(&self) -> Value {
        let runner = &self.shared.runner;
        let sources = runner.sources.get();
        let snapshot = runner.snapshot().await;
        let recent = runner.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now();
        let phase =
            sources.map(|sources| format!("{:?}", *sources.lifecycle.watch().borrow()).to_lowercase());
        let newest_first = |entries: &std::collections::VecDeque<Entry>| -> Vec<Value> {
            entries.iter().rev().map(entry).collect()
        };
        json!({
            "version": runner.version,
            "now": unix(now),
            "started": unix(runner.started),
            "phase": phase,
            "evaluators": sources.map(|sources| sources.evaluators.clone()).unwrap_or_default(),
            "inFlight": sources.map_or(0, |sources| sources.lifecycle.in_flight()),
            "messages": sources.and_then(|sources| sources.messages.as_ref()).map(messages),
            "residentBytes": ProcessFigures::read().map(|figures| figures.resident_bytes),
            "pool": snapshot.as_ref().map(pool),
            "functions": functions(&recent, snapshot.as_ref()),
            "evaluations": newest_first(&recent.evaluations),
            "errors": newest_first(&recent.errors),
        })
    }
}

fn messages(memory: &MessageMemory) -> Value {
    let MemoryUse { limit, used, waiting, refused } = memory.usage();
    json!({ "limitBytes": limit, "usedBytes": used, "waiting": waiting, "refused": refused })
}

fn pool(snapshot: &Snapshot) -> Value {
    let instances = snapshot.functions.iter().map(|function| function.instances.len()).sum::<usize>();
    json!({
        "pods": instances,
        "waiting": snapshot.functions.iter().map(|function| function.waiting).sum::<usize>(),
        "toWarm": snapshot.to_warm,
        "trouble": snapshot.trouble,
    })
}

/// Every function that was asked for or has pods, in the order of their names.
fn functions(recent: &Recent, snapshot: Option<&Snapshot>) -> Vec<Value> {
    let mut functions: BTreeMap<Arc<str>, (Option<&Figures>, Option<&FunctionView>)> = BTreeMap::new();
    for (image, figures) in &recent.functions {
        functions.entry(Arc::clone(image)).or_default().0 = Some(figures);
    }
    for view in snapshot.map(|snapshot| snapshot.functions.as_slice()).unwrap_or_default() {
        functions.entry(view.image.as_str().into()).or_default().1 = Some(view);
    }
    let shown = |(image, (figures, view)): (Arc<str>, (Option<&Figures>, Option<&FunctionView>))| {
        json!({
            "image": &*image,
            "evaluator": figures.map_or("pod", |figures| figures.evaluator),
            "evaluations": figures.map_or(0, |figures| figures.count),
            "failed": figures.map_or(0, |figures| figures.failed),
            "last": figures.map(|figures| unix(figures.last)),
            "p50": figures.and_then(|figures| figures.percentile(50)).map(millis),
            "p95": figures.and_then(|figures| figures.percentile(95)).map(millis),
            "waiting": view.map_or(0, |view| view.waiting),
            "failure": view.and_then(|view| view.failure.as_deref()),
            "pods": view.map_or_else(Vec::new, |view| view.instances.iter().map(instance).collect()),
        })
    };
    functions.into_iter().map(shown).collect()
}

fn instance(instance: &InstanceView) -> Value {
    let InstanceView { pod, node, state, running, idle, age, ours, outdated } = instance;
    json!({
        "pod": pod,
        "node": node,
        "state": state.name(),
        "load": running,
        "idleSeconds": idle.map(|idle| idle.as_secs()),
        "ageSeconds": age.map(|age| age.as_secs()),
        "ours": ours,
        "outdated": outdated,
    })
}

fn entry(entry: &Entry) -> Value {
    let Entry { at, call, image, evaluator, code, total, queued, called, pod, input, output, cause } = entry;
    json!({
        "at": unix(*at),
        "call": call.to_string(),
        "image": &**image,
        "evaluator": evaluator,
        "outcome": code.name(),
        "total": millis(*total),
        "queue": queued.map(millis),
        "run": called.map(millis),
        "pod": pod.as_deref(),
        "inputBytes": input,
        "outputBytes": output,
        "cause": cause.as_deref(),
    })
}

/// Milliseconds since 1970.
fn unix(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds, to the microsecond.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000_000.0).round() / 1000.0
}
