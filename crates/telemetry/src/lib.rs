//! What an operator sees of a running service: metrics, and the status page.
//!
//! [`Telemetry`] implements the observers of the other crates, and serves what it heard over [`http`]. What can be read at
//! any time (the pool, the process) is read on demand; only what would be lost is counted as it happens.

pub mod environment;
pub mod http;
mod metrics;
mod process;
#[cfg(feature = "runner")]
mod runner;
#[cfg(not(feature = "runner"))]
#[path = "no_runner.rs"]
mod runner;

use std::sync::{Arc, Mutex, PoisonError};

use loggia_function::{Context, Trace};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

pub use environment::Environment;
pub use runner::push;
#[cfg(feature = "runner")]
pub use runner::{SetupError, Sources};

/// What is known of this service. Clones share it.
#[derive(Clone, Debug)]
pub struct Telemetry {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    /// Locked while the figures that are read on demand are updated and encoded.
    registry: Mutex<Registry>,
    pub(crate) metrics: metrics::Metrics,
    pub(crate) runner: runner::Runner,
}

// === impl Telemetry ===

impl Telemetry {
    /// Telemetry of a program of this version. Nothing is served yet.
    pub fn new(version: &'static str) -> Self {
        let mut registry = Registry::default();
        let shared = Shared {
            metrics: metrics::Metrics::new(version, &mut registry),
            runner: runner::Runner::new(version, &mut registry),
            registry: Mutex::new(registry),
        };
        Self { shared: Arc::new(shared) }
    }

    /// All metrics in the text form of OpenMetrics.
    pub async fn metrics(&self) -> String {
        let mut text = String::new();
        // Only a writer could fail, and a string does not.
        let _ = self.read(|registry| encode(&mut text, registry)).await;
        text
    }

    /// Reads the registry after what is only looked at on demand was brought up to date.
    pub(crate) async fn read<T>(&self, read: impl FnOnce(&Registry) -> T) -> T {
        let snapshot = self.shared.runner.snapshot().await;
        let registry = self.shared.registry.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.runner.look(snapshot.as_ref());
        read(&registry)
    }
}

/// Every function that was run, also for a package.
impl loggia_function::Observer for Telemetry {
    fn began(&self, trace: Option<&Trace>) -> Option<Trace> {
        self.shared.runner.inside(trace)
    }

    fn ended(&self, ended: &loggia_function::Ended<'_>) {
        self.shared.runner.evaluated(ended);
    }
}

/// Every call of every method.
impl loggia_grpc::Observer for Telemetry {
    fn began(&self, context: Context) -> Context {
        self.shared.runner.placed(context)
    }

    fn ended(&self, call: loggia_grpc::Ended<'_>) {
        self.shared.metrics.served(&call);
        self.shared.runner.served(&call);
    }

    fn denied(&self, rule: Option<&str>) {
        self.shared.runner.denied(rule);
    }
}
