//! The one task that owns the pool: it hears of everything, and has done what the pool decides.
//!
//! It never waits while it is told something, so whoever tells it does so under its lock.

mod outdated;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use loggia_evaluator::Client;
use loggia_registry::Metadata;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, sleep_until};
use tonic::Code;
use tracing::{debug, info, warn};

use super::state::{CallId, Effect, Event, Found, InstanceId, Refusal, State};
use super::{Desk, Endpoint, Failure, FailureKind, Image, Limits};
use crate::Snapshot;
use crate::functions::Functions;
use crate::roster::{Discovery, Garbage, Meaning, Now, Record, Roster};
use crate::start::{Job, Starter, Target, unix_now};
use crate::template::Template;
use crate::watch::News;

/// How long calls are held back for the first look at the namespace, so that what is there is not started
/// once more.
const FIRST_LOOK: Duration = Duration::from_secs(3);

/// Notes on pods that are written at once.
const NOTES_AT_ONCE: usize = 4;

/// All that the pool's task is ever told.
#[derive(Debug)]
pub(crate) enum Message {
    /// A call wants an instance. The task keeps `reply`; the state learns only the call's id.
    Ask {
        image: Image,
        requested: Arc<str>,
        call: CallId,
        reply: oneshot::Sender<Result<Endpoint, Refusal>>,
    },
    /// A call's guard was dropped: it is done, or failed, or gave up waiting.
    Ended {
        call: CallId,
    },
    /// An instance is about to be created under these names.
    Named {
        instance: InstanceId,
        pod: String,
        service: String,
    },
    /// An instance was started or taken over, or could not be.
    Started {
        instance: InstanceId,
        outcome: Result<Client, Failure>,
    },
    /// Somebody wants to know whether the holder of a Service takes up a place of its function.
    Counts {
        service: String,
        young: bool,
        reply: oneshot::Sender<bool>,
    },
    /// Somebody wants to know whether a pod with this ID is about to go.
    BeingLeft {
        id: String,
        reply: oneshot::Sender<bool>,
    },
    /// A registry was asked again what an image is, because a node has something else under its name.
    Asked {
        image: Image,
        pulled: String,
        outcome: Result<Arc<Metadata>, String>,
    },
    /// Somebody wants to see the pool.
    Show {
        reply: oneshot::Sender<Snapshot>,
    },
    Pods(Box<News<Pod>>),
    Services(Box<News<Service>>),
    Endpoints(Box<News<Endpoints>>),
    Event(Event),
}

/// The owner of the pool's state.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) state: State,
    pub(crate) roster: Roster,
    pub(crate) starter: Starter,
    pub(crate) inbox: mpsc::WeakUnboundedSender<Message>,
    pub(crate) garbage: mpsc::UnboundedSender<Garbage>,
    pub(crate) functions: watch::Receiver<Arc<Functions>>,
    pub(crate) template: watch::Receiver<Option<Arc<Template>>>,
    pub(crate) defaults: Limits,
    pub(crate) replies: HashMap<CallId, oneshot::Sender<Result<Endpoint, Refusal>>>,
    /// The spelling of an image that its pods are started with.
    pub(crate) spellings: HashMap<Image, Arc<str>>,
    /// What the template's hash must be for a function, as far as somebody asked since it last changed.
    pub(crate) hashes: HashMap<Image, Option<String>>,
    /// Calls that came before the first look at the namespace.
    pub(crate) early: Vec<(CallId, Image)>,
    pub(crate) looked: Synced,
    /// What nodes have made of images, where that was no surprise or has been looked into.
    pub(crate) pulled: HashSet<(Image, String)>,
    pub(crate) notes: Arc<Semaphore>,
    /// Warming up is over.
    pub(crate) warm: watch::Sender<bool>,
}

/// What of the namespace has been seen.
#[derive(Debug, Default)]
pub(crate) struct Synced {
    pods: bool,
    services: bool,
    enough: bool,
}

