//! The contract between whoever wants a function run and whoever runs it.
//!
//! An [`Evaluator`] takes a [`Call`] and gives an [`Answer`]. Two of them are here:
//! [`Exec`] for programs on this machine, [`Multi`] to try several in order.
//! [`server`] puts one behind the [wire] protocol, [`Client`] reaches one over it, and [`process`] is the
//! one place that starts a child process. [`context`] is what goes along with a call.

#[cfg(feature = "tls")]
mod alert;
#[cfg(feature = "client")]
mod client;
pub mod connection;
pub mod context;
mod error;
mod evaluator;
#[cfg(feature = "exec")]
pub mod exec;
mod health;
mod http2;
mod lifecycle;
pub mod memory;
mod multi;
mod observe;
pub mod process;
pub mod resource_list;
pub mod server;
mod service;
#[cfg(feature = "tls")]
pub mod tls;
pub mod wire;

#[cfg(feature = "client")]
pub use client::{CallError, Client};
pub use error::{Error, Exit, causes, code_name};
pub use evaluator::{Answer, Call, Evaluation, Evaluator};
#[cfg(feature = "exec")]
pub use exec::Exec;
pub use lifecycle::{InFlight, Lifecycle, Phase};
pub use multi::Multi;
pub use observe::{Ended, Observer};
