//! The actions that were decided under the pool's lock, and carrying them out after it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use loggia_grpc::Client;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::inner::Waiter;
use super::state::{InstanceId, Reason, Refusal};
use super::{Cause, Endpoint, Failure, Image, Pool, Shared};
use crate::roster::Garbage;
use crate::start::{Job, LatestPod, Target};

/// One thing to do, with all that it needs.
#[derive(Debug)]
pub(super) enum Action {
    /// Answer a call that waits.
    Answer { waiter: Waiter, answer: Result<Endpoint, Refusal> },
    /// Start an instance; there may be `most` of its function in the cluster.
    Start { instance: InstanceId, image: Image, most: usize, latest: LatestPod },
    /// Wait for an instance of another replica to answer.
    Adopt { instance: InstanceId, target: Target, latest: LatestPod },
    /// See whether an instance still answers.
    Check { instance: InstanceId, target: Target, latest: LatestPod },
    /// Give up the calls that run in an instance.
    Abandon { pod: Option<Arc<str>>, lost: watch::Sender<bool> },
    /// Delete an object.
    Remove { garbage: Garbage },
    /// Write on a pod until when it is wanted, in seconds since 1970.
    Hold { pod: Arc<str>, reclaim_after: i64 },
    /// Compare the digest that a node pulled for an image with what the registry says.
    CompareImage { image: Image, digest: String },
    /// The warm-up is over.
    PublishWarm,
    /// An instance answers. `took` is the time of the start, if this pool started it.
    ReportStarted { image: Image, pod: Option<Arc<str>>, ours: bool, took: Option<Duration> },
    /// An instance could not be started or adopted.
    ReportNotStarted { image: Image, failure: Arc<Failure>, took: Option<Duration> },
    /// A Service selects other pods than that of its instance.
    ReportMisrouted { text: String },
    /// A pod was found that this pool did not start.
    ReportFound { image: Image, pod: Option<Arc<str>> },
    /// An instance leaves the pool.
    ReportLeft { instance: InstanceId, image: Option<Image>, why: Reason },
}

/// Work ended by a panic with this message.
#[derive(Debug)]
pub(super) struct Panicked(pub(super) String);

impl Pool {
    pub(super) fn carry_out(&self, action: Action) {
        let Shared { starter, warm, .. } = &*self.0;
        match action {
            Action::Answer { waiter, answer } => {
                // A caller that is gone has ended its call by its guard.
                let _ = waiter.send(answer);
            }
            Action::Start { instance, image, most, latest } => {
                info!(
                    "Scaling up for image {}. No idle pods available. Starting a new pod.",
                    image.full_name()
                );
                let starter = starter.clone();
                let job = Job { instance, image, most, latest, pool: self.downgrade() };
                let start = async move { starter.start(job).await };
                self.spawn(start, move |pool, outcome| pool.started(instance, outcome));
            }
            Action::Adopt { instance, target, latest } => {
                let starter = starter.clone();
                let adopt = async move { starter.adopt(&target, latest).await };
                self.spawn(adopt, move |pool, outcome| pool.started(instance, outcome));
            }
            Action::Check { instance, target, latest } => {
                let starter = starter.clone();
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
            Action::Remove { garbage } => self.remove(garbage),
            Action::Hold { pod, reclaim_after } => self.hold(pod, reclaim_after),
            Action::CompareImage { image, digest } => self.compare_image(image, digest),
            Action::PublishWarm => {
                warm.send_replace(true);
            }
            Action::ReportStarted { image, pod, ours, took } => {
                if let Some(took) = took {
                    starter.observer.started(image.full_name(), true, took);
                }
                let pod = pod.as_deref().unwrap_or_default();
                info!("New pod {pod} is ready for image {}. ours: {ours}", image.full_name());
            }
            Action::ReportNotStarted { image, failure, took } => {
                warn!("Pod creation failed for image {}: {}", image.full_name(), failure.text);
                if let Some(took) = took {
                    starter.observer.started(image.full_name(), false, took);
                }
            }
            Action::ReportMisrouted { text } => warn!("{text}"),
            Action::ReportFound { image, pod } => info!(
                "retrieved function evaluator pod {}/{} for {}",
                starter.settings.namespace,
                pod.as_deref().unwrap_or_default(),
                image.name()
            ),
            Action::ReportLeft { instance, image, why } => {
                debug!(?instance, %why, "An instance leaves");
                if let Some(image) = image {
                    starter.observer.left(image.full_name(), why.name());
                }
            }
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
}
