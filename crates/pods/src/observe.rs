//! What others may observe: the pool as it is, and what happens to its instances.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

/// Gets reports of what happens to instances, and of requests to the API server. It runs on the pool's paths: an
/// observer must not block.
pub trait Observer: fmt::Debug + Send + Sync {
    /// One step of bringing up an instance is done.
    fn phase(&self, _phase: Phase, _took: Duration) {}

    /// An instance came up, or did not.
    fn started(&self, _image: &str, _up: bool, _took: Duration) {}

    /// An instance of this pool left.
    fn left(&self, _image: &str, _why: &'static str) {}

    /// A request to the API server is over; without a code there was no answer.
    fn asked(&self, _verb: &'static str, _resource: &str, _code: Option<u16>, _took: Duration) {}
}

/// The steps of bringing up an instance, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// What the image's registry says about it.
    Metadata,
    /// The pull secret, the template, the Service and the pod are written.
    Create,
    /// The pod gets a node.
    Schedule,
    /// The node sets the pod up and runs its init containers.
    Start,
    /// The node gets the function's image, where it does not have it, and starts the container.
    Pull,
    /// The server in the pod answers.
    Ready,
}

/// The pool at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub functions: Vec<FunctionView>,
    /// Functions that are to be warmed up and were not yet.
    pub to_warm: usize,
    /// Why the watch of pods is down, if it is.
    pub trouble: Option<String>,
}

/// A function of the pool.
#[derive(Clone, Debug)]
pub struct FunctionView {
    pub image: String,
    /// The calls that wait for an instance.
    pub waiting: usize,
    pub instances: Vec<InstanceView>,
    /// Why the last start failed, if none worked since.
    pub failure: Option<String>,
}

/// An instance of a function.
#[derive(Clone, Debug)]
pub struct InstanceView {
    /// The pod's name, once it has one.
    pub pod: Option<String>,
    pub node: Option<String>,
    pub state: InstanceState,
    /// The calls that run in it.
    pub running: usize,
    /// How long nothing has run in it, if nothing does.
    pub idle: Option<Duration>,
    /// How long ago the pod was created.
    pub age: Option<Duration>,
    /// This pool started it; otherwise it was found.
    pub ours: bool,
    /// A new one would be made from another template.
    pub outdated: bool,
}

/// Where an instance is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstanceState {
    Starting,
    Idle,
    Busy,
    /// The cluster says that it is not ready, or a connection to it broke.
    Unready,
    /// It takes no more calls.
    Leaving,
}

/// Ignores all reports.
#[derive(Debug)]
pub(crate) struct Unobserved;

/// How far a start has come, and since when.
#[derive(Debug)]
pub(crate) struct Progress {
    observer: Arc<dyn Observer>,
    next: Option<Phase>,
    since: tokio::time::Instant,
}

// === impl Unobserved ===

impl Observer for Unobserved {}

// === impl Phase ===

impl Phase {
    pub const ALL: [Self; 6] =
        [Self::Metadata, Self::Create, Self::Schedule, Self::Start, Self::Pull, Self::Ready];

    pub fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Create => "create",
            Self::Schedule => "schedule",
            Self::Start => "start",
            Self::Pull => "pull",
            Self::Ready => "ready",
        }
    }

    fn next(self) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| *phase > self)
    }
}

// === impl InstanceState ===

impl InstanceState {
    pub const ALL: [Self; 5] = [Self::Starting, Self::Idle, Self::Busy, Self::Unready, Self::Leaving];

    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Unready => "unready",
            Self::Leaving => "leaving",
        }
    }
}

// === impl Progress ===

impl Progress {
    pub(crate) fn new(observer: Arc<dyn Observer>) -> Self {
        Self { observer, next: Some(Phase::Metadata), since: tokio::time::Instant::now() }
    }

    /// A step is done, and with it those before it.
    pub(crate) fn reached(&mut self, phase: Phase) {
        while let Some(next) = self.next.filter(|next| *next <= phase) {
            let now = tokio::time::Instant::now();
            self.observer.phase(next, now - self.since);
            (self.next, self.since) = (next.next(), now);
        }
    }

    /// Takes over what a pod's status shows.
    pub(crate) fn seen(&mut self, pod: &Pod) {
        if let Some(phase) = phase_of(pod) {
            self.reached(phase);
        }
    }
}

