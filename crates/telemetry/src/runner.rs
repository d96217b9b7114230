//! What only a function runner has: its own metrics, the status page, traces, and metrics that are sent.

mod evaluated;
mod metrics;
mod names;
mod otlp;
pub mod push;
mod recent;
mod status;
#[cfg(test)]
mod tests;
mod traces;

use std::error::Error;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use loggia_function::{Context, Trace};
use loggia_go::{chain, random_id};
use loggia_grpc::{Ended, Lifecycle, MessageMemory, Phase};
use loggia_pods::{PodEvaluator, Snapshot};
use loggia_process::Processes;
use prometheus_client::encoding::prometheus_protobuf;
use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::MetricFamily;
use prometheus_client::registry::Registry;

use self::evaluated::Evaluated;
use self::metrics::Metrics;
use self::push::{Push, Settings};
use self::recent::Recent;
use self::traces::Traces;
use crate::{Telemetry, environment};

pub(crate) use self::status::page;

/// What can be looked at on demand.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub lifecycle: Lifecycle,
    /// The names of the evaluators, in the order in which they are tried.
    pub evaluators: Vec<&'static str>,
    pub processes: Option<Processes>,
    pub pods: Option<PodEvaluator>,
    /// The memory for messages.
    pub messages: Option<MessageMemory>,
}

/// Why traces or metrics cannot be sent at all, with every cause.
#[derive(Debug, thiserror::Error)]
#[error("{}", chain(&**.0))]
pub struct SetupError(Box<dyn Error + Send + Sync>);

/// The part of telemetry that only a function runner has.
#[derive(Debug)]
pub(crate) struct Runner {
    version: &'static str,
    started: SystemTime,
    metrics: Metrics,
    sources: OnceLock<Sources>,
    recent: Mutex<Recent>,
    traces: OnceLock<Traces>,
    push: Mutex<Option<Push>>,
}

// === impl Runner ===

impl Runner {
    pub(crate) fn new(version: &'static str, registry: &mut Registry) -> Self {
        Self {
            version,
            started: SystemTime::now(),
            metrics: Metrics::new(registry),
            sources: OnceLock::new(),
            recent: Mutex::default(),
            traces: OnceLock::new(),
            push: Mutex::default(),
        }
    }

    /// A call's place in a trace, if calls are traced: the caller's, or the beginning of a new one.
    pub(crate) fn placed(&self, context: Context) -> Context {
        if self.traces.get().is_none() {
            return context;
        }
        let trace = match context.trace() {
            Some(trace) => Trace { parent: random_id(), ..trace.clone() },
            None => {
                let id = u128::from(random_id()) << 64 | u128::from(random_id());
                Trace { id, parent: random_id(), sampled: true, state: None }
            }
        };
        context.at(trace)
    }

    /// The place in a trace of the work inside an evaluation that begins, if it is to be recorded.
    pub(crate) fn inside(&self, trace: Option<&Trace>) -> Option<Trace> {
        let trace = self.traces.get().and(trace).filter(|trace| trace.sampled)?;
        Some(Trace { parent: random_id(), ..trace.clone() })
    }

    /// Traces a call that was served.
    pub(crate) fn served(&self, call: &Ended<'_>) {
        if let Some(traces) = self.traces.get() {
            traces.served(call);
        }
    }

    /// Counts a call that was not let in.
    pub(crate) fn denied(&self, rule: Option<&str>) {
        self.metrics.denied(rule);
    }

    /// Counts, traces and remembers one evaluation that is over.
    pub(crate) fn evaluated(&self, ended: &loggia_function::Ended<'_>) {
        self.note(&Evaluated::from(ended));
    }

    fn note(&self, evaluated: &Evaluated) {
        let image = self.metrics.evaluated(evaluated);
        if let Some(traces) = self.traces.get() {
            traces.evaluated(evaluated);
        }
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).push(&image, evaluated);
    }

    /// The pool as it is now, if there is one.
    pub(crate) async fn snapshot(&self) -> Option<Snapshot> {
        Some(self.sources.get()?.pods.as_ref()?.snapshot())
    }

    /// Brings up to date what is only looked at on demand.
    pub(crate) fn look(&self, snapshot: Option<&Snapshot>) {
        if let Some(sources) = self.sources.get() {
            self.metrics.look(sources, snapshot);
        }
    }
}

// === impl SetupError ===

impl SetupError {
    fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}

// === impl Telemetry ===

impl Telemetry {
    /// Sends traces from now on, until [`stop`](Self::stop). Called outside of a runtime it panics.
    pub fn trace(&self, to: environment::Traces) -> Result<(), SetupError> {
        let traces = Traces::new(to).map_err(SetupError)?;
        let _ = self.shared.runner.traces.set(traces);
        Ok(())
    }

    /// Sends metrics from now on, until [`stop`](Self::stop). Called outside of a runtime it panics.
    pub fn push(&self, settings: Settings) -> Result<(), SetupError> {
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

    /// All metrics as messages.
    pub(crate) async fn families(&self) -> Vec<MetricFamily> {
        // It fails for exemplars with a time before 1970, and there are no exemplars.
        self.read(|registry| prometheus_protobuf::encode(registry).unwrap_or_default()).await
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
