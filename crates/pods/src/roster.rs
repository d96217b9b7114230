//! Which object of the cluster is which instance of the pool.
//!
//! Pure, like the pool's state: news in, events and garbage out. Pods are known by their names, which end in random
//! characters and are never used twice.

mod record;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Endpoints, Service};

pub(crate) use self::record::{Discovery, Made, Record, Sighting};
use crate::blueprint::annotation;
use crate::clock::Now;
use crate::names::IMAGE_LABEL;
use crate::pool::Image;
use crate::pool::state::{Event, InstanceId, Sight};
use crate::watch::News;

/// How long a Service may be without a pod: it is created first, and its pod right after it.
const ORPHAN_TIME: Duration = Duration::from_secs(20);

/// How long a deletion may take to show before it is requested again.
const DELETION_TIME: Duration = Duration::from_secs(120);

/// All instances, and what else the namespace has of their kind.
#[derive(Debug)]
pub(crate) struct Roster {
    /// The name of this replica, which its pods carry.
    owner: String,
    /// How long a pod is kept that does not say how long it is wanted.
    ttl: Duration,
    pub(crate) records: HashMap<InstanceId, Record>,
    by_pod: HashMap<Arc<str>, InstanceId>,
    by_service: HashMap<String, Vec<InstanceId>>,
    pods: HashMap<String, KnownPod>,
    /// The names of the pods that each ID has, by their label.
    pods_of: HashMap<String, HashSet<String>>,
    services: HashMap<String, KnownService>,
    /// The addresses that each Service selects, as far as that is known.
    endpoints: HashMap<String, Vec<String>>,
}

#[derive(Debug)]
struct KnownPod {
    uid: Option<String>,
    id: String,
    terminating: bool,
    fate: Fate,
}

/// What was decided about a pod without an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    /// Its owner removes it.
    Forgotten,
    /// Since when it is to be deleted.
    Condemned(Instant),
}

#[derive(Debug)]
struct KnownService {
    uid: Option<String>,
    cluster_ip: Option<String>,
    orphaned_since: Option<Instant>,
}

/// An object to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Garbage {
    Pod {
        name: String,
        uid: Option<String>,
        /// Its name and UID.
        service: Option<(String, Option<String>)>,
        why: String,
    },
    Service {
        name: String,
        uid: Option<String>,
    },
}

/// What news of an object means.
#[derive(Debug, Default)]
pub(crate) struct Meaning {
    pub(crate) events: Vec<Event>,
    pub(crate) garbage: Option<Garbage>,
    /// A pod without an instance, to be given one.
    pub(crate) found: Option<Discovery>,
    /// An instance whose node has just reported the digest that it pulled.
    pub(crate) pulled: Option<InstanceId>,
}

// === impl Roster ===

impl Roster {
    pub(crate) fn new(owner: String, ttl: Duration) -> Self {
        Self {
            owner,
            ttl,
            records: HashMap::new(),
            by_pod: HashMap::new(),
            by_service: HashMap::new(),
            pods: HashMap::new(),
            pods_of: HashMap::new(),
            services: HashMap::new(),
            endpoints: HashMap::new(),
        }
    }

    /// A new instance, which was found or has no objects yet.
    pub(crate) fn add(&mut self, instance: InstanceId, record: Record) {
        if let Some(pod) = &record.pod {
            self.by_pod.insert(Arc::clone(pod), instance);
        }
        if let Some(service) = &record.service {
            self.by_service.entry(service.clone()).or_default().push(instance);
        }
        self.records.insert(instance, record);
    }

    /// The names under which an instance is about to be created, and when its pod will say that it may be removed, in
    /// seconds since 1970: that is no news of another replica.
    pub(crate) fn name(&mut self, instance: InstanceId, pod: &str, service: &str, reclaim_after: i64) {
        let Some(record) = self.records.get_mut(&instance) else { return };
        let pod = Arc::<str>::from(pod);
        self.by_pod.insert(Arc::clone(&pod), instance);
        self.by_service.entry(service.to_owned()).or_default().push(instance);
        record.pod = Some(pod);
        record.service = Some(service.to_owned());
        record.reclaim_time.written = Some(reclaim_after);
    }

    /// The instance is to be deleted: its objects in the cluster.
    pub(crate) fn condemn(&mut self, instance: InstanceId, why: String, now: Instant) -> Option<Garbage> {
        let record = self.take(instance, Fate::Condemned(now))?;
        let name = record.pod?.to_string();
        let uid = self.pods.get(&name).and_then(|pod| pod.uid.clone());
        let service = record.service.map(|service| {
            let uid = self.services.get(&service).and_then(|service| service.uid.clone());
            (service, uid)
        });
        Some(Garbage::Pod { name, uid, service, why })
    }