/// The last step that a pod has behind it.
fn phase_of(pod: &Pod) -> Option<Phase> {
    let scheduled = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let initialized = conditions.iter().any(|one| one.type_ == "Initialized" && one.status == "True");
    let containers = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let running = containers.iter().any(|one| {
        one.name == crate::names::CONTAINER && one.state.as_ref().is_some_and(|state| state.running.is_some())
    });
    match (scheduled, initialized, running) {
        (_, _, true) => Some(Phase::Pull),
        (true, true, false) => Some(Phase::Start),
        (true, false, false) => Some(Phase::Schedule),
        (false, ..) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;

    #[derive(Debug, Default)]
    struct Record(Mutex<Vec<(Phase, u64)>>);

    impl Observer for Record {
        fn phase(&self, phase: Phase, took: Duration) {
            self.0.lock().unwrap().push((phase, took.as_secs()));
        }
    }

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_start_is_divided_among_its_phases() {
        let record = Arc::new(Record::default());
        let mut progress = Progress::new(record.clone());
        let after = async |seconds| tokio::time::advance(Duration::from_secs(seconds)).await;
        after(1).await;
        progress.reached(Phase::Metadata);
        after(2).await;
        progress.reached(Phase::Create);
        progress.seen(&pod(json!({ "spec": { "containers": [] } })));
        after(3).await;
        let scheduled = json!({ "nodeName": "n", "containers": [] });
        progress.seen(&pod(json!({ "spec": scheduled })));
        after(4).await;
        let initialized = json!([{ "type": "Initialized", "status": "True" }]);
        progress.seen(&pod(json!({ "spec": scheduled, "status": { "conditions": initialized } })));
        // An older state changes nothing.
        progress.seen(&pod(json!({ "spec": scheduled })));
        after(5).await;
        let running = json!([{
            "name": "function", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "running": {} }
        }]);
        progress.seen(&pod(json!({ "spec": scheduled, "status": { "containerStatuses": running } })));
        after(6).await;
        progress.reached(Phase::Ready);
        let expected: Vec<_> = Phase::ALL.into_iter().zip(1..).collect();
        assert_eq!(*record.0.lock().unwrap(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_seen_apart_took_no_time() {
        let record = Arc::new(Record::default());
        let mut progress = Progress::new(record.clone());
        progress.reached(Phase::Create);
        tokio::time::advance(Duration::from_secs(7)).await;
        progress.reached(Phase::Ready);
        let phases = record.0.lock().unwrap().clone();
        assert_eq!(phases.iter().map(|(phase, _)| *phase).collect::<Vec<_>>(), Phase::ALL);
        assert_eq!(phases.iter().map(|(_, took)| took).sum::<u64>(), 7);
    }

    #[test]
    fn a_snapshot_shows_each_function_with_its_own_instances_and_calls() {
        use crate::pool::state::{CallId, Effect, Event, Settings, State};
        use crate::pool::{Backoff, Cause, Failure, Image, Limits};

        let limits = Limits {
            max_waitlist_length: 2,
            max_parallel_pods_per_function: 2,
            min_pods_per_function: 0,
            max_concurrent_evaluations_per_pod: None,
            max_queue_length: None,
            ttl: Duration::from_secs(60),
        };
        let settings = Settings {
            patience: Duration::from_secs(60),
            warm_at_once: 1,
            margin: Duration::from_secs(10),
            most_instances: None,
            backoff: Backoff::default(),
        };
        let mut state = State::new(settings, limits, Default::default());
        let begin = std::time::Instant::now();
        let mut calls = 0;
        let mut ask = |state: &mut State, image: &str| {
            calls += 1;
            let image = Image::with_prefix(image, Some("r.io"));
            let asked = Event::Asked { call: CallId(calls), image };
            state.on(asked, begin).into_iter().find_map(|effect| match effect {
                Effect::Start { instance, .. } => Some(instance),
                _ => None,
            })
        };
        let first = ask(&mut state, "r.io/b:v1").unwrap();
        state.on(Event::Started { instance: first, outcome: Ok(()) }, begin);
        ask(&mut state, "r.io/b:v1");
        ask(&mut state, "r.io/b:v1").expect("a second instance, for the third call");
        let broken = ask(&mut state, "a:v1").unwrap();
        let failure = Failure::passing(Cause::Failed, "no node");
        state.on(Event::Started { instance: broken, outcome: Err(Arc::new(failure)) }, begin);

        let snapshot = state.views(begin + Duration::from_secs(5)).finish(0);
        let [a, b] = snapshot.functions.as_slice() else { panic!("{snapshot:#?}") };
        assert_eq!((a.image.as_str(), a.waiting, a.instances.len()), ("r.io/a:v1", 1, 0));
        assert_eq!(a.failure.as_deref(), Some("no node"));
        assert_eq!((b.image.as_str(), b.waiting, b.failure.as_deref()), ("r.io/b:v1", 0, None));
        let states: Vec<_> = b.instances.iter().map(|instance| instance.state).collect();
        assert_eq!(states, [InstanceState::Busy, InstanceState::Starting]);
        assert_eq!(b.instances[0].running, 3);
    }
}
