//! Installations on a real cluster, with function-runner in a pod and the names that manifests in use have.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

mod shipped;
mod support;
mod swap;
