//! Which object of the cluster is which instance of the pool.
//!
//! Pure, like the pool: news in, events and garbage out. Pods are known by their names, which have a part
//! of chance and are never used twice.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Pod, Service};
use loggia_evaluator::Client;
use loggia_registry::Reference;
use tokio::sync::watch;

use crate::blueprint::note;
use crate::names::{CONTAINER, DIGEST, IMAGE, IMAGE_LABEL, OWNER, RECLAIM_AFTER, TEMPLATE_HASH};
use crate::pool::Image;
use crate::pool::state::{Event, InstanceId, Sight};

/// How long a Service may be without a pod: whoever made it is about to make the pod, too.
const LONELY_TIME: Duration = Duration::from_secs(20);

/// One moment, on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) instant: Instant,
    /// Seconds since 1970.
    pub(crate) unix: i64,
}

/// All instances, and what else the namespace has of their kind.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pub(crate) records: HashMap<InstanceId, Record>,
    by_pod: HashMap<String, InstanceId>,
    pods: HashMap<String, PodNote>,
    services: HashMap<String, ServiceNote>,
}

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
    pub(crate) template_hash: Option<String>,
    pub(crate) digest: Option<String>,
    was_ready: bool,
    /// What this pool wrote last as the time to reclaim.
    told: Option<i64>,
    heard: Option<i64>,
}

#[derive(Debug)]
struct PodNote {
    uid: Option<String>,
    id: String,
    /// Somebody was asked to delete it.
    condemned: bool,
}

#[derive(Debug)]
struct ServiceNote {
    uid: Option<String>,
    cluster_ip: Option<String>,
    lonely_since: Option<Instant>,
}

/// An object that belongs to nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Garbage {
    Pod {
        name: String,
        uid: Option<String>,
        /// Its name and identity.
        service: Option<(String, Option<String>)>,
        why: String,
    },
    Service {
        name: String,
        uid: Option<String>,
    },
}

/// What news of an object mean.
#[derive(Debug, Default)]
pub(crate) struct Meaning {
    pub(crate) events: Vec<Event>,
    pub(crate) garbage: Vec<Garbage>,
    /// Pods that nobody has spoken for, to be given names as instances.
    pub(crate) found: Vec<Discovery>,
}

/// A pod of another replica, or of one that is gone.
#[derive(Debug)]
pub(crate) struct Discovery {
    pub(crate) record: Record,
    pub(crate) held_until: Instant,
}

// === impl Roster ===

impl Roster {
    /// A new instance, of which there is nothing yet.
    pub(crate) fn add(&mut self, instance: InstanceId, record: Record) {
        if let Some(pod) = &record.pod {
            self.by_pod.insert(pod.clone(), instance);
        }
        self.records.insert(instance, record);
    }

    /// The names under which an instance is about to be created.
    pub(crate) fn name(&mut self, instance: InstanceId, pod: String, service: String) {
        let Some(record) = self.records.get_mut(&instance) else { return };
        self.by_pod.insert(pod.clone(), instance);
        record.pod = Some(pod);
        record.service = Some(service);
    }

    /// What there is of an instance in the cluster, for whoever is to delete it.
    pub(crate) fn garbage(&self, instance: InstanceId, why: String) -> Option<Garbage> {
        let record = self.records.get(&instance)?;
        let name = record.pod.clone()?;
        let uid = self.pods.get(&name).and_then(|pod| pod.uid.clone());
        let service = record.service.clone().map(|service| {
            let uid = self.services.get(&service).and_then(|service| service.uid.clone());
            (service, uid)
        });
        Some(Garbage::Pod { name, uid, service, why })
    }

    /// The instance is no longer the pool's.
    pub(crate) fn remove(&mut self, instance: InstanceId) -> Option<Record> {
        let record = self.records.remove(&instance)?;
        if let Some(pod) = &record.pod {
            self.by_pod.remove(pod);
            if let Some(note) = self.pods.get_mut(pod) {
                note.condemned = true;
            }
        }
        Some(record)
    }

    /// The instance that has this Service.
    pub(crate) fn holder(&self, service: &str) -> Option<InstanceId> {
        let holds = |(_, record): &(&InstanceId, &Record)| record.service.as_deref() == Some(service);
        self.records.iter().find(holds).map(|(instance, _)| *instance)
    }

