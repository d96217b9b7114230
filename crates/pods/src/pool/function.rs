//! One function in the pool: its instances and the calls that wait for one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::state::{CallId, Effect, InstanceId, Reason, Sight};
use super::{Backoff, Failure, FailureKind, Limits};
use crate::observe::{InstanceState, InstanceView};

/// The shortest time between two writes of how long an instance is wanted, for ordinary times to live.
const HOLD_STEP: Duration = Duration::from_secs(30);

/// How long an instance may stay unready while no call needs it.
const UNREADY_TIME: Duration = Duration::from_secs(60);

/// How long the failures of a function are remembered once it might be tried again.
const MEMORY: Duration = Duration::from_secs(30);

/// How long an instance must have idled before it makes place for another function. Functions that are called in turn
/// would else start a pod a call.
const SETTLED_TIME: Duration = Duration::from_secs(30);

/// After so many failures in a row, warming a function up is left to the first call.
const WARM_TRIES: u32 = 8;

/// A function, as the pool knows it.
#[derive(Debug, Default)]
pub(super) struct Function {
    /// The waiting calls, first come first served, and until when each waits while starts fail.
    pub(super) queue: BTreeMap<CallId, Instant>,
    /// In the order in which they came.
    pub(super) instances: Vec<Instance>,
    /// The last one that was picked.
    pub(super) turn: Option<InstanceId>,
    failures: u32,
    retry_at: Option<Instant>,
    last_failure: Option<Arc<Failure>>,
}

/// An instance, as the pool knows it.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) id: InstanceId,
    pub(super) stage: Stage,
    /// The calls that run in it.
    pub(super) running: usize,
    /// Since when nothing runs in it.
    pub(super) idle_since: Instant,
    /// Since when the cluster says that it is not ready.
    unready_since: Option<Instant>,
    /// This pool started it, so this pool removes it.
    pub(super) ours: bool,
    /// It is of another template than a new one would be.
    pub(super) outdated: bool,
    /// A call of this pool ran in it.
    used: bool,
    /// Until when another replica wants it.
    pub(super) wanted_by_others_until: Option<Instant>,
    /// Until when its annotation says that it is wanted, whichever replica wrote it.
    pub(super) announced_until: Option<Instant>,
}

/// Where an instance is in its life.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// Being created, or found and not yet checked.
    Starting,
    Ready,
    /// A connection to it broke, and a health check is under way.
    Suspect,
    /// No more calls; it goes once those that it has are over.
    Leaving(Reason),
}

// === impl Function ===

impl Function {
    pub(super) fn instance(&mut self, id: InstanceId) -> Option<&mut Instance> {
        self.instances.iter_mut().find(|instance| instance.id == id)
    }

    /// Instances of the current template that take calls now or will soon.
    pub(super) fn alive(&self) -> usize {
        self.instances.iter().filter(|instance| instance.is_alive()).count()
    }

    /// Instances that take calls now.
    pub(super) fn usable(&self) -> usize {
        self.instances.iter().filter(|instance| instance.is_usable()).count()
    }

    /// Instances of the current template that count against the limit.
    fn count(&self) -> usize {
        let counts = |instance: &&Instance| !instance.outdated && !instance.is_leaving();
        self.instances.iter().filter(counts).count()
    }

    /// Running and waiting calls.
    fn load(&self) -> usize {
        let alive = self.instances.iter().filter(|instance| instance.is_alive());
        alive.map(|instance| instance.running).sum::<usize>() + self.queue.len()
    }

    /// Whether the next call is a reason to start an instance.
    pub(super) fn wants_another(&mut self, limits: &Limits, now: Instant) -> bool {
        if !self.may_start(now) {
            return false;
        }
        if self.alive() == 0 {
            self.give_up_unready();
            return true;
        }
        self.load() >= limits.max_waitlist_length.saturating_mul(self.alive())
            && self.count() < limits.max_parallel_pods_per_function
    }

    /// The backoff after a failure is over.
    pub(super) fn may_start(&self, now: Instant) -> bool {
        self.retry_at.is_none_or(|at| at <= now)
    }

    /// The instance for the next call: the least loaded one, in turn among equals.
    pub(super) fn pick(
        &mut self,
        max_concurrent_evaluations_per_pod: Option<usize>,
    ) -> Option<&mut Instance> {
        let turn = self.turn;
        let free = |instance: &&mut Instance| {
            instance.is_usable()
                && max_concurrent_evaluations_per_pod.is_none_or(|most| instance.running < most)
        };
        let order = |instance: &&mut Instance| {
            (instance.outdated, instance.running, turn.is_some_and(|turn| instance.id <= turn), instance.id)
        };
        let picked = self.instances.iter_mut().filter(free).min_by_key(order)?;
        picked.used = true;
        Some(picked)
    }

