//! The words between the pool and the rest: what it is told, and what it wants done.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::{Failure, Image, Limits};

/// One call, numbered in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CallId(pub(crate) u64);

/// One instance: a function pod with its Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct InstanceId(pub(crate) u64);

/// All that the pool is ever told.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A call wants an instance of a function.
    Asked { call: CallId, image: Image },
    /// A call is over: it was answered, or failed, or gave up waiting.
    Ended { call: CallId },
    /// A function is to have an instance before anybody asks.
    Warm { image: Image },
    /// An instance that was to be started, checked or taken over is ready, or will never be.
    Started { instance: InstanceId, outcome: Result<(), Arc<Failure>> },
    /// A call found its connection broken.
    Broken { instance: InstanceId },
    /// The answer to [`Effect::Check`].
    Checked { instance: InstanceId, healthy: bool },
    /// The cluster has an instance that this pool did not start.
    Found { instance: InstanceId, image: Image, found: Found },
    /// The cluster says how an instance is.
    Seen { instance: InstanceId, sight: Sight },
    /// Somebody else wants an instance to be kept until then.
    Held { instance: InstanceId, until: Instant },
    /// An instance was made from another template than one would be now, or no longer so.
    Outdated { instance: InstanceId, outdated: bool },
    /// The settings of functions changed.
    Limits { defaults: Limits, functions: HashMap<Image, Limits> },
    /// The time that [`State::next_wake`](super::state::State::next_wake) named has come.
    Tick,
    /// Time to look for instances of a function that are no longer used.
    Scan { image: Image },
}

/// What is known of an instance that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) outdated: bool,
    /// Until when somebody wants it to be kept.
    pub(crate) held_until: Instant,
}

/// How the cluster sees an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    Ready,
    /// It was ready and is not now.
    NotReady,
    /// It is about to go.
    Terminating,
    /// It ended by itself, or was evicted.
    Failed,
    Gone,
}

/// All that the pool ever wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The call may use the instance.
    Answer { call: CallId, instance: InstanceId },
    /// The call gets no instance.
    Refuse { call: CallId, refusal: Refusal },
    /// Start an instance and report [`Event::Started`]. There may be `most` of the function in the cluster.
    Start { instance: InstanceId, image: Image, most: usize },
    /// See whether an instance answers, and report [`Event::Started`] for one that was found and
    /// [`Event::Checked`] for any other.
    Check { instance: InstanceId },
    /// Tell the calls that run in an instance that no answer will come.
    Abandon { instance: InstanceId },
    /// Remove an instance. The pool has forgotten it, and nobody uses it.
    Delete { instance: InstanceId, why: Reason },
    /// Forget an instance that is somebody else's to remove.
    Forget { instance: InstanceId },
    /// Tell the others that an instance is wanted until then.
    Hold { instance: InstanceId, until: Instant },
}

/// Why a call gets no instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// As many wait already as may.
    QueueFull { waiting: usize },
    /// No instance could be had.
    NoInstance(Arc<Failure>),
}

/// Why an instance goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Expired,
    NeverReady,
    Broken,
    NotReady,
    Failed,
    Gone,
    Outdated,
}

// === impl Reason ===

impl Reason {
    /// One word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::NeverReady => "never_ready",
            Self::Broken => "broken",
            Self::NotReady => "not_ready",
            Self::Failed => "failed",
            Self::Gone => "gone",
            Self::Outdated => "outdated",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "nobody used it for its time to live",
            Self::NeverReady => "it did not become ready",
            Self::Broken => "its server does not answer",
            Self::NotReady => "it is no longer ready",
            Self::Failed => "it failed",
            Self::Gone => "it was deleted",
            Self::Outdated => "another one with the current template took its place",
        })
    }
}
