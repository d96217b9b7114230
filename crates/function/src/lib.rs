//! The contract for running a function.
//!
//! A [`Runtime`] runs a [`Call`] and gives an [`Outcome`], or a [`RunError`] if the function had no part in what went
//! wrong. A function that fails is an `Outcome`. [`Chain`] tries several runtimes in order. An [`Image`] is made once,
//! where it enters; a [`Budget`] bounds a call; a [`Record`] holds what runtimes learn about it, and an [`Observer`]
//! hears of every call that is over. [`policy`] says which images may run at all. [`context`] is what travels along with
//! a call: its id, its trace, and what its caller may run.

mod call;
mod chain;
mod code;
pub mod context;
mod error;
pub mod image;
mod observe;
mod outcome;
pub mod policy;
mod runtime;

pub use call::{Budget, Call, FunctionRef, Payload, Record, Recorded};
pub use chain::Chain;
pub use code::Code;
pub use context::{CallId, Context, Trace};
pub use error::{Guarded, InvalidOutput, Kind, Remote, RunError, SIZE_FLAGS};
pub use image::{Image, Reference};
pub use observe::{Ended, Observed, Observer, Watch};
pub use outcome::{Exit, Outcome, Stderr};
pub use policy::Grant;
pub use runtime::{Knows, Running, Runtime};
