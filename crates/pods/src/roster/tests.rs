//! The roster as stories: what the cluster tells, and what that means.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use serde_json::{Value, json};

use super::{Garbage, Made, Meaning, Now, Record, Roster, Sighting};
use crate::pool::Image;
use crate::pool::state::{Event, InstanceId, Sight};
use crate::watch::News;

const US: &str = "runner-1.00000001";
const ID: &str = "f-v1-1-12345678";
const POD: &str = "f-v1-1-12345678-bbbbb";
const TTL: Duration = Duration::from_secs(600);
const FIRST: InstanceId = InstanceId(1);

static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A moment on both clocks, which were set at the same time.
fn at(seconds: u64) -> Now {
    Now {
        instant: *BEGIN + Duration::from_secs(10_000 + seconds),
        unix: 1_700_000_000 + i64::try_from(seconds).unwrap(),
    }
}

/// A pod of one function, of somebody else, with these changes.
fn pod(name: &str, changes: &Value) -> Pod {
    let mut pod = json!({
        "metadata": {
            "name": name,
            "uid": format!("uid-of-{name}"),
            "labels": { "fn.kpt.dev/image": ID },
            "annotations": {
                "fn.kpt.dev/reclaim-after": (at(600).unix).to_string(),
                "loggia.dev/image": "x.io/f:v1",
                "loggia.dev/owner": "runner-0.00000009",
                "loggia.dev/digest": "sha256:aa",
                "loggia.dev/template-hash": "cafe",
            },
        },
        "spec": { "containers": [{ "name": "sidecar", "image": "y.io/s" }, { "name": "function", "image": "x.io/f:v1" }] },
        "status": { "phase": "Running", "podIP": "10.0.0.1", "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    merge(&mut pod, changes);
    serde_json::from_value(pod).unwrap()
}

/// As a merge patch does it.
fn merge(target: &mut Value, changes: &Value) {
    match (target.as_object_mut(), changes.as_object()) {
        (Some(target), Some(changes)) => {
            for (key, change) in changes {
                match change {
                    Value::Null => drop(target.remove(key)),
                    change => merge(target.entry(key).or_insert(json!({})), change),
                }
            }
        }
        _ => *target = changes.clone(),
    }
}

fn service(name: &str, selector: &str) -> Service {
    let spec = json!({ "clusterIP": "10.96.0.7", "selector": { "fn.kpt.dev/image": selector } });
    serde_json::from_value(json!({ "metadata": { "name": name, "uid": "s" }, "spec": spec })).unwrap()
}

fn endpoints(addresses: &[&str]) -> Endpoints {
    let addresses: Vec<_> = addresses.iter().map(|ip| json!({ "ip": ip })).collect();
    let subsets = json!([{ "addresses": addresses }]);
    serde_json::from_value(json!({ "metadata": { "name": ID }, "subsets": subsets })).unwrap()
}

/// A roster in which we started one instance, whose pod is there.
fn with_our_pod() -> Roster {
    let mut roster = roster();
    roster.add(FIRST, Record::new(Image::new("x.io/f:v1")));
    roster.name(FIRST, POD, ID, at(600).unix);
    roster.service_seen(&service(ID, ID));
    seen(&mut roster, ours(&json!({})), at(0));
    roster
}

fn ours(changes: &Value) -> Pod {
    let owned = pod(POD, &json!({ "metadata": { "annotations": { "loggia.dev/owner": US } } }));
    let mut owned = serde_json::to_value(owned).unwrap();
    merge(&mut owned, changes);
    serde_json::from_value(owned).unwrap()
}

fn roster() -> Roster {
    Roster::new(US.to_owned(), TTL)
}

fn seen(roster: &mut Roster, pod: Pod, now: Now) -> Meaning {
    Sighting::of(pod).map(|pod| roster.pod_seen(pod, now)).unwrap_or_default()
}

fn sights(meaning: &Meaning) -> Vec<Sight> {
    let sight = |event: &Event| match event {
        Event::Seen { instance: FIRST, sight } => Some(*sight),
        _ => None,
    };
    meaning.events.iter().filter_map(sight).collect()
}

fn looks(meaning: &Meaning) -> usize {
    meaning.events.iter().filter(|event| matches!(event, Event::Broken { instance: FIRST })).count()
}

#[test]
fn a_pod_of_another_replica_is_found_with_all_its_annotations() {
    let mut roster = roster();
    let meaning = seen(&mut roster, pod("p", &json!({})), at(0));
    assert!(meaning.garbage.is_none() && meaning.events.is_empty());
    let found = meaning.found.unwrap();
    assert_eq!(found.held_until, at(600).instant);
    let record = found.record;
    assert_eq!(
        (record.image.full_name(), record.image.name()),
        ("x.io/f:v1", "x.io/f:v1"),
        "not the sidecar's"
    );
    assert_eq!((record.pod.as_deref(), record.service.as_deref()), (Some("p"), Some(ID)));
    let made = Made { template_hash: Some("cafe".to_owned()), digest: Some("sha256:aa".to_owned()) };
    assert_eq!(record.made, Some(made));
}

#[test]
fn two_spellings_of_one_image_are_one_function() {
    let mut roster = roster();
    let change = json!({ "metadata": { "annotations": { "loggia.dev/image": null } },
        "spec": { "containers": [{ "name": "function", "image": "docker.io/x/f:v1" }] } });
    let one = seen(&mut roster, pod("p", &change), at(0)).found.unwrap().record;
    let change = json!({ "metadata": { "annotations": { "loggia.dev/image": null } },
        "spec": { "containers": [{ "name": "function", "image": "x/f:v1" }] } });
    let other = seen(&mut roster, pod("q", &change), at(0)).found.unwrap().record;
    assert_eq!(one.image, other.image);
    assert_ne!(one.image.name(), other.image.name());
}

#[test]
fn without_a_usable_annotation_a_pod_is_kept_for_one_time_to_live() {
    for note in [Value::Null, json!("soon"), json!(""), json!("99999999999999999999999"), json!("1e9")] {
        let mut roster = roster();
        let change = json!({ "metadata": { "annotations": { "fn.kpt.dev/reclaim-after": note } } });
        let meaning = seen(&mut roster, pod("p", &change), at(5));
        assert_eq!(meaning.found.unwrap().held_until, at(5).instant + TTL, "{note}");
    }
}

#[test]
fn an_annotation_of_the_past_or_of_a_wrong_clock_is_clamped() {
    let held = |note: &str| {
        let change = json!({ "metadata": { "annotations": { "fn.kpt.dev/reclaim-after": note } } });
        seen(&mut roster(), pod("p", &change), at(5)).found.unwrap().held_until
    };
    assert!(held("1000") < at(5).instant);
    assert!(held("-7") < at(5).instant);
    assert_eq!(held(&i64::MAX.to_string()), at(5).instant + Duration::from_secs(365 * 24 * 3600));
    assert!(held(&i64::MIN.to_string()) <= at(5).instant);
}

#[test]
fn pods_without_a_function_are_ignored() {
    let mut roster = roster();
    let odd = [
        json!({ "metadata": { "labels": { "fn.kpt.dev/image": null } } }),
        json!({ "spec": { "containers": [{ "name": "other", "image": "x" }] } }),
        json!({ "spec": { "containers": [{ "name": "function", "image": "No Image" }] },
            "metadata": { "annotations": { "loggia.dev/image": null } } }),
        json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
        json!({ "spec": null }),
    ];
    for (number, change) in odd.iter().enumerate() {
        let meaning = seen(&mut roster, pod(&format!("p{number}"), change), at(0));
        let quiet = meaning.events.is_empty() && meaning.garbage.is_none() && meaning.found.is_none();
        assert!(quiet, "{change}");
    }
}

#[test]
fn what_ended_and_what_we_gave_up_is_garbage_once() {
    let mut roster = roster();
    roster.service_seen(&service(ID, ID));
    let failed = pod("p", &json!({ "status": { "phase": "Failed" } }));
    let expected = Garbage::Pod {
        name: "p".to_owned(),
        uid: Some("uid-of-p".to_owned()),
        service: Some((ID.to_owned(), Some("s".to_owned()))),
        why: "it ended".to_owned(),
    };
    assert_eq!(seen(&mut roster, failed.clone(), at(0)).garbage, Some(expected));
    assert_eq!(seen(&mut roster, failed, at(1)).garbage, None);
    // It carries our name, and no instance of ours has it.
    let lost = ours(&json!({}));
    assert!(seen(&mut roster, lost.clone(), at(2)).garbage.is_some());
    assert_eq!(seen(&mut roster, lost, at(3)).garbage, None);
}

#[test]
fn each_change_of_our_own_pod_is_reported() {
    let mut roster = with_our_pod();
    let meaning = seen(&mut roster, ours(&json!({ "status": { "conditions": [] } })), at(1));
    assert_eq!(sights(&meaning), [Sight::NotReady]);
    let meaning =
        seen(&mut roster, ours(&json!({ "status": { "phase": "Failed", "conditions": [] } })), at(1));
    assert_eq!(sights(&meaning), [Sight::Failed]);
    let going = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    assert_eq!(sights(&seen(&mut roster, ours(&going), at(2))), [Sight::Terminating]);
    let meaning = roster.keep_pods(&HashSet::new());
    assert_eq!(sights(&meaning), [Sight::Gone]);
    assert!(roster.records[&FIRST].latest.borrow().is_none());
}

#[test]
fn a_pod_that_was_never_ready_is_not_called_unready() {
    let mut roster = roster();
    roster.add(FIRST, Record::new(Image::new("x.io/f:v1")));
    roster.name(FIRST, POD, ID, at(600).unix);
    let pending = ours(&json!({ "status": { "phase": "Pending", "conditions": [] } }));
    assert_eq!(sights(&seen(&mut roster, pending, at(0))), []);
}

#[test]
fn what_other_replicas_write_is_news_and_what_we_write_is_not() {
    let mut roster = with_our_pod();
    let noted = |seconds: u64| {
        ours(
            &json!({ "metadata": { "annotations": { "fn.kpt.dev/reclaim-after": at(seconds).unix.to_string() } } }),
        )
    };
    let held = |meaning: &Meaning| {
        meaning.events.iter().find_map(|event| match event {
            Event::Held { until, .. } => Some(*until),
            _ => None,
        })
    };
    roster.set_reclaim_time(FIRST, at(700).unix);
    assert_eq!(held(&seen(&mut roster, noted(700), at(1))), None);
    assert_eq!(held(&seen(&mut roster, noted(900), at(2))), Some(at(900).instant));
    assert_eq!(held(&seen(&mut roster, noted(900), at(3))), None, "it is news once");
}

#[test]
fn a_service_that_goes_takes_its_instance_with_it() {
    let mut roster = with_our_pod();
    assert!(roster.service_is_gone("another").events.is_empty());
    assert_eq!(sights(&roster.keep_services(&HashSet::new())), [Sight::Gone]);
}

#[test]
fn a_service_without_a_pod_is_garbage_after_a_while_and_a_foreign_one_never() {
    let mut roster = roster();
    roster.service_seen(&service(ID, ID));
    roster.service_seen(&service("foreign", "something-else"));
    let later = |seconds| at(seconds).instant;
    assert_eq!(roster.orphaned_services(later(0)), []);
    assert_eq!(roster.orphaned_services(later(19)), []);
    let expected = Garbage::Service { name: ID.to_owned(), uid: Some("s".to_owned()) };
    assert_eq!(roster.orphaned_services(later(20)), [expected]);
    assert_eq!(roster.orphaned_services(later(21)), [], "somebody is at it");
    // A pod that it selects makes it somebody's again.
    seen(&mut roster, pod("p", &json!({})), at(22));
    assert_eq!(roster.orphaned_services(later(60)), []);
}

#[test]
fn what_is_to_be_deleted_is_named_with_its_identity() {
    let mut roster = with_our_pod();
    let garbage = roster.condemn(FIRST, "why".to_owned(), at(4).instant).unwrap();
    let Garbage::Pod { name, uid, service, why } = garbage else { panic!("{garbage:?}") };
    assert_eq!(
        (name.as_str(), uid.as_deref(), why.as_str()),
        (POD, Some(format!("uid-of-{POD}").as_str()), "why")
    );
    assert_eq!(service, Some((ID.to_owned(), Some("s".to_owned()))));
    // Its pod is still there for a while, and is not found anew.
    let meaning = seen(&mut roster, ours(&json!({})), at(5));
    assert!(meaning.found.is_none() && meaning.garbage.is_none());
    // If it stays, whoever was to delete it could not.
    assert_eq!(roster.left_overs(at(123).instant), []);
    assert_eq!(roster.left_overs(at(124).instant).len(), 1);
    assert_eq!(roster.left_overs(at(125).instant), []);
    seen(&mut roster, ours(&json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } })), at(126));
    assert_eq!(roster.left_overs(at(900).instant), [], "it is on its way");
}