    pub(crate) fn cluster_ip(&self, service: &str) -> Option<String> {
        self.services.get(service)?.cluster_ip.clone()
    }

    /// Notes that this pool wrote on a pod when to reclaim it.
    pub(crate) fn told(&mut self, instance: InstanceId, unix: i64) {
        if let Some(record) = self.records.get_mut(&instance) {
            record.told = Some(unix);
        }
    }

    /// All pods there are.
    pub(crate) fn all_pods(&mut self, pods: Vec<Pod>, ttl: Duration, owner: &str, now: Now) -> Meaning {
        let mut meaning = Meaning::default();
        let present: HashSet<_> = pods.iter().filter_map(|pod| pod.metadata.name.clone()).collect();
        let gone: Vec<_> = self.pods.keys().filter(|name| !present.contains(*name)).cloned().collect();
        for name in gone {
            self.pod_is_gone(&name, &mut meaning);
        }
        for pod in pods {
            self.pod_seen(pod, ttl, owner, now, &mut meaning);
        }
        meaning
    }

    pub(crate) fn pod_is_gone(&mut self, name: &str, meaning: &mut Meaning) {
        self.pods.remove(name);
        let Some(instance) = self.by_pod.get(name).copied() else { return };
        if let Some(record) = self.records.get_mut(&instance) {
            record.latest.send_replace(None);
            meaning.events.push(Event::Seen { instance, sight: Sight::Gone });
        }
    }

    pub(crate) fn pod_seen(&mut self, pod: Pod, ttl: Duration, owner: &str, now: Now, meaning: &mut Meaning) {
        let Some(name) = pod.metadata.name.clone() else { return };
        let Some(id) = label(&pod).map(ToOwned::to_owned) else { return };
        let entry = self.pods.entry(name.clone());
        let note = entry.or_insert_with(|| PodNote { uid: None, id, condemned: false });
        note.uid.clone_from(&pod.metadata.uid);
        if let Some(instance) = self.by_pod.get(&name).copied() {
            if let Some(record) = self.records.get_mut(&instance) {
                record.learn(instance, pod, now, &mut meaning.events);
            }
            return;
        }
        if note.condemned || pod.metadata.deletion_timestamp.is_some() {
            return;
        }
        let service = label(&pod).and_then(|id| {
            let uid = self.services.get(id)?.uid.clone();
            Some((id.to_owned(), uid))
        });
        let garbage = |why: &str| Garbage::Pod {
            name: name.clone(),
            uid: pod.metadata.uid.clone(),
            service,
            why: why.to_owned(),
        };
        let annotations = pod.metadata.annotations.as_ref();
        if matches!(phase(&pod), Some("Failed" | "Succeeded")) {
            meaning.garbage.push(garbage("it ended"));
            note.condemned = true;
        } else if crate::blueprint::note(annotations, OWNER) == Some(owner) {
            meaning.garbage.push(garbage("the pool gave it up"));
            note.condemned = true;
        } else if let Some(discovery) = Discovery::of(pod, ttl, now) {
            meaning.found.push(discovery);
        }
    }

    pub(crate) fn all_services(&mut self, services: &[Service]) -> Meaning {
        let mut meaning = Meaning::default();
        let present: HashSet<_> =
            services.iter().filter_map(|service| service.metadata.name.clone()).collect();
        let gone: Vec<_> = self.services.keys().filter(|name| !present.contains(*name)).cloned().collect();
        for name in gone {
            self.service_is_gone(&name, &mut meaning);
        }
        services.iter().for_each(|service| self.service_seen(service));
        meaning
    }

    pub(crate) fn service_seen(&mut self, service: &Service) {
        let Some(name) = service.metadata.name.clone() else { return };
        let spec = service.spec.as_ref();
        let selector = spec.and_then(|spec| note(spec.selector.as_ref(), IMAGE_LABEL));
        // Only what looks as Porch and Loggia make it is ours to judge.
        if selector != Some(name.as_str()) {
            return;
        }
        let known = self.services.entry(name);
        let known = known.or_insert_with(|| ServiceNote { uid: None, cluster_ip: None, lonely_since: None });
        known.uid.clone_from(&service.metadata.uid);
        known.cluster_ip = spec.and_then(|spec| spec.cluster_ip.clone()).filter(|ip| ip != "None");
    }

