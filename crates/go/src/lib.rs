//! The habits of Go programs that users' manifests, scripts and eyes rely on.
//!
//! Loggia takes the place of programs written in Go, so it reads their [flag] syntaxes and
//! [durations](duration), [quotes](mod@quote) strings as they do and writes [log lines](klog) in their
//! shape. Nothing in here knows what the programs are for.

pub mod duration;
pub mod flag;
pub mod klog;
pub mod quote;
mod random;

pub use duration::Duration;
pub use quote::quote;
pub use random::random_id;
