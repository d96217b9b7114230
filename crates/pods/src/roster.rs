//! Which object of the cluster is which instance of the pool.
//!
//! Pure, like the pool: news in, events and garbage out. Pods are known by their names, which have a part
//! of chance and are never used twice.

mod record;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};

pub(crate) use self::record::{Discovery, Record};
use self::record::{label, phase};
use crate::blueprint::annotation;
use crate::names::{IMAGE_LABEL, OWNER};
use crate::pool::state::{Event, InstanceId, Sight};
use crate::watch::News;

/// How long a Service may be without a pod: whoever made it is about to make the pod, too.
const ORPHAN_TIME: Duration = Duration::from_secs(20);

/// How long a deletion may take to be seen before it is asked for again.
const DELETION_TIME: Duration = Duration::from_secs(120);

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
    pods: HashMap<String, KnownPod>,
    services: HashMap<String, KnownService>,
    /// Where each Service leads, as far as that is known.
    endpoints: HashMap<String, Vec<String>>,
}

#[derive(Debug)]
struct KnownPod {
    uid: Option<String>,
    id: String,
    terminating: bool,
    fate: Fate,
}

/// What was decided about a pod that is no instance's, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    /// Others take care of it.
    Forgotten,
    /// Since when somebody is to delete it.
    Condemned(Instant),
}

#[derive(Debug)]
struct KnownService {
    uid: Option<String>,
    cluster_ip: Option<String>,
    orphaned_since: Option<Instant>,
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
    /// Instances whose node told just now what it made of the name of their image.
    pub(crate) pulled: Vec<InstanceId>,
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

    /// The instance is to be deleted: what there is of it in the cluster, for whoever is to do it.
    pub(crate) fn condemn(&mut self, instance: InstanceId, why: String, now: Instant) -> Option<Garbage> {
        let record = self.take(instance, Fate::Condemned(now))?;
        let name = record.pod?;
        let uid = self.pods.get(&name).and_then(|pod| pod.uid.clone());
        let service = record.service.map(|service| {
            let uid = self.services.get(&service).and_then(|service| service.uid.clone());
            (service, uid)
        });
        Some(Garbage::Pod { name, uid, service, why })
    }

    /// The instance is no longer the pool's, and somebody else's to remove.
    pub(crate) fn forget(&mut self, instance: InstanceId) {
        self.take(instance, Fate::Forgotten);
    }

    fn take(&mut self, instance: InstanceId, fate: Fate) -> Option<Record> {
        let record = self.records.remove(&instance)?;
        if let Some(pod) = &record.pod {
            self.by_pod.remove(pod);
            if let Some(note) = self.pods.get_mut(pod) {
                note.fate = fate;
            }
        }
        Some(record)
    }

    /// The instance that has this Service.
    pub(crate) fn holder(&self, service: &str) -> Option<InstanceId> {
        let holds = |(_, record): &(&InstanceId, &Record)| record.service.as_deref() == Some(service);
        self.records.iter().find(holds).map(|(instance, _)| *instance)
    }

    /// A pod with this ID is about to go: until it is gone, a new Service of that name would lead to it.
    pub(crate) fn is_being_left(&self, id: &str) -> bool {
        self.pods.values().any(|pod| pod.id == id && (pod.fate != Fate::Open || pod.terminating))
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
        let note = entry.or_insert_with(|| KnownPod { uid: None, id, terminating: false, fate: Fate::Open });
        note.uid.clone_from(&pod.metadata.uid);
        note.terminating = pod.metadata.deletion_timestamp.is_some();
        if let Some(instance) = self.by_pod.get(&name).copied() {
            if let Some(record) = self.records.get_mut(&instance) {
                let known = record.pulled.clone();
                record.learn(instance, pod, now, &mut meaning.events);
                if record.pulled.is_some() && record.pulled != known {
                    meaning.pulled.push(instance);
                }
            }
            self.see_where_it_leads(instance, meaning);
            return;
        }
        if note.fate != Fate::Open || note.terminating {
            return;
        }
        let annotations = pod.metadata.annotations.as_ref();
        let why = match phase(&pod) {
            Some("Failed" | "Succeeded") => Some("it ended"),
            _ if annotation(annotations, OWNER) == Some(owner) => Some("the pool gave it up"),
            _ => None,
        };
        if let Some(why) = why {
            note.fate = Fate::Condemned(now.instant);
            meaning.garbage.extend(self.waste(&name, why));
        } else if let Some(discovery) = Discovery::of(pod, ttl, now) {
            meaning.found.push(discovery);
        }
    }

