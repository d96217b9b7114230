//! What a function runner counts, and where it looks for the rest.

use std::process::ExitStatus;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use loggia_evaluator::context::{CallId, Context, Noted, Trace, chance};
use loggia_evaluator::process::Processes;
use loggia_evaluator::{Lifecycle, Phase};
use loggia_pods::{InstanceState, PodEvaluator, Snapshot};
use loggia_registry::Found;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tonic::Code;

use crate::metrics::{Durations, Rpc, in_milliseconds, milliseconds};
use crate::names::Names;
use crate::observed::Evaluated;
use crate::push::{Push, Settings};
use crate::recent::Recent;
use crate::traces::{Spans, Traces};
use crate::{Telemetry, environment};

/// The bounds of durations: from what a warm call takes to what a large image takes to be pulled.
const SECONDS: [f64; 16] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// How many images have figures of their own.
const MOST_IMAGES: usize = 200;

/// How many registries have figures of their own.
const MOST_REGISTRIES: usize = 20;

/// What can be looked at when somebody asks.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub lifecycle: Lifecycle,
    /// The names of the evaluators, in the order in which they are asked.
    pub evaluators: Vec<&'static str>,
    pub processes: Option<Processes>,
    pub pods: Option<PodEvaluator>,
}

/// The part of telemetry that only a function runner has.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) version: &'static str,
    pub(crate) started: SystemTime,
    pub(crate) sources: OnceLock<Sources>,
    pub(crate) recent: Mutex<Recent>,
    pub(crate) traces: OnceLock<Traces>,
    push: Mutex<Option<Push>>,
    images: Names,
    registries: Names,
    evaluations: Family<Evaluation, Counter>,
    evaluation: Durations<ByImage>,
    queue: Durations<ByEvaluator>,
    call: Durations<ByEvaluator>,
    pod_calls: Durations<Rpc>,
    exits: Family<Exit, Counter>,
    in_flight: Gauge,
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

// === impl Runner ===

impl Runner {
    pub(crate) fn new(version: &'static str, registry: &mut Registry) -> Self {
        let by_seconds = || Histogram::new(SECONDS);
        let seconds = by_seconds as fn() -> Histogram;
        let runner = Self {
            version,
            started: SystemTime::now(),
            sources: OnceLock::new(),
            recent: Mutex::default(),
            traces: OnceLock::new(),
            push: Mutex::default(),
            images: Names::up_to(MOST_IMAGES),
            registries: Names::up_to(MOST_REGISTRIES),
            evaluations: Family::default(),
            evaluation: Family::new_with_constructor(seconds),
            queue: Family::new_with_constructor(seconds),
            call: Family::new_with_constructor(seconds),
            pod_calls: Family::new_with_constructor(milliseconds as fn() -> Histogram),
            exits: Family::default(),
            in_flight: Gauge::default(),
            children: Gauge::default(),
            pods: Family::default(),
            waiters: Family::default(),
            queued: Gauge::default(),
            to_warm: Gauge::default(),
            news: Gauge::default(),
            starts: Family::default(),
            start: Histogram::new(SECONDS),
            phases: Family::new_with_constructor(seconds),
            removals: Family::default(),
            registry_requests: Family::default(),
            registry_time: Family::new_with_constructor(seconds),
            lookups: Family::default(),
            api_requests: Family::default(),
            api_time: Family::new_with_constructor(seconds),
        };
        runner.register(registry);
        runner
    }

