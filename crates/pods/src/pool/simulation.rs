//! The pool under millions of random events, held against laws.
//!
//! A small world plays the cluster and the callers: it starts what it is told to, loses pods, breaks
//! connections, changes its mind. After each event the laws are checked; at the end everything is let
//! come to rest, and nobody may be left waiting and no pod left behind.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::state::{CallId, Effect, Event, Found, InstanceId, Settings, Sight, State};
use super::{Backoff, Cause, Failure, FailureKind, Image, Limits};

/// A small generator: the same seed gives the same story.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % sides
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.roll(from.len())])
    }
}

/// An instance as the world has it.
#[derive(Debug)]
struct Pod {
    ours: bool,
    outdated: bool,
    /// The pool waits to hear whether it started.
    starting: bool,
    checking: bool,
    /// The cluster let it go.
    lost: bool,
    calls: HashSet<CallId>,
}

struct World {
    state: State,
    dice: Dice,
    now: Instant,
    limits: Limits,
    most_instances: Option<usize>,
    pods: HashMap<InstanceId, Pod>,
    /// The instances that the pool started, by function.
    by_image: HashMap<Image, Vec<InstanceId>>,
    waiting: HashMap<CallId, Image>,
    running: HashMap<CallId, InstanceId>,
    calls: u64,
    answered: u64,
    refused: u64,
}

impl World {
    fn new(seed: u64, limits: Limits, most_instances: Option<usize>) -> Self {
        let settings = Settings {
            patience: Duration::from_secs(60),
            warm_at_once: 4,
            margin: Duration::from_secs(120),
            backoff: Backoff::default(),
            most_instances,
        };
        Self {
            state: State::new(settings, limits.clone(), HashMap::new()),
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            now: Instant::now(),
            limits,
            most_instances,
            pods: HashMap::new(),
            by_image: HashMap::new(),
            waiting: HashMap::new(),
            running: HashMap::new(),
            calls: 0,
            answered: 0,
            refused: 0,
        }
    }

    #[allow(clippy::needless_pass_by_value, reason = "what was told is told")]
    fn tell(&mut self, event: Event) {
        let effects = self.state.on(event.clone(), self.now);
        for effect in effects {
            self.carry_out(effect, &event);
        }
    }

    fn carry_out(&mut self, effect: Effect, told: &Event) {
        match effect {
            Effect::Answer { call, instance } => {
                assert!(self.waiting.remove(&call).is_some(), "{call:?} was answered twice, after {told:?}");
                let pod = self.pods.get_mut(&instance);
                let pod = pod.unwrap_or_else(|| panic!("{call:?} got a pod that is gone, after {told:?}"));
                assert!(!pod.starting, "{call:?} got a pod that is not ready, after {told:?}");
                pod.calls.insert(call);
                if let Some(most) = self.limits.max_concurrent_evaluations_per_pod {
                    assert!(pod.calls.len() <= most, "too many calls in {instance:?}, after {told:?}");
                }
                self.running.insert(call, instance);
                self.answered += 1;
            }
            Effect::Refuse { call, .. } => {
                assert!(self.waiting.remove(&call).is_some(), "{call:?} was answered twice, after {told:?}");
                self.refused += 1;
            }
            Effect::Start { instance, image, most } => {
                let all = self.pods.len();
                assert!(
                    self.most_instances.is_none_or(|most| all < most),
                    "{all} pods and one more, after {told:?}"
                );
                let of_image = self.by_image.entry(image.clone()).or_default();
                of_image.retain(|instance| self.pods.contains_key(instance));
                let counted = |pod: &&Pod| pod.ours && !pod.outdated && !pod.lost && !pod.checking;
                let pods =
                    of_image.iter().filter_map(|instance| self.pods.get(instance)).filter(counted).count();
                of_image.push(instance);
                assert!(pods < most, "{pods} pods of {image} and one more, after {told:?}");
                let pod = Pod {
                    ours: true,
                    outdated: false,
                    starting: true,
                    checking: false,
                    lost: false,
                    calls: HashSet::new(),
                };
                assert!(self.pods.insert(instance, pod).is_none(), "{instance:?} was started twice");
            }
            Effect::Check { instance } => {
                self.pods.get_mut(&instance).expect("only what exists is checked").checking = true;
            }
            Effect::Abandon { instance } => {
                let pod = self.pods.get(&instance).expect("only what exists is abandoned");
                assert!(pod.lost && !pod.calls.is_empty(), "{instance:?} was abandoned, after {told:?}");
            }
            Effect::Delete { instance, why } => {
                if let Some(pod) = self.pods.remove(&instance) {
                    assert!(pod.calls.is_empty(), "{instance:?} was deleted in use ({why}), after {told:?}");
                }
            }
            Effect::Forget { instance } => {
                let pod = self.pods.remove(&instance).expect("only what exists is forgotten");
                assert!(!pod.ours && pod.calls.is_empty(), "{instance:?} was forgotten, after {told:?}");
            }
            Effect::Hold { instance, until } => {
                assert!(self.pods.contains_key(&instance) && until > self.now, "{told:?}");
            }
        }
    }

