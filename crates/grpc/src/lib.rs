//! The wire: everything that is gRPC, and nothing that is not.
//!
//! [`server`] puts a [`Runtime`](loggia_function::Runtime) behind the [wire] protocol, with health, limits, deadlines and
//! an orderly stop ([`Lifecycle`], [`run`]). [`Client`] reaches one, and [`Remote`] makes it a `Runtime` again. [`status`]
//! is the one place that turns outcomes and errors into gRPC statuses, and back.

mod admission;
mod alert;
mod client;
pub mod connection;
mod cut;
mod departure;
mod gate;
mod headers;
mod health;
mod http2;
mod lifecycle;
mod limits;
mod line;
pub mod memory;
mod memory_pool;
mod observe;
mod peers;
mod preface;
mod remote;
mod routes;
pub mod run;
pub mod server;
mod service;
pub mod status;
pub mod tls;
pub mod wire;

pub use client::{Answer, CallError, Client};
pub use gate::{Admission, Caller, Denial, Gate, Pledge};
pub use headers::{TimeLimit, deadline, time_limit};
pub use lifecycle::{InFlight, Lifecycle, Phase};
pub use limits::Limits;
pub use memory_pool::{MemoryUse, MessageMemory};
pub use observe::{Ended, Observer};
pub use remote::{Remote, answered};
pub use service::{Evaluations, FailureText};
