//! The conventions of Go programs that users' manifests, scripts and eyes rely on.
//!
//! Loggia takes the place of programs written in Go, so it reads their [flag] syntaxes and
//! [durations](duration), [quotes](mod@quote) strings and reads [amounts](quantity) as they do, words [errors of the system](errno_text),
//! [exits](Exit) and [causes](chain) alike and writes [log lines](klog) in their shape. What comes from outside is made
//! [printable] before people see it. Nothing in here depends
//! on what the programs are for: which events are theirs, for instance, is an argument of [`klog::init`].

mod chain;
pub mod duration;
mod errno;
mod exit;
pub mod flag;
pub mod klog;
mod printable;
pub mod quantity;
pub mod quote;
mod random;

pub use chain::chain;
pub use duration::Duration;
pub use errno::errno_text;
pub use exit::Exit;
pub use printable::{printable, printable_line};
pub use quote::quote;
pub use random::random_id;