    /// Who waits and who runs must be the same in the pool and in the world.
    fn check_load(&self) {
        let (waiting, running) = self.state.load();
        assert_eq!((waiting, running), (self.waiting.len(), self.running.len()));
    }

    fn ask(&mut self, image: Image) {
        self.calls += 1;
        let call = CallId(self.calls);
        self.waiting.insert(call, image.clone());
        self.tell(Event::Asked { call, image });
    }

    fn end(&mut self, call: CallId) {
        self.waiting.remove(&call);
        if let Some(instance) = self.running.remove(&call)
            && let Some(pod) = self.pods.get_mut(&instance)
        {
            pod.calls.remove(&call);
        }
        self.tell(Event::Ended { call });
    }

    fn finish_start(&mut self, instance: InstanceId, outcome: Result<(), FailureKind>) {
        let Some(pod) = self.pods.get_mut(&instance) else { return };
        (pod.starting, pod.checking) = (false, false);
        let failure =
            |kind| Arc::new(Failure { kind, cause: Cause::Failed, text: "the world is unkind".to_owned() });
        self.tell(Event::Started { instance, outcome: outcome.map_err(failure) });
    }

    fn finish_check(&mut self, instance: InstanceId, healthy: bool) {
        let Some(pod) = self.pods.get_mut(&instance) else { return };
        if pod.starting {
            let kind = if healthy { Ok(()) } else { Err(FailureKind::Lasting) };
            return self.finish_start(instance, kind);
        }
        pod.checking = false;
        pod.lost = pod.lost || !healthy;
        self.tell(Event::Checked { instance, healthy });
    }

    fn some_pod(&mut self, filter: impl Fn(&Pod) -> bool) -> Option<InstanceId> {
        let mut pods: Vec<_> =
            self.pods.iter().filter(|(_, pod)| filter(pod)).map(|(instance, _)| *instance).collect();
        pods.sort_unstable();
        self.dice.pick(&pods)
    }

    fn step(&mut self, images: usize) {
        self.now += Duration::from_millis(self.dice.roll(200) as u64);
        if self.state.next_wake().is_some_and(|at| at <= self.now) {
            self.tell(Event::Tick);
        }
        // A crowd teaches nothing that a group does not.
        let crowded = self.waiting.len() + self.running.len() > 60;
        match self.dice.roll(100) {
            0..35 if !crowded => {
                let image = image(self.dice.roll(images));
                self.ask(image);
            }
            0..65 => {
                let mut calls: Vec<_> = self.running.keys().chain(self.waiting.keys()).copied().collect();
                calls.sort_unstable();
                if let Some(call) = self.dice.pick(&calls) {
                    self.end(call);
                }
            }
            65..80 => {
                if let Some(instance) = self.some_pod(|pod| pod.starting && pod.ours) {
                    let outcome = match self.dice.roll(10) {
                        0 => Err(FailureKind::Lasting),
                        1 => Err(FailureKind::Passing),
                        2 => Err(FailureKind::Crowded),
                        _ => Ok(()),
                    };
                    self.finish_start(instance, outcome);
                }
            }
            80..85 => {
                if let Some(instance) = self.some_pod(|pod| pod.checking) {
                    let healthy = self.dice.roll(2) == 0;
                    self.finish_check(instance, healthy);
                }
            }
            85..88 => {
                if let Some(instance) = self.some_pod(|pod| !pod.starting) {
                    self.tell(Event::Broken { instance });
                }
            }
            88..92 => {
                if let Some(instance) = self.some_pod(|pod| !pod.starting && !pod.lost) {
                    let sights =
                        [Sight::Ready, Sight::NotReady, Sight::Terminating, Sight::Failed, Sight::Gone];
                    let sight = sights[self.dice.roll(sights.len())];
                    if let Some(pod) = self.pods.get_mut(&instance) {
                        // What is not ready makes room as soon as somebody needs it.
                        pod.lost = sight != Sight::Ready;
                    }
                    self.tell(Event::Seen { instance, sight });
                }
            }
            92..94 => self.find(images),
            94..96 => {
                if let Some(instance) = self.some_pod(|pod| !pod.starting) {
                    let outdated = self.dice.roll(3) > 0;
                    if let Some(pod) = self.pods.get_mut(&instance) {
                        // One that was outdated for a moment may have begun to leave.
                        pod.outdated = pod.outdated || outdated;
                    }
                    self.tell(Event::Outdated { instance, outdated });
                }
            }
            96 => {
                let image = image(self.dice.roll(images));
                self.tell(Event::Warm { image });
            }
            97 => {
                if let Some(instance) = self.some_pod(|_| true) {
                    let until = self.now + Duration::from_secs(self.dice.roll(100) as u64);
                    self.tell(Event::Held { instance, until });
                }
            }
            _ => self.scan(),
        }
    }

