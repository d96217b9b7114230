//! The metrics that only a function runner has.

mod messages;
mod observers;

use std::hash::Hash;
use std::sync::Arc;

use loggia_function::Code;
use loggia_pods::{InstanceState, Snapshot};
use loggia_process::Processes;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use super::Sources;
use super::evaluated::Evaluated;
use super::names::Names;
use crate::metrics::{Durations, Rpc, in_milliseconds, milliseconds};

/// The bounds of durations: from what a warm call takes to what a large image takes to be pulled.
const SECONDS: [f64; 16] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// How many images have figures of their own.
const MOST_IMAGES: usize = 200;

/// How many registries have figures of their own.
const MOST_REGISTRIES: usize = 20;

/// The metrics of a function runner.
#[derive(Debug)]
pub(super) struct Metrics {
    images: Names,
    registries: Names,
    evaluations: Family<Evaluation, Counter>,
    evaluation: Durations<ByImage>,
    queue: Durations<ByEvaluator>,
    call: Durations<ByEvaluator>,
    pod_calls: Durations<Rpc>,
    exits: Family<Exit, Counter>,
    denied: Family<RuleLabel, Counter>,
    in_flight: Gauge,
    messages: messages::Messages,
    children: Gauge,
    pods: Family<PodLabels, Gauge>,
    waiters: Family<Image, Gauge>,
    queued: Gauge,
    to_warm: Gauge,
    news: Gauge,
    starts: Family<Start, Counter>,
    start: Histogram,
    phases: Durations<PhaseLabel>,
    removals: Family<Removal, Counter>,
    registry_requests: Family<RegistryRequest, Counter>,
    registry_time: Durations<RegistryLabel>,
    lookups: Family<Lookup, Counter>,
    api_requests: Family<ApiRequest, Counter>,
    api_time: Durations<ApiLabel>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Evaluation {
    image: Arc<str>,
    evaluator: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByImage {
    image: Arc<str>,
    evaluator: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByEvaluator {
    evaluator: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Exit {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RuleLabel {
    rule: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PodLabels {
    image: Arc<str>,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Image {
    image: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Start {
    image: Arc<str>,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabel {
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Removal {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RegistryRequest {
    registry: Arc<str>,
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RegistryLabel {
    registry: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Lookup {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ApiRequest {
    verb: &'static str,
    resource: String,
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ApiLabel {
    verb: &'static str,
    resource: String,
}

// === impl Metrics ===

impl Metrics {
    pub(super) fn new(to: &mut Registry) -> Self {
        Self {
            images: Names::up_to(MOST_IMAGES),
            registries: Names::up_to(MOST_REGISTRIES),
            evaluations: register(
                to,
                "loggia_evaluations",
                "Functions that were run or refused, by image, evaluator and outcome",
                Family::default(),
            ),
            evaluation: register(
                to,
                "loggia_evaluation_duration_seconds",
                "How long evaluations took in all",
                seconds(),
            ),
            queue: register(
                to,
                "loggia_evaluation_queue_duration_seconds",
                "How long evaluations waited for a pod or for a slot for their process",
                seconds(),
            ),
            call: register(
                to,
                "loggia_evaluation_call_duration_seconds",
                "How long the function itself took, the way to its pod included",
                seconds(),
            ),
            pod_calls: register(
                to,
                "rpc_client_duration_milliseconds",
                "How long gRPC calls into function pods took, by method and status",
                Family::new_with_constructor(milliseconds),
            ),
            exits: register(
                to,
                "loggia_process_exits",
                "Ends of functions that ran as processes",
                Family::default(),
            ),
            denied: register(
                to,
                "loggia_denied_calls",
                "Calls that the access config did not let in, by rule",
                Family::default(),
            ),
            children: register(
                to,
                "loggia_processes",
                "Functions that run as processes of this machine now",
                Gauge::default(),
            ),
            in_flight: register(
                to,
                "loggia_calls_in_flight",
                "Calls that are owed an answer now",
                Gauge::default(),
            ),
            messages: messages::Messages::new(to),
            pods: register(
                to,
                "loggia_pods",
                "Function pods in the pool, by image and state",
                Family::default(),
            ),
            waiters: register(
                to,
                "loggia_pod_waiters",
                "Calls that wait for a pod, by image",
                Family::default(),
            ),
            queued: register(
                to,
                "loggia_pod_queue_length",
                "Calls that wait for a pod, in all",
                Gauge::default(),
            ),
            to_warm: register(
                to,
                "loggia_pods_to_warm",
                "Functions that are to be warmed up and have had no turn yet",
                Gauge::default(),
            ),
            news: register(
                to,
                "loggia_pod_watch_up",
                "1 while news of pods arrives from the API server, 0 while it does not",
                Gauge::default(),
            ),
            starts: register(
                to,
                "loggia_pod_starts",
                "Starts of function pods, by outcome",
                Family::default(),
            ),
            start: register(
                to,
                "loggia_pod_start_duration_seconds",
                "How long function pods took from the decision to start one until it answered",
                Histogram::new(SECONDS),
            ),
            phases: register(
                to,
                "loggia_pod_start_phase_duration_seconds",
                "How long each phase of such a start took",
                seconds(),
            ),
            removals: register(
                to,
                "loggia_pod_removals",
                "Function pods that this runner let go, by reason",
                Family::default(),
            ),
            registry_requests: register(
                to,
                "loggia_registry_requests",
                "Requests to image registries, by host and HTTP status",
                Family::default(),
            ),
            registry_time: register(
                to,
                "loggia_registry_request_duration_seconds",
                "How long registries took to answer",
                seconds(),
            ),
            lookups: register(
                to,
                "loggia_registry_lookups",
                "Questions about images, by whether the registry had to be asked",
                Family::default(),
            ),
            api_requests: register(
                to,
                "loggia_kubernetes_requests",
                "Requests to the Kubernetes API server, by verb, resource and HTTP status",
                Family::default(),
            ),
            api_time: register(
                to,
                "loggia_kubernetes_request_duration_seconds",
                "How long the Kubernetes API server took to answer",
                seconds(),
            ),
        }
    }

    /// Counts an evaluation that is over, and returns the label for its image.
    pub(super) fn evaluated(&self, evaluated: &Evaluated) -> Arc<str> {
        let Evaluated { image, evaluator, code, total, recorded, .. } = evaluated;
        // Names of functions that do not exist or may not run must not use up the labels for those that do.
        let kept = !matches!(code, Code::NotFound | Code::InvalidArgument | Code::PermissionDenied);
        let image = self.images.label(image, kept);
        let outcome = code.name();
        let labels = Evaluation { image: Arc::clone(&image), evaluator, outcome };
        self.evaluations.get_or_create(&labels).inc();
        let labels = ByImage { image: Arc::clone(&image), evaluator };
        self.evaluation.get_or_create(&labels).observe(total.as_secs_f64());
        let labels = ByEvaluator { evaluator };
        if let Some(queued) = recorded.queued {
            self.queue.get_or_create(&labels).observe(queued.as_secs_f64());
        }
        if let Some(called) = evaluated.called() {
            self.call.get_or_create(&labels).observe(called.as_secs_f64());
            if recorded.pod.is_some() {
                let rpc = Rpc::new("evaluator.FunctionEvaluator", "EvaluateFunction", code.number());
                self.pod_calls.get_or_create(&rpc).observe(in_milliseconds(called));
            }
        }
        if let Some(exit) = recorded.exit {
            self.exits.get_or_create(&Exit { result: result_of(exit) }).inc();
        }
        image
    }

    /// Shows the service as it is now, and the pool if there is one.
    pub(super) fn look(&self, sources: &Sources, snapshot: Option<&Snapshot>) {
        self.in_flight.set(as_gauge(sources.lifecycle.in_flight()));
        if let Some(messages) = &sources.messages {
            self.messages.look(&messages.usage());
        }
        self.children.set(as_gauge(sources.processes.as_ref().map_or(0, Processes::running)));
        if let Some(snapshot) = snapshot {
            self.show(snapshot);
        }
    }

    pub(super) fn show(&self, snapshot: &Snapshot) {
        self.pods.clear();
        self.waiters.clear();
        let mut queued = 0;
        for function in &snapshot.functions {
            let image = self.images.label(&function.image, true);
            for state in InstanceState::ALL {
                let count = function.instances.iter().filter(|instance| instance.state == state).count();
                let labels = PodLabels { image: Arc::clone(&image), state: state.name() };
                self.pods.get_or_create(&labels).inc_by(as_gauge(count));
            }
            self.waiters.get_or_create(&Image { image }).inc_by(as_gauge(function.waiting));
            queued += function.waiting;
        }
        self.queued.set(as_gauge(queued));
        self.to_warm.set(as_gauge(snapshot.to_warm));
        self.news.set(i64::from(snapshot.trouble.is_none()));
    }
}

fn register<M: Metric + Clone>(to: &mut Registry, name: &str, help: &str, metric: M) -> M {
    to.register(name, help, metric.clone());
    metric
}

fn seconds<L: Clone + Eq + Hash>() -> Durations<L> {
    Family::new_with_constructor(|| Histogram::new(SECONDS))
}

fn as_gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn result_of(exit: loggia_function::Exit) -> &'static str {
    match exit {
        loggia_function::Exit::Code(0) => "success",
        loggia_function::Exit::Code(_) => "failure",
        loggia_function::Exit::Signal { .. } => "signal",
    }
}