#[test]
fn an_instance_that_its_owner_removes_is_left_alone_for_good() {
    let mut roster = with_our_pod();
    roster.forget(FIRST);
    let meaning = seen(&mut roster, ours(&json!({})), at(5));
    assert!(meaning.found.is_none() && meaning.garbage.is_none());
    assert_eq!(roster.left_overs(at(900).instant), []);
}

#[test]
fn a_number_is_free_again_when_its_pod_is_gone() {
    let mut roster = with_our_pod();
    assert!(!roster.is_being_left(ID));
    roster.condemn(FIRST, "why".to_owned(), at(0).instant);
    assert!(roster.is_being_left(ID), "it was condemned");
    roster.pod_is_gone(POD);
    assert!(!roster.is_being_left(ID));
    let going = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    seen(&mut roster, pod("p", &going), at(0));
    assert!(roster.is_being_left(ID), "somebody deletes it");
}

#[test]
fn an_instance_whose_service_no_longer_selects_it_is_checked_once() {
    let mut roster = with_our_pod();
    assert_eq!(looks(&roster.endpoints(News::All(vec![]))), 0, "there never was anything");
    assert_eq!(looks(&roster.endpoints(News::Seen(endpoints(&["10.0.0.1"])))), 0);
    assert_eq!(looks(&roster.endpoints(News::Seen(endpoints(&[])))), 1);
    assert_eq!(looks(&roster.endpoints(News::Seen(endpoints(&[])))), 0);
    assert!(!roster.leads_elsewhere(FIRST), "it leads nowhere, and whether that is so a call will tell");
    assert_eq!(looks(&roster.endpoints(News::Seen(endpoints(&["10.0.0.1"])))), 0);
    assert_eq!(looks(&roster.endpoints(News::Gone(endpoints(&["10.0.0.1"])))), 1);
    assert_eq!(looks(&roster.endpoints(News::All(vec![endpoints(&["10.0.0.1"])]))), 0);
    assert_eq!(looks(&roster.endpoints(News::All(vec![]))), 1, "what is not among all is gone");
}