    /// A pod that is no instance's, with the Service that is there for it.
    fn waste(&self, name: &str, why: &str) -> Option<Garbage> {
        let KnownPod { uid, id, .. } = self.pods.get(name)?;
        let service = self.services.get(id).map(|service| (id.clone(), service.uid.clone()));
        Some(Garbage::Pod { name: name.to_owned(), uid: uid.clone(), service, why: why.to_owned() })
    }

    /// Pods that were to be deleted long ago and are still there as if nothing had happened.
    pub(crate) fn left_overs(&mut self, now: Instant) -> Vec<Garbage> {
        let mut names = Vec::new();
        for (name, note) in &mut self.pods {
            if let Fate::Condemned(since) = note.fate
                && !note.terminating
                && since + DELETION_TIME <= now
            {
                note.fate = Fate::Condemned(now);
                names.push(name.clone());
            }
        }
        names.iter().filter_map(|name| self.waste(name, "it is still there")).collect()
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
        let selector = spec.and_then(|spec| annotation(spec.selector.as_ref(), IMAGE_LABEL));
        // Only what looks as Porch and Loggia make it is ours to judge.
        if selector != Some(name.as_str()) {
            return;
        }
        let known = self.services.entry(name);
        let known =
            known.or_insert_with(|| KnownService { uid: None, cluster_ip: None, orphaned_since: None });
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

    /// Where Services lead. That one leads elsewhere shows a moment before or after the pod does, so it is
    /// only a reason to look.
    pub(crate) fn endpoints(&mut self, news: News<Endpoints>) -> Meaning {
        let mut meaning = Meaning::default();
        let changed: Vec<_> = match news {
            News::All(all) => {
                let mut names: HashSet<_> = std::mem::take(&mut self.endpoints).into_keys().collect();
                for endpoints in all {
                    names.extend(self.note_endpoints(&endpoints));
                }
                names.into_iter().collect()
            }
            News::Seen(endpoints) => self.note_endpoints(&endpoints).into_iter().collect(),
            News::Gone(endpoints) => {
                let name = endpoints.metadata.name.unwrap_or_default();
                self.endpoints.remove(&name);
                vec![name]
            }
        };
        for instance in changed.iter().filter_map(|service| self.holder(service)).collect::<Vec<_>>() {
            self.see_where_it_leads(instance, &mut meaning);
        }
        meaning
    }

    fn note_endpoints(&mut self, endpoints: &Endpoints) -> Option<String> {
        let name = endpoints.metadata.name.clone()?;
        let subsets = endpoints.subsets.iter().flatten();
        let addresses = subsets.flat_map(|subset| subset.addresses.iter().chain(&subset.not_ready_addresses));
        let addresses = addresses.flatten().map(|address| address.ip.clone()).collect();
        self.endpoints.insert(name.clone(), addresses);
        Some(name)
    }

    fn see_where_it_leads(&mut self, instance: InstanceId, meaning: &mut Meaning) {
        let elsewhere = self.leads_elsewhere(instance);
        let Some(record) = self.records.get_mut(&instance) else { return };
        let Some(leads_to) = record.service.as_ref().map(|service| self.endpoints.get(service)) else {
            return;
        };
        let own = record.addresses();
        if own.is_empty() || (leads_to.is_none() && record.reached.is_none()) {
            return;
        }
        let reached = !elsewhere && leads_to.is_some_and(|all| all.iter().any(|one| own.contains(one)));
        if !reached && record.reached != Some(false) {
            meaning.events.push(Event::Broken { instance });
        }
        record.reached = Some(reached);
    }

    /// The Service of an instance leads to others than its pod.
    pub(crate) fn leads_elsewhere(&self, instance: InstanceId) -> bool {
        let Some(record) = self.records.get(&instance) else { return false };
        let own = record.addresses();
        let leads_to = record.service.as_ref().and_then(|service| self.endpoints.get(service));
        !own.is_empty() && leads_to.is_some_and(|all| all.iter().any(|address| !own.contains(address)))
    }

    /// Services whose pods are gone, once they have been so for a while.
    pub(crate) fn orphaned_services(&mut self, now: Instant) -> Vec<Garbage> {
        let claimed: HashSet<_> =
            self.records.values().filter_map(|record| record.service.as_deref()).collect();
        let selected: HashSet<_> = self.pods.values().map(|pod| pod.id.as_str()).collect();
        let mut garbage = Vec::new();
        for (name, service) in &mut self.services {
            if selected.contains(name.as_str()) || claimed.contains(name.as_str()) {
                service.orphaned_since = None;
            } else if *service.orphaned_since.get_or_insert(now) + ORPHAN_TIME <= now {
                garbage.push(Garbage::Service { name: name.clone(), uid: service.uid.clone() });
                service.orphaned_since = Some(now);
            }
        }
        garbage
    }
}