    /// Instances of an old template leave as soon as one of the current template can do their work.
    pub(super) fn retire_outdated(&mut self) {
        if self.instances.iter().any(|instance| instance.is_usable() && !instance.outdated) {
            let outdated = |instance: &&mut Instance| instance.outdated && !instance.is_leaving();
            for instance in self.instances.iter_mut().filter(outdated) {
                instance.stage = Stage::Leaving(Reason::Outdated);
            }
        }
    }

    pub(super) fn give_up_unready(&mut self) {
        for instance in &mut self.instances {
            if instance.unready_since.is_some() && matches!(instance.stage, Stage::Ready | Stage::Suspect) {
                instance.stage = Stage::Leaving(Reason::NotReady);
            }
        }
    }

    /// Takes out the instances that have left, with what is to be done about each.
    pub(super) fn take_leavers(&mut self) -> Vec<(InstanceId, Effect)> {
        let mut taken = Vec::new();
        self.instances.retain(|instance| match (instance.stage, instance.ours) {
            (Stage::Leaving(why), _) if instance.running == 0 => {
                let id = instance.id;
                match (why, instance.ours) {
                    (Reason::Failed, _) | (_, true) => {
                        taken.push((id, Effect::Delete { instance: id, why }));
                        false
                    }
                    (Reason::Gone, false) => {
                        taken.push((id, Effect::Forget { instance: id }));
                        false
                    }
                    // Its owner may still be able to reach it. It is left alone until its time is up.
                    (_, false) => true,
                }
            }
            _ => true,
        });
        taken
    }

    /// The instance that idles longest, if one can go for another function: it has idled for a while, this pool may
    /// remove it, and no call waits. So many instances are kept.
    pub(super) fn longest_idle(&self, kept: usize, now: Instant) -> Option<(Instant, InstanceId)> {
        if !self.queue.is_empty() {
            return None;
        }
        let spare = self.alive() > kept;
        let idle = |instance: &&Instance| {
            instance.ours
                && (spare || !instance.is_alive())
                && instance.running == 0
                && matches!(instance.stage, Stage::Ready)
                && instance.idle_since + SETTLED_TIME <= now
                && instance.wanted_by_others_until.is_none_or(|until| until <= now)
        };
        let idle = self.instances.iter().filter(idle).map(|instance| (instance.idle_since, instance.id));
        idle.min()
    }

    /// Marks the instances that were not used for long enough.
    pub(super) fn expire(&mut self, limits: &Limits, margin: Duration, now: Instant) {
        let mut spare = self.alive().saturating_sub(limits.min_pods_per_function);
        for instance in &mut self.instances {
            if instance.running > 0 {
                continue;
            }
            let expired = instance.wanted_until(limits.ttl, margin).is_some_and(|until| until <= now);
            let unready = instance.unready_since.is_some_and(|since| since + UNREADY_TIME <= now);
            match instance.stage {
                Stage::Ready | Stage::Suspect if expired && (spare > 0 || !instance.is_alive()) => {
                    spare -= usize::from(instance.is_alive());
                    instance.stage = Stage::Leaving(Reason::Expired);
                    // Its owner, if it still runs, would have extended its time or removed it by now.
                    instance.ours = true;
                }
                Stage::Ready | Stage::Suspect if unready => {
                    instance.stage = Stage::Leaving(Reason::NotReady);
                }
                Stage::Leaving(_) if expired => instance.ours = true,
                _ => {}
            }
        }
    }

    /// Records a failed start and returns when to try again.
    pub(super) fn failed(&mut self, failure: Arc<Failure>, now: Instant, backoff: &Backoff) -> Instant {
        let wait = match failure.kind {
            FailureKind::Crowded => backoff.crowded,
            kind => {
                self.failures = self.failures.saturating_add(1);
                let most =
                    if kind == FailureKind::Passing { backoff.most_passing } else { backoff.most_lasting };
                let doubled = backoff.least.saturating_mul(1 << (self.failures - 1).min(16));
                doubled.min(most)
            }
        };
        self.last_failure = Some(failure);
        *self.retry_at.insert(now + wait)
    }

    pub(super) fn recovered(&mut self) {
        self.failures = 0;
        self.retry_at = None;
        self.last_failure = None;
    }

    pub(super) fn may_retry_warming(&self) -> bool {
        self.failures < WARM_TRIES
    }

    pub(super) fn last_failure(&self) -> Option<Arc<Failure>> {
        self.last_failure.clone()
    }

