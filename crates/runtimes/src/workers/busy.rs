//! A worker while a call runs in it.

use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;

use loggia_function::Exit;
use loggia_process::{WorkerProcess, slow_down};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};

use super::link::{Answer, Broken, Link, Request};
use super::{CHEAP_TIME, Shared, Stopped, Weight};

/// A worker that can be asked.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) link: Link,
    pub(super) process: WorkerProcess,
    /// Where the folders with schemas really were when it started; it can read nothing else.
    pub(super) schemas: Vec<PathBuf>,
    /// Turns true when the pool stops.
    pub(super) stop: watch::Receiver<bool>,
    pub(super) _alive: watch::Receiver<()>,
}

/// A worker at work, in its slot. Dropped, the worker is killed, and the slot is free when it is gone.
#[derive(Debug)]
pub(super) struct Busy<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) worker: Option<Worker>,
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

// === impl Busy ===

impl Busy<'_> {
    pub(super) async fn run(
        &mut self,
        weight: Weight,
        request: &Request<'_>,
        deadline: Option<Instant>,
    ) -> Result<Answer, Stopped> {
        let Self { shared, worker, permit } = self;
        let Some(Worker { link, process, stop, .. }) = worker else { return Err(Stopped::Garbage) };
        let begin = Instant::now();
        let limit = begin + shared.settings.timeout;
        let until = deadline.map_or(limit, |deadline| deadline.min(limit));
        let slow_from = begin + CHEAP_TIME;
        let mut slow = weight == Weight::Other;
        let mut place = None;
        let ended = {
            let mut exchange = pin!(link.ask(request));
            let mut stop = pin!(told_to_stop(stop));
            let mut timer = pin!(sleep_until(if slow { until } else { until.min(slow_from) }));
            loop {
                tokio::select! {
                    biased;
                    ended = &mut exchange => break Ok(ended),
                    () = &mut stop => break Err(Stopped::Service),
                    () = &mut timer => {
                        if timer.deadline() >= until {
                            let own = deadline != Some(until);
                            break Err(if own { Stopped::OverTime } else { Stopped::Deadline });
                        }
                        slow = true;
                        slow_down(process.pid());
                        place = Some(Box::pin(Arc::clone(&shared.other).acquire_owned()));
                        timer.as_mut().reset(until);
                    }
                    Some(Ok(moved)) = maybe(&mut place), if place.is_some() => {
                        // Its place among the cheap calls is free again.
                        *permit = Some(moved);
                        place = None;
                    }
                }
            }
        };
        let slowed = slow && weight == Weight::Cheap;
        match ended? {
            Ok(answer) => {
                self.give_back(answer.head.grown || slowed);
                Ok(answer)
            }
            Err(broken) => {
                let Some(worker) = self.worker.take() else { return Err(Stopped::Garbage) };
                let stopped = worker.death(broken).await;
                Shared::start_spare(self.shared);
                Err(stopped)
            }
        }
    }

    /// The call is over; a worker that has grown or was slowed down is not used again.
    fn give_back(&mut self, replace: bool) {
        let Some(worker) = self.worker.take() else { return };
        if replace {
            bury(worker, self.permit.take());
            Shared::start_spare(self.shared);
        } else {
            self.shared.put_idle(worker);
        }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            bury(worker, self.permit.take());
            Shared::start_spare(self.shared);
        }
    }
}

// === impl Worker ===

impl Worker {
    /// Why it does not answer. It is gone when this returns.
    pub(super) async fn death(self, broken: Broken) -> Stopped {
        let Self { link, process, _alive: alive, .. } = self;
        drop(link);
        let waited = tokio::task::spawn_blocking(move || {
            let status = process.end();
            drop(alive);
            status
        });
        match (broken, waited.await) {
            (Broken::Closed, Ok(Ok(status))) => Stopped::Died(Exit::from(status)),
            (Broken::Closed, _) | (Broken::Garbage, _) => Stopped::Garbage,
            (Broken::Socket(error), _) => Stopped::Socket(error),
        }
    }
}

/// Kills a worker at once, and frees its slot when it is gone.
pub(super) fn bury(mut worker: Worker, permit: Option<OwnedSemaphorePermit>) {
    worker.process.kill();
    let Worker { link, process, _alive: alive, .. } = worker;
    // The runtime that watches the socket must be there to let go of it.
    drop(link);
    let wait = move || {
        let _ = process.end();
        drop((alive, permit));
    };
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(wait)),
        Err(_) => wait(),
    }
}

/// Waits for something that may not have begun.
async fn maybe<T>(future: &mut Option<Pin<Box<impl Future<Output = T>>>>) -> Option<T> {
    match future {
        Some(future) => Some(future.await),
        None => None,
    }
}

/// Returns when the pool stops.
pub(super) async fn told_to_stop(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // The pool is gone, so `stop` cannot be called any more.
        std::future::pending::<()>().await;
    }
}
