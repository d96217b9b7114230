//! What the fixture offers to break a cluster with really breaks it, and what it breaks heals.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use loggia_e2e::{Ballast, Cluster, pause_pod, wait_for, wait_ready};
use loggia_image::{Config, Entries, Image};
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

/// Why a pod's container waits, or why the pod has no node.
fn reason(pod: Option<&Pod>) -> String {
    let status = pod.and_then(|pod| pod.status.as_ref());
    let containers = status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
    let waiting = containers.filter_map(|one| one.state.as_ref()?.waiting.as_ref()?.reason.clone());
    let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let unschedulable = conditions.filter_map(|one| one.reason.clone());
    waiting.chain(unschedulable).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn the_runner_may_do_what_a_stock_porch_grants_and_nothing_more() {
    let Some(cluster) = Cluster::here() else { return };
    let namespace = cluster.namespace("rights").await.unwrap();
    let runner = namespace.runner().await.unwrap();
    let audit = cluster.audit();
    let client = runner.client().await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace.name);
    pods.create(&PostParams::default(), &pause_pod("one", &Quantity("10m".into())).unwrap()).await.unwrap();
    wait_ready(&pods, "one", MINUTE).await.unwrap();
    pods.delete("one", &DeleteParams::default()).await.unwrap();

    let refused = |result: Result<(), kube::Error>| match result {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 403, "{status:?}"),
        other => panic!("{other:?}"),
    };
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace.name);
    refused(maps.list(&ListParams::default()).await.map(drop));
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace.name);
    refused(secrets.list(&ListParams::default()).await.map(drop));
    let elsewhere: Api<Pod> = Api::namespaced(client, "kube-system");
    refused(elsewhere.list(&ListParams::default()).await.map(drop));

    let requests = audit.requests(&runner.user).unwrap();
    let count = |verb: &str, code| requests.iter().filter(|one| one.verb == verb && one.code == code).count();
    assert_eq!((count("create", 201), count("delete", 200), count("list", 403)), (1, 1, 3), "{requests:?}");
}

#[tokio::test]
async fn an_api_server_that_is_paused_or_stopped_answers_nobody_until_it_is_back() {
    let Some(cluster) = Cluster::here() else { return };
    let namespace = cluster.namespace_alone("cut-off").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.admin().await.unwrap(), &namespace.name);
    let list = ListParams::default();
    let within = |time| tokio::time::timeout(time, pods.list(&list));
    within(MINUTE).await.unwrap().unwrap();
    let api = cluster.part("kube-apiserver");

    let paused = api.pause().unwrap();
    assert!(within(Duration::from_secs(2)).await.is_err(), "a paused server answered");
    paused.resume();
    within(MINUTE).await.unwrap().unwrap();

    let before = api.pid().unwrap();
    let stopped = api.stop().unwrap();
    assert!(within(Duration::from_secs(5)).await.unwrap().is_err(), "a stopped server answered");
    stopped.start().unwrap();
    within(MINUTE).await.unwrap().unwrap();
    assert_ne!(api.pid().unwrap(), before);
}

#[tokio::test]
async fn on_a_full_node_a_pod_waits_until_there_is_room() {
    let Some(cluster) = Cluster::here() else { return };
    let namespace = cluster.namespace_alone("full").await.unwrap();
    let ballast = Ballast::place(&namespace).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.admin().await.unwrap(), &namespace.name);
    pods.create(&PostParams::default(), &pause_pod("late", &Quantity("10m".into())).unwrap()).await.unwrap();
    wait_for(&pods, "late", MINUTE, |pod| reason(pod).contains("Unschedulable")).await.unwrap();
    ballast.lift().await.unwrap();
    wait_ready(&pods, "late", MINUTE).await.unwrap();
}

#[tokio::test]
async fn with_the_registry_down_a_new_image_cannot_be_pulled_and_with_it_up_it_can() {
    let Some(cluster) = Cluster::here() else { return };
    let namespace = cluster.namespace_alone("pull").await.unwrap();
    let image = fresh_image();
    let name = cluster.registry().push(&image, &never_pulled("fresh")).unwrap();
    let stopped = cluster.part("registry").stop().unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.admin().await.unwrap(), &namespace.name);
    let mut pod = pause_pod("fresh", &Quantity("10m".into())).unwrap();
    pod.spec.as_mut().unwrap().containers[0].image = Some(name);
    pods.create(&PostParams::default(), &pod).await.unwrap();
    wait_for(&pods, "fresh", MINUTE, |pod| reason(pod).contains("ErrImagePull")).await.unwrap();
    stopped.start().unwrap();
    wait_ready(&pods, "fresh", MINUTE).await.unwrap();
}

#[tokio::test]
async fn the_private_registry_is_trusted_and_wants_the_password() {
    let Some(cluster) = Cluster::here() else { return };
    let namespace = cluster.namespace("private").await.unwrap();
    let registry = cluster.private_registry();
    let name = registry.push(&fresh_image(), &never_pulled("secret")).unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.admin().await.unwrap(), &namespace.name);
    let mut pod = pause_pod("stranger", &Quantity("10m".into())).unwrap();
    pod.spec.as_mut().unwrap().containers[0].image = Some(name);
    pods.create(&PostParams::default(), &pod).await.unwrap();
    wait_for(&pods, "stranger", MINUTE, |pod| reason(pod).contains("ErrImagePull")).await.unwrap();

    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "password"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": registry.docker_config()},
    }))
    .unwrap();
    let secrets: Api<Secret> = Api::namespaced(cluster.admin().await.unwrap(), &namespace.name);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    pod.metadata.name = Some("friend".into());
    pod.spec.as_mut().unwrap().image_pull_secrets =
        Some(serde_json::from_value(json!([{"name": "password"}])).unwrap());
    pods.create(&PostParams::default(), &pod).await.unwrap();
    wait_ready(&pods, "friend", MINUTE).await.unwrap();
}

/// An image that no node has seen.
/// A name that the node has not seen, also if the cluster is an old one.
fn never_pulled(name: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    format!("{name}:{}", now.as_nanos())
}

fn fresh_image() -> Image {
    let static_folder = std::env::var_os("LOGGIA_STATIC").expect("make e2e sets LOGGIA_STATIC");
    let mut entries = Entries::default();
    let server = std::path::PathBuf::from(static_folder).join("wrapper-server");
    entries.file("/wrapper-server", &server, Some(0o555)).unwrap();
    let now = format!("{:?} {}", Instant::now(), std::process::id());
    entries.text("/now", now, 0o444).unwrap();
    let entrypoint = ["/wrapper-server", "--", "/wrapper-server"].map(String::from).to_vec();
    Image { entries, config: Config { entrypoint, ..Config::default() }, ..Image::default() }
}
