//! The pool as stories: who asks, what happens, what is done about it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use super::state::{CallId, Effect, Event, Found, InstanceId, Reason, Refusal, Settings, Sight, State};
use super::{Backoff, Cause, Failure, FailureKind, Image, Limits};

const ANN: CallId = CallId(1);
const BOB: CallId = CallId(2);
const EVE: CallId = CallId(3);
const ZOE: CallId = CallId(4);

static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

fn at(seconds: u64) -> Instant {
    *BEGIN + secs(seconds)
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn limits() -> Limits {
    Limits {
        max_waitlist_length: 2,
        max_parallel_pods_per_function: 1,
        min_pods_per_function: 0,
        max_concurrent_evaluations_per_pod: None,
        max_queue_length: None,
        ttl: secs(60),
    }
}

fn pool(limits: Limits) -> State {
    State::new(settings(), limits, HashMap::new())
}

fn settings() -> Settings {
    Settings {
        patience: secs(60),
        warm_at_once: 2,
        margin: secs(120),
        backoff: Backoff::default(),
        most_instances: None,
    }
}

fn image() -> Image {
    Image::new("ghcr.io/x/set-labels:v0.2")
}

fn asked(call: CallId) -> Event {
    Event::Asked { call, image: image() }
}

fn scan() -> Event {
    Event::Scan { image: image() }
}

fn ready(instance: InstanceId) -> Event {
    Event::Started { instance, outcome: Ok(()) }
}

fn failure(kind: FailureKind, text: &str) -> Arc<Failure> {
    Arc::new(Failure { kind, cause: Cause::Failed, text: text.to_owned() })
}

fn failed(instance: InstanceId, kind: FailureKind, text: &str) -> Event {
    Event::Started { instance, outcome: Err(failure(kind, text)) }
}

fn refused(call: CallId, kind: FailureKind, text: &str) -> Effect {
    Effect::Refuse { call, refusal: Refusal::NoInstance(failure(kind, text)) }
}

fn started(effects: &[Effect]) -> Vec<InstanceId> {
    let id = |effect: &Effect| match effect {
        Effect::Start { instance, .. } => Some(*instance),
        _ => None,
    };
    effects.iter().filter_map(id).collect()
}

fn answered(effects: &[Effect]) -> Vec<(CallId, InstanceId)> {
    let id = |effect: &Effect| match effect {
        Effect::Answer { call, instance } => Some((*call, *instance)),
        _ => None,
    };
    effects.iter().filter_map(id).collect()
}

/// A pool with so many ready instances of one function, and nothing else.
fn with_ready(limits: Limits, count: usize) -> (State, Vec<InstanceId>) {
    let mut state =
        pool(Limits { max_waitlist_length: 1, max_parallel_pods_per_function: count, ..limits.clone() });
    let mut instances = Vec::new();
    for call in 0..count as u64 {
        instances.extend(started(&state.on(asked(CallId(1000 + call)), at(0))));
    }
    for &instance in &instances {
        state.on(ready(instance), at(0));
    }
    for call in 0..count as u64 {
        state.on(Event::Ended { call: CallId(1000 + call) }, at(0));
    }
    assert_eq!(instances.len(), count);
    state.on(Event::Limits { defaults: limits, functions: HashMap::new() }, at(0));
    (state, instances)
}

#[test]
fn callers_of_a_new_function_share_one_start() {
    let mut state = pool(limits());
    let instances = started(&state.on(asked(ANN), at(0)));
    assert_eq!(instances.len(), 1);
    for call in 10..30 {
        assert_eq!(state.on(asked(CallId(call)), at(1)), []);
    }
    assert_eq!(answered(&state.on(ready(instances[0]), at(2))).len(), 21);
}

#[test]
fn four_calls_at_threshold_two_make_two_instances() {
    let mut state = pool(Limits { max_parallel_pods_per_function: 3, ..limits() });
    let starts: Vec<_> = [ANN, BOB, EVE, ZOE].map(|call| started(&state.on(asked(call), at(0))).len()).into();
    assert_eq!(starts, [1, 0, 1, 0]);
}

#[test]
fn the_first_ready_instance_takes_the_oldest_call() {
    let mut state = pool(Limits {
        max_waitlist_length: 1,
        max_parallel_pods_per_function: 2,
        max_concurrent_evaluations_per_pod: Some(1),
        ..limits()
    });
    let first = started(&state.on(asked(ANN), at(0)))[0];
    let second = started(&state.on(asked(BOB), at(0)))[0];
    assert_eq!(answered(&state.on(ready(second), at(1))), [(ANN, second)]);
    assert_eq!(answered(&state.on(Event::Ended { call: ANN }, at(2))), [(BOB, second)]);
    assert_eq!(state.on(ready(first), at(9)), []);
}

#[test]
fn equals_take_turns_and_otherwise_the_least_loaded_is_picked() {
    let (mut state, instances) = with_ready(Limits { max_parallel_pods_per_function: 3, ..limits() }, 3);
    let mut used = HashMap::new();
    for call in 10..40 {
        let (_, instance) = answered(&state.on(asked(CallId(call)), at(1)))[0];
        *used.entry(instance).or_insert(0) += 1;
        state.on(Event::Ended { call: CallId(call) }, at(1));
    }
    assert_eq!(used, instances.iter().map(|instance| (*instance, 10)).collect());

    let (_, busy) = answered(&state.on(asked(ANN), at(1)))[0];
    let others: Vec<_> = [BOB, EVE].map(|call| answered(&state.on(asked(call), at(1)))[0].1).into();
    assert!(!others.contains(&busy) && others[0] != others[1], "{others:?}");
}

#[test]
fn a_call_does_not_wait_for_a_new_instance_if_a_warm_one_can_take_it() {
    let (mut state, instances) =
        with_ready(Limits { max_parallel_pods_per_function: 2, max_waitlist_length: 1, ..limits() }, 1);
    assert_eq!(answered(&state.on(asked(ANN), at(1))), [(ANN, instances[0])]);
    let effects = state.on(asked(BOB), at(1));
    assert_eq!(started(&effects).len(), 1, "a second instance is started for later");
    assert_eq!(answered(&effects), [(BOB, instances[0])]);
}

#[test]
fn a_caller_that_gives_up_does_not_keep_the_instance_alive() {
    let mut state = pool(limits());
    let instance = started(&state.on(asked(ANN), at(0)))[0];
    state.on(Event::Ended { call: ANN }, at(1));
    state.on(ready(instance), at(5));
    assert_eq!(state.on(scan(), at(64)), []);
    assert_eq!(state.on(scan(), at(65)), [Effect::Delete { instance, why: Reason::Expired }]);
    assert_eq!(state.counts(), (0, 0));
}

#[test]
fn use_renews_the_time_to_live_and_a_long_call_is_never_cut() {
    let (mut state, instances) = with_ready(limits(), 1);
    let instance = instances[0];
    state.on(asked(ANN), at(50));
    let effects = state.on(scan(), at(500));
    assert_eq!(effects, [Effect::Hold { instance, until: at(560) }], "the others learn of it");
    state.on(Event::Ended { call: ANN }, at(510));
    assert_eq!(state.on(scan(), at(569)), []);
    assert_eq!(state.on(scan(), at(570)), [Effect::Delete { instance, why: Reason::Expired }]);
}

#[test]
fn a_lasting_failure_reaches_all_waiting_calls_and_those_right_after() {
    let mut state = pool(limits());
    let instance = started(&state.on(asked(ANN), at(0)))[0];
    state.on(asked(BOB), at(0));
    let (kind, text) = (FailureKind::Lasting, "no such image");
    let effects = state.on(failed(instance, kind, text), at(1));
    assert_eq!(effects[0], Effect::Delete { instance, why: Reason::NeverReady });
    assert_eq!(effects[1..], [refused(ANN, kind, text), refused(BOB, kind, text)]);
    assert_eq!(state.on(asked(EVE), at(1)), [refused(EVE, kind, text)]);
    assert_eq!(started(&state.on(asked(ZOE), at(2))).len(), 1, "later it is tried again");
}

#[test]
fn a_passing_failure_is_tried_again_while_calls_wait() {
    let mut state = pool(limits());
    let mut instance = started(&state.on(asked(ANN), at(0)))[0];
    let mut now = at(0);
    for _ in 0..3 {
        let effects = state.on(failed(instance, FailureKind::Passing, "503"), now);
        assert_eq!(effects, [Effect::Delete { instance, why: Reason::NeverReady }]);
        now = state.next_wake().unwrap();
        instance = started(&state.on(Event::Tick, now))[0];
    }
    assert_eq!(answered(&state.on(ready(instance), now)), [(ANN, instance)]);
}

#[test]
fn patience_with_passing_failures_has_an_end() {
    let mut state = pool(limits());
    let mut instance = started(&state.on(asked(ANN), at(0)))[0];
    let mut now = at(0);
    let refusal = loop {
        state.on(failed(instance, FailureKind::Passing, "503"), now);
        now = state.next_wake().unwrap();
        let effects = state.on(Event::Tick, now);
        match started(&effects).first() {
            Some(next) => instance = *next,
            None => break effects,
        }
    };
    assert_eq!(refusal, [refused(ANN, FailureKind::Passing, "503")]);
    assert!(now >= at(60) && now < at(66));
}

#[test]
fn calls_that_wait_for_a_failed_start_are_served_by_the_others() {
    let mut state = pool(Limits { max_waitlist_length: 1, max_parallel_pods_per_function: 2, ..limits() });
    let first = started(&state.on(asked(ANN), at(0)))[0];
    let second = started(&state.on(asked(BOB), at(0)))[0];
    let effects = state.on(failed(second, FailureKind::Lasting, "quota"), at(1));
    assert_eq!(effects, [Effect::Delete { instance: second, why: Reason::NeverReady }]);
    assert_eq!(answered(&state.on(ready(first), at(2))), [(ANN, first), (BOB, first)]);
}

#[test]
fn a_full_queue_refuses_and_says_how_long_it_is() {
    let mut state = pool(Limits { max_queue_length: Some(2), ..limits() });
    state.on(asked(ANN), at(0));
    state.on(asked(BOB), at(0));
    let refusal = Refusal::QueueFull { waiting: 2 };
    assert_eq!(state.on(asked(EVE), at(0)), [Effect::Refuse { call: EVE, refusal }]);
    state.on(Event::Ended { call: ANN }, at(1));
    assert_eq!(state.on(asked(ZOE), at(1)), []);
}

#[test]
fn a_broken_connection_stops_new_calls_until_a_check_passed() {
    let (mut state, instances) = with_ready(limits(), 1);
    let instance = instances[0];
    state.on(asked(ANN), at(1));
    assert_eq!(state.on(Event::Broken { instance }, at(1)), [Effect::Check { instance }]);
    assert_eq!(state.on(asked(BOB), at(1)), []);
    let effects = state.on(Event::Checked { instance, healthy: true }, at(2));
    assert_eq!(answered(&effects), [(BOB, instance)]);

    state.on(Event::Broken { instance }, at(3));
    state.on(asked(EVE), at(3));
    let effects = state.on(Event::Checked { instance, healthy: false }, at(4));
    assert_eq!(started(&effects).len(), 1, "a new one takes over");
    assert_eq!(effects.len(), 1, "and the old one stays while calls run in it");
    state.on(Event::Ended { call: ANN }, at(5));
    let effects = state.on(Event::Ended { call: BOB }, at(5));
    assert_eq!(effects, [Effect::Delete { instance, why: Reason::Broken }]);
}

#[test]
fn a_terminating_instance_finishes_what_it_has_and_gets_no_more() {
    let (mut state, instances) = with_ready(limits(), 1);
    let instance = instances[0];
    state.on(asked(ANN), at(1));
    assert_eq!(state.on(Event::Seen { instance, sight: Sight::Terminating }, at(1)), []);
    assert_eq!(started(&state.on(asked(BOB), at(1))).len(), 1);
    let effects = state.on(Event::Ended { call: ANN }, at(2));
    assert_eq!(effects, [Effect::Delete { instance, why: Reason::Gone }], "its Service must go too");
}

#[test]
fn an_unready_instance_may_come_back_unless_a_call_needs_another_one() {
    let (mut state, instances) = with_ready(limits(), 1);
    let instance = instances[0];
    state.on(Event::Seen { instance, sight: Sight::NotReady }, at(1));
    state.on(Event::Seen { instance, sight: Sight::Ready }, at(2));
    assert_eq!(answered(&state.on(asked(ANN), at(3))), [(ANN, instance)]);
    state.on(Event::Ended { call: ANN }, at(3));

    state.on(Event::Seen { instance, sight: Sight::NotReady }, at(4));
    let effects = state.on(asked(BOB), at(5));
    assert_eq!(started(&effects).len(), 1);
    assert!(effects.contains(&Effect::Delete { instance, why: Reason::NotReady }), "{effects:?}");
}

#[test]
fn a_new_template_starts_a_new_instance_before_the_old_one_leaves() {
    let (mut state, instances) = with_ready(limits(), 1);
    let old = instances[0];
    assert_eq!(state.on(Event::Outdated { instance: old, outdated: true }, at(1)), []);
    let effects = state.on(asked(ANN), at(2));
    assert_eq!(answered(&effects), [(ANN, old)], "nobody waits for the new one");
    let new = started(&effects)[0];
    assert_eq!(started(&state.on(asked(BOB), at(3))), [], "one is on its way");
    assert_eq!(state.on(ready(new), at(4)), [], "the old one has calls");
    assert_eq!(answered(&state.on(asked(EVE), at(5))), [(EVE, new)]);
    state.on(Event::Ended { call: ANN }, at(6));
    let effects = state.on(Event::Ended { call: BOB }, at(6));
    assert_eq!(effects, [Effect::Delete { instance: old, why: Reason::Outdated }]);
}

fn found(state: &mut State, now: Instant, found: Found) -> InstanceId {
    let instance = state.name_instance();
    let effects = state.on(Event::Found { instance, image: image(), found }, now);
    assert!(effects.contains(&Effect::Check { instance }), "{effects:?}");
    instance
}

#[test]
fn an_instance_of_another_replica_counts_and_serves_and_is_not_removed() {
    let mut state = pool(limits());
    let theirs = found(&mut state, at(0), Found { outdated: false, held_until: at(60) });
    assert_eq!(state.on(asked(ANN), at(1)), [], "one is enough");
    assert_eq!(answered(&state.on(ready(theirs), at(2))), [(ANN, theirs)]);
    let effects = state.on(Event::Ended { call: ANN }, at(40));
    assert_eq!(effects, [Effect::Hold { instance: theirs, until: at(100) }], "its owner learns of the use");
    assert_eq!(state.on(scan(), at(110)), [], "its owner has the first say");
    assert_eq!(
        state.on(scan(), at(220)),
        [Effect::Delete { instance: theirs, why: Reason::Expired }],
        "and if it says nothing for long enough, it is gone"
    );
}

#[test]
fn an_instance_that_others_use_is_kept() {
    let (mut state, instances) = with_ready(limits(), 1);
    let instance = instances[0];
    state.on(Event::Held { instance, until: at(100) }, at(50));
    assert_eq!(state.on(scan(), at(99)), []);
    assert_eq!(state.on(scan(), at(100)), [Effect::Delete { instance, why: Reason::Expired }]);
}

#[test]
fn if_the_other_replicas_have_all_there_may_be_theirs_are_waited_for() {
    let mut state = pool(limits());
    let mine = started(&state.on(asked(ANN), at(0)))[0];
    let effects = state.on(failed(mine, FailureKind::Crowded, "1 of 1"), at(1));
    assert_eq!(effects, [Effect::Delete { instance: mine, why: Reason::NeverReady }]);
    let theirs = found(&mut state, at(1), Found { outdated: false, held_until: at(60) });
    assert_eq!(answered(&state.on(ready(theirs), at(2))), [(ANN, theirs)]);
}

#[test]
fn warming_up_is_bounded_and_skips_what_is_there() {
    let mut state = pool(limits());
    let image = |n: u64| Image::new(&format!("x/f{n}:v1"));
    let mut begun = Vec::new();
    for n in 0..5 {
        begun.extend(started(&state.on(Event::Warm { image: image(n) }, at(0))));
    }
    assert_eq!(begun.len(), 2);
    assert_eq!(started(&state.on(Event::Asked { call: ANN, image: image(4) }, at(0))).len(), 1);
    let third = started(&state.on(ready(begun[0]), at(1)));
    assert_eq!(third.len(), 1);
    let retried = state.on(failed(begun[1], FailureKind::Passing, "503"), at(1));
    let fourth = started(&retried);
    assert_eq!(fourth.len(), 1, "one that failed makes room");
    assert_eq!(started(&state.on(ready(third[0]), at(1))), [], "the one that failed waits for its turn");
    assert!(!state.is_warm());
    let again = started(&state.on(Event::Tick, at(3)));
    assert_eq!(again.len(), 1);
    state.on(ready(fourth[0]), at(4));
    state.on(ready(again[0]), at(4));
    assert!(state.is_warm());
}

#[test]
fn a_minimum_survives_the_time_to_live() {
    let (mut state, _) = with_ready(Limits { min_pods_per_function: 1, ..limits() }, 2);
    let deletions = |effects: Vec<Effect>| {
        effects.iter().filter(|effect| matches!(effect, Effect::Delete { .. })).count()
    };
    assert_eq!(deletions(state.on(scan(), at(1000))), 1);
    assert_eq!(deletions(state.on(scan(), at(5000))), 0);
}

#[test]
fn a_start_that_reports_after_it_was_given_up_leaves_nothing_behind() {
    let mut state = pool(limits());
    let instance = started(&state.on(asked(ANN), at(0)))[0];
    state.on(failed(instance, FailureKind::Lasting, "late"), at(60));
    let effects = state.on(ready(instance), at(61));
    assert_eq!(effects, [Effect::Delete { instance, why: Reason::NeverReady }]);
}

#[test]
fn calls_in_an_instance_are_given_up_only_if_the_cluster_finds_it_dead_and_it_does_not_answer() {
    let seen = |instance, sight| Event::Seen { instance, sight };
    let (mut state, instances) = with_ready(limits(), 1);
    let instance = instances[0];
    state.on(asked(ANN), at(1));
    // It does not answer, but the cluster is content: it may be busy.
    assert_eq!(state.on(Event::Broken { instance }, at(2)), [Effect::Check { instance }]);
    assert_eq!(state.on(Event::Checked { instance, healthy: true }, at(3)), []);
    // The cluster is not content, but it answers.
    assert_eq!(state.on(seen(instance, Sight::NotReady), at(4)), [Effect::Check { instance }]);
    assert_eq!(state.on(Event::Checked { instance, healthy: true }, at(5)), []);
    assert_eq!(state.on(seen(instance, Sight::NotReady), at(6)), [Effect::Check { instance }]);
    let effects = state.on(Event::Checked { instance, healthy: false }, at(7));
    assert_eq!(effects, [Effect::Abandon { instance }]);
    let effects = state.on(Event::Ended { call: ANN }, at(8));
    assert_eq!(effects, [Effect::Delete { instance, why: Reason::Broken }]);
}

#[test]
fn a_call_that_comes_meanwhile_does_not_keep_the_others_from_being_given_up() {
    let (mut state, instances) = with_ready(limits(), 1);
    let instance = instances[0];
    state.on(asked(ANN), at(1));
    let unready = Event::Seen { instance, sight: Sight::NotReady };
    assert_eq!(state.on(unready, at(2)), [Effect::Check { instance }]);
    assert_eq!(started(&state.on(asked(BOB), at(3))).len(), 1, "it gets another one");
    let effects = state.on(Event::Checked { instance, healthy: false }, at(4));
    assert_eq!(effects, [Effect::Abandon { instance }]);
}

#[test]
fn an_instance_that_only_does_not_answer_keeps_its_calls() {
    let (mut state, instances) = with_ready(limits(), 1);
    let instance = instances[0];
    state.on(asked(ANN), at(1));
    state.on(Event::Broken { instance }, at(2));
    assert_eq!(state.on(Event::Checked { instance, healthy: false }, at(3)), []);
}
