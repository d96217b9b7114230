//! Rendering packages: walk them, run their functions, work out what to write back.
//!
//! - [`Renderer`] renders a [`Source`], a folder or a map of files, and gives a [`Rendered`]: resources, results,
//!   status and the [`Changes`](loggia_krm::Changes) to make. It writes nothing itself.
//! - [`Evaluation`] runs a single function on a list of resources.
//! - [`FunctionRuntime`] is a way of running functions: [`Builtin`], [`Exec`], [`Grpc`], and [`Multi`] to try
//!   several in order. [`guard`] runs functions that execute their users' programs in a child with limits.
//! - [`SchemaFolders`] is what built-in functions may read beside their input.
//! - [`task`] is what a package server does around a render: complete, patch and heal a package, render it, and
//!   say what to do with the files. `service` puts it behind gRPC.
//! - [`Progress`] hears what happens while it happens.
//!
//! Messages and status texts are kpt's. Between two built-in functions resources stay trees.

mod call;
mod error;
mod eval;
pub mod guard;
mod image;
mod location;
mod pipeline;
mod progress;
mod render;
mod runtime;
mod schema_folders;
mod select;
#[cfg(feature = "service")]
pub mod service;
mod source;
mod status;
mod suggest;
mod tag;
pub mod task;
mod words;

pub use error::{Cause, RenderError};
pub use eval::{Evaluated, Evaluation};
pub use image::{DEFAULT_PREFIX, ImageError, check_prefix, resolve, with_prefix};
pub use loggia_evaluator::connection::TlsError;
pub use loggia_evaluator::tls::ClientFiles;
pub use pipeline::StepRecord;
pub use progress::{Ending, Progress, Quiet};
pub use render::{Options, Rendered, Renderer};
pub use runtime::{
    Builtin, Call, Exec, FunctionRef, FunctionRuntime, Grpc, Local, Multi, Outcome, Running, RuntimeError,
};
pub use schema_folders::{SchemaFolderError, SchemaFolders};
pub use source::Source;
pub use words::{BadQuoting, split_words};
