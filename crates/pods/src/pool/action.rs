//! The actions that were decided under the pool's lock, and carrying them out after it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::Pod;
use loggia_evaluator::Client;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::inner::Waiter;
use super::state::{InstanceId, Reason, Refusal};
use super::{Cause, Endpoint, Failure, Image, Pool};
use crate::roster::Garbage;
use crate::start::{Job, Target};

/// One thing to do, with all that it needs.
#[derive(Debug)]
pub(super) enum Action {
    Answer(Waiter, Result<Endpoint, Refusal>),
    /// Start an instance; there may be `most` of its function in the cluster.
    Start {
        instance: InstanceId,
        image: Image,
        most: usize,
        latest: watch::Receiver<Option<Arc<Pod>>>,
    },
    /// Wait for an instance of another replica to answer.
    Adopt {
        instance: InstanceId,
        target: Target,
        latest: watch::Receiver<Option<Arc<Pod>>>,
    },
    /// See whether an instance still answers.
    Check {
        instance: InstanceId,
        target: Target,
        latest: watch::Receiver<Option<Arc<Pod>>>,
    },
    /// Give up the calls that run in an instance.
    Abandon {
        pod: Option<Arc<str>>,
        lost: watch::Sender<bool>,
    },
    Remove(Garbage),
    /// Write on a pod until when it is wanted, in seconds since 1970.
    Hold {
        pod: Arc<str>,
        reclaim_after: i64,
    },
    /// A node reports the digest that it pulled for an image.
    CompareImage {
        image: Image,
        digest: String,
    },
    PublishWarm,
    Report(Report),
}

/// What is logged and counted.
#[derive(Debug)]
pub(super) enum Report {
    /// An instance answers. `took` is the time of the start, if this pool started it.
    Started {
        image: Image,
        pod: Option<Arc<str>>,
        ours: bool,
        took: Option<Duration>,
    },
    NotStarted {
        image: Image,
        failure: Arc<Failure>,
        took: Option<Duration>,
    },
    Misrouted(String),
    Found {
        image: Image,
        pod: Option<Arc<str>>,
    },
    Left {
        instance: InstanceId,
        image: Option<Image>,
        why: Reason,
    },
}

/// Work ended by a panic with this message.
#[derive(Debug)]
pub(super) struct Panicked(pub(super) String);

impl Pool {
    pub(super) fn carry_out(&self, action: Action) {
        match action {
            // A caller that is gone has ended its call by its guard.
            Action::Answer(waiter, answer) => {
                let _ = waiter.send(answer);
            }
            Action::Start { instance, image, most, latest } => {
                info!("Scaling up for image {image}. No idle pods available. Starting a new pod.");
                let starter = self.0.starter.clone();
                let job = Job { instance, image, most, latest, pool: self.downgrade() };
                let report = move |pool: &Self, outcome| pool.started(instance, outcome);
                self.spawn(async move { starter.start(job).await }, report);
            }
            Action::Adopt { instance, target, latest } => {
                let starter = self.0.starter.clone();
                let report = move |pool: &Self, outcome| pool.started(instance, outcome);
                self.spawn(async move { starter.adopt(&target, latest).await }, report);
            }
            Action::Check { instance, target, latest } => {
                let starter = self.0.starter.clone();
                let check = async move { starter.check(&target, &latest).await };
                self.spawn(check, move |pool, healthy| {
                    // A check that panicked has not shown health.
                    pool.update(|inner| inner.checked(instance, healthy.unwrap_or(false)));
                });
            }
            Action::Abandon { pod, lost } => {
                let pod = pod.as_deref().unwrap_or_default();
                warn!("pod {pod} is not ready and does not answer: its calls are made elsewhere");
                lost.send_replace(true);
            }
            Action::Remove(garbage) => self.remove(garbage),
            Action::Hold { pod, reclaim_after } => self.hold(pod, reclaim_after),
            Action::CompareImage { image, digest } => self.compare_image(image, digest),
            Action::PublishWarm => {
                self.0.warm.send_replace(true);
            }
            Action::Report(report) => self.report(report),
        }
    }

    fn started(&self, instance: InstanceId, outcome: Result<Result<Client, Failure>, Panicked>) {
        let outcome = outcome.unwrap_or_else(|Panicked(text)| {
            Err(Failure::lasting(Cause::Defect, format!("the start ended by a defect: {text}")))
        });
        self.update(|inner| inner.started(instance, outcome));
    }

    /// Runs work in a task of its own and hands its result to the pool, also if it panicked.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        report: impl FnOnce(&Self, Result<T, Panicked>) + Send + 'static,
    ) {
        let pool = self.downgrade();
        self.0.runtime.spawn(async move {
            let outcome = AssertUnwindSafe(work).catch_unwind().await;
            let outcome = outcome.map_err(|panic| {
                let text = panic.downcast_ref::<&str>().map(ToString::to_string);
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                Panicked(text.unwrap_or_else(|| "it panicked".to_owned()))
            });
            if let Some(pool) = pool.upgrade() {
                report(&pool, outcome);
            }
        });
    }

    /// The remover ends only with the pool.
    pub(super) fn remove(&self, garbage: Garbage) {
        let _ = self.0.garbage.send(garbage);
    }

    /// Writes on a pod until when it is wanted, for the other replicas.
    fn hold(&self, pod: Arc<str>, reclaim_after: i64) {
        let (cluster, slots) = (self.0.starter.cluster.clone(), Arc::clone(&self.0.patch_slots));
        let refused = Arc::clone(&self.0.starter.refused.patches);
        self.0.runtime.spawn(async move {
            let Ok(_slot) = slots.acquire().await else { return };
            let Err(error) = cluster.set_reclaim_after(&pod, reclaim_after).await else { return };
            let text = cluster.diagnose("patch", "pods", &error).text;
            let first_refusal = error.code() == Some(403) && !refused.swap(true, Ordering::Relaxed);
            if first_refusal {
                warn!("{text}; other replicas may remove pods that this one uses");
            } else {
                debug!("{text}");
            }
        });
    }

    fn report(&self, report: Report) {
        let observer = &self.0.starter.observer;
        match report {
            Report::Started { image, pod, ours, took } => {
                if let Some(took) = took {
                    observer.started(image.as_str(), true, took);
                }
                let pod = pod.as_deref().unwrap_or_default();
                info!("New pod {pod} is ready for image {image}. ours: {ours}");
            }
            Report::NotStarted { image, failure, took } => {
                warn!("Pod creation failed for image {image}: {}", failure.text);
                if let Some(took) = took {
                    observer.started(image.as_str(), false, took);
                }
            }
            Report::Misrouted(text) => warn!("{text}"),
            Report::Found { image, pod } => info!(
                "retrieved function evaluator pod {}/{} for {}",
                self.0.starter.settings.namespace,
                pod.as_deref().unwrap_or_default(),
                image.requested()
            ),
            Report::Left { instance, image, why } => {
                debug!(?instance, %why, "An instance leaves");
                if let Some(image) = image {
                    observer.left(image.as_str(), why.name());
                }
            }
        }
    }
}
