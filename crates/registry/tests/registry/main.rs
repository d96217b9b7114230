//! Loggia against a real registry: every way to serve it, every way to break what lies between.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

mod clock;
mod concurrency;
mod credentials;
mod faults;
mod hostile;
mod metadata;
mod references;
mod secrecy;
mod signatures;
mod support;
mod tls;
