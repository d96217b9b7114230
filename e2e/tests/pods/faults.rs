//! What breaks while calls go on: no call may be lost.

use std::time::Duration;

use loggia_e2e::{Partition, Service, address, is_ready, kill_container};

use crate::support::{Load, PATIENCE, World, call, name, pod_of, uid, until};

const FLAGS: [&str; 3] =
    ["--max-parallel-pods-per-function=2", "--max-waitlist-length=2", "--scan-interval=2s"];

/// Load before, during and after something happens; every call must be answered.
async fn under_load(world: &World, during: impl AsyncFnOnce(&World)) -> usize {
    let service = world.start(&FLAGS);
    under_load_of(world, &service, during).await
}

async fn under_load_of(world: &World, service: &Service, during: impl AsyncFnOnce(&World)) -> usize {
    call(&service.address, &world.image, "").await.unwrap();
    let load = Load::start(&service.address, &world.image, 4, "sleep 30");
    tokio::time::sleep(Duration::from_secs(3)).await;
    during(world).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    // Whatever happened is over: the next call is an ordinary one.
    call(&service.address, &world.image, "").await.unwrap();
    let (answered, failed) = load.stop().await;
    println!("{answered} calls answered, {} failed", failed.len());
    assert!(failed.is_empty(), "{failed:?}");
    assert!(answered > 50, "{answered}");
    answered
}

#[tokio::test]
async fn a_deleted_pod_loses_no_call() {
    let Some(world) = World::new("fault-pod").await else { return };
    under_load(&world, async |world| {
        let pod = name(&world.living_pods().await[0]);
        world.kubectl(&["delete", "pod", &pod, "--wait=false"]);
    })
    .await;
}