    /// A failure that another try would only repeat, while nothing else could serve.
    pub(super) fn fresh_failure(&self, now: Instant) -> Option<Arc<Failure>> {
        let failure = self.last_failure.as_ref()?;
        let fresh = failure.kind == FailureKind::Lasting && !self.may_start(now);
        (fresh && self.alive() == 0 && self.usable() == 0).then(|| Arc::clone(failure))
    }

    /// It has no instances, no calls and no recent failures.
    pub(super) fn is_blank(&self, now: Instant) -> bool {
        let forgotten = self.retry_at.is_none_or(|at| at + MEMORY <= now);
        self.instances.is_empty() && self.queue.is_empty() && forgotten
    }
}

// === impl Instance ===

impl Instance {
    pub(super) fn new(id: InstanceId, now: Instant) -> Self {
        Self {
            id,
            stage: Stage::Starting,
            running: 0,
            idle_since: now,
            unready_since: None,
            ours: true,
            outdated: false,
            used: false,
            wanted_by_others_until: None,
            announced_until: None,
        }
    }

    /// The instance as others may see it.
    pub(super) fn view(&self, now: Instant) -> InstanceView {
        let state = match self.stage {
            Stage::Starting => InstanceState::Starting,
            Stage::Leaving(_) => InstanceState::Leaving,
            Stage::Suspect => InstanceState::Unready,
            Stage::Ready if self.unready_since.is_some() => InstanceState::Unready,
            Stage::Ready if self.running > 0 => InstanceState::Busy,
            Stage::Ready => InstanceState::Idle,
        };
        InstanceView {
            pod: None,
            node: None,
            state,
            running: self.running,
            idle: (self.running == 0).then(|| now.saturating_duration_since(self.idle_since)),
            age: None,
            ours: self.ours,
            outdated: self.outdated,
        }
    }

    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.stage, Stage::Leaving(_))
    }

    fn is_usable(&self) -> bool {
        matches!(self.stage, Stage::Ready) && self.unready_since.is_none()
    }

    fn is_alive(&self) -> bool {
        !self.outdated && !self.is_leaving() && self.unready_since.is_none()
    }

    /// Takes over how the cluster sees it. An unready instance in which calls run gets a health check.
    pub(super) fn seen(&mut self, sight: Sight, now: Instant) -> Option<Effect> {
        // The starter of our own instance watches its pod itself.
        if self.ours && matches!(self.stage, Stage::Starting) {
            return None;
        }
        match sight {
            Sight::Ready => self.unready_since = None,
            Sight::NotReady => {
                if !matches!(self.stage, Stage::Starting) {
                    self.unready_since.get_or_insert(now);
                }
                if matches!(self.stage, Stage::Ready) && self.running > 0 {
                    self.stage = Stage::Suspect;
                    return Some(Effect::Check { instance: self.id });
                }
            }
            Sight::Terminating | Sight::Gone => self.stage = Stage::Leaving(Reason::Gone),
            Sight::Failed => self.stage = Stage::Leaving(Reason::Failed),
        }
        None
    }

    /// A health check is over. A server that is only busy may not answer in time, so calls are given up only where the
    /// cluster finds it unready, too.
    pub(super) fn checked(&mut self, healthy: bool) -> Option<Effect> {
        match self.stage {
            Stage::Suspect if healthy => self.stage = Stage::Ready,
            Stage::Suspect => self.stage = Stage::Leaving(Reason::Broken),
            // A call came meanwhile and needed another instance.
            Stage::Leaving(Reason::NotReady) => {}
            _ => return None,
        }
        let dead = !healthy && self.unready_since.is_some() && self.running > 0;
        dead.then_some(Effect::Abandon { instance: self.id })
    }

    /// Announces to the other replicas that this instance is wanted, where the last announcement would soon expire.
    pub(super) fn hold(&mut self, now: Instant, ttl: Duration) -> Option<Effect> {
        if self.is_leaving() || !(self.used || self.ours) || matches!(self.stage, Stage::Starting) {
            return None;
        }
        let until = if self.running > 0 { now + ttl } else { self.idle_since + ttl };
        let step = (ttl / 10).max(HOLD_STEP).min(ttl / 2);
        if self.announced_until.is_some_and(|announced| until < announced + step) {
            return None;
        }
        self.announced_until = Some(until);
        Some(Effect::Hold { instance: self.id, until })
    }

    /// When it may be removed if nothing runs in it.
    fn wanted_until(&self, ttl: Duration, margin: Duration) -> Option<Instant> {
        // A leaving instance is kept for other replicas alone.
        let own = ((self.ours || self.used) && !self.is_leaving()).then(|| self.idle_since + ttl);
        let until = own.max(self.wanted_by_others_until)?;
        Some(if self.ours { until } else { until + margin })
    }
}
