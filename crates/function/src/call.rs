//! One function to be run on one list of resources.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use loggia_krm::ResourceList;
use tokio::time::Instant;

use crate::{Code, Exit, Image};

/// How long before its deadline a caller that goes away is taken to do so because of it: its clock runs ahead of ours
/// by the time that its request travelled.
const EARLY: Duration = Duration::from_millis(100);

/// What a caller wants to have run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FunctionRef {
    Image(Image),
    /// A command line of this machine.
    Command(Arc<str>),
}

/// One function to be run on one list.
#[derive(Debug)]
pub struct Call {
    pub function: FunctionRef,
    /// The `ResourceList` that the function gets, its config included.
    pub input: Payload,
    /// The package's directory, if it is on disk.
    pub directory: Option<PathBuf>,
    pub budget: Budget,
    pub record: Record,
}

/// What a call may use. The runtime that does the work keeps to it.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    /// The most bytes that the function may write to standard output.
    pub output: usize,
}

/// A `ResourceList` as text or as a tree, in the form in which it was made.
#[derive(Clone)]
pub enum Payload {
    Bytes(Bytes),
    List(ResourceList),
}

/// What runtimes learn about a call while it runs.
#[derive(Debug, Default)]
pub struct Record(Mutex<Recorded>);

/// See [`Record`].
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// The name of the runtime that took the call.
    pub runtime: Option<&'static str>,
    /// How long the call waited for its turn, over all attempts.
    pub queued: Option<Duration>,
    /// How long the request to a pod took, with the way there and back.
    pub called: Option<Duration>,
    /// How long the function's process ran.
    pub ran: Option<Duration>,
    /// The pod that it ran in.
    pub pod: Option<Arc<str>>,
    /// How its process ended, if it was a process of this machine.
    pub exit: Option<Exit>,
    /// How many results a function that failed wrote, if they were read.
    pub results: Option<usize>,
}

// === impl FunctionRef ===

impl FunctionRef {
    /// The image as it was written, or the command.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Image(image) => image.written(),
            Self::Command(command) => command,
        }
    }

    /// The image, if it is one.
    #[must_use]
    pub fn image(&self) -> Option<&Image> {
        match self {
            Self::Image(image) => Some(image),
            Self::Command(_) => None,
        }
    }
}

impl fmt::Display for FunctionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// === impl Call ===

impl Call {
    /// A call of an image on a list as text.
    #[must_use]
    pub fn of_image(image: Image, input: Bytes, budget: Budget) -> Self {
        Self {
            function: FunctionRef::Image(image),
            input: Payload::Bytes(input),
            directory: None,
            budget,
            record: Record::default(),
        }
    }

    /// The code and the cause to report when the caller is gone before the answer.
    #[must_use]
    pub fn given_up(&self) -> (Code, &'static str) {
        match self.budget.deadline {
            Some(deadline) if deadline <= Instant::now() + EARLY => {
                (Code::DeadlineExceeded, "the caller's deadline passed")
            }
            _ => (Code::Cancelled, "the caller went away, or the service stopped"),
        }
    }
}

// === impl Budget ===

impl Budget {
    /// No deadline and no limit on what a function may write.
    pub const UNBOUNDED: Self = Self { deadline: None, output: usize::MAX };

    /// The same, with a deadline that is not later than this one.
    #[must_use]
    pub fn until(self, deadline: Option<Instant>) -> Self {
        Self { deadline: [self.deadline, deadline].into_iter().flatten().min(), ..self }
    }
}

// === impl Payload ===

impl Payload {
    /// The list as text.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::List(list) => list.emit().into(),
        }
    }

    /// The size of the list as text, where that is known without making the text.
    #[must_use]
    pub fn size(&self) -> Option<usize> {
        match self {
            Self::Bytes(bytes) => Some(bytes.len()),
            Self::List(_) => None,
        }
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::Bytes(Bytes::new())
    }
}

/// Sizes only: a package may hold secrets.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::List(list) => write!(f, "{} resources", list.items.len()),
        }
    }
}

// === impl Record ===

impl Record {
    /// Writes something down.
    pub fn note(&self, write: impl FnOnce(&mut Recorded)) {
        write(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What was written down so far.
    #[must_use]
    pub fn read(&self) -> Recorded {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_leaves_at_its_deadline_ran_out_of_time() {
        let call = |deadline| {
            let budget = Budget { deadline, ..Budget::UNBOUNDED };
            Call::of_image(Image::new("x:v1"), Bytes::new(), budget).given_up().0
        };
        assert_eq!(call(None), Code::Cancelled);
        assert_eq!(call(Some(Instant::now() + Duration::from_millis(50))), Code::DeadlineExceeded);
        assert_eq!(call(Some(Instant::now() + Duration::from_secs(5))), Code::Cancelled);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_deadline_counts() {
        let (soon, late) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        let budget = Budget { deadline: Some(late), ..Budget::UNBOUNDED };
        assert_eq!(budget.until(Some(soon)).deadline, Some(soon));
        assert_eq!(budget.until(None).deadline, Some(late));
        assert_eq!(Budget::UNBOUNDED.until(None).deadline, None);
    }
}
