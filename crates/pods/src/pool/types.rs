//! The pool's vocabulary: functions, their limits, and why an instance did not start.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use loggia_registry::{ParseError, Reference};

/// A function: an image in its full form, which alone is compared, so that two spellings of one image are one
/// function; and the spelling that its pods are started with.
#[derive(Clone, Debug)]
pub(crate) struct Image(Arc<Names>);

#[derive(Debug)]
struct Names {
    full: String,
    requested: String,
}

/// How many instances a function may have, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The load of an instance at which another one is started.
    pub(crate) max_waitlist_length: usize,
    pub(crate) max_parallel_pods_per_function: usize,
    /// How many idle instances are kept beyond their time to live.
    pub(crate) min_pods_per_function: usize,
    /// The calls that may run in one instance at once.
    pub(crate) max_concurrent_evaluations_per_pod: Option<usize>,
    /// The calls that may wait for an instance.
    pub(crate) max_queue_length: Option<usize>,
    pub(crate) ttl: Duration,
}

/// How long to wait before an instance is started again after one failed.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    pub(crate) least: Duration,
    /// After failures that pass by themselves.
    pub(crate) most_passing: Duration,
    /// After failures that the operator has to fix.
    pub(crate) most_lasting: Duration,
    pub(crate) crowded: Duration,
}

/// Why an instance did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) cause: Cause,
    /// What the caller reads, after the frame that Porch's users know.
    pub(crate) text: String,
}

/// Whether trying again helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// It passes by itself: waiting calls go on waiting.
    Passing,
    /// The operator has to fix something: waiting calls are refused at once.
    Lasting,
    /// Other replicas have as many instances as there may be; calls wait for those.
    Crowded,
}

/// What kept an instance from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The registry did not describe the image.
    Image,
    /// The template of pods cannot be read or used.
    Template,
    /// The API server refused a request or did not answer it.
    Cluster,
    /// As many instances exist as may, or as have names.
    Crowded,
    /// The pod failed before its server answered.
    Failed,
    /// The server in the pod did not answer in time.
    TimedOut,
    /// The Service of the instance selects other pods, too.
    Misrouted,
    Defect,
}

// === impl Image ===

impl Image {
    /// The function that a requested image means.
    pub(crate) fn parse(requested: &str) -> Result<Self, ParseError> {
        Ok(Self::named(&requested.parse()?, requested))
    }

    pub(crate) fn named(reference: &Reference, requested: &str) -> Self {
        Self(Arc::new(Names { full: reference.to_string(), requested: requested.to_owned() }))
    }

    #[cfg(test)]
    pub(crate) fn new(full: impl Into<String>) -> Self {
        let full = full.into();
        Self(Arc::new(Names { requested: full.clone(), full }))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0.full
    }

    /// The image as it was requested, which is what pods run.
    pub(crate) fn requested(&self) -> &str {
        &self.0.requested
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq for Image {
    fn eq(&self, other: &Self) -> bool {
        self.0.full == other.0.full
    }
}

impl Eq for Image {}

impl PartialOrd for Image {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Image {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.full.cmp(&other.0.full)
    }
}

impl Hash for Image {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.full.hash(state);
    }
}

// === impl Backoff ===

impl Default for Backoff {
    fn default() -> Self {
        Self {
            least: Duration::from_millis(500),
            most_passing: Duration::from_secs(5),
            most_lasting: Duration::from_secs(10),
            crowded: Duration::from_millis(500),
        }
    }
}

// === impl Failure ===

impl Failure {
    pub(crate) fn passing(cause: Cause, text: impl Into<String>) -> Self {
        Self { kind: FailureKind::Passing, cause, text: text.into() }
    }

    pub(crate) fn lasting(cause: Cause, text: impl Into<String>) -> Self {
        Self { kind: FailureKind::Lasting, cause, text: text.into() }
    }
}
