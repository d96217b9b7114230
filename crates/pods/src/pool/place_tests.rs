//! The pool at the limit of all functions together, as stories.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::state::{CallId, Effect, Event, Found, InstanceId, Reason, Refusal, Settings, State};
use super::{Backoff, Image, Limits};

const TTL: Duration = Duration::from_secs(600);

/// A pool of two places, and the clock.
struct Story {
    state: State,
    begin: Instant,
}

impl Story {
    fn new(limits: Limits) -> Self {
        let settings = Settings {
            patience: Duration::from_secs(60),
            warm_at_once: 2,
            margin: Duration::from_secs(120),
            backoff: Backoff::default(),
            most_instances: Some(2),
        };
        Self { state: State::new(settings, limits, HashMap::new()), begin: Instant::now() }
    }

    fn on(&mut self, second: u64, event: Event) -> Vec<Effect> {
        self.state.on(event, self.begin + Duration::from_secs(second))
    }

    fn ask(&mut self, second: u64, call: u64, function: &str) -> Vec<Effect> {
        self.on(second, Event::Asked { call: CallId(call), image: image(function) })
    }

    /// A function with one instance, in which the call runs.
    fn run(&mut self, second: u64, call: u64, function: &str) -> InstanceId {
        let effects = self.ask(second, call, function);
        let [Effect::Start { instance, .. }] = effects[..] else { panic!("{effects:?}") };
        let answered = self.on(second, Event::Started { instance, outcome: Ok(()) });
        assert_eq!(answered, [Effect::Answer { call: CallId(call), instance }]);
        instance
    }

    fn end(&mut self, second: u64, call: u64) {
        self.on(second, Event::Ended { call: CallId(call) });
    }
}

fn image(function: &str) -> Image {
    Image::new(&format!("ghcr.io/x/{function}:v1"))
}

fn limits() -> Limits {
    Limits {
        max_waitlist_length: 1,
        max_parallel_pods_per_function: 2,
        min_pods_per_function: 0,
        max_concurrent_evaluations_per_pod: Some(1),
        max_queue_length: None,
        ttl: TTL,
    }
}

fn no_place(call: u64) -> Effect {
    Effect::Refuse { call: CallId(call), refusal: Refusal::NoPlace { most: 2 } }
}

#[test]
fn a_function_without_an_instance_is_refused_while_all_places_are_in_use() {
    let mut story = Story::new(limits());
    story.run(0, 1, "a");
    story.run(0, 2, "b");
    assert_eq!(story.ask(100, 3, "c"), [no_place(3)]);
    assert!(story.state.images().iter().all(|known| *known != image("c")), "nothing is left of it");
    assert_eq!(story.state.load(), (0, 2));
}

#[test]
fn the_instance_that_idled_longest_makes_place() {
    let mut story = Story::new(limits());
    let (first, second) = (story.run(0, 1, "a"), story.run(0, 2, "b"));
    story.end(20, 1);
    story.end(10, 2);
    // Functions that are called in turn do not take each other's places.
    assert_eq!(story.ask(39, 3, "c"), [no_place(3)]);
    let effects = story.ask(45, 4, "c");
    assert_eq!(effects[0], Effect::Delete { instance: second, why: Reason::Displaced });
    assert!(matches!(effects[1..], [Effect::Start { .. }]), "{effects:?}");
    let warm = story.ask(46, 5, "a");
    assert_eq!(warm, [Effect::Answer { call: CallId(5), instance: first }], "the other one is still there");
}

#[test]
fn a_function_that_has_an_instance_takes_no_place_for_another_one() {
    let mut story = Story::new(limits());
    story.run(0, 1, "a");
    let idle = story.run(0, 2, "b");
    story.end(0, 2);
    assert_eq!(story.ask(300, 3, "a"), [], "the call waits for the instance that there is");
    assert_eq!(story.ask(300, 4, "b"), [Effect::Answer { call: CallId(4), instance: idle }]);
}

#[test]
fn instances_that_are_to_be_kept_and_those_of_other_replicas_stay() {
    let mut story = Story::new(Limits { min_pods_per_function: 1, ..limits() });
    story.run(0, 1, "a");
    story.end(0, 1);
    let foreign = story.state.name_instance();
    let held_until = story.begin + TTL;
    story.on(
        0,
        Event::Found { instance: foreign, image: image("b"), found: Found { outdated: false, held_until } },
    );
    story.on(0, Event::Started { instance: foreign, outcome: Ok(()) });
    assert_eq!(story.ask(300, 2, "c"), [no_place(2)]);
}

#[test]
fn an_idle_instance_of_an_old_template_makes_place_but_not_for_its_own_function() {
    let mut story = Story::new(Limits { min_pods_per_function: 1, ..limits() });
    let (old, _) = (story.run(0, 1, "a"), story.run(0, 2, "b"));
    story.end(0, 1);
    story.on(1, Event::Outdated { instance: old, outdated: true });
    assert_eq!(story.ask(100, 3, "a"), [Effect::Answer { call: CallId(3), instance: old }]);
    story.end(100, 3);
    let effects = story.ask(200, 4, "c");
    assert!(effects.contains(&Effect::Delete { instance: old, why: Reason::Displaced }), "{effects:?}");
}

#[test]
fn a_warm_up_for_which_there_is_no_place_ends_nevertheless() {
    let mut story = Story::new(limits());
    story.run(0, 1, "a");
    story.run(0, 2, "b");
    story.end(0, 1);
    assert_eq!(story.on(300, Event::Warm { image: image("c") }), [], "nothing goes for it");
    assert!(story.state.is_warm());
}

#[test]
fn thousands_of_names_start_no_more_instances_than_may_be() {
    let mut story = Story::new(limits());
    let mut starts = 0;
    for call in 0..10_000 {
        let effects = story.ask(call / 1000, call, &format!("f{call}"));
        starts += effects.iter().filter(|effect| matches!(effect, Effect::Start { .. })).count();
    }
    assert_eq!(starts, 2);
    assert_eq!(story.state.counts().0, 2);
    assert_eq!(story.state.images().len(), 2);
}
