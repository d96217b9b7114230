//! The pool: which function pods run, who waits for them, when they retire.
//!
//! [`State`](state::State) decides and does nothing; one [`Task`] owns it and carries out what it decides. What callers
//! tell it is heard where they are, under a lock, so that a warm call waits for nobody; all other news comes by its
//! inbox.

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
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loggia_evaluator::Client;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tonic::Code;

use self::state::{CallId, InstanceId, Refusal};
use self::task::{Message, Task};
use crate::Snapshot;

/// The way to the pool. Clones share it; with the last one the pool ends, and its pods stay.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    inbox: mpsc::UnboundedSender<Message>,
    desk: Arc<Desk>,
}

/// Where the task is found by those who call.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    /// Nobody before it runs and after it has ended.
    task: Mutex<Option<Task>>,
    /// The task has to wake up earlier than it planned to.
    earlier: Notify,
    calls: AtomicU64,
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
    pool: Pool,
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
    pub(crate) max_waitlist_length: usize,
    pub(crate) max_parallel_pods_per_function: usize,
    /// How many are kept even if nobody uses them.
    pub(crate) min_pods_per_function: usize,
    /// The calls that may run in one instance at once.
    pub(crate) max_concurrent_evaluations_per_pod: Option<usize>,
    /// The calls that may wait for an instance.
    pub(crate) max_queue_length: Option<usize>,
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
        (Self { inbox, desk: Arc::default() }, messages)
    }

    /// Has the task work until the last handle of the pool is gone.
    pub(crate) fn run(
        &self,
        task: Task,
        messages: mpsc::UnboundedReceiver<Message>,
    ) -> impl Future<Output = ()> + Send + 'static {
        task::run(Arc::clone(&self.desk), task, messages)
    }

    /// Waits for an instance of the function. Whoever stops waiting leaves the queue by that.
    pub(crate) async fn permit(&self, image: Image, requested: Arc<str>) -> Result<Permit, PoolError> {
        let call = CallId(self.desk.calls.fetch_add(1, Ordering::Relaxed));
        let place = Place { call, pool: self.clone() };
        let (reply, answer) = oneshot::channel();
        self.tell(Message::Ask { image, requested, call, reply })?;
        let answer = answer.await.map_err(|_| PoolError::Closed)?;
        let Endpoint { instance, client, pod, lost } = answer.map_err(PoolError::Refused)?;
        Ok(Permit { client, pod, instance, lost, place })
    }

    /// Has the task hear something now, if it can be.
    fn tell(&self, message: Message) -> Result<(), PoolError> {
        let send = |message| self.inbox.send(message).map_err(|_| PoolError::Closed);
        // What the task does about it may need a runtime, which somebody who drops a permit may be without.
        if Handle::try_current().is_err() {
            return send(message);
        }
        match &mut *self.desk.task() {
            None => send(message),
            Some(task) => {
                let planned = task.next_wake();
                task.hear(message);
                let sooner = task.next_wake().is_some_and(|at| planned.is_none_or(|planned| at < planned));
                if sooner {
                    self.desk.earlier.notify_one();
                }
                Ok(())
            }
        }
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

// === impl Desk ===

impl Desk {
    /// Lets the task come or go.
    fn seat(&self, task: Option<Task>) {
        let left = std::mem::replace(&mut *self.task(), task);
        // Outside the lock, as it takes others with it.
        drop(left);
    }

    /// Has the task do something; without it, nothing is done.
    fn with<T: Default>(&self, work: impl FnOnce(&mut Task) -> T) -> T {
        self.task().as_mut().map(work).unwrap_or_default()
    }

    fn task(&self) -> MutexGuard<'_, Option<Task>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Permit ===

impl Permit {
    /// The connection broke: nobody else should have the same surprise.
    pub(crate) fn broken(&self) {
        let event = state::Event::Broken { instance: self.instance };
        let _ = self.place.pool.tell(Message::Event(event));
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
        let _ = self.pool.tell(Message::Ended { call: self.call });
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
