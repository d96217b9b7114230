//! What the pool decides: which instances run, which calls wait for them, when they retire.
//!
//! [`State`] does nothing itself: an event and its time go in, effects come out. Nothing here knows Kubernetes: what a
//! cluster shows of an instance arrives as a [`Sight`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

mod place;

pub(crate) use super::event::{CallId, Effect, Event, Found, InstanceId, Reason, Refusal, Sight};
use super::function::{Function, Instance, Stage};
use super::views::{FunctionState, SeenInstance, Views};
use super::warm_up::WarmUp;
use super::{Backoff, Failure, Image, Limits};

/// What all functions share.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// How long a call waits for an instance while starts fail for passing reasons.
    pub(crate) patience: Duration,
    /// How many instances are warmed up at once.
    pub(crate) warm_at_once: usize,
    /// How long after its time an instance of another replica is removed, if its owner has not done so.
    pub(crate) margin: Duration,
    pub(crate) backoff: Backoff,
    /// How many instances there may be of all functions together, whichever replica started them.
    pub(crate) most_instances: Option<usize>,
}

/// The pool.
#[derive(Debug)]
pub(crate) struct State {
    settings: Settings,
    defaults: Limits,
    limits: HashMap<Image, Limits>,
    functions: HashMap<Image, Function>,
    calls: HashMap<CallId, CallState>,
    homes: HashMap<InstanceId, Image>,
    wakes: BinaryHeap<Reverse<(Instant, Image)>>,
    warm_up: WarmUp,
    instances: u64,
}

/// What a call does.
#[derive(Clone, Debug)]
enum CallState {
    Waiting(Image),
    Running(Image, InstanceId),
}

// === impl State ===

impl State {
    pub(crate) fn new(settings: Settings, defaults: Limits, limits: HashMap<Image, Limits>) -> Self {
        let warm_up = WarmUp::new(settings.warm_at_once);
        Self {
            settings,
            defaults,
            limits,
            functions: HashMap::new(),
            calls: HashMap::new(),
            homes: HashMap::new(),
            wakes: BinaryHeap::new(),
            warm_up,
            instances: 0,
        }
    }

    /// An ID for an instance that is about to be [found](Event::Found).
    pub(crate) fn name_instance(&mut self) -> InstanceId {
        self.instances += 1;
        InstanceId(self.instances)
    }

    /// The instance takes no more calls.
    pub(crate) fn is_leaving(&self, instance: InstanceId) -> bool {
        self.instance(instance).is_none_or(Instance::is_leaving)
    }

    /// This pool removes the instance.
    pub(crate) fn is_ours(&self, instance: InstanceId) -> bool {
        self.instance(instance).is_some_and(|instance| instance.ours)
    }

    fn instance(&self, id: InstanceId) -> Option<&Instance> {
        let function = self.homes.get(&id).and_then(|image| self.functions.get(image))?;
        function.instances.iter().find(|instance| instance.id == id)
    }

    /// The functions that have instances, calls or recent failures.
    pub(crate) fn images(&self) -> Vec<Image> {
        self.functions.keys().cloned().collect()
    }

    /// The pool as others may see it.
    pub(crate) fn views(&self, now: Instant) -> Views {
        let functions = self.functions.iter().map(|(image, function)| {
            let seen = |instance: &Instance| SeenInstance::new(instance.id, instance.view(now));
            FunctionState {
                image: image.clone(),
                waiting: function.queue.len(),
                failure: function.last_failure(),
                instances: function.instances.iter().map(seen).collect(),
            }
        });
        Views { functions: functions.collect(), to_warm: self.warm_up.waiting() }
    }

