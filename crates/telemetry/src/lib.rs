//! What an operator sees of a running service: metrics, and the status page.
//!
//! [`Telemetry`] is told by others what happens, each by the observer that it offers, and shows it over
//! [`http`]. What changes all the time and can be looked at (the pool, the process) is looked at when
//! somebody asks; only what would be lost is counted as it happens.

pub mod environment;
pub mod http;
mod metrics;
mod process;

#[cfg(feature = "runner")]
mod names;
#[cfg(feature = "runner")]
mod observed;
#[cfg(feature = "runner")]
mod recent;
#[cfg(feature = "runner")]
mod runner;
#[cfg(feature = "runner")]
mod status;
#[cfg(all(test, feature = "runner"))]
mod tests;
#[cfg(feature = "runner")]
mod traces;

use std::sync::Arc;

#[cfg(feature = "runner")]
use loggia_evaluator::context::Context;
use loggia_evaluator::{Ended, Observer};

pub use environment::Environment;
#[cfg(feature = "runner")]
pub use observed::Observed;
#[cfg(feature = "runner")]
pub use runner::Sources;

/// What is known of this service. Clones share it.
#[derive(Clone, Debug)]
pub struct Telemetry {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) metrics: metrics::Metrics,
    #[cfg(feature = "runner")]
    pub(crate) runner: runner::Runner,
}

// === impl Telemetry ===

impl Telemetry {
    /// Telemetry of a program of this version. Nothing is served yet.
    pub fn new(version: &'static str) -> Self {
        let mut metrics = metrics::Metrics::new(version);
        #[cfg(feature = "runner")]
        let runner = runner::Runner::new(version, metrics.registry());
        metrics.seal();
        let shared = Shared {
            metrics,
            #[cfg(feature = "runner")]
            runner,
        };
        Self { shared: Arc::new(shared) }
    }

    /// All metrics in the text form of OpenMetrics.
    pub async fn metrics(&self) -> String {
        #[cfg(feature = "runner")]
        self.shared.runner.look().await;
        self.shared.metrics.text()
    }
}

impl Observer for Telemetry {
    #[cfg(feature = "runner")]
    fn began(&self, context: Context) -> Context {
        self.shared.runner.placed(context)
    }

    fn ended(&self, call: Ended<'_>) {
        self.shared.metrics.served(&call);
        #[cfg(feature = "runner")]
        if let Some(traces) = self.shared.runner.traces.get() {
            traces.served(&call);
        }
    }
}