#[test]
fn a_service_that_leads_to_another_pod_too_leads_elsewhere() {
    let mut roster = with_our_pod();
    roster.endpoints(News::Seen(endpoints(&["10.0.0.1"])));
    assert!(!roster.leads_elsewhere(FIRST));
    assert_eq!(looks(&roster.endpoints(News::Seen(endpoints(&["10.0.0.1", "10.0.0.2"])))), 1);
    assert!(roster.leads_elsewhere(FIRST));
    roster.endpoints(News::Seen(endpoints(&["10.0.0.1"])));
    assert!(!roster.leads_elsewhere(FIRST));
    // Without an address of the pod nothing can be said.
    seen(&mut roster, ours(&json!({ "status": { "podIP": null } })), at(1));
    roster.endpoints(News::Seen(endpoints(&["10.0.0.9"])));
    assert!(!roster.leads_elsewhere(FIRST));
}

#[test]
fn what_a_node_pulled_is_reported_once_where_it_is_a_digest_of_a_registry() {
    let mut roster = with_our_pod();
    let running = |image_id: &str| {
        let status = json!([{ "name": "function", "image": "", "imageID": image_id, "ready": true, "restartCount": 0 }]);
        ours(&json!({ "status": { "containerStatuses": status } }))
    };
    assert!(seen(&mut roster, running(""), at(0)).pulled.is_none());
    assert!(seen(&mut roster, running("sha256:cc"), at(0)).pulled.is_none(), "no registry knows that one");
    assert_eq!(seen(&mut roster, running("x.io/f@sha256:bb"), at(0)).pulled, Some(FIRST));
    assert!(seen(&mut roster, running("x.io/f@sha256:bb"), at(1)).pulled.is_none());
    assert_eq!(roster.records[&FIRST].pulled.as_deref(), Some("sha256:bb"));
    assert_eq!(seen(&mut roster, running("docker-pullable://x.io/f@sha256:dd"), at(2)).pulled, Some(FIRST));
}