    /// The instance is no longer the pool's; its owner removes it.
    pub(crate) fn forget(&mut self, instance: InstanceId) {
        self.take(instance, Fate::Forgotten);
    }

    fn take(&mut self, instance: InstanceId, fate: Fate) -> Option<Record> {
        let record = self.records.remove(&instance)?;
        if let Some(pod) = &record.pod {
            self.by_pod.remove(pod);
            if let Some(known) = self.pods.get_mut(&**pod) {
                known.fate = fate;
            }
        }
        if let Some(service) = &record.service
            && let Some(holders) = self.by_service.get_mut(service)
        {
            holders.retain(|holder| *holder != instance);
            if holders.is_empty() {
                self.by_service.remove(service);
            }
        }
        Some(record)
    }

    /// The instance that has this Service.
    pub(crate) fn holder(&self, service: &str) -> Option<InstanceId> {
        self.by_service.get(service)?.last().copied()
    }

    /// A pod with this ID is about to go: until it is gone, a new Service of that name would select it.
    pub(crate) fn is_being_left(&self, id: &str) -> bool {
        let mut pods = self.pods_of.get(id).into_iter().flatten().filter_map(|name| self.pods.get(name));
        pods.any(|pod| pod.fate != Fate::Open || pod.terminating)
    }

    /// The instances whose pods have been seen, and what those were made from.
    pub(crate) fn seen(&self) -> Vec<(InstanceId, Image, Made)> {
        let seen = self
            .records
            .iter()
            .filter_map(|(instance, record)| Some((*instance, record.image.clone(), record.made.clone()?)));
        seen.collect()
    }

    /// The functions that have instances, and the digests that nodes pulled for them.
    pub(crate) fn pulled(&self) -> (HashSet<Image>, Vec<(Image, String)>) {
        let images = self.records.values().map(|record| record.image.clone()).collect();
        let pulled = self.records.values();
        (images, pulled.filter_map(|record| Some((record.image.clone(), record.pulled.clone()?))).collect())
    }

    pub(crate) fn cluster_ip(&self, service: &str) -> Option<String> {
        self.services.get(service)?.cluster_ip.clone()
    }

    /// This pool is about to write on the pod of an instance when it may be removed. Returns the pod's name.
    pub(crate) fn set_reclaim_time(&mut self, instance: InstanceId, unix: i64) -> Option<Arc<str>> {
        let record = self.records.get_mut(&instance)?;
        let pod = record.pod.clone()?;
        record.reclaim_time.written = Some(unix);
        Some(pod)
    }

    /// Only the pods of these names exist.
    pub(crate) fn keep_pods(&mut self, present: &HashSet<String>) -> Meaning {
        let gone: Vec<_> = self.pods.keys().filter(|name| !present.contains(*name)).cloned().collect();
        let events = gone.iter().flat_map(|name| self.pod_is_gone(name).events).collect();
        Meaning { events, ..Meaning::default() }
    }

    pub(crate) fn pod_is_gone(&mut self, name: &str) -> Meaning {
        let mut meaning = Meaning::default();
        if let Some(KnownPod { id, .. }) = self.pods.remove(name)
            && let Some(names) = self.pods_of.get_mut(&id)
        {
            names.remove(name);
            if names.is_empty() {
                self.pods_of.remove(&id);
            }
        }
        let Some(instance) = self.by_pod.get(name).copied() else { return meaning };
        if let Some(record) = self.records.get(&instance) {
            record.latest.send_replace(None);
            meaning.events.push(Event::Seen { instance, sight: Sight::Gone });
        }
        meaning
    }

    pub(crate) fn pod_seen(&mut self, seen: Sighting, now: Now) -> Meaning {
        let mut meaning = Meaning::default();
        let known = self.pods.entry(seen.name.clone()).or_insert_with(|| {
            self.pods_of.entry(seen.id.clone()).or_default().insert(seen.name.clone());
            KnownPod { uid: None, id: seen.id.clone(), terminating: false, fate: Fate::Open }
        });
        known.uid.clone_from(&seen.uid);
        known.terminating = seen.terminating;
        if let Some(instance) = self.by_pod.get(&*seen.name).copied() {
            if let Some(record) = self.records.get_mut(&instance) {
                let before = record.pulled.clone();
                record.learn(instance, seen, now, &mut meaning.events);
                let reported = record.pulled.is_some() && record.pulled != before;
                meaning.pulled = reported.then_some(instance);
            }
            self.check_route(instance, &mut meaning);
            return meaning;
        }
        if known.fate != Fate::Open || known.terminating {
            return meaning;
        }
        let why = match seen.owner.as_deref() {
            _ if seen.ended => Some("it ended"),
            Some(owner) if owner == self.owner => Some("the pool gave it up"),
            _ => None,
        };
        match why {
            Some(why) => {
                known.fate = Fate::Condemned(now.instant);
                meaning.garbage = self.waste(&seen.name, why);
            }
            None => meaning.found = seen.discovered(self.ttl, now),
        }
        meaning
    }

