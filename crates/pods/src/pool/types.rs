//! The pool's vocabulary: the limits of functions, and why an instance did not start.

use std::time::Duration;

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
