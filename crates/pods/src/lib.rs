//! Function pods on Kubernetes: the pool, the pod manager, templates, garbage collection.
//!
//! A call asks the [pool] for an instance of its function and gets one at once from the pool's own state,
//! or waits for one that is started. What the cluster knows arrives by [watch], is matched with the pool's
//! instances by the [roster], and never costs a call anything.

mod blueprint;
mod cache_config;
mod cluster;
mod count;
mod diagnosis;
mod evaluator;
#[cfg(test)]
mod fake;
mod functions;
mod names;
mod observe;
mod pod_tls;
mod pool;
mod remove;
mod roster;
mod secret;
mod settings;
mod start;
mod template;
mod templates;
mod watch;

pub use cluster::{ConnectError, connect};
pub use evaluator::{PodEvaluator, StartError};
pub use observe::{FunctionView, InstanceState, InstanceView, Observer, Phase, Snapshot};
pub use settings::{PodAddress, PodSecurity, PodTls, Settings};
