//! Function pods on a real cluster: the runner as a process, with the rights of a stock installation.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

mod errors;
mod faults;
mod hardening;
mod images;
mod original;
mod pool;
mod queue;
mod replicas;
mod restart;
mod rights;
mod soak;
mod support;
mod templates;
mod tls;