/// Works until the last handle of the pool is gone.
pub(super) async fn run(desk: Arc<Desk>, task: Task, mut messages: mpsc::UnboundedReceiver<Message>) {
    let (mut functions, mut template) = (task.functions.clone(), task.template.clone());
    let scan_interval = task.starter.settings.scan_interval;
    let mut scan = interval(scan_interval.unwrap_or(Duration::MAX / 4));
    scan.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut first_look = pin!(sleep(FIRST_LOOK));
    let mut looked = false;
    desk.seat(Some(task));
    loop {
        let wake = desk.with(|task| {
            task.note_warmth();
            task.next_wake()
        });
        let wake = async {
            match wake {
                Some(at) => sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            message = messages.recv() => match message {
                Some(message) => desk.with(|task| task.hear(message)),
                None => break,
            },
            () = wake => desk.with(|task| task.on(Event::Tick)),
            () = desk.earlier.notified() => {}
            _ = scan.tick(), if scan_interval.is_some() => desk.with(Task::scan),
            () = first_look.as_mut(), if !looked => {
                looked = true;
                desk.with(Task::look_no_longer);
            }
            Ok(()) = functions.changed() => desk.with(Task::functions_changed),
            Ok(()) = template.changed() => desk.with(Task::template_changed),
        }
    }
    desk.seat(None);
}

// === impl Task ===

impl Task {
    pub(crate) fn notes() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(NOTES_AT_ONCE))
    }

    /// When it next has something to do by itself.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.state.next_wake()
    }

    pub(super) fn hear(&mut self, message: Message) {
        match message {
            Message::Ask { image, requested, call, reply } => {
                self.replies.insert(call, reply);
                self.spellings.entry(image.clone()).or_insert(requested);
                match self.looked.enough {
                    true => self.on(Event::Asked { call, image }),
                    false => self.early.push((call, image)),
                }
            }
            Message::Ended { call } => {
                self.replies.remove(&call);
                self.early.retain(|(early, _)| *early != call);
                self.on(Event::Ended { call });
            }
            Message::Named { instance, pod, service } => self.roster.name(instance, pod, service),
            Message::Started { instance, outcome } => self.started(instance, outcome),
            Message::Counts { service, young, reply } => {
                // Of one that nobody knows yet, the pod is still to come; or the Service is still to go.
                let holder = self.roster.holder(&service);
                let _ = reply.send(holder.map_or(young, |instance| !self.state.is_leaving(instance)));
            }
            Message::BeingLeft { id, reply } => drop(reply.send(self.roster.is_being_left(&id))),
            Message::Asked { image, pulled, outcome } => self.asked_again(image, pulled, outcome),
            Message::Endpoints(news) => {
                let meaning = self.roster.endpoints(*news);
                self.take(meaning);
            }
            Message::Show { reply } => drop(reply.send(self.snapshot())),
            Message::Pods(news) => {
                let first = matches!(*news, News::All(_));
                let meaning = self.read_pods(*news);
                self.take(meaning);
                self.looked.pods |= first;
                self.look();
            }
            Message::Services(news) => {
                let first = matches!(*news, News::All(_));
                let mut meaning = Meaning::default();
                match *news {
                    News::All(services) => meaning = self.roster.all_services(&services),
                    News::Seen(service) => self.roster.service_seen(&service),
                    News::Gone(service) => {
                        self.roster.service_is_gone(
                            service.metadata.name.as_deref().unwrap_or_default(),
                            &mut meaning,
                        );
                    }
                }
                self.take(meaning);
                self.looked.services |= first;
                self.look();
            }
            // Whoever answered, calls may go elsewhere.
            Message::Event(Event::Checked { instance, healthy }) => {
                let healthy = healthy && !self.roster.leads_elsewhere(instance);
                self.on(Event::Checked { instance, healthy });
            }
            Message::Event(event) => self.on(event),
        }
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.state.snapshot(Instant::now());
        for (instance, view) in &mut snapshot.instances {
            let Some(record) = self.roster.records.get(instance) else { continue };
            view.pod.clone_from(&record.pod);
            let latest = record.latest.borrow();
            let Some(pod) = latest.as_ref() else { continue };
            view.node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
            view.age =
                created.map(|created| Duration::from_secs((unix_now() - created).max(0).unsigned_abs()));
        }
        let trouble = self.starter.trouble.borrow().clone();
        Snapshot { trouble, ..snapshot.finish() }
    }

    fn look(&mut self) {
        if self.looked.pods && self.looked.services && !self.looked.enough {
            self.looked_enough();
        }
    }

    /// Calls have waited long enough for the first look.
    fn look_no_longer(&mut self) {
        if !self.looked.enough {
            self.looked_enough();
        }
    }

    /// From now on calls are served.
    fn looked_enough(&mut self) {
        self.looked.enough = true;
        for (call, image) in std::mem::take(&mut self.early) {
            self.on(Event::Asked { call, image });
        }
        self.warm_up();
    }

    fn started(&mut self, instance: InstanceId, outcome: Result<Client, Failure>) {
        let elsewhere = self.roster.leads_elsewhere(instance);
        let outcome = match (outcome, self.roster.records.get_mut(&instance)) {
            (Ok(_), Some(record)) if elsewhere => {
                let service = record.service.as_deref().unwrap_or_default();
                let text =
                    format!("the Service `{service}` leads to other pods, too; see which ones it selects");
                warn!("{text}");
                Err(Arc::new(Failure { kind: FailureKind::Passing, text, code: Code::Unknown }))
            }
            (Ok(client), Some(record)) => {
                if let Some(begin) = record.begin.take() {
                    self.starter.observer.started(record.image.as_str(), true, begin.elapsed());
                }
                record.client = Some(client);
                let pod = record.pod.as_deref().unwrap_or_default();
                info!("New pod {pod} is ready for image {}. ours: {}", record.image, record.ours);
                Ok(())
            }
            (Ok(_), None) => Ok(()),
            (Err(failure), record) => {
                if let Some(record) = record.filter(|_| failure.kind != FailureKind::Crowded) {
                    warn!("Pod creation failed for image {}: {}", record.image, failure.text);
                    if let Some(begin) = record.begin.take() {
                        self.starter.observer.started(record.image.as_str(), false, begin.elapsed());
                    }
                }
                Err(Arc::new(failure))
            }
        };
        self.on(Event::Started { instance, outcome });
    }

    fn read_pods(&mut self, news: News<Pod>) -> Meaning {
        let ttl = self.defaults.ttl;
        let owner = self.starter.settings.owner.clone();
        let mut meaning = Meaning::default();
        match news {
            News::All(pods) => return self.roster.all_pods(pods, ttl, &owner, now()),
            News::Seen(pod) => self.roster.pod_seen(pod, ttl, &owner, now(), &mut meaning),
            News::Gone(pod) => {
                self.roster.pod_is_gone(pod.metadata.name.as_deref().unwrap_or_default(), &mut meaning);
            }
        }
        meaning
    }

    fn take(&mut self, meaning: Meaning) {
        let Meaning { events, garbage, found, pulled } = meaning;
        events.into_iter().for_each(|event| self.on(event));
        garbage.into_iter().for_each(|thing| drop(self.garbage.send(thing)));
        for Discovery { record, held_until } in found {
            info!(
                "retrieved function evaluator pod {}/{} for {}",
                self.starter.settings.namespace,
                record.pod.as_deref().unwrap_or_default(),
                record.requested
            );
            let outdated = self.is_outdated(&record);
            let (instance, image) = (self.state.name_instance(), record.image.clone());
            self.spellings.entry(image.clone()).or_insert_with(|| Arc::clone(&record.requested));
            self.roster.add(instance, record);
            self.on(Event::Found { instance, image, found: Found { outdated, held_until } });
        }
        pulled.into_iter().for_each(|instance| self.compare_image(instance));
    }

    fn functions_changed(&mut self) {
        let functions = self.functions.borrow_and_update().clone();
        self.on(Event::Limits { defaults: self.defaults.clone(), functions: functions.limits.clone() });
        self.hashes.clear();
        self.judge_templates();
        self.warm_up();
    }

    fn warm_up(&mut self) {
        // What is there already need not be warmed, so one looks first.
        if !self.starter.settings.warm_up || !self.looked.enough {
            return;
        }
        let listed = self.functions.borrow().listed.clone();
        for (image, requested) in listed {
            self.spellings.entry(image.clone()).or_insert(requested);
            self.on(Event::Warm { image });
        }
    }

    /// Warming up is over once nothing is left of it. What is to be warm later does not change that.
    fn note_warmth(&self) {
        if self.looked.enough && self.state.is_warm() {
            self.warm.send_if_modified(|warm| !std::mem::replace(warm, true));
        }
    }

    fn scan(&mut self) {
        self.on(Event::Scan);
        self.judge_templates();
        let now = Instant::now();
        for thing in self.roster.orphaned_services(now).into_iter().chain(self.roster.left_overs(now)) {
            let _ = self.garbage.send(thing);
        }
        let used: HashSet<_> = self.roster.records.values().map(|record| record.image.clone()).collect();
        self.hashes.retain(|image, _| used.contains(image));
        self.pulled.retain(|(image, _)| used.contains(image));
        let instances: Vec<_> = self.roster.records.keys().copied().collect();
        instances.into_iter().for_each(|instance| self.compare_image(instance));
        let listed = self.functions.borrow().limits.clone();
        self.spellings.retain(|image, _| used.contains(image) || listed.contains_key(image));
    }

    fn on(&mut self, event: Event) {
        for effect in self.state.on(event, Instant::now()) {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Answer { call, instance } => {
                let Some(reply) = self.replies.remove(&call) else { return };
                let endpoint = self.roster.records.get(&instance).and_then(|record| {
                    let pod = record.pod.as_deref().unwrap_or_default().into();
                    Some(Endpoint {
                        instance,
                        client: record.client.clone()?,
                        pod,
                        lost: record.lost.subscribe(),
                    })
                });
                // Without an endpoint the reply is dropped, and that is an error at the caller.
                if let Some(endpoint) = endpoint {
                    let _ = reply.send(Ok(endpoint));
                }
            }
            Effect::Refuse { call, refusal } => {
                if let Some(reply) = self.replies.remove(&call) {
                    let _ = reply.send(Err(refusal));
                }
            }
            Effect::Start { instance, image, most } => self.start(instance, image, most),
            Effect::Check { instance } => self.check(instance),
            Effect::Abandon { instance } => {
                if let Some(record) = self.roster.records.get(&instance) {
                    let pod = record.pod.as_deref().unwrap_or_default();
                    warn!("pod {pod} is not ready and does not answer: its calls are made elsewhere");
                    record.lost.send_replace(true);
                }
            }
            Effect::Delete { instance, why } => {
                debug!(?instance, %why, "An instance leaves");
                if let Some(record) = self.roster.records.get(&instance) {
                    self.starter.observer.left(record.image.as_str(), why.name());
                }
                if let Some(thing) = self.roster.condemn(instance, why.to_string(), Instant::now()) {
                    let _ = self.garbage.send(thing);
                }
            }
            Effect::Forget { instance } => self.roster.forget(instance),
            Effect::Hold { instance, until } => self.hold(instance, until),
        }
    }

    fn start(&mut self, instance: InstanceId, image: Image, most: usize) {
        info!("Scaling up for image {image}. No idle pods available. Starting a new pod.");
        let requested = self.spellings.get(&image).cloned().unwrap_or_else(|| image.as_str().into());
        let mut record = Record::new(image.clone(), Arc::clone(&requested));
        record.begin = Some(Instant::now());
        let latest = record.latest.subscribe();
        self.roster.add(instance, record);
        let job = Job { instance, image, requested, most, latest, inbox: self.inbox.clone() };
        let starter = self.starter.clone();
        self.report(instance, async move { starter.start(job).await });
    }

    fn check(&mut self, instance: InstanceId) {
        let Some(record) = self.roster.records.get(&instance) else { return };
        let service = record.service.clone().unwrap_or_default();
        let target = Target {
            pod: record.pod.clone().unwrap_or_default(),
            cluster_ip: self.roster.cluster_ip(&service),
            service,
        };
        let (starter, latest) = (self.starter.clone(), record.latest.subscribe());
        if record.client.is_none() {
            return self.report(instance, async move { starter.adopt(&target, latest).await });
        }
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            // A panic while checking is no sign of health either.
            let check = tokio::spawn(async move { starter.check(&target, &latest).await });
            let healthy = check.await.unwrap_or(false);
            if let Some(inbox) = inbox.upgrade() {
                let _ = inbox.send(Message::Event(Event::Checked { instance, healthy }));
            }
        });
    }

    /// Has an instance brought up, and reports what became of it whatever happens.
    fn report(
        &self,
        instance: InstanceId,
        work: impl Future<Output = Result<Client, Failure>> + Send + 'static,
    ) {
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            let outcome = tokio::spawn(work).await.unwrap_or_else(|error| {
                let text = format!("the start ended by a defect: {error}");
                Err(Failure { kind: FailureKind::Lasting, text, code: Code::Internal })
            });
            if let Some(inbox) = inbox.upgrade() {
                let _ = inbox.send(Message::Started { instance, outcome });
            }
        });
    }

    fn hold(&mut self, instance: InstanceId, until: Instant) {
        let Some(pod) = self.roster.records.get(&instance).and_then(|record| record.pod.clone()) else {
            return;
        };
        let ahead = until.saturating_duration_since(Instant::now()).as_secs();
        let seconds = unix_now() + i64::try_from(ahead).unwrap_or_default();
        self.roster.told(instance, seconds);
        let (cluster, notes) = (self.starter.cluster.clone(), Arc::clone(&self.notes));
        let refused = Arc::clone(&self.starter.refused.patches);
        tokio::spawn(async move {
            let Ok(_place) = notes.acquire().await else { return };
            if let Err(error) = cluster.set_reclaim_after(&pod, seconds).await {
                let text = cluster.diagnose("patch", "pods", &error).text;
                match error.code() == Some(403) && !refused.swap(true, Ordering::Relaxed) {
                    true => warn!("{text}; other replicas may remove pods that this one uses"),
                    false => debug!("{text}"),
                }
            }
        });
    }
}

fn now() -> Now {
    Now { instant: Instant::now(), unix: unix_now() }
}