    fn scan(&mut self) {
        let mut images = self.state.images();
        images.sort_unstable();
        for image in images {
            self.tell(Event::Scan { image });
        }
    }

    fn find(&mut self, images: usize) {
        let (instance, image) = (self.state.name_instance(), image(self.dice.roll(images)));
        let outdated = self.dice.roll(2) == 0;
        let pod = Pod {
            ours: false,
            outdated,
            starting: true,
            checking: false,
            lost: false,
            calls: HashSet::new(),
        };
        self.pods.insert(instance, pod);
        let held_until = self.now + Duration::from_secs(self.dice.roll(60) as u64);
        self.tell(Event::Found { instance, image, found: Found { outdated, held_until } });
    }

    /// The world turns kind: every start succeeds, every call ends, nobody asks again.
    fn come_to_rest(&mut self) {
        for _ in 0..10_000 {
            while let Some(instance) = self.some_pod(|pod| pod.checking) {
                self.finish_check(instance, true);
            }
            while let Some(instance) = self.some_pod(|pod| pod.starting) {
                self.finish_start(instance, Ok(()));
            }
            let running: Vec<_> = self.running.keys().copied().collect();
            running.into_iter().for_each(|call| self.end(call));
            let calm = self.waiting.is_empty() && self.running.is_empty();
            if calm && self.pods.values().all(|pod| !pod.starting && !pod.checking) {
                break;
            }
            self.now += Duration::from_secs(1);
            self.tell(Event::Tick);
        }
        assert_eq!(self.waiting.len(), 0, "somebody was forgotten");
        for _ in 0..3 {
            self.now += Duration::from_secs(1000);
            self.tell(Event::Tick);
            while let Some(instance) = self.some_pod(|pod| pod.starting) {
                self.finish_start(instance, Ok(()));
            }
            self.now += Duration::from_secs(1000);
            self.scan();
        }
        assert!(self.pods.is_empty(), "pods were left behind: {:?}", self.pods);
        assert_eq!(self.state.counts(), (0, 0));
        assert!(self.state.is_empty(), "{:?}", self.state);
    }
}

fn image(number: usize) -> Image {
    Image::new(&format!("registry/f{number}:v1"))
}

fn limits(seed: u64) -> Limits {
    let pick = |options: &[usize], shift: u32| options[(seed >> shift) as usize % options.len()];
    Limits {
        max_waitlist_length: pick(&[1, 2, 5], 0),
        max_parallel_pods_per_function: pick(&[1, 2, 4], 1),
        min_pods_per_function: 0,
        max_concurrent_evaluations_per_pod: [None, Some(1), Some(3)][(seed >> 2) as usize % 3],
        max_queue_length: [None, Some(4)][(seed >> 3) as usize % 2],
        ttl: Duration::from_secs(20),
    }
}

#[test]
fn the_laws_hold_over_millions_of_random_events() {
    let seeds = 60;
    let steps = if cfg!(debug_assertions) { 34_000 } else { 200_000 };
    let (mut answered, mut refused) = (0, 0);
    for seed in 1..=seeds {
        let most_instances = [None, None, Some(5), Some(12)][seed as usize % 4];
        let mut world = World::new(seed, limits(seed), most_instances);
        for step in 0..steps {
            world.step(1 + seed as usize % 7);
            if step % 16 == 0 {
                world.check_load();
            }
        }
        world.come_to_rest();
        answered += world.answered;
        refused += world.refused;
    }
    println!("{} events, {answered} answered, {refused} refused", seeds * steps);
    assert!(answered > seeds * steps / 8, "the story was too sad to show anything: {answered}");
}

#[test]
fn ten_thousand_functions_and_a_hundred_thousand_calls_take_seconds() {
    let begin = Instant::now();
    let mut world = World::new(7, Limits { max_parallel_pods_per_function: 2, ..limits(1) }, None);
    for call in 0..100_000 {
        world.now += Duration::from_micros(100);
        let image = image(call % 10_000);
        world.ask(image.clone());
        // Every third call sees a start finish, every second one a call end.
        let newest = world.by_image.get(&image).and_then(|instances| instances.last().copied());
        if let Some(instance) = newest.filter(|instance| call % 3 == 0 && world.pods[instance].starting) {
            world.finish_start(instance, Ok(()));
        }
        if call % 2 == 0
            && let Some(call) = newest.and_then(|instance| world.pods[&instance].calls.iter().next().copied())
        {
            world.end(call);
        }
    }
    let starting: Vec<_> = world.pods.iter().filter(|(_, pod)| pod.starting).map(|(id, _)| *id).collect();
    starting.into_iter().for_each(|instance| world.finish_start(instance, Ok(())));
    world.check_load();
    assert_eq!(world.waiting.len(), 0);
    assert_eq!(world.answered, 100_000);
    let took = begin.elapsed();
    println!("10,000 functions, 100,000 calls: {took:?}");
    assert!(took < Duration::from_secs(60), "{took:?}");
}