#[tokio::test]
async fn a_killed_process_loses_no_call() {
    let Some(world) = World::new("fault-kill").await else { return };
    under_load(&world, async |world| {
        kill_container(&world.living_pods().await[0], "function").unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_deleted_service_or_endpoint_loses_no_call() {
    let Some(world) = World::new("fault-service").await else { return };
    under_load(&world, async |world| {
        let service = world.services().await[0].clone();
        world.kubectl(&["delete", "endpoints", &service]);
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.kubectl(&["delete", "service", &service]);
    })
    .await;
}

#[tokio::test]
async fn warm_calls_go_on_while_the_api_server_is_away_and_news_arrives_again() {
    let Some(world) = World::alone("fault-api").await else { return };
    let service = world.start(&FLAGS);
    call(&service.address, &world.image, "").await.unwrap();
    let load = Load::start(&service.address, &world.image, 4, "sleep 30");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let api = world.namespace.cluster.part("kube-apiserver").stop().unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    api.start().unwrap();
    let (answered, failed) = load.stop().await;
    assert!(failed.is_empty() && answered > 500, "{answered} answered, {failed:?}");
    // A pod that goes now is noticed, and another one comes.
    let pods = world.living_pods().await;
    world.kubectl(&["delete", "pod", &name(&pods[0]), "--wait=false"]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    // The cluster's own parts, which lead Services to pods, look for the API server again up to a minute later.
    let served = async || call(&service.address, &world.image, "").await.is_ok();
    until("calls are served", Duration::from_secs(150), served).await;
    for _ in 0..10 {
        call(&service.address, &world.image, "").await.unwrap();
    }
}

#[tokio::test]
async fn a_registry_that_is_away_costs_warm_functions_nothing_and_cold_ones_a_clear_error() {
    let Some(world) = World::alone("fault-registry").await else { return };
    let service = world.start(&["--registry-timeout=5s", "--pod-ready-timeout=10s"]);
    call(&service.address, &world.image, "").await.unwrap();
    let registry = world.namespace.cluster.part("registry").stop().unwrap();
    call(&service.address, &world.image, "").await.unwrap();
    let cold = "registry.localhost:5000/behave:v0.2";
    let status = call(&service.address, cold, "").await.unwrap_err();
    assert!(status.message().contains("unable to get the entrypoint for"), "{}", status.message());
    registry.start().unwrap();
    call(&service.address, &world.image, "").await.unwrap();
}

#[tokio::test]
async fn an_evicted_pod_and_one_that_failed_lose_no_call() {
    let Some(world) = World::new("fault-evict").await else { return };
    under_load(&world, async |world| {
        // As a drain of its node does it.
        let (pod, space) = (name(&world.living_pods().await[0]), &world.namespace.name);
        let eviction = format!(
            "{{\"apiVersion\": \"policy/v1\", \"kind\": \"Eviction\", \"metadata\": {{\"name\": \"{pod}\"}}}}"
        );
        let path = format!("/api/v1/namespaces/{space}/pods/{pod}/eviction");
        world
            .namespace
            .cluster
            .kubectl_with_input(&["create", "--raw", &path, "-f", "-"], &eviction)
            .unwrap();
        tokio::time::sleep(Duration::from_secs(4)).await;
        // As the kubelet does it to a pod whose time is over: the phase is Failed.
        let pod = name(&world.living_pods().await[0]);
        world.kubectl(&["patch", "pod", &pod, "-p", r#"{"spec": {"activeDeadlineSeconds": 1}}"#]);
    })
    .await;
}

#[tokio::test]
async fn a_pod_that_cannot_be_reached_any_more_is_replaced_and_its_call_made_again() {
    let Some(world) = World::new("fault-partition").await else { return };
    let service = world.start(&FLAGS);
    let first = pod_of(&call(&service.address, &world.image, "").await.unwrap());
    // Only what the kubelet has found ready can it find unready.
    let ready = async || world.living_pods().await.iter().all(is_ready);
    until("the kubelet finds it ready", PATIENCE, ready).await;
    let pods = world.living_pods().await;
    let _partition = Partition::of(address(&pods[0]).unwrap()).unwrap();
    // It is sent, and nobody answers: the connection is given up, and the call made elsewhere.
    let begin = std::time::Instant::now();
    let answer = call(&service.address, &world.image, "").await.unwrap();
    println!("answered by another pod after {:?}", begin.elapsed());
    assert!(begin.elapsed() < Duration::from_secs(35), "{:?}: {}", begin.elapsed(), service.log().join("\n"));
    assert_ne!(pod_of(&answer), first);
    let begin = std::time::Instant::now();
    assert_ne!(pod_of(&call(&service.address, &world.image, "").await.unwrap()), first);
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_watch_that_is_cut_again_and_again_loses_no_call_and_no_news() {
    let Some(world) = World::new("fault-watch").await else { return };
    let (service, wire) = world.start_by_wire(&FLAGS).await;
    under_load_of(&world, &service, async |world| {
        let before = world.living_pods().await;
        for round in 0..16 {
            wire.cut();
            if round == 4 {
                world.kubectl(&["delete", "pod", &name(&before[0]), "--wait=false"]);
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        let replaced = async || world.living_pods().await.iter().all(|pod| uid(pod) != uid(&before[0]));
        until("the pod is replaced", PATIENCE, replaced).await;
    })
    .await;
}

#[tokio::test]
async fn without_the_api_server_warm_calls_go_on_and_cold_ones_wait_for_it() {
    let Some(world) = World::new("fault-wire").await else { return };
    let (service, wire) = world.start_by_wire(&["--pod-ready-timeout=8s"]).await;
    call(&service.address, &world.image, "").await.unwrap();
    wire.close();
    call(&service.address, &world.image, "").await.unwrap();
    // It does not come back in time: the error says so.
    let behave = loggia_e2e::function_image("behave-function").unwrap();
    let cold = world.namespace.cluster.registry().push(&behave, "behave-cold:v1").unwrap();
    let status = call(&service.address, &cold, "").await.unwrap_err();
    assert!(status.message().contains("the API server cannot be reached"), "{}", status.message());
    // It does: the call that waits for it is served.
    let waiting = tokio::spawn({
        let (address, cold) = (service.address.clone(), cold.clone());
        async move { call(&address, &cold, "").await }
    });
    tokio::time::sleep(Duration::from_secs(2)).await;
    wire.open();
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_function_that_eats_more_than_it_may_fails_alone() {
    let Some(world) = World::new("fault-memory").await else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.yaml");
    std::fs::write(&file, format!("- name: {}\n  resources: {{limits: {{memory: 64Mi}}}}\n", world.image))
        .unwrap();
    let flag = format!("--pod-cache-config={}", file.display());
    let service = world.start(&[&flag, "--warm-up-pod-cache=false"]);
    call(&service.address, &world.image, "").await.unwrap();
    let status = call(&service.address, &world.image, "eat 400").await.unwrap_err();
    println!("{status}");
    assert!(status.message().starts_with("unable to evaluate"), "{}", status.message());
    let served = async || call(&service.address, &world.image, "").await.is_ok();
    until("the next calls are served", Duration::from_secs(30), served).await;
}

#[tokio::test]
async fn a_drained_node_is_told_and_used_again_afterwards() {
    let Some(world) = World::alone("fault-drain").await else { return };
    let cluster = &world.namespace.cluster;
    let node = cluster.kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"]).unwrap();
    let service = world.start(&FLAGS);
    call(&service.address, &world.image, "").await.unwrap();
    let drained = cluster.kubectl(&[
        "drain",
        &node,
        "--pod-selector=fn.kpt.dev/image",
        "--force",
        "--delete-emptydir-data",
        "--timeout=60s",
    ]);
    let status = call(&service.address, &world.image, "").await;
    cluster.kubectl(&["uncordon", &node]).unwrap();
    drained.unwrap();
    // The only node takes no pods.
    let status = status.unwrap_err();
    assert!(status.message().contains("Unschedulable: 0/1 nodes are available"), "{}", status.message());
    let served = async || call(&service.address, &world.image, "").await.is_ok();
    until("the node is used again", Duration::from_secs(60), served).await;
}
