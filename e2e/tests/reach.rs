//! A function in a pod is reached through its service, from the node and from other pods.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, PostParams};
use loggia_e2e::{Cluster, Namespace, content_tag, kill_container, logs, wait_for, wait_ready};
use loggia_grpc::Client;
use loggia_image::{Config, Entries, Image};
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);
const LIST: &str = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  \
                    metadata:\n    name: from-a-test\n";

fn program(name: &str) -> PathBuf {
    let folder = std::env::var_os("LOGGIA_STATIC").expect("make e2e sets LOGGIA_STATIC");
    PathBuf::from(folder).join(name)
}

/// An image in which wrapper-server serves a function.
fn served(function: &Path) -> Image {
    let mut entries = Entries::default();
    entries.file("/wrapper-server", &program("wrapper-server"), Some(0o555)).unwrap();
    entries.file("/function", function, Some(0o555)).unwrap();
    let entrypoint = ["/wrapper-server", "--port", "9446", "--", "/function"].map(String::from).to_vec();
    let config = Config { entrypoint, user: Some("10001:10001".into()), ..Config::default() };
    Image { entries, config, ..Image::default() }
}

/// A name for an image with the wrapper server of the day in it.
fn tagged(name: &str) -> String {
    format!("{name}:{}", content_tag(&program("wrapper-server")).unwrap())
}

async fn start(namespace: &Namespace, name: &str, image: &str) -> Service {
    let admin = namespace.cluster.admin().await.unwrap();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{
            "name": "function",
            "image": image,
            "readinessProbe": {"grpc": {"port": 9446}, "periodSeconds": 1},
        }]},
    }))
    .unwrap();
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 9446}]},
    }))
    .unwrap();
    let services: Api<Service> = Api::namespaced(admin.clone(), &namespace.name);
    let service = services.create(&PostParams::default(), &service).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(admin, &namespace.name);
    pods.create(&PostParams::default(), &pod).await.unwrap();
    wait_ready(&pods, name, MINUTE).await.unwrap();
    service
}

/// Calls until the first answer: a service needs a moment after its pod is ready.
async fn evaluate(address: &str, list: &str) -> String {
    let client = Client::new(address, 6 << 20).unwrap();
    let mut last = String::new();
    for _ in 0..100 {
        let call = client
            .evaluate("any", Bytes::copy_from_slice(list.as_bytes()), Some(Duration::from_secs(2)))
            .await;
        match call {
            Ok(answer) => return String::from_utf8(answer.resource_list.to_vec()).unwrap(),
            Err(status) => last = status.to_string(),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{address} does not answer: {last}");
}

#[tokio::test]
async fn a_function_answers_through_its_service_on_the_node_and_by_name_in_another_pod() {
    let Some(cluster) = Cluster::here() else { return };
    let namespace = cluster.namespace("reach").await.unwrap();
    let image = cluster.registry().push(&served(&program("echo-function")), &tagged("reach-echo")).unwrap();
    let service = start(&namespace, "echo", &image).await;
    let address = service.spec.unwrap().cluster_ip.unwrap();
    assert_eq!(evaluate(&format!("{address}:9446"), LIST).await, LIST);
    let name = format!("echo.{}.svc.cluster.local:9446", namespace.name);
    assert_eq!(evaluate(&name, LIST).await, LIST);

    // The caller is a static program in an image of its own, and knows the function by name alone.
    let mut entries = Entries::default();
    entries.file("/evaluate", &program("../release/examples/evaluate"), Some(0o555)).unwrap();
    entries.text("/list.yaml", LIST, 0o444).unwrap();
    let caller = Image { entries, ..Image::default() };
    let caller = cluster.registry().push(&caller, &tagged("reach-caller")).unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.admin().await.unwrap(), &namespace.name);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "caller"},
        "spec": {"restartPolicy": "Never", "containers": [{
            "name": "caller", "image": caller, "command": ["/evaluate", name, "any", "/list.yaml"],
        }]},
    }))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let phase = |pod: Option<&Pod>| pod.and_then(|pod| pod.status.as_ref()?.phase.clone());
    let ended = |pod: Option<&Pod>| matches!(phase(pod).as_deref(), Some("Succeeded" | "Failed"));
    wait_for(&pods, "caller", MINUTE, ended).await.unwrap();
    assert_eq!(logs(&pods, "caller").await.unwrap(), LIST);
}

#[tokio::test]
async fn a_killed_container_is_started_again_and_answers() {
    let Some(cluster) = Cluster::here() else { return };
    let namespace = cluster.namespace("killed").await.unwrap();
    let image = cluster.registry().push(&served(&program("echo-function")), &tagged("reach-echo")).unwrap();
    let service = start(&namespace, "echo", &image).await;
    let pods: Api<Pod> = Api::namespaced(cluster.admin().await.unwrap(), &namespace.name);
    kill_container(&pods.get("echo").await.unwrap(), "function").unwrap();
    let restarted = |pod: Option<&Pod>| {
        let statuses = pod.and_then(|pod| pod.status.as_ref()?.container_statuses.as_ref());
        statuses.is_some_and(|all| all.iter().any(|one| one.restart_count > 0 && one.ready))
    };
    wait_for(&pods, "echo", MINUTE, restarted).await.unwrap();
    assert_eq!(evaluate(&format!("{}:9446", service.spec.unwrap().cluster_ip.unwrap()), LIST).await, LIST);
}

#[tokio::test]
async fn a_catalog_function_does_its_work_in_a_pod() {
    let Some(cluster) = Cluster::here() else { return };
    let folder = std::env::var_os("LOGGIA_CACHE").expect("make e2e sets LOGGIA_CACHE");
    let function = PathBuf::from(folder).join("functions/set-namespace-v0.4.1");
    let namespace = cluster.namespace("catalog").await.unwrap();
    let image = cluster.registry().push(&served(&function), &tagged("reach-set-namespace")).unwrap();
    let service = start(&namespace, "set-namespace", &image).await;
    let address = format!("{}:9446", service.spec.unwrap().cluster_ip.unwrap());
    let list = format!(
        "{LIST}functionConfig:\n  apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: config\n  data:\n    namespace: prod\n"
    );
    let answer = evaluate(&address, &list).await;
    assert!(answer.contains("namespace: prod") && answer.contains("name: from-a-test"), "{answer}");
}
