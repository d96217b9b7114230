//! What every way of running a function has in common.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tonic::Code;

use crate::Error;

/// One function to be run on one list of resources.
#[derive(Clone)]
pub struct Call {
    /// The function, as the caller named it.
    pub image: String,
    /// A serialized `ResourceList`.
    pub resource_list: Bytes,
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
}

/// What a function gave back.
#[derive(Clone, Default)]
pub struct Answer {
    /// The `ResourceList` that the function wrote.
    pub resource_list: Bytes,
    /// What it wrote on standard error.
    pub log: Bytes,
}

/// The answer to come. Dropping it ends what it started.
pub type Evaluation<'a> = Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send + 'a>>;

/// A way of running functions.
///
/// An evaluator that does not have the function says [`Error::NotFound`], and nothing has happened; any
/// other answer is final.
pub trait Evaluator: fmt::Debug + Send + Sync {
    /// The name that flags and messages use for it.
    fn name(&self) -> &'static str;

    /// Runs the function.
    fn evaluate<'a>(&'a self, call: &'a Call) -> Evaluation<'a>;
}

/// How long before its deadline a caller that goes away is taken to do so because of it: its clock runs ahead of ours
/// by the way of its request.
const EARLY: Duration = Duration::from_millis(100);

// === impl Call ===

impl Call {
    /// Why a call has no answer that nobody waits for any more.
    pub fn given_up(&self) -> (Code, &'static str) {
        match self.deadline {
            Some(deadline) if deadline <= Instant::now() + EARLY => {
                (Code::DeadlineExceeded, "the caller's deadline passed")
            }
            _ => (Code::Cancelled, "the caller went away, or the service stopped"),
        }
    }
}

/// Sizes only: a package may hold secrets.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { image, resource_list, deadline } = self;
        f.debug_struct("Call")
            .field("image", image)
            .field("resource_list", &format_args!("{} bytes", resource_list.len()))
            .field("deadline", deadline)
            .finish()
    }
}

// === impl Answer ===

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource_list, log } = self;
        f.debug_struct("Answer")
            .field("resource_list", &format_args!("{} bytes", resource_list.len()))
            .field("log", &format_args!("{} bytes", log.len()))
            .finish()
    }
}
