//! Who waits for what: freed pods, failed starts, callers who give up.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use loggia_grpc::Client;
use tonic::Code;

use crate::support::{PATIENCE, World, call, list, name, pod_of, uid, until};

#[tokio::test]
async fn a_warm_pod_that_is_freed_takes_a_call_before_the_new_one_is_ready_and_equals_take_turns() {
    let Some(world) = World::new("freed").await else { return };
    let service = world.start(&[
        "--max-waitlist-length=1",
        "--max-parallel-pods-per-function=3",
        "--max-concurrent-evaluations-per-pod=1",
    ]);
    let warm = pod_of(&call(&service.address, &world.image, "").await.unwrap());
    let begin = Instant::now();
    let busy = tokio::spawn({
        let (address, image) = (service.address.clone(), world.image.clone());
        async move { call(&address, &image, "sleep 400").await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    // The pod has its one call, so another pod is started; but the first is free long before that is up.
    let answer = call(&service.address, &world.image, "").await.unwrap();
    let waited = begin.elapsed();
    assert_eq!(pod_of(&answer), warm);
    assert_eq!(pod_of(&busy.await.unwrap().unwrap()), warm);
    let ready = service.log().iter().filter(|line| line.contains("is ready for image")).count();
    assert!(ready == 1 && waited > Duration::from_millis(350), "{ready} pods are ready after {waited:?}");

    for answer in world.calls(&service, 3, "sleep 3000").await {
        answer.unwrap();
    }
    world.wait_for_pods(3, PATIENCE).await;
    let all_ready =
        async || service.log().iter().filter(|line| line.contains("is ready for image")).count() == 3;
    until("three pods are ready", PATIENCE, all_ready).await;
    let mut used: HashMap<String, usize> = HashMap::new();
    for _ in 0..30 {
        *used.entry(pod_of(&call(&service.address, &world.image, "").await.unwrap())).or_default() += 1;
    }
    assert_eq!(used.values().copied().collect::<Vec<_>>(), [10, 10, 10], "{used:?}");
}

#[tokio::test]
async fn waiters_of_a_start_that_fails_are_told_why_or_served_by_others() {
    let Some(world) = World::new("waiters").await else { return };
    let quota = |pods: u32| {
        format!(
            "apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: few}}\nspec: {{hard: {{pods: '{pods}'}}}}\n"
        )
    };
    world.namespace.apply(&quota(0)).unwrap();
    let counted =
        async || world.kubectl(&["get", "quota", "few", "-o", "jsonpath={.status.hard.pods}"]) == "0";
    until("the quota counts", PATIENCE, counted).await;
    let service = world.start(&["--max-waitlist-length=1", "--max-parallel-pods-per-function=2"]);
    // All starts fail: everybody gets the cause, soon.
    let begin = Instant::now();
    for answer in world.calls(&service, 10, "").await {
        let status = answer.unwrap_err();
        assert!(status.message().contains("exceeded quota: few"), "{}", status.message());
    }
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());

    // One may be started and a second may not: the one serves all.
    world.namespace.apply(&quota(1)).unwrap();
    let counted =
        async || world.kubectl(&["get", "quota", "few", "-o", "jsonpath={.status.hard.pods}"]) == "1";
    until("the quota counts", PATIENCE, counted).await;
    let served = async || call(&service.address, &world.image, "").await.is_ok();
    until("the first pod is there", PATIENCE, served).await;
    for answer in world.calls(&service, 12, "sleep 300").await {
        answer.unwrap();
    }
    assert!(service.log().iter().any(|line| line.contains("Pod creation failed") && line.contains("few")));
    assert_eq!(world.living_pods().await.len(), 1);
}

#[tokio::test]
async fn five_hundred_callers_who_give_up_leave_nothing_behind() {
    let Some(world) = World::new("given-up").await else { return };
    let service =
        world.start(&["--max-concurrent-evaluations-per-pod=1", "--pod-ttl=4s", "--scan-interval=1s"]);
    call(&service.address, &world.image, "").await.unwrap();
    let busy = tokio::spawn({
        let (address, image) = (service.address.clone(), world.image.clone());
        async move { call(&address, &image, "sleep 6000").await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    // Over one connection, as Porch does it.
    let client = Client::new(&service.address, 6 << 20).unwrap();
    let calls: Vec<_> = (0..500_u64)
        .map(|number| {
            let (client, image) = (client.clone(), world.image.clone());
            let patience = Duration::from_millis(200 + number * 5);
            tokio::spawn(async move { client.evaluate(&image, list(""), Some(patience)).await })
        })
        .collect();
    for answer in calls {
        assert_eq!(answer.await.unwrap().unwrap_err().code(), Code::DeadlineExceeded);
    }
    busy.await.unwrap().unwrap();
    // Nothing is counted any more: the pod serves at once, and idles until its time is over.
    let begin = Instant::now();
    client.evaluate(&world.image, list(""), Some(PATIENCE)).await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    world.wait_for_pods(0, Duration::from_secs(30)).await;
}

#[tokio::test]
async fn a_start_after_the_first_pod_went_leaves_the_second_alone() {
    let Some(world) = World::new("numbers").await else { return };
    let service = world.start(&["--max-waitlist-length=1", "--max-parallel-pods-per-function=2"]);
    for answer in world.calls(&service, 2, "sleep 2000").await {
        answer.unwrap();
    }
    world.wait_for_pods(2, PATIENCE).await;
    let both_ready =
        async || service.log().iter().filter(|line| line.contains("is ready for image")).count() == 2;
    until("two pods are ready", PATIENCE, both_ready).await;
    let pods = world.living_pods().await;
    let number = |number: &str| {
        let begin = format!("{}{number}-", world.stem);
        pods.iter().find(|pod| name(pod).starts_with(&begin)).cloned().unwrap()
    };
    let (first, second) = (number("1"), number("2"));
    world.kubectl(&["delete", "pod", &name(&first), "--wait=true"]);
    // The second one is at work while a third is started.
    let long = tokio::spawn({
        let (address, image) = (service.address.clone(), world.image.clone());
        async move { call(&address, &image, "sleep 6000").await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    for answer in world.calls(&service, 3, "sleep 1500").await {
        answer.unwrap();
    }
    assert_eq!(pod_of(&long.await.unwrap().unwrap()), name(&second));
    world.wait_for_pods(2, PATIENCE).await;
    let pods = world.living_pods().await;
    assert!(pods.iter().any(|pod| uid(pod) == uid(&second)), "the second one is as it was");
    let mut labels: Vec<_> =
        pods.iter().map(|pod| pod.metadata.labels.as_ref().unwrap()["fn.kpt.dev/image"].clone()).collect();
    labels.dedup();
    assert_eq!(labels.len(), 2, "each has a number of its own: {labels:?}");
    let mut services = world.services().await;
    services.sort();
    labels.sort();
    assert_eq!(services, labels);
}

#[tokio::test]
async fn pods_with_odd_notes_get_one_time_to_live() {
    let Some(world) = World::new("odd-notes").await else { return };
    let pod = |name: &str, notes: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{fn.kpt.dev/image: {name}-v1-1-00000000}}, \
             annotations: {{{notes}}}}}\nspec:\n  terminationGracePeriodSeconds: 1\n  containers: [{{name: function, \
             image: 'localhost:5000/pause:1'}}]\n---\n"
        )
    };
    let unlabelled = pod("unlabelled", "fn.kpt.dev/reclaim-after: '1000'").replace("fn.kpt.dev/image", "app");
    world
        .namespace
        .apply(&(pod("none", "") + &pod("word", "fn.kpt.dev/reclaim-after: soon") + &unlabelled))
        .unwrap();
    // A pod of somebody else is left alone for twice five seconds more, in case its owner still acts.
    let _service = world.start(&["--pod-ttl=5s", "--scan-interval=1s", "--pod-ready-timeout=5s"]);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(world.living_pods().await.len(), 2);
    world.wait_for_pods(0, Duration::from_secs(40)).await;
    world.kubectl(&["get", "pod", "unlabelled"]);
}
