//! Rendering packages: walk them, run their functions, work out what to write back.
//!
//! - [`Renderer`] renders a [`Source`], a folder or a map of files, and gives a [`Rendered`]: resources, results,
//!   status and the [`Changes`](loggia_krm::Changes) to make. It writes nothing itself.
//! - [`Evaluation`] runs a single function on a list of resources.
//! - [`Progress`] hears what happens while it happens.
//!
//! Functions are run by a [`Runtime`](loggia_function::Runtime); which one is the caller's choice. Messages and
//! status texts are kpt's. Between two built-in functions resources stay trees.

mod branches;
mod call;
mod error;
mod eval;
mod limits;
mod location;
mod pipeline;
mod places;
mod progress;
mod render;
mod select;
mod source;
mod status;

pub use error::{Cause, RenderError};
pub use eval::{Evaluated, Evaluation};
pub use limits::Limits;
pub use loggia_krm::package::Paths;
pub use pipeline::StepRecord;
pub use progress::{Ending, Progress, Quiet};
pub use render::{Options, Rendered, Renderer};
pub use source::Source;
