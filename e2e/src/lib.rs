//! The fixture of tests that need a real Kubernetes.
//!
//! `e2e/cluster/up` starts the cluster and `e2e/cluster/run` runs a command on its node; a test that finds
//! itself elsewhere says so and leaves. [`Cluster`] is the way in:
//!
//! ```no_run
//! # async fn test() -> anyhow::Result<()> {
//! let Some(cluster) = loggia_e2e::Cluster::here() else { return Ok(()) };
//! let namespace = cluster.namespace("example").await?; // Gone again when it is dropped.
//! let runner = namespace.runner().await?; // What a client may do that holds the runner's service account.
//! # Ok(())
//! # }
//! ```

#![allow(
    clippy::disallowed_methods,
    reason = "it is part of tests, and the programs of the cluster are not ours"
)]

mod audit;
mod cluster;
mod namespace;
mod node;
mod part;
mod pod;
mod registry;
mod service;
mod wire;

pub use audit::{Audit, Request};
pub use cluster::Cluster;
pub use namespace::{Namespace, Runner};
pub use node::{Ballast, Footprint, Partition};
pub use part::{Part, Paused, Stopped};
pub use pod::{address, is_ready, kill_container, logs, pause_pod, wait_for, wait_ready};
pub use registry::{Registry, content_tag};
pub use service::{Service, function_image, names_work, push_wrapper, static_program, wrapper_image};
pub use wire::Wire;
