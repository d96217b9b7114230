//! What reaches the pool from outside: the cluster's watches, the clock, the settings, the starts under way.

use std::collections::HashSet;
use std::time::Instant;

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};

use super::inner::Inner;
use super::state::{Event, InstanceId};
use super::{Image, Pool};
use crate::clock::Now;
use crate::roster::Sighting;
use crate::watch::News;

impl Pool {
    /// Each pod is read and compared with the template before the pool is locked for it.
    pub(crate) fn pods_changed(&self, news: News<Pod>) {
        match news {
            News::All(pods) => {
                let present: HashSet<_> = pods.iter().filter_map(|pod| pod.metadata.name.clone()).collect();
                self.update(|inner| {
                    let meaning = inner.roster.keep_pods(&present);
                    inner.take(meaning, false);
                });
                pods.into_iter().for_each(|pod| self.pod_seen(pod));
                if self.update(Inner::pods_synced) {
                    self.open();
                }
            }
            News::Seen(pod) => self.pod_seen(pod),
            News::Gone(pod) => self.update(|inner| {
                let meaning = inner.roster.pod_is_gone(pod.metadata.name.as_deref().unwrap_or_default());
                inner.take(meaning, false);
            }),
        }
    }

    fn pod_seen(&self, pod: Pod) {
        let Some(sighting) = Sighting::of(pod) else { return };
        let made = sighting.image.clone().map(|image| (image, sighting.made.clone()));
        let is_outdated =
            || made.as_ref().is_some_and(|(image, made)| self.0.freshness.is_outdated(image, made));
        let outdated = is_outdated();
        let found = self.update(|inner| {
            let meaning = inner.roster.pod_seen(sighting, Now::read());
            inner.take(meaning, outdated)
        });
        // The template may have changed before the instance was there to be judged by it.
        if let Some(instance) = found
            && is_outdated() != outdated
        {
            self.update(|inner| inner.on(Event::Outdated { instance, outdated: !outdated }));
        }
    }

    pub(crate) fn services_changed(&self, news: News<Service>) {
        match news {
            News::All(services) => {
                let present: HashSet<_> =
                    services.iter().filter_map(|service| service.metadata.name.clone()).collect();
                self.update(|inner| {
                    let meaning = inner.roster.keep_services(&present);
                    inner.take(meaning, false);
                });
                services.iter().for_each(|service| self.update(|inner| inner.roster.service_seen(service)));
                if self.update(Inner::services_synced) {
                    self.open();
                }
            }
            News::Seen(service) => self.update(|inner| inner.roster.service_seen(&service)),
            News::Gone(service) => self.update(|inner| {
                let name = service.metadata.name.as_deref().unwrap_or_default();
                let meaning = inner.roster.service_is_gone(name);
                inner.take(meaning, false);
            }),
        }
    }

    pub(crate) fn endpoints_changed(&self, news: News<Endpoints>) {
        self.update(|inner| {
            let meaning = inner.roster.endpoints(news);
            inner.take(meaning, false);
        });
    }

    /// The first lists of the namespace take too long: calls are served without them.
    pub(super) fn sync_timed_out(&self) {
        self.open();
    }

    fn open(&self) {
        let to_warm = self.to_warm();
        self.update(|inner| inner.open(&to_warm));
    }

    fn to_warm(&self) -> Vec<Image> {
        let starter = &self.0.starter;
        if starter.settings.warm_up { starter.functions.borrow().listed.clone() } else { Vec::new() }
    }

    pub(super) fn functions_changed(&self) {
        let functions = self.0.starter.functions.borrow().limits.clone();
        self.update(|inner| {
            let defaults = inner.defaults.clone();
            inner.on(Event::Limits { defaults, functions });
        });
        self.judge_all();
        let to_warm = self.to_warm();
        self.update(|inner| inner.warm_up(&to_warm));
    }

    pub(super) fn tick(&self) {
        self.update(|inner| inner.on(Event::Tick));
    }

    /// Looks for what is no longer used. The lock is taken for one function at a time.
    pub(super) fn scan(&self) {
        let images = self.lock().state.images();
        for image in images {
            self.update(|inner| inner.on(Event::Scan { image }));
        }
        self.judge_all();
        let garbage = self.lock().roster.sweep(Instant::now());
        garbage.into_iter().for_each(|garbage| self.remove(garbage));
        self.compare_images();
    }

    // === What the starter asks ===

    /// The names under which an instance is about to be created: news of its pod may come before the answer to its
    /// creation, and must find the instance.
    pub(crate) fn named(&self, instance: InstanceId, pod: &str, service: &str, reclaim_after: i64) {
        self.update(|inner| inner.roster.name(instance, pod, service, reclaim_after));
    }

    /// Whether a pod with this ID is about to go. As long as it exists, a new Service of that name would select it.
    pub(crate) fn is_being_left(&self, id: &str) -> bool {
        self.lock().roster.is_being_left(id)
    }

    /// Whether the holder of a Service takes up one of its function's places.
    pub(crate) fn takes_a_place(&self, service: &str, young: bool) -> bool {
        self.lock().takes_a_place(service, young)
    }
}