    /// When the pool wants a [`Event::Tick`].
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.wakes.peek().map(|Reverse((at, _))| *at)
    }

    /// Instances: all, and those that can take calls.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (usize, usize) {
        let all = self.functions.values().map(|function| function.instances.len()).sum();
        let usable = self.functions.values().map(Function::usable).sum();
        (all, usable)
    }

    /// How many calls wait, and how many run.
    #[cfg(test)]
    pub(crate) fn load(&self) -> (usize, usize) {
        let waiting = self.calls.values().filter(|call| matches!(call, CallState::Waiting(_))).count();
        assert_eq!(
            waiting,
            self.functions.values().map(|function| function.queue.len()).sum::<usize>(),
            "the states of calls and the queues must agree"
        );
        (waiting, self.calls.len() - waiting)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.calls.is_empty() && self.homes.is_empty()
    }

    /// Nothing is left to be warmed up.
    pub(crate) fn is_warm(&self) -> bool {
        self.warm_up.is_over()
    }

    pub(crate) fn on(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Asked { call, image } => self.asked(call, &image, now, &mut effects),
            Event::Ended { call } => self.ended(call, now, &mut effects),
            Event::Warm { image } => {
                self.warm_up.want(image);
                self.go_on_warming(now, &mut effects);
            }
            Event::Started { instance, outcome } => self.started(instance, outcome, now, &mut effects),
            Event::Broken { instance } => {
                self.on_instance(instance, now, &mut effects, |instance, effects| {
                    if matches!(instance.stage, Stage::Ready) {
                        instance.stage = Stage::Suspect;
                        effects.push(Effect::Check { instance: instance.id });
                    }
                });
            }
            Event::Checked { instance, healthy } => {
                self.on_instance(instance, now, &mut effects, |instance, effects| {
                    effects.extend(instance.checked(healthy));
                });
            }
            Event::Found { instance, image, found } => self.found(instance, &image, found, now, &mut effects),
            Event::Seen { instance, sight } => {
                self.on_instance(instance, now, &mut effects, |instance, effects| {
                    effects.extend(instance.seen(sight, now));
                });
            }
            Event::Held { instance, until } => {
                self.on_instance(instance, now, &mut effects, |instance, _| {
                    instance.wanted_by_others_until = Some(until);
                    instance.announced_until = instance.announced_until.max(Some(until));
                });
            }
            Event::Outdated { instance, outdated } => {
                self.on_instance(instance, now, &mut effects, |instance, _| instance.outdated = outdated);
            }
            Event::Limits { defaults, functions } => {
                (self.defaults, self.limits) = (defaults, functions);
                let images: Vec<_> = self.functions.keys().cloned().collect();
                for image in &images {
                    self.settle(image, now, &mut effects);
                }
            }
            Event::Tick => self.tick(now, &mut effects),
            Event::Scan { image } => self.scan(&image, now, &mut effects),
        }
        effects
    }

    fn limits(&self, image: &Image) -> Limits {
        self.limits.get(image).unwrap_or(&self.defaults).clone()
    }

    fn asked(&mut self, call: CallId, image: &Image, now: Instant, effects: &mut Vec<Effect>) {
        let limits = self.limits(image);
        let function = self.functions.entry(image.clone()).or_default();
        if let Some(failure) = function.fresh_failure(now) {
            effects.push(Effect::Refuse { call, refusal: Refusal::NoInstance(failure) });
            return;
        }
        // Porch's rule counts the calls before this one.
        if function.wants_another(&limits, now) {
            let needed = function.alive() == 0;
            if self.has_place(image, needed, now, effects) {
                self.start(image, now, effects);
            }
        }
        let Some(function) = self.functions.get_mut(image) else { return };
        function.queue.insert(call, now + self.settings.patience);
        self.calls.insert(call, CallState::Waiting(image.clone()));
        self.settle(image, now, effects);
        let waiting = self.functions.get(image).map_or(0, |function| function.queue.len());
        // A call that got an instance has left the queue, so only those that have to wait count.
        if limits.max_queue_length.is_some_and(|most| waiting > most)
            && matches!(self.calls.get(&call), Some(CallState::Waiting(_)))
        {
            self.calls.remove(&call);
            if let Some(function) = self.functions.get_mut(image) {
                function.queue.remove(&call);
            }
            effects.push(Effect::Refuse { call, refusal: Refusal::QueueFull { waiting: waiting - 1 } });
        }
    }

    fn ended(&mut self, call: CallId, now: Instant, effects: &mut Vec<Effect>) {
        match self.calls.remove(&call) {
            Some(CallState::Waiting(image)) => {
                if let Some(function) = self.functions.get_mut(&image) {
                    function.queue.remove(&call);
                }
                self.settle(&image, now, effects);
            }
            Some(CallState::Running(image, instance)) => {
                let ttl = self.limits(&image).ttl;
                let found = self.functions.get_mut(&image).and_then(|function| function.instance(instance));
                if let Some(instance) = found {
                    instance.running -= 1;
                    instance.idle_since = now;
                    effects.extend(instance.hold(now, ttl));
                }
                self.settle(&image, now, effects);
            }
            None => {}
        }
    }

    fn started(
        &mut self,
        id: InstanceId,
        outcome: Result<(), Arc<Failure>>,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        let was_warming = self.warm_up.ended(id);
        let Some(image) = self.homes.get(&id).cloned() else {
            // The pool gave it up meanwhile; its objects must not stay.
            effects.push(Effect::Delete { instance: id, why: Reason::NeverReady });
            return;
        };
        let ttl = self.limits(&image).ttl;
        let backoff = self.settings.backoff.clone();
        let Some(function) = self.functions.get_mut(&image) else { return };
        let Some(instance) = function.instance(id) else { return };
        if instance.is_leaving() {
            return self.settle(&image, now, effects);
        }
        match outcome {
            Ok(()) => {
                instance.stage = Stage::Ready;
                instance.idle_since = now;
                if instance.ours {
                    instance.announced_until = Some(now + ttl);
                }
                function.recovered();
            }
            Err(failure) => {
                instance.stage = Stage::Leaving(Reason::NeverReady);
                if instance.ours {
                    let at = function.failed(failure, now, &backoff);
                    self.wakes.push(Reverse((at, image.clone())));
                    if was_warming && function.may_retry_warming() {
                        self.warm_up.want(image.clone());
                    }
                }
            }
        }
        self.settle(&image, now, effects);
        self.go_on_warming(now, effects);
    }

    fn found(
        &mut self,
        id: InstanceId,
        image: &Image,
        found: Found,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        let mut instance = Instance::new(id, now);
        instance.ours = false;
        instance.outdated = found.outdated;
        instance.wanted_by_others_until = Some(found.held_until);
        instance.announced_until = Some(found.held_until);
        self.homes.insert(id, image.clone());
        self.functions.entry(image.clone()).or_default().instances.push(instance);
        effects.push(Effect::Check { instance: id });
        self.settle(image, now, effects);
    }

    fn on_instance(
        &mut self,
        id: InstanceId,
        now: Instant,
        effects: &mut Vec<Effect>,
        change: impl FnOnce(&mut Instance, &mut Vec<Effect>),
    ) {
        let Some(image) = self.homes.get(&id).cloned() else { return };
        let Some(instance) = self.functions.get_mut(&image).and_then(|function| function.instance(id)) else {
            return;
        };
        change(instance, effects);
        self.settle(&image, now, effects);
    }

    /// Brings a function in order after any change: calls get instances, leaving instances go, and if calls wait, an
    /// instance is on its way or will be tried again.
    fn settle(&mut self, image: &Image, now: Instant, effects: &mut Vec<Effect>) {
        let limits = self.limits(image);
        let Some(function) = self.functions.get_mut(image) else { return };
        function.retire_outdated();
        while let Some(call) = function.queue.keys().next().copied() {
            let Some(instance) = function.pick(limits.max_concurrent_evaluations_per_pod) else { break };
            instance.running += 1;
            let id = instance.id;
            function.turn = Some(id);
            function.queue.remove(&call);
            self.calls.insert(call, CallState::Running(image.clone(), id));
            effects.push(Effect::Answer { call, instance: id });
        }
        let nothing_to_wait_for = !function.queue.is_empty() && function.alive() == 0;
        if nothing_to_wait_for {
            // A pod that is not ready may come back, but calls do not wait for that.
            function.give_up_unready();
        }
        for (id, effect) in function.take_leavers() {
            self.homes.remove(&id);
            self.warm_up.ended(id);
            effects.push(effect);
        }
        if nothing_to_wait_for {
            if let Some(failure) = function.fresh_failure(now) {
                self.refuse_all(image, &Refusal::NoInstance(failure), effects);
            } else if function.may_start(now) {
                if self.has_place(image, true, now, effects) {
                    self.start(image, now, effects);
                } else {
                    let most = self.settings.most_instances.unwrap_or_default();
                    self.refuse_all(image, &Refusal::NoPlace { most }, effects);
                }
            }
        }
        let function = self.functions.get(image);
        if function.is_some_and(|function| function.is_blank(now)) {
            self.functions.remove(image);
        }
    }

    fn refuse_all(&mut self, image: &Image, refusal: &Refusal, effects: &mut Vec<Effect>) {
        let Some(function) = self.functions.get_mut(image) else { return };
        for (call, _) in std::mem::take(&mut function.queue) {
            self.calls.remove(&call);
            effects.push(Effect::Refuse { call, refusal: refusal.clone() });
        }
    }

    fn start(&mut self, image: &Image, now: Instant, effects: &mut Vec<Effect>) -> InstanceId {
        let id = self.name_instance();
        let most = self.limits(image).max_parallel_pods_per_function;
        self.homes.insert(id, image.clone());
        self.functions.entry(image.clone()).or_default().instances.push(Instance::new(id, now));
        effects.push(Effect::Start { instance: id, image: image.clone(), most });
        id
    }

    fn go_on_warming(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        loop {
            let functions = &self.functions;
            // One that failed waits for the end of its backoff, whose tick comes here again.
            let may_start =
                |image: &Image| functions.get(image).is_none_or(|function| function.may_start(now));
            let Some(image) = self.warm_up.next(may_start) else { return };
            // One for which there is no place starts with its first call.
            if self.functions.get(&image).is_none_or(|function| function.alive() == 0)
                && self.has_place(&image, false, now, effects)
            {
                let id = self.start(&image, now, effects);
                self.warm_up.began(id);
            }
        }
    }

    fn tick(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        while let Some(Reverse((at, _))) = self.wakes.peek()
            && *at <= now
        {
            let Some(Reverse((_, image))) = self.wakes.pop() else { return };
            self.out_of_patience(&image, now, effects);
            self.settle(&image, now, effects);
        }
        self.go_on_warming(now, effects);
    }

    /// Calls that waited long enough for a function whose starts fail are refused with the last failure.
    fn out_of_patience(&mut self, image: &Image, now: Instant, effects: &mut Vec<Effect>) {
        let Some(function) = self.functions.get_mut(image) else { return };
        let (Some(failure), 0) = (function.last_failure(), function.alive()) else { return };
        let late: Vec<_> =
            function.queue.iter().filter(|(_, until)| **until <= now).map(|(call, _)| *call).collect();
        for call in late {
            function.queue.remove(&call);
            self.calls.remove(&call);
            let refusal = Refusal::NoInstance(Arc::clone(&failure));
            effects.push(Effect::Refuse { call, refusal });
        }
    }

    fn scan(&mut self, image: &Image, now: Instant, effects: &mut Vec<Effect>) {
        let limits = self.limits(image);
        let Some(function) = self.functions.get_mut(image) else { return };
        for instance in &mut function.instances {
            effects.extend(instance.hold(now, limits.ttl));
        }
        function.expire(&limits, self.settings.margin, now);
        self.settle(image, now, effects);
    }
}