    pub(crate) fn service_is_gone(&mut self, name: &str, meaning: &mut Meaning) {
        if self.services.remove(name).is_none() {
            return;
        }
        let users = self.records.iter().filter(|(_, record)| record.service.as_deref() == Some(name));
        for (instance, _) in users {
            meaning.events.push(Event::Seen { instance: *instance, sight: Sight::Gone });
        }
    }

    /// Services whose pods are gone, once they have been so for a while.
    pub(crate) fn lonely_services(&mut self, now: Instant) -> Vec<Garbage> {
        let claimed: HashSet<_> =
            self.records.values().filter_map(|record| record.service.as_deref()).collect();
        let selected: HashSet<_> = self.pods.values().map(|pod| pod.id.as_str()).collect();
        let mut garbage = Vec::new();
        for (name, service) in &mut self.services {
            if selected.contains(name.as_str()) || claimed.contains(name.as_str()) {
                service.lonely_since = None;
            } else if *service.lonely_since.get_or_insert(now) + LONELY_TIME <= now {
                garbage.push(Garbage::Service { name: name.clone(), uid: service.uid.clone() });
                service.lonely_since = Some(now);
            }
        }
        garbage
    }
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
            template_hash: None,
            digest: None,
            was_ready: false,
            told: None,
            heard: None,
        }
    }

    fn learn(&mut self, instance: InstanceId, pod: Pod, now: Now, events: &mut Vec<Event>) {
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
        let notes = pod.metadata.annotations.as_ref();
        self.template_hash = note(notes, TEMPLATE_HASH).map(ToOwned::to_owned);
        self.digest = note(notes, DIGEST).map(ToOwned::to_owned);
        events.extend(sight.map(|sight| Event::Seen { instance, sight }));
        self.latest.send_replace(Some(Arc::new(pod)));
    }
}

// === impl Discovery ===

impl Discovery {
    fn of(pod: Pod, ttl: Duration, now: Now) -> Option<Self> {
        let notes = pod.metadata.annotations.as_ref();
        let containers = &pod.spec.as_ref()?.containers;
        let requested = containers.iter().find(|container| container.name == CONTAINER)?.image.clone()?;
        let image = note(notes, IMAGE).unwrap_or(&requested);
        let image = image.parse::<Reference>().ok()?.to_string();
        let heard = reclaim_after(&pod);
        let held_until = heard.map_or(now.instant + ttl, |unix| moment(unix, now));
        let mut record = Record::new(Image::new(image), requested.into());
        record.ours = false;
        record.pod.clone_from(&pod.metadata.name);
        record.service = label(&pod).map(ToOwned::to_owned);
        record.template_hash = note(notes, TEMPLATE_HASH).map(ToOwned::to_owned);
        record.digest = note(notes, DIGEST).map(ToOwned::to_owned);
        record.was_ready = is_ready(&pod);
        record.heard = heard;
        record.latest.send_replace(Some(Arc::new(pod)));
        Some(Self { record, held_until })
    }
}

fn label(pod: &Pod) -> Option<&str> {
    note(pod.metadata.labels.as_ref(), IMAGE_LABEL)
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

/// When the pod may be removed, as far as its annotation says so in a way one can read.
fn reclaim_after(pod: &Pod) -> Option<i64> {
    note(pod.metadata.annotations.as_ref(), RECLAIM_AFTER)?.parse().ok()
}

/// A time of the calendar on the clock that counts.
fn moment(unix: i64, now: Now) -> Instant {
    // What lies further ahead than a year is a mistake of some clock.
    let ahead = (unix - now.unix).clamp(0, 365 * 24 * 3600);
    let behind = (now.unix - unix).clamp(0, 365 * 24 * 3600);
    let at = now.instant + Duration::from_secs(ahead.unsigned_abs());
    at.checked_sub(Duration::from_secs(behind.unsigned_abs())).unwrap_or(at)
}