#[test]
fn a_start_sees_its_pod_as_it_was_last_seen() {
    let mut roster = with_our_pod();
    let mut latest = roster.records[&FIRST].latest.subscribe();
    assert!(latest.borrow_and_update().is_some());
    seen(&mut roster, ours(&json!({ "status": { "podIP": "10.0.0.3" } })), at(1));
    assert!(latest.has_changed().unwrap());
    let pod: Option<Arc<Pod>> = latest.borrow().clone();
    assert_eq!(pod.unwrap().status.as_ref().unwrap().pod_ip.as_deref(), Some("10.0.0.3"));
}

#[test]
fn a_pod_by_digest_is_known_by_the_image_that_was_requested() {
    let digest = format!("x.io/f@sha256:{}", "a".repeat(64));
    let changes = json!({
        "metadata": { "annotations": { "loggia.dev/requested-image": "f:v1" } },
        "spec": { "containers": [{ "name": "function", "image": digest }], "hostUsers": false, "nodeName": "n" },
        "status": { "containerStatuses": [{
            "name": "function", "image": "", "imageID": "x.io/f@sha256:another", "ready": true, "restartCount": 0,
        }] },
    });
    let sighting = Sighting::of(pod(POD, &changes)).unwrap();
    let image = sighting.image.clone().unwrap();
    assert_eq!((image.full_name(), image.name()), ("x.io/f:v1", "f:v1"));
    let found = seen(&mut roster(), pod(POD, &changes), at(0)).found.unwrap();
    assert_eq!(found.record.pulled, None, "a node that is told the digest has no choice");
    let spec = found.record.latest.borrow().as_ref().unwrap().spec.clone().unwrap();
    assert_eq!((spec.node_name.as_deref(), spec.host_users), (Some("n"), Some(false)));
}

#[test]
fn what_our_own_pod_says_from_its_beginning_is_not_what_another_replica_wants() {
    let mut roster = roster();
    roster.add(FIRST, Record::new(Image::new("x.io/f:v1")));
    roster.name(FIRST, POD, ID, at(600).unix);
    let held = |meaning: &Meaning| meaning.events.iter().any(|event| matches!(event, Event::Held { .. }));
    assert!(!held(&seen(&mut roster, pod(POD, &json!({})), at(0))));
    let later =
        json!({ "metadata": { "annotations": { "fn.kpt.dev/reclaim-after": at(900).unix.to_string() } } });
    assert!(held(&seen(&mut roster, pod(POD, &later), at(1))), "another one wrote that");
}
