//! What the pool's lock protects: the state, the objects of the cluster, the waiting calls.
//!
//! Nothing here awaits, logs or touches the outside world. What is to be done is collected as [`Action`]s, with all
//! that they need, for the time after the lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use loggia_grpc::Client;
use tokio::sync::oneshot;

use super::action::Action;
use super::state::{CallId, Effect, Event, Found, InstanceId, Reason, Refusal, Settings, State};
use super::views::Views;
use super::{Cause, Endpoint, Failure, FailureKind, Image, Limits};
use crate::clock::Now;
use crate::functions::default_limits;
use crate::roster::{Discovery, Meaning, Record, Roster};
use crate::start::Target;

/// Where a waiting call gets its answer.
pub(super) type Waiter = oneshot::Sender<Result<Endpoint, Refusal>>;

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) state: State,
    pub(super) roster: Roster,
    pub(super) defaults: Limits,
    waiters: HashMap<CallId, Waiter>,
    /// Calls that wait for the first list of the namespace. The state does not know them yet.
    early: Vec<(CallId, Image)>,
    synced: Synced,
    /// The end of the warm-up was published.
    warm: bool,
    calls: u64,
    actions: Vec<Action>,
}

/// Which of the first lists have arrived.
#[derive(Debug, Default)]
struct Synced {
    pods: bool,
    services: bool,
    /// Calls are served: both have arrived, or took too long.
    open: bool,
}

/// What became of a call that asked for an instance.
#[derive(Debug)]
pub(super) enum Answer {
    /// A warm call gets its endpoint without a channel.
    Now(Result<Endpoint, Refusal>),
    Later(oneshot::Receiver<Result<Endpoint, Refusal>>),
}

// === impl Inner ===

impl Inner {
    pub(super) fn new(
        settings: Settings,
        installation: &crate::Settings,
        functions: HashMap<Image, Limits>,
    ) -> Self {
        let defaults = default_limits(installation);
        Self {
            state: State::new(settings, defaults.clone(), functions),
            roster: Roster::new(installation.owner.clone(), defaults.ttl),
            defaults,
            waiters: HashMap::new(),
            early: Vec::new(),
            synced: Synced::default(),
            warm: false,
            calls: 0,
            actions: Vec::new(),
        }
    }

    /// When the pool wants a tick.
    pub(super) fn next_tick(&self) -> Option<Instant> {
        self.state.next_wake()
    }

    /// What is to be done once the lock is released.
    pub(super) fn take_actions(&mut self) -> Vec<Action> {
        if !self.warm && self.synced.open && self.state.is_warm() {
            self.warm = true;
            self.actions.push(Action::PublishWarm);
        }
        std::mem::take(&mut self.actions)
    }

    /// A call wants an instance.
    pub(super) fn ask(&mut self, image: Image) -> (CallId, Answer) {
        self.calls += 1;
        let call = CallId(self.calls);
        if !self.synced.open {
            self.early.push((call, image));
            return (call, self.wait(call));
        }
        let now = Instant::now();
        let mut answer = None;
        for effect in self.state.on(Event::Asked { call, image }, now) {
            match effect {
                Effect::Answer { call: answered, instance } if answered == call => {
                    answer = Some(self.endpoint(instance));
                }
                Effect::Refuse { call: refused, refusal } if refused == call => answer = Some(Err(refusal)),
                effect => self.prepare(effect, now),
            }
        }
        (call, answer.map_or_else(|| self.wait(call), Answer::Now))
    }

    fn wait(&mut self, call: CallId) -> Answer {
        let (waiter, answer) = oneshot::channel();
        self.waiters.insert(call, waiter);
        Answer::Later(answer)
    }

    /// A call is over, or its caller stopped waiting.
    pub(super) fn end(&mut self, call: CallId) {
        self.waiters.remove(&call);
        self.early.retain(|(early, _)| *early != call);
        self.on(Event::Ended { call });
    }

