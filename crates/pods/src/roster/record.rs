//! What is known of one instance in the cluster, and reading it from its pod.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use loggia_grpc::Client;
use loggia_registry::Reference;
use tokio::sync::watch;

use crate::blueprint::annotation;
use crate::clock::Now;
use crate::names::{CONTAINER, DIGEST, IMAGE, IMAGE_LABEL, OWNER, RECLAIM_AFTER, REQUESTED, TEMPLATE_HASH};
use crate::pool::Image;
use crate::pool::state::{Event, InstanceId, Sight};

/// What is known of one instance beyond what the pool's state decides by.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) image: Image,
    pub(crate) pod: Option<Arc<str>>,
    pub(crate) service: Option<String>,
    /// The pod as it was last seen; nothing before that and once it is gone.
    pub(crate) latest: watch::Sender<Option<Arc<Pod>>>,
    pub(crate) client: Option<Client>,
    /// When its start began, until it is over.
    pub(crate) starting_since: Option<Instant>,
    /// Whether the calls that run in it were given up.
    pub(crate) lost: watch::Sender<bool>,
    /// What its pod was made from, once it has been seen.
    pub(super) made: Option<Made>,
    /// The digest that the node reports for the function's image.
    pub(crate) pulled: Option<String>,
    was_ready: bool,
    /// Whether its Service selects its pod and no other, as far as that is known.
    pub(super) reached: Option<bool>,
    pub(super) reclaim_time: ReclaimTime,
}

/// The `reclaim-after` annotation of a pod, in seconds since 1970. It tells what others write from what this pool
/// wrote; how long the instance is kept is decided by the pool's state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReclaimTime {
    read: Option<i64>,
    pub(super) written: Option<i64>,
}

/// What a pod was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) template_hash: Option<String>,
    /// The digest of the image at that time.
    pub(crate) digest: Option<String>,
}

/// A pod of another replica, or of one that is gone.
#[derive(Debug)]
pub(crate) struct Discovery {
    pub(crate) record: Record,
    pub(crate) held_until: Instant,
}

/// A function pod as it describes itself. It is read before the pool is locked.
#[derive(Debug)]
pub(crate) struct Sighting {
    pub(super) name: String,
    pub(super) uid: Option<String>,
    /// Its label, which is the name of its Service.
    pub(super) id: String,
    pub(super) owner: Option<String>,
    pub(super) terminating: bool,
    /// All its containers ended, or it was evicted.
    pub(super) ended: bool,
    ready: bool,
    /// The function that it runs, unless it has no container for one.
    pub(crate) image: Option<Image>,
    pub(crate) made: Made,
    pulled: Option<String>,
    /// When it may be removed, where the annotation is a number.
    reclaim_after: Option<i64>,
    pod: Arc<Pod>,
}

// === impl Record ===

impl Record {
    /// An instance that is about to be started.
    pub(crate) fn new(image: Image) -> Self {
        Self {
            image,
            pod: None,
            service: None,
            latest: watch::Sender::new(None),
            client: None,
            starting_since: None,
            lost: watch::Sender::new(false),
            made: None,
            pulled: None,
            was_ready: false,
            reached: None,
            reclaim_time: ReclaimTime::default(),
        }
    }

    /// Takes over what its pod says now, and reports what of it the pool has to know.
    pub(super) fn learn(&mut self, instance: InstanceId, seen: Sighting, now: Now, events: &mut Vec<Event>) {
        let sight = match (seen.terminating, seen.ended, seen.ready) {
            (true, _, _) => Some(Sight::Terminating),
            (_, true, _) => Some(Sight::Failed),
            (_, _, true) => Some(Sight::Ready),
            (_, _, false) => self.was_ready.then_some(Sight::NotReady),
        };
        if let Some(unix) = self.reclaim_time.news(seen.reclaim_after) {
            events.push(Event::Held { instance, until: now.instant_at(unix) });
        }
        events.extend(sight.map(|sight| Event::Seen { instance, sight }));
        self.was_ready |= sight == Some(Sight::Ready);
        self.made = Some(seen.made);
        self.pulled = seen.pulled;
        self.latest.send_replace(Some(seen.pod));
    }

