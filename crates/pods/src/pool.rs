//! The pool: which function pods run, who waits for them, when they retire.
//!
//! [`State`](state::State) decides and does nothing; one task owns it and carries out what it decides.

mod event;
mod function;
#[cfg(test)]
mod simulation;
pub(crate) mod state;
pub(crate) mod task;
#[cfg(test)]
mod tests;
mod warm_up;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loggia_evaluator::Client;
use tokio::sync::{mpsc, oneshot, watch};
use tonic::Code;

use self::state::{CallId, InstanceId, Refusal};
use self::task::Message;
use crate::Snapshot;

/// The way to the pool. Clones share it; with the last one the pool ends, and its pods stay.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    inbox: mpsc::UnboundedSender<Message>,
    calls: Arc<AtomicU64>,
}

/// The right of one call to use one instance, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    pub(crate) client: Client,
    pub(crate) pod: Arc<str>,
    instance: InstanceId,
    lost: watch::Receiver<bool>,
    place: Place,
}

/// What a call takes up in the pool, waiting or running.
#[derive(Debug)]
struct Place {
    call: CallId,
    inbox: mpsc::UnboundedSender<Message>,
}

/// An instance that a call may use.
#[derive(Debug)]
pub(crate) struct Endpoint {
    instance: InstanceId,
    client: Client,
    pod: Arc<str>,
    lost: watch::Receiver<bool>,
}

/// Why a call has no permit.
#[derive(Debug)]
pub(crate) enum PoolError {
    Refused(Refusal),
    /// The pool has ended.
    Closed,
}

/// A function: an image reference in its full form, so that two spellings of one image are one function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Image(Arc<str>);

/// How many instances a function may have, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The load of an instance at which another one is started.
    pub(crate) busy_at: usize,
    pub(crate) most_instances: usize,
    /// How many are kept even if nobody uses them.
    pub(crate) least_instances: usize,
    /// The calls that may run in one instance at once.
    pub(crate) most_running: Option<usize>,
    /// The calls that may wait for an instance.
    pub(crate) most_waiting: Option<usize>,
    pub(crate) ttl: Duration,
}

/// How long to wait before an instance is started again after one failed.
#[derive(Clone, Debug)]
pub(crate) struct Retry {
    pub(crate) least: Duration,
    /// After failures that pass by themselves.
    pub(crate) most_passing: Duration,
    /// After failures that somebody has to mend.
    pub(crate) most_lasting: Duration,
    pub(crate) crowded: Duration,
}

/// Why an instance did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// What the caller gets to read, after the frame that Porch's users know.
    pub(crate) text: String,
    pub(crate) code: Code,
}

/// What trying again would help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// It passes by itself: whoever waits goes on waiting.
    Passing,
    /// Somebody has to mend something: whoever waits is told at once.
    Lasting,
    /// Other replicas have as many instances as there may be; theirs will do.
    Crowded,
}

// === impl Pool ===

impl Pool {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Message>) {
        let (inbox, messages) = mpsc::unbounded_channel();
        (Self { inbox, calls: Arc::default() }, messages)
    }

    /// Waits for an instance of the function. Whoever stops waiting leaves the queue by that.
    pub(crate) async fn permit(&self, image: Image, requested: Arc<str>) -> Result<Permit, PoolError> {
        let call = CallId(self.calls.fetch_add(1, Ordering::Relaxed));
        let place = Place { call, inbox: self.inbox.clone() };
        let (reply, answer) = oneshot::channel();
        let asked = Message::Ask { image, requested, call, reply };
        self.inbox.send(asked).map_err(|_| PoolError::Closed)?;
        let answer = answer.await.map_err(|_| PoolError::Closed)?;
        let Endpoint { instance, client, pod, lost } = answer.map_err(PoolError::Refused)?;
        Ok(Permit { client, pod, instance, lost, place })
    }

    pub(crate) async fn snapshot(&self) -> Option<Snapshot> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Message::Show { reply }).ok()?;
        answer.await.ok()
    }

    /// A way to tell the pool things that does not keep it alive.
    pub(crate) fn inbox(&self) -> mpsc::WeakUnboundedSender<Message> {
        self.inbox.downgrade()
    }
}

// === impl Permit ===

impl Permit {
    /// The connection broke: nobody else should have the same surprise.
    pub(crate) fn broken(&self) {
        let event = state::Event::Broken { instance: self.instance };
        let _ = self.place.inbox.send(Message::Event(event));
    }

    /// Returns when no answer will come from the instance any more.
    pub(crate) async fn abandoned(&self) {
        if self.lost.clone().wait_for(|lost| *lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.inbox.send(Message::Ended { call: self.call });
    }
}

// === impl Image ===

impl Image {
    pub(crate) fn new(reference: impl Into<Arc<str>>) -> Self {
        Self(reference.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Retry ===

impl Default for Retry {
    fn default() -> Self {
        Self {
            least: Duration::from_millis(500),
            most_passing: Duration::from_secs(5),
            most_lasting: Duration::from_secs(10),
            crowded: Duration::from_millis(500),
        }
    }
}