    fn register(&self, to: &mut Registry) {
        to.register(
            "loggia_evaluations",
            "Functions that were run or refused, by image, evaluator and outcome",
            self.evaluations.clone(),
        );
        to.register(
            "loggia_evaluation_duration_seconds",
            "How long evaluations took in all",
            self.evaluation.clone(),
        );
        to.register(
            "loggia_evaluation_queue_duration_seconds",
            "How long evaluations waited for a pod or for a slot for their process",
            self.queue.clone(),
        );
        to.register(
            "loggia_evaluation_call_duration_seconds",
            "How long the function itself took, the way to its pod included",
            self.call.clone(),
        );
        to.register(
            "rpc_client_duration_milliseconds",
            "How long gRPC calls into function pods took, by method and status",
            self.pod_calls.clone(),
        );
        to.register("loggia_process_exits", "Ends of functions that ran as processes", self.exits.clone());
        to.register(
            "loggia_processes",
            "Functions that run as processes of this machine now",
            self.children.clone(),
        );
        to.register("loggia_calls_in_flight", "Calls that are owed an answer now", self.in_flight.clone());
        to.register("loggia_pods", "Function pods in the pool, by image and state", self.pods.clone());
        to.register("loggia_pod_waiters", "Calls that wait for a pod, by image", self.waiters.clone());
        to.register("loggia_pod_queue_length", "Calls that wait for a pod, in all", self.queued.clone());
        to.register(
            "loggia_pods_to_warm",
            "Functions that are to be warmed up and have had no turn yet",
            self.to_warm.clone(),
        );
        to.register(
            "loggia_pod_watch_up",
            "1 while news of pods arrives from the API server, 0 while it does not",
            self.news.clone(),
        );
        to.register("loggia_pod_starts", "Starts of function pods, by outcome", self.starts.clone());
        to.register(
            "loggia_pod_start_duration_seconds",
            "How long function pods took from the decision to start one until it answered",
            self.start.clone(),
        );
        to.register(
            "loggia_pod_start_phase_duration_seconds",
            "How long each phase of such a start took",
            self.phases.clone(),
        );
        to.register(
            "loggia_pod_removals",
            "Function pods that this runner let go, by reason",
            self.removals.clone(),
        );
        to.register(
            "loggia_registry_requests",
            "Requests to image registries, by host and HTTP status",
            self.registry_requests.clone(),
        );
        to.register(
            "loggia_registry_request_duration_seconds",
            "How long registries took to answer",
            self.registry_time.clone(),
        );
        to.register(
            "loggia_registry_lookups",
            "Questions about images, by whether the registry had to be asked",
            self.lookups.clone(),
        );
        to.register(
            "loggia_kubernetes_requests",
            "Requests to the Kubernetes API server, by verb, resource and HTTP status",
            self.api_requests.clone(),
        );
        to.register(
            "loggia_kubernetes_request_duration_seconds",
            "How long the Kubernetes API server took to answer",
            self.api_time.clone(),
        );
    }

    /// A call's place in a trace, if calls are traced: the caller's, or the beginning of a new one.
    pub(crate) fn placed(&self, context: Context) -> Context {
        if self.traces.get().is_none() {
            return context;
        }
        let trace = match context.trace() {
            Some(trace) => Trace { parent: chance(), ..trace.clone() },
            None => {
                let id = u128::from(chance()) << 64 | u128::from(chance());
                Trace { id, parent: chance(), sampled: true, state: None }
            }
        };
        context.at(trace)
    }

    /// The spans of an evaluation that is about to begin, if it is to be recorded.
    pub(crate) fn spans(&self, context: Option<&Context>) -> Option<Spans> {
        self.traces.get().and(context?.trace()).and_then(Spans::at)
    }

    /// Counts one evaluation that is over.
    pub(crate) fn evaluated(&self, evaluated: &Evaluated) {
        let Evaluated { image, evaluator, code, total, noted, .. } = evaluated;
        // Names that nobody knows must not use up the places of those that somebody does.
        let kept = !matches!(code, Code::NotFound | Code::InvalidArgument);
        let image = self.images.label(image, kept);
        let outcome = loggia_evaluator::code_name(*code);
        let labels = Evaluation { image: Arc::clone(&image), evaluator, outcome };
        self.evaluations.get_or_create(&labels).inc();
        let labels = ByImage { image: Arc::clone(&image), evaluator };
        self.evaluation.get_or_create(&labels).observe(total.as_secs_f64());
        let labels = ByEvaluator { evaluator };
        if let Some(queued) = noted.queued {
            self.queue.get_or_create(&labels).observe(queued.as_secs_f64());
        }
        if let Some(called) = noted.called {
            self.call.get_or_create(&labels).observe(called.as_secs_f64());
            if noted.pod.is_some() {
                let rpc = Rpc::new("evaluator.FunctionEvaluator", "EvaluateFunction", *code);
                self.pod_calls.get_or_create(&rpc).observe(in_milliseconds(called));
            }
        }
        if let Some(exit) = noted.exit {
            self.exits.get_or_create(&Exit { result: result_of(exit) }).inc();
        }
        if let (Some(traces), Some(spans)) = (self.traces.get(), &evaluated.spans) {
            traces.evaluated(spans, evaluated);
        }
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).push(&image, evaluated);
    }

    /// The pool as it is now, if there is one.
    pub(crate) async fn snapshot(&self) -> Option<Snapshot> {
        Some(self.sources.get()?.pods.as_ref()?.snapshot())
    }

    /// Brings up to date what is only looked at when somebody asks.
    pub(crate) fn look(&self, snapshot: Option<&Snapshot>) {
        if let Some(sources) = self.sources.get() {
            self.in_flight.set(as_gauge(sources.lifecycle.in_flight()));
            self.children.set(as_gauge(sources.processes.as_ref().map_or(0, Processes::running)));
        }
        if let Some(snapshot) = snapshot {
            self.show(snapshot);
        }
    }

    pub(crate) fn show(&self, snapshot: &Snapshot) {
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

fn as_gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn result_of(exit: ExitStatus) -> &'static str {
    match exit.code() {
        Some(0) => "success",
        Some(_) => "failure",
        None => "signal",
    }
}