    /// The addresses of its pod, as far as it has any.
    pub(super) fn addresses(&self) -> Vec<String> {
        let pod = self.latest.borrow();
        let status = pod.as_ref().and_then(|pod| pod.status.as_ref());
        let all = status.and_then(|status| status.pod_ips.as_ref()).into_iter().flatten();
        let one = status.and_then(|status| status.pod_ip.clone());
        all.map(|address| address.ip.clone()).chain(one).collect()
    }
}

// === impl ReclaimTime ===

impl ReclaimTime {
    /// Takes over what was read now, and returns it if another replica wrote it since the last time.
    fn news(&mut self, read: Option<i64>) -> Option<i64> {
        let before = std::mem::replace(&mut self.read, read);
        read.filter(|_| read != before && read != self.written)
    }
}

// === impl Sighting ===

impl Sighting {
    /// Reads a pod that has a name and the label of function pods.
    pub(crate) fn of(pod: Pod) -> Option<Self> {
        let annotations = pod.metadata.annotations.as_ref();
        let owned = |key| annotation(annotations, key).map(ToOwned::to_owned);
        Some(Self {
            name: pod.metadata.name.clone()?,
            uid: pod.metadata.uid.clone(),
            id: annotation(pod.metadata.labels.as_ref(), IMAGE_LABEL)?.to_owned(),
            owner: owned(OWNER),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            ended: matches!(phase(&pod), Some("Failed" | "Succeeded")),
            ready: is_ready(&pod),
            image: image(&pod),
            made: Made { template_hash: owned(TEMPLATE_HASH), digest: owned(DIGEST) },
            pulled: pulled(&pod),
            reclaim_after: annotation(annotations, RECLAIM_AFTER).and_then(|seconds| seconds.parse().ok()),
            pod: Arc::new(trimmed(pod)),
        })
    }

    /// The pod as an instance of the pool. Without a usable annotation it is kept for one time to live.
    pub(super) fn discovered(self, ttl: Duration, now: Now) -> Option<Discovery> {
        let held_until = self.reclaim_after.map_or(now.instant + ttl, |unix| now.instant_at(unix));
        let mut record = Record::new(self.image?);
        record.pod = Some(self.name.into());
        record.service = Some(self.id);
        record.made = Some(self.made);
        record.pulled = self.pulled;
        record.was_ready = self.ready;
        record.reclaim_time.read = self.reclaim_after;
        record.latest.send_replace(Some(self.pod));
        Some(Discovery { record, held_until })
    }
}

/// The function that a pod runs: named by its annotations, or else by the image of its container.
fn image(pod: &Pod) -> Option<Image> {
    let annotations = pod.metadata.annotations.as_ref();
    let container = container_image(pod)?;
    let full = annotation(annotations, IMAGE).unwrap_or(container);
    // A container that is named by a digest does not say which tag that was.
    let requested = annotation(annotations, REQUESTED).unwrap_or(container);
    Some(Image::known_as(full.parse::<Reference>().ok()?, requested))
}

fn container_image(pod: &Pod) -> Option<&str> {
    let mut containers = pod.spec.as_ref()?.containers.iter();
    containers.find(|container| container.name == CONTAINER)?.image.as_deref()
}

/// A pod with only the part of its spec that is read again. Ten thousand whole ones would fill memory.
fn trimmed(mut pod: Pod) -> Pod {
    if let Some(PodSpec { node_name, host_users, .. }) = pod.spec {
        pod.spec = Some(PodSpec { node_name, host_users, ..PodSpec::default() });
    }
    pod
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

/// The digest under which the node pulled the function's image, where it had a choice. Some container runtimes report
/// the ID of the unpacked image instead, without a name before it; no registry knows that.
fn pulled(pod: &Pod) -> Option<String> {
    // A node that is told the digest runs that, and may report another one under which it has the same image.
    if container_image(pod)?.contains('@') {
        return None;
    }
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let status = statuses.iter().find(|status| status.name == CONTAINER)?;
    let (_, digest) = status.image_id.rsplit_once('@')?;
    Some(digest.to_owned())
}
