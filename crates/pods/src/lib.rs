//! Function pods on Kubernetes: the pool, the pod manager, templates, garbage collection.
//!
//! A call asks the [pool] for an instance of its function. It gets a warm one under one short lock, or waits for one that
//! is started. Objects of the cluster arrive by [watch] and are matched with the pool's instances by the [roster]; no
//! call waits for the API server while a warm instance exists.

mod blueprint;
mod cache_config;
mod clock;
mod cluster;
mod count;
mod diagnosis;
mod evaluator;
#[cfg(test)]
mod fake;
mod functions;
mod kube_text;
mod names;
mod observe;
mod pod_tls;
mod pool;
mod remove;
mod roster;
mod secret;
mod settings;
mod start;
mod status;
mod template;
mod templates;
mod user_namespaces;
mod watch;

pub use cluster::{ConnectError, connect};
pub use evaluator::{PodEvaluator, StartError};
pub use observe::{FunctionView, InstanceState, InstanceView, Observer, Phase, Snapshot};
pub use settings::{PodAddress, PodResources, PodSecurity, PodTls, Settings};
pub use user_namespaces::UserNamespaces;