    pub(super) fn on(&mut self, event: Event) {
        let now = Instant::now();
        for effect in self.state.on(event, now) {
            self.prepare(effect, now);
        }
    }

    /// The first list of pods has arrived. Says whether the pool opens now.
    pub(super) fn pods_synced(&mut self) -> bool {
        self.synced.pods = true;
        self.may_open()
    }

    /// The first list of Services has arrived. Says whether the pool opens now.
    pub(super) fn services_synced(&mut self) -> bool {
        self.synced.services = true;
        self.may_open()
    }

    fn may_open(&self) -> bool {
        self.synced.pods && self.synced.services && !self.synced.open
    }

    /// From now on calls are served.
    pub(super) fn open(&mut self, to_warm: &[Image]) {
        if std::mem::replace(&mut self.synced.open, true) {
            return;
        }
        for (call, image) in std::mem::take(&mut self.early) {
            self.on(Event::Asked { call, image });
        }
        self.warm_up(to_warm);
    }

    /// Instances that exist need not be warmed up, so this waits for the first lists.
    pub(super) fn warm_up(&mut self, images: &[Image]) {
        if self.synced.open {
            images.iter().cloned().for_each(|image| self.on(Event::Warm { image }));
        }
    }

    /// An instance was started or adopted, or could not be.
    pub(super) fn started(&mut self, instance: InstanceId, outcome: Result<Client, Failure>) {
        let misrouted = self.roster.leads_elsewhere(instance);
        let ours = self.state.is_ours(instance);
        let outcome = match (outcome, self.roster.records.get_mut(&instance)) {
            (Ok(_), Some(record)) if misrouted => {
                let service = record.service.as_deref().unwrap_or_default();
                let text =
                    format!("the Service `{service}` leads to other pods, too; see which ones it selects");
                self.actions.push(Action::ReportMisrouted { text: text.clone() });
                Err(Arc::new(Failure::passing(Cause::Misrouted, text)))
            }
            (Ok(client), Some(record)) => {
                record.client = Some(client);
                let (image, pod) = (record.image.clone(), record.pod.clone());
                let took = record.starting_since.take().map(|since| since.elapsed());
                self.actions.push(Action::ReportStarted { image, pod, ours, took });
                Ok(())
            }
            (Ok(_), None) => Ok(()),
            (Err(failure), record) => {
                let failure = Arc::new(failure);
                if let Some(record) = record.filter(|_| failure.kind != FailureKind::Crowded) {
                    let took = record.starting_since.take().map(|since| since.elapsed());
                    let (image, failure) = (record.image.clone(), Arc::clone(&failure));
                    self.actions.push(Action::ReportNotStarted { image, failure, took });
                }
                Err(failure)
            }
        };
        self.on(Event::Started { instance, outcome });
    }

    /// A health check is over. A Service that selects other pods, too, makes its result worthless.
    pub(super) fn checked(&mut self, instance: InstanceId, healthy: bool) {
        let healthy = healthy && !self.roster.leads_elsewhere(instance);
        self.on(Event::Checked { instance, healthy });
    }

    /// Whether the holder of a Service takes up one of its function's places. One that this pool has not seen yet
    /// does while the Service is young: its pod is still to come.
    pub(super) fn takes_a_place(&self, service: &str, young: bool) -> bool {
        self.roster.holder(service).map_or(young, |instance| !self.state.is_leaving(instance))
    }

    /// Feeds what news of one object means. Returns the instance that was found by it, which may be `outdated`.
    pub(super) fn take(&mut self, meaning: Meaning, outdated: bool) -> Option<InstanceId> {
        let Meaning { events, garbage, found, pulled } = meaning;
        events.into_iter().for_each(|event| self.on(event));
        self.actions.extend(garbage.map(|garbage| Action::Remove { garbage }));
        for record in pulled.iter().filter_map(|instance| self.roster.records.get(instance)) {
            let compare = |digest| Action::CompareImage { image: record.image.clone(), digest };
            self.actions.extend(record.pulled.clone().map(compare));
        }
        let Discovery { record, held_until } = found?;
        let (instance, image) = (self.state.name_instance(), record.image.clone());
        self.actions.push(Action::ReportFound { image: image.clone(), pod: record.pod.clone() });
        self.roster.add(instance, record);
        self.on(Event::Found { instance, image, found: Found { outdated, held_until } });
        Some(instance)
    }