    /// A pod without an instance, with the Service that selects it.
    fn waste(&self, name: &str, why: &str) -> Option<Garbage> {
        let KnownPod { uid, id, .. } = self.pods.get(name)?;
        let service = self.services.get(id).map(|service| (id.clone(), service.uid.clone()));
        Some(Garbage::Pod { name: name.to_owned(), uid: uid.clone(), service, why: why.to_owned() })
    }

    /// What is to be deleted by now: Services without pods, and pods whose deletion did not happen.
    pub(crate) fn sweep(&mut self, now: Instant) -> Vec<Garbage> {
        let mut garbage = self.orphaned_services(now);
        garbage.extend(self.left_overs(now));
        garbage
    }

    /// Pods that were to be deleted long ago and show no sign of it.
    fn left_overs(&mut self, now: Instant) -> Vec<Garbage> {
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

    /// Only the Services of these names exist.
    pub(crate) fn keep_services(&mut self, present: &HashSet<String>) -> Meaning {
        let gone: Vec<_> = self.services.keys().filter(|name| !present.contains(*name)).cloned().collect();
        let events = gone.iter().flat_map(|name| self.service_is_gone(name).events).collect();
        Meaning { events, ..Meaning::default() }
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

    pub(crate) fn service_is_gone(&mut self, name: &str) -> Meaning {
        let mut meaning = Meaning::default();
        if self.services.remove(name).is_some() {
            let holders = self.by_service.get(name).into_iter().flatten();
            meaning.events.extend(holders.map(|&instance| Event::Seen { instance, sight: Sight::Gone }));
        }
        meaning
    }

    /// Which addresses Services select. `Endpoints` change a moment before or after the pod does, so a Service that no
    /// longer selects its pod is only a reason for a health check.
    pub(crate) fn endpoints(&mut self, news: News<Endpoints>) -> Meaning {
        let mut meaning = Meaning::default();
        let changed: Vec<_> = match news {
            News::All(all) => {
                let mut names: HashSet<_> = std::mem::take(&mut self.endpoints).into_keys().collect();
                for endpoints in all {
                    names.extend(self.learn_endpoints(&endpoints));
                }
                names.into_iter().collect()
            }
            News::Seen(endpoints) => self.learn_endpoints(&endpoints).into_iter().collect(),
            News::Gone(endpoints) => {
                let name = endpoints.metadata.name.unwrap_or_default();
                self.endpoints.remove(&name);
                vec![name]
            }
        };
        for instance in changed.iter().filter_map(|service| self.holder(service)).collect::<Vec<_>>() {
            self.check_route(instance, &mut meaning);
        }
        meaning
    }

    fn learn_endpoints(&mut self, endpoints: &Endpoints) -> Option<String> {
        let name = endpoints.metadata.name.clone()?;
        let subsets = endpoints.subsets.iter().flatten();
        let addresses = subsets.flat_map(|subset| subset.addresses.iter().chain(&subset.not_ready_addresses));
        let addresses = addresses.flatten().map(|address| address.ip.clone()).collect();
        self.endpoints.insert(name.clone(), addresses);
        Some(name)
    }

    fn check_route(&mut self, instance: InstanceId, meaning: &mut Meaning) {
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

    /// The Service of an instance selects other pods than its own.
    pub(crate) fn leads_elsewhere(&self, instance: InstanceId) -> bool {
        let Some(record) = self.records.get(&instance) else { return false };
        let own = record.addresses();
        let leads_to = record.service.as_ref().and_then(|service| self.endpoints.get(service));
        !own.is_empty() && leads_to.is_some_and(|all| all.iter().any(|address| !own.contains(address)))
    }

    /// Services whose pods are gone, once they have been so for a while.
    fn orphaned_services(&mut self, now: Instant) -> Vec<Garbage> {
        let mut garbage = Vec::new();
        for (name, service) in &mut self.services {
            if self.pods_of.contains_key(name) || self.by_service.contains_key(name) {
                service.orphaned_since = None;
            } else if *service.orphaned_since.get_or_insert(now) + ORPHAN_TIME <= now {
                garbage.push(Garbage::Service { name: name.clone(), uid: service.uid.clone() });
                service.orphaned_since = Some(now);
            }
        }
        garbage
    }
}
