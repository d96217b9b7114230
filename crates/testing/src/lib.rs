//! What the tests of several crates share. Only tests depend on it, and it depends on no other crate of the workspace.
//!
//! - [`missing`] leaves a test out with a line, or fails it where `LOGGIA_REQUIRE` says so.
//! - [`eventually`] waits for a condition, with a deadline, where a sleep would only hope.
//! - [`Server`] and its neighbours start the programs of this workspace and look at them from outside.
//! - [`Authority`] signs certificates.
//! - [`Oracle`] asks an original program over a pipe.
//! - [`registry`] starts Debian's registry, and an HTTP server that can misbehave.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "tests may, and this is part of them"
)]

pub mod certificates;
mod digest;
mod oracle;
mod programs;
pub mod registry;
mod require;
mod server;
mod wait;

pub use certificates::Authority;
pub use digest::sha256;
pub use oracle::{Answer, Oracle, cache};
pub use programs::{children_of, is_running, output, program, runner, tool, workers_of, wrapper};
pub use require::{KINDS, left_out, missing};
pub use server::Server;
pub use wait::{PATIENCE, eventually, noted, until, wait_for};
