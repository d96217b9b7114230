//! What breaks while calls go on: no call may be lost.

use std::time::Duration;

use loggia_e2e::kill_container;

use crate::support::{Load, World, call, name};

const FLAGS: [&str; 3] =
    ["--max-parallel-pods-per-function=2", "--max-waitlist-length=2", "--scan-interval=2s"];

/// Load before, during and after something happens; every call must be answered.
async fn under_load(world: &World, during: impl AsyncFnOnce(&World)) -> usize {
    let service = world.start(&FLAGS);
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
