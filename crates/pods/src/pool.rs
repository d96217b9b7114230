//! The pool: which function pods run, which calls wait for them, when they retire.
//!
//! [`State`](state::State) decides and does nothing. [`Inner`] joins it with the cluster's objects and the waiting calls,
//! behind one lock. Each method of [`Pool`] locks it, feeds one event, unlocks, and only then carries out the
//! [actions](action::Action) that were decided, so nothing logs, hashes, spawns or awaits under the lock.

mod action;
mod event;
mod freshness;
mod function;
mod inner;
mod news;
#[cfg(test)]
mod place_tests;
#[cfg(test)]
mod shell_tests;
#[cfg(test)]
mod simulation;
pub(crate) mod state;
#[cfg(test)]
mod tests;
mod ticker;
mod types;
mod views;
mod warm_up;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use loggia_grpc::Client;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;

use self::freshness::Freshness;
use self::inner::{Answer, Inner};
use self::state::{CallId, Event, InstanceId, Refusal, Settings};
pub(crate) use self::types::{Backoff, Cause, Failure, FailureKind, Limits};
use crate::Snapshot;
use crate::clock::unix_now;
use crate::roster::Garbage;
use crate::start::Starter;
use crate::template::Template;
pub(crate) use loggia_function::Image;

/// Patches of pods that run at once.
const PATCHES_AT_ONCE: usize = 4;

/// The pool. Clones share it; with the last one it ends, and its pods stay.
#[derive(Clone, Debug)]
pub(crate) struct Pool(Arc<Shared>);

/// The pool for those that must not keep it alive: its watches and the work that it spawned.
#[derive(Clone, Debug)]
pub(crate) struct WeakPool(Weak<Shared>);

#[derive(Debug)]
struct Shared {
    /// Locked for as long as one event takes.
    inner: Mutex<Inner>,
    /// Tells the ticker that the next tick is due earlier than planned, and by its end that the pool is gone.
    rescheduled: watch::Sender<()>,
    /// The warm-up is over.
    warm: watch::Sender<bool>,
    starter: Starter,
    freshness: Freshness,
    garbage: mpsc::UnboundedSender<Garbage>,
    patch_slots: Arc<Semaphore>,
    /// A permit may be dropped on a thread without a runtime, and what follows from that may spawn.
    runtime: Handle,
}

/// The right of one call to use one instance, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    pub(crate) client: Client,
    pub(crate) pod: Arc<str>,
    instance: InstanceId,
    lost: watch::Receiver<bool>,
    call: CallGuard,
}

/// A call that the pool knows, waiting or running. Dropping it ends the call.
///
/// It exists only after [`Inner::ask`] has returned, so a call cannot end before it was asked.
#[derive(Debug)]
struct CallGuard {
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

// === impl Pool ===

impl Pool {
    /// Starts a pool and the task that ticks it, which ends with the last handle of the pool.
    pub(crate) fn start(
        starter: Starter,
        settings: Settings,
        template: watch::Receiver<Option<Arc<Template>>>,
        garbage: mpsc::UnboundedSender<Garbage>,
    ) -> (Self, JoinHandle<()>) {
        let functions = starter.functions.clone();
        let inner = Inner::new(settings, &starter.settings, functions.borrow().limits.clone());
        let (rescheduled, reschedules) = watch::channel(());
        let scan_interval = starter.settings.scan_interval;
        let pool = Self(Arc::new(Shared {
            inner: Mutex::new(inner),
            rescheduled,
            warm: watch::Sender::new(false),
            freshness: Freshness::new(starter.clone(), template.clone()),
            starter,
            garbage,
            patch_slots: Arc::new(Semaphore::new(PATCHES_AT_ONCE)),
            runtime: Handle::current(),
        }));
        let ticker =
            ticker::Ticker { pool: pool.downgrade(), reschedules, functions, template, scan_interval };
        let ticker = tokio::spawn(ticker.run());
        (pool, ticker)
    }

    pub(crate) fn downgrade(&self) -> WeakPool {
        WeakPool(Arc::downgrade(&self.0))
    }

    /// Waits for an instance of the function. Dropping the future takes the call out of the queue.
    pub(crate) async fn permit(&self, image: Image) -> Result<Permit, Refusal> {
        let (call, answer) = self.update(|inner| inner.ask(image));
        let call = CallGuard { call, pool: self.clone() };
        let answer = match answer {
            Answer::Now(answer) => answer,
            Answer::Later(answer) => answer.await.unwrap_or_else(|_| Err(inner::forgotten())),
        };
        let Endpoint { instance, client, pod, lost } = answer?;
        Ok(Permit { client, pod, instance, lost, call })
    }

    /// Whether the warm-up is over.
    pub(crate) fn warm(&self) -> watch::Receiver<bool> {
        self.0.warm.subscribe()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let views = self.lock().views();
        let trouble = self.0.starter.outage.borrow().as_ref().map(|outage| outage.text.clone());
        Snapshot { trouble, ..views.finish(unix_now()) }
    }

    /// Feeds the pool under its lock. What it decides is carried out after the lock is released.
    fn update<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.lock();
        let planned = inner.next_tick();
        let result = change(&mut inner);
        let next = inner.next_tick();
        let actions = inner.take_actions();
        // Before the actions: the callers that they wake would block on the lock.
        drop(inner);
        if next.is_some_and(|next| planned.is_none_or(|planned| next < planned)) {
            self.0.rescheduled.send_replace(());
        }
        for action in actions {
            self.carry_out(action);
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl WeakPool ===

impl WeakPool {
    pub(crate) fn upgrade(&self) -> Option<Pool> {
        self.0.upgrade().map(Pool)
    }
}

// === impl Permit ===

impl Permit {
    /// Reports a broken connection: the instance gets no more calls until a health check has passed.
    pub(crate) fn broken(&self) {
        let event = Event::Broken { instance: self.instance };
        self.call.pool.update(|inner| inner.on(event));
    }

    /// Returns when the pool has given up the calls that run in the instance.
    pub(crate) async fn abandoned(&self) {
        if self.lost.clone().wait_for(|lost| *lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

// === impl CallGuard ===

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.pool.update(|inner| inner.end(self.call));
    }
}