    /// What others may see of the pool. Texts are made from it after the lock is released.
    pub(super) fn views(&self) -> Views {
        let mut views = self.state.views(Instant::now());
        for view in views.instances_mut() {
            if let Some(record) = self.roster.records.get(&view.instance) {
                view.name.clone_from(&record.pod);
                view.pod.clone_from(&record.latest.borrow());
            }
        }
        views
    }

    fn prepare(&mut self, effect: Effect, now: Instant) {
        match effect {
            Effect::Answer { call, instance } => {
                if let Some(waiter) = self.waiters.remove(&call) {
                    let answer = self.endpoint(instance);
                    self.actions.push(Action::Answer { waiter, answer });
                }
            }
            Effect::Refuse { call, refusal } => {
                if let Some(waiter) = self.waiters.remove(&call) {
                    self.actions.push(Action::Answer { waiter, answer: Err(refusal) });
                }
            }
            Effect::Start { instance, image, most } => {
                let mut record = Record::new(image.clone());
                record.starting_since = Some(now);
                let latest = record.latest.subscribe();
                self.roster.add(instance, record);
                self.actions.push(Action::Start { instance, image, most, latest });
            }
            Effect::Check { instance } => self.actions.extend(self.check(instance)),
            Effect::Abandon { instance } => {
                self.actions.extend(
                    self.roster
                        .records
                        .get(&instance)
                        .map(|record| Action::Abandon { pod: record.pod.clone(), lost: record.lost.clone() }),
                );
            }
            Effect::Delete { instance, why } => self.delete(instance, why, now),
            Effect::Forget { instance } => self.roster.forget(instance),
            Effect::Hold { instance, until } => {
                let reclaim_after = Now::read().unix_at(until);
                if let Some(pod) = self.roster.set_reclaim_time(instance, reclaim_after) {
                    self.actions.push(Action::Hold { pod, reclaim_after });
                }
            }
        }
    }

    fn check(&self, instance: InstanceId) -> Option<Action> {
        let record = self.roster.records.get(&instance)?;
        let service = record.service.clone().unwrap_or_default();
        let target = Target {
            pod: record.pod.as_deref().unwrap_or_default().to_owned(),
            cluster_ip: self.roster.cluster_ip(&service),
            service,
        };
        let latest = record.latest.subscribe();
        Some(match record.client {
            None => Action::Adopt { instance, target, latest },
            Some(_) => Action::Check { instance, target, latest },
        })
    }

    fn delete(&mut self, instance: InstanceId, why: Reason, now: Instant) {
        let image = self.roster.records.get(&instance).map(|record| record.image.clone());
        self.actions.push(Action::ReportLeft { instance, image, why });
        self.actions.extend(
            self.roster.condemn(instance, why.to_string(), now).map(|garbage| Action::Remove { garbage }),
        );
    }

    fn endpoint(&self, instance: InstanceId) -> Result<Endpoint, Refusal> {
        let endpoint = self.roster.records.get(&instance).and_then(|record| {
            Some(Endpoint {
                instance,
                client: record.client.clone()?,
                pod: record.pod.clone()?,
                lost: record.lost.subscribe(),
            })
        });
        endpoint.ok_or_else(forgotten)
    }
}

/// Only ready instances are given to calls, and those have a client; only an answer removes a waiter.
pub(super) fn forgotten() -> Refusal {
    Refusal::NoInstance(Arc::new(Failure::lasting(Cause::Defect, "the pool lost the instance of the call")))
}