/// The class of a status is not enough to tell 401 from 404; its number is one of few.
fn code_label(code: Option<u16>) -> String {
    code.map_or_else(|| "none".to_owned(), |code| code.to_string())
}

impl Telemetry {
    /// A function ran without an evaluator.
    pub fn ran(
        &self,
        image: &str,
        evaluator: &'static str,
        code: Code,
        total: Duration,
        cause: Option<String>,
    ) {
        let context = Context::current();
        self.shared.runner.evaluated(&Evaluated {
            at: SystemTime::now(),
            call: context.as_ref().map_or_else(CallId::new, Context::id),
            spans: self.shared.runner.spans(context.as_ref()),
            image: image.to_owned(),
            evaluator,
            code,
            total,
            noted: Noted::default(),
            input: None,
            output: None,
            cause,
        });
    }

    /// Sends traces from now on, until [`stop`](Self::stop). Called outside of a runtime it panics.
    pub fn trace(&self, to: environment::Traces) -> Result<(), String> {
        let traces = Traces::new(to).map_err(|error| error.to_string())?;
        let _ = self.shared.runner.traces.set(traces);
        Ok(())
    }

    /// Sends metrics from now on, until [`stop`](Self::stop). Called outside of a runtime it panics.
    pub fn push(&self, settings: Settings) -> Result<(), String> {
        let push = Push::start(self.clone(), settings)?;
        *self.shared.runner.push.lock().unwrap_or_else(PoisonError::into_inner) = Some(push);
        Ok(())
    }

    /// Sends what is left to be sent, which may take a moment.
    pub async fn stop(&self) {
        let push = self.shared.runner.push.lock().unwrap_or_else(PoisonError::into_inner).take();
        let metrics = async {
            if let Some(push) = push {
                push.stop().await;
            }
        };
        let telemetry = self.clone();
        let traces = tokio::task::spawn_blocking(move || {
            if let Some(traces) = telemetry.shared.runner.traces.get() {
                traces.stop();
            }
        });
        let _ = tokio::join!(metrics, traces);
    }

    /// Whether the service takes calls.
    pub(crate) fn is_serving(&self) -> bool {
        let sources = self.shared.runner.sources.get();
        sources.is_some_and(|sources| *sources.lifecycle.watch().borrow() == Phase::Serving)
    }

    /// Says where to look, once that is there.
    pub fn look_at(&self, sources: Sources) {
        let _ = self.shared.runner.sources.set(sources);
    }
}

impl loggia_pods::Observer for Telemetry {
    fn phase(&self, phase: loggia_pods::Phase, took: Duration) {
        let labels = PhaseLabel { phase: phase.name() };
        self.shared.runner.phases.get_or_create(&labels).observe(took.as_secs_f64());
    }

    fn started(&self, image: &str, up: bool, took: Duration) {
        let runner = &self.shared.runner;
        let image = runner.images.label(image, true);
        let outcome = if up { "ready" } else { "failed" };
        runner.starts.get_or_create(&Start { image, outcome }).inc();
        if up {
            runner.start.observe(took.as_secs_f64());
        }
    }

    fn left(&self, _: &str, why: &'static str) {
        self.shared.runner.removals.get_or_create(&Removal { reason: why }).inc();
    }

    fn asked(&self, verb: &'static str, resource: &str, code: Option<u16>, took: Duration) {
        let runner = &self.shared.runner;
        let request = ApiRequest { verb, resource: resource.to_owned(), code: code_label(code) };
        runner.api_requests.get_or_create(&request).inc();
        let labels = ApiLabel { verb, resource: resource.to_owned() };
        runner.api_time.get_or_create(&labels).observe(took.as_secs_f64());
    }
}

impl loggia_registry::Observer for Telemetry {
    fn asked(&self, host: &str, code: Option<u16>, took: Duration) {
        let runner = &self.shared.runner;
        let registry = runner.registries.label(host, true);
        let request = RegistryRequest { registry: Arc::clone(&registry), code: code_label(code) };
        runner.registry_requests.get_or_create(&request).inc();
        runner.registry_time.get_or_create(&RegistryLabel { registry }).observe(took.as_secs_f64());
    }

    fn looked_up(&self, found: Found) {
        self.shared.runner.lookups.get_or_create(&Lookup { result: found.name() }).inc();
    }
}
