//! What is known of one instance, and reading it from its pod.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use loggia_evaluator::Client;
use loggia_registry::Reference;
use tokio::sync::watch;

use super::Now;
use crate::blueprint::annotation;
use crate::names::{CONTAINER, DIGEST, IMAGE, IMAGE_LABEL, RECLAIM_AFTER, TEMPLATE_HASH};
use crate::pool::Image;
use crate::pool::state::{Event, InstanceId, Sight};

/// What belongs to one instance.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) image: Image,
    /// The image as the pod has it.
    pub(crate) requested: Arc<str>,
    pub(crate) ours: bool,
    pub(crate) pod: Option<String>,
    pub(crate) service: Option<String>,
    /// The pod as it was last seen; nothing once it is gone.
    pub(crate) latest: watch::Sender<Option<Arc<Pod>>>,
    pub(crate) client: Option<Client>,
    /// When its start began, until it is over.
    pub(crate) begin: Option<Instant>,
    /// Whether the calls that run in it are to be made elsewhere.
    pub(crate) lost: watch::Sender<bool>,
    pub(crate) template_hash: Option<String>,
    /// What the image was when the pod was made.
    pub(crate) digest: Option<String>,
    /// What the node made of the image's name, where it tells that as a digest of the registry.
    pub(crate) pulled: Option<String>,
    was_ready: bool,
    /// Whether its Service leads to it and to nothing else, as far as that is known.
    pub(super) reached: Option<bool>,
    /// What this pool wrote last as the time to reclaim.
    pub(super) told: Option<i64>,
    heard: Option<i64>,
}

/// A pod of another replica, or of one that is gone.
#[derive(Debug)]
pub(crate) struct Discovery {
    pub(crate) record: Record,
    pub(crate) held_until: Instant,
}

// === impl Record ===

impl Record {
    /// An instance that is about to be started.
    pub(crate) fn new(image: Image, requested: Arc<str>) -> Self {
        Self {
            image,
            requested,
            ours: true,
            pod: None,
            service: None,
            latest: watch::Sender::new(None),
            client: None,
            begin: None,
            lost: watch::Sender::new(false),
            template_hash: None,
            digest: None,
            pulled: None,
            was_ready: false,
            reached: None,
            told: None,
            heard: None,
        }
    }

    /// Takes note of how the pod is now.
    pub(super) fn learn(&mut self, instance: InstanceId, pod: Pod, now: Now, events: &mut Vec<Event>) {
        let sight = match (pod.metadata.deletion_timestamp.is_some(), phase(&pod), is_ready(&pod)) {
            (true, _, _) => Some(Sight::Terminating),
            (_, Some("Failed" | "Succeeded"), _) => Some(Sight::Failed),
            (_, _, true) => {
                self.was_ready = true;
                Some(Sight::Ready)
            }
            (_, _, false) => self.was_ready.then_some(Sight::NotReady),
        };
        let heard = reclaim_after(&pod);
        if heard.is_some() && heard != self.heard && heard != self.told {
            let until = moment(heard.unwrap_or(now.unix), now);
            events.push(Event::Held { instance, until });
        }
        self.heard = heard;
        let annotations = pod.metadata.annotations.as_ref();
        self.template_hash = annotation(annotations, TEMPLATE_HASH).map(ToOwned::to_owned);
        self.digest = annotation(annotations, DIGEST).map(ToOwned::to_owned);
        self.pulled = pulled(&pod);
        events.extend(sight.map(|sight| Event::Seen { instance, sight }));
        self.latest.send_replace(Some(Arc::new(trimmed(pod))));
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

// === impl Discovery ===

impl Discovery {
    pub(super) fn of(pod: Pod, ttl: Duration, now: Now) -> Option<Self> {
        let annotations = pod.metadata.annotations.as_ref();
        let containers = &pod.spec.as_ref()?.containers;
        let requested = containers.iter().find(|container| container.name == CONTAINER)?.image.clone()?;
        let image = annotation(annotations, IMAGE).unwrap_or(&requested);
        let image = image.parse::<Reference>().ok()?.to_string();
        let heard = reclaim_after(&pod);
        let held_until = heard.map_or(now.instant + ttl, |unix| moment(unix, now));
        let mut record = Record::new(Image::new(image), requested.into());
        record.ours = false;
        record.pod.clone_from(&pod.metadata.name);
        record.service = label(&pod).map(ToOwned::to_owned);
        record.template_hash = annotation(annotations, TEMPLATE_HASH).map(ToOwned::to_owned);
        record.digest = annotation(annotations, DIGEST).map(ToOwned::to_owned);
        record.pulled = pulled(&pod);
        record.was_ready = is_ready(&pod);
        record.heard = heard;
        record.latest.send_replace(Some(Arc::new(trimmed(pod))));
        Some(Self { record, held_until })
    }
}

/// A pod without what nobody asks for again.
fn trimmed(mut pod: Pod) -> Pod {
    let node_name = pod.spec.and_then(|spec| spec.node_name);
    pod.spec = Some(PodSpec { node_name, ..PodSpec::default() });
    pod
}

pub(super) fn label(pod: &Pod) -> Option<&str> {
    annotation(pod.metadata.labels.as_ref(), IMAGE_LABEL)
}

pub(super) fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

/// The digest under which the node pulled the function's image. Runtimes that know only what they unpacked
/// tell a number that no registry knows, without a name before it.
fn pulled(pod: &Pod) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let status = statuses.iter().find(|status| status.name == CONTAINER)?;
    let (_, digest) = status.image_id.rsplit_once('@')?;
    Some(digest.to_owned())
}

/// When the pod may be removed, as far as its annotation says so in a way one can read.
fn reclaim_after(pod: &Pod) -> Option<i64> {
    annotation(pod.metadata.annotations.as_ref(), RECLAIM_AFTER)?.parse().ok()
}

/// A time of the calendar on the clock that counts.
fn moment(unix: i64, now: Now) -> Instant {
    // What lies further ahead than a year is a mistake of some clock.
    let ahead = unix.saturating_sub(now.unix).clamp(0, 365 * 24 * 3600);
    let behind = now.unix.saturating_sub(unix).clamp(0, 365 * 24 * 3600);
    let at = now.instant + Duration::from_secs(ahead.unsigned_abs());
    at.checked_sub(Duration::from_secs(behind.unsigned_abs())).unwrap_or(at)
}
