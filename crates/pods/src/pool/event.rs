//! What goes into the pool's state, and what comes out of it.

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

/// All that can happen to the pool.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A call wants an instance of a function.
    Asked { call: CallId, image: Image },
    /// A call is over: it was answered, or failed, or gave up waiting.
    Ended { call: CallId },
    /// A function is to have an instance before its first call.
    Warm { image: Image },
    /// An instance that was to be started, checked or taken over is ready, or will never be.
    Started { instance: InstanceId, outcome: Result<(), Arc<Failure>> },
    /// A call found its connection broken.
    Broken { instance: InstanceId },
    /// The answer to [`Effect::Check`].
    Checked { instance: InstanceId, healthy: bool },
    /// The cluster has an instance that this pool did not start.
    Found { instance: InstanceId, image: Image, found: Found },
    /// The cluster shows how an instance is.
    Seen { instance: InstanceId, sight: Sight },
    /// Another replica wants an instance to be kept until then.
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
    /// Until when its annotation wants it to be kept.
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

/// All that the pool can want done.
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
    /// Give up the calls that run in an instance: no answer will come.
    Abandon { instance: InstanceId },
    /// Remove an instance. No call runs in it, and the state has forgotten it.
    Delete { instance: InstanceId, why: Reason },
    /// Forget an instance that its owner removes.
    Forget { instance: InstanceId },
    /// Announce to the other replicas that an instance is wanted until then.
    Hold { instance: InstanceId, until: Instant },
}

/// Why a call gets no instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// As many wait already as may.
    QueueFull { waiting: usize },
    /// There are as many instances of all functions as may be, and none of them can go.
    NoPlace { most: usize },
    /// None could be started.
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
    Displaced,
}

// === impl Reason ===

impl Reason {
    /// The value of its label in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::NeverReady => "never_ready",
            Self::Broken => "broken",
            Self::NotReady => "not_ready",
            Self::Failed => "failed",
            Self::Gone => "gone",
            Self::Outdated => "outdated",
            Self::Displaced => "displaced",
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
            Self::Displaced => "another function needs its place (--max-pods)",
        })
    }
}
