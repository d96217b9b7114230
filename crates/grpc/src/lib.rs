//! The wire: everything that is gRPC, and nothing that is not.
//!
//! [`server`] puts a [`Runtime`](loggia_function::Runtime) behind the [wire] protocol, with health, limits, deadlines and
//! an orderly stop ([`Lifecycle`], [`run`]). [`Client`] reaches one, and [`Remote`] makes it a `Runtime` again. [`status`]
//! is the one place that turns outcomes and errors into gRPC statuses, and back.

mod alert;
mod client;
pub mod connection;
mod cut;
mod gate;
mod headers;
mod health;
mod http2;
mod lifecycle;
pub mod memory;
mod observe;
mod preface;
mod remote;
pub mod run;
pub mod server;
mod service;
pub mod status;
pub mod tls;
pub mod wire;

pub use client::{Answer, CallError, Client};
pub use gate::{Admission, Caller, Denial, Gate, Pledge};
pub use headers::deadline;
pub use lifecycle::{InFlight, Lifecycle, Phase};
pub use observe::{Ended, Observer};
pub use remote::{Remote, answered};
pub use service::{Evaluations, FailureText};
