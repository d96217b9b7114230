//! The habits of Go programs that users' manifests, scripts and eyes rely on.
//!
//! Loggia takes the place of programs written in Go, so it reads their [flag] syntaxes and
//! [durations](duration), [quotes](mod@quote) strings as they do, words [errors of the system](errno_text)
//! and [exits](Exit) alike and writes [log lines](klog) in their shape. Nothing in here knows what the
//! programs are for.

pub mod duration;
mod errno;
mod exit;
pub mod flag;
pub mod klog;
pub mod quote;

pub use duration::Duration;
pub use errno::errno_text;
pub use exit::Exit;
pub use quote::quote;
