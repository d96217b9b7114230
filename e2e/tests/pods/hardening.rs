//! What a function pod runs, what it may use, and what it is kept from.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};
use loggia_e2e::function_image;
use loggia_grpc::Answer;
use tonic::Code;

use crate::support::{PATIENCE, World, call, name, pod_of, until};

/// A permission that a stock installation does not have.
const MAY_LIST_EVENTS: &str = r#"[{"op": "add", "path": "/rules/-", "value":
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "list"]}}]"#;

fn function(pod: &Pod) -> &Container {
    pod.spec.as_ref().unwrap().containers.iter().find(|container| container.name == "function").unwrap()
}

fn log(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.log).into_owned()
}

fn annotation<'a>(pod: &'a Pod, key: &str) -> &'a str {
    pod.metadata.annotations.as_ref().unwrap()[key].as_str()
}

#[tokio::test]
async fn a_pod_runs_the_digest_that_was_resolved_whatever_the_node_has_under_the_tag() {
    let Some(world) = World::new("digest").await else { return };
    let registry = world.namespace.cluster.registry();
    let tag = format!("behave-pinned:{}", world.namespace.name);
    let push = |word: &str| {
        let mut image = function_image("behave-function").unwrap();
        image.config.cmd = vec![word.to_owned()];
        registry.push(&image, &tag).unwrap()
    };
    let image = push("old");
    let service = world.start(&[]);
    assert!(log(&call(&service.address, &image, "").await.unwrap()).contains("word old"));
    let old = world.living_pods().await.remove(0);
    let (repository, digest) = function(&old).image.as_ref().unwrap().split_once('@').unwrap();
    assert_eq!(Some(repository), image.rsplit_once(':').map(|(name, _)| name));
    assert_eq!(digest, annotation(&old, "loggia.dev/digest"));
    assert_eq!(annotation(&old, "loggia.dev/requested-image"), image);
    assert_eq!(function(&old).image_pull_policy.as_deref(), Some("IfNotPresent"));

    // The node keeps what it pulled, and by the tag it would run that again.
    push("new");
    world.kubectl(&["delete", "pods", "--all", "--wait=true"]);
    let answer = call(&service.address, &image, "").await.unwrap();
    assert!(log(&answer).contains("word new"), "{}", log(&answer));
    let new = world.living_pods().await.remove(0);
    assert_eq!(
        function(&new).image.as_deref(),
        Some(&*format!("{repository}@{}", annotation(&new, "loggia.dev/digest")))
    );
    assert!(!service.log().iter().any(|line| line.contains("the node runs")), "there is nothing to compare");

    // Another run of the program knows the pod by its tag.
    drop(service);
    let service = world.start(&[]);
    assert_eq!(pod_of(&call(&service.address, &image, "").await.unwrap()), name(&new));
    assert_eq!(world.living_pods().await.len(), 1);
}

#[tokio::test]
async fn a_pod_by_tag_is_used_until_there_is_one_by_digest() {
    let Some(world) = World::new("by-tag").await else { return };
    let service = world.start(&["--pod-image-by-tag"]);
    let first = pod_of(&call(&service.address, &world.image, "").await.unwrap());
    assert_eq!(function(&world.living_pods().await[0]).image.as_ref(), Some(&world.image));
    drop(service);
    let service = world.start(&["--scan-interval=1s"]);
    assert_eq!(pod_of(&call(&service.address, &world.image, "").await.unwrap()), first);
    let replaced = async || pod_of(&call(&service.address, &world.image, "").await.unwrap()) != first;
    until("there is one by digest", PATIENCE, replaced).await;
}

#[tokio::test]
async fn a_function_that_is_root_has_no_capabilities_and_cannot_replace_its_server() {
    let Some(world) = World::new("powers").await else { return };
    let service = world.start(&[]);
    let answer =
        call(&service.address, &world.image, "write /wrapper-server-tools/wrapper-server").await.unwrap();
    let text = log(&answer);
    assert!(text.contains("not written: Read-only file system"), "{text}");
    assert!(text.contains("capabilities 0000000000000000"), "{text}");
    let answer = call(&service.address, &world.image, "write /wrapper-server-tools/new").await.unwrap();
    assert!(log(&answer).contains("not written: Read-only file system"), "{}", log(&answer));
    let pod = &world.living_pods().await[0];
    let resources = function(pod).resources.as_ref().unwrap();
    let limits: Vec<_> =
        resources.limits.iter().flatten().map(|(name, amount)| format!("{name}={}", amount.0)).collect();
    assert_eq!(limits, ["ephemeral-storage=1Gi", "memory=2Gi"]);
    drop(service);

    let service = world.start(&["--pod-keep-capabilities", "--scan-interval=1s"]);
    let keeps = async || {
        let answer = call(&service.address, &world.image, "").await.unwrap();
        !log(&answer).contains("capabilities 0000000000000000")
    };
    until("there is a pod that keeps them", PATIENCE, keeps).await;
}

#[tokio::test]
async fn every_character_of_an_entrypoint_reaches_the_function() {
    let Some(world) = World::new("dollars").await else { return };
    let mut image = function_image("behave-function").unwrap();
    let words = ["$(HOSTNAME)", "$$(HOSTNAME)", "$$$(HOSTNAME)", "a$b$$c$", "$"];
    image.config.cmd = words.map(ToOwned::to_owned).to_vec();
    let image = world.namespace.cluster.registry().push(&image, "behave-dollars:v1").unwrap();
    let service = world.start(&[]);
    let text = log(&call(&service.address, &image, "").await.unwrap());
    let found: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("word ")).collect();
    assert_eq!(found, words);
}

#[tokio::test]
async fn a_function_that_eats_more_memory_than_its_limit_harms_only_itself() {
    let Some(world) = World::new("eater").await else { return };
    let service = world.start(&["--pod-limits=memory=96Mi", "--pod-requests=memory=32Mi"]);
    call(&service.address, &world.image, "eat 16").await.unwrap();
    let status = call(&service.address, &world.image, "eat 400").await.unwrap_err();
    assert_ne!(status.code(), Code::DeadlineExceeded, "{}", status.message());
    until("it answers again", PATIENCE, async || call(&service.address, &world.image, "").await.is_ok())
        .await;
}

#[tokio::test]
async fn a_function_that_fills_the_disk_of_its_node_loses_its_pod() {
    let Some(world) = World::new("filler").await else { return };
    let service = world.start(&["--pod-limits=ephemeral-storage=16Mi", "--pod-requests="]);
    let filled = pod_of(&call(&service.address, &world.image, "").await.unwrap());
    let (address, image) = (service.address.clone(), world.image.clone());
    let filler = tokio::spawn(async move { call(&address, &image, "fill 64").await });
    let evicted = async || {
        let pods = world.pods().await;
        let status = pods.iter().find(|pod| name(pod) == filled).and_then(|pod| pod.status.clone());
        status.is_none_or(|status| status.reason.as_deref() == Some("Evicted"))
    };
    until("the pod is evicted", PATIENCE, evicted).await;
    filler.abort();
    let answers = async || call(&service.address, &world.image, "").await.is_ok();
    until("another pod answers", PATIENCE, answers).await;
}

#[tokio::test]
async fn user_namespaces_are_tried_where_that_can_be_observed_and_given_up_where_nodes_have_none() {
    let Some(world) = World::new("userns").await else { return };
    // A stock installation may not read Events, so nothing is tried.
    let mut service = world.start(&[]);
    call(&service.address, &world.image, "").await.unwrap();
    service.wait_for_line("user namespaces are not tried", PATIENCE).unwrap();
    let host_users = |pod: &Pod| pod.spec.as_ref().unwrap().host_users;
    assert_eq!(host_users(&world.living_pods().await[0]), None);
    drop(service);
    world.kubectl(&["delete", "pods,services", "--all", "--wait=true"]);

    world.patch_role(MAY_LIST_EVENTS);
    let service = world.start(&[]);
    let begin = std::time::Instant::now();
    call(&service.address, &world.image, "").await.unwrap();
    println!("the first call took {:?}", begin.elapsed());
    let gave_up = service.log().iter().filter(|line| line.contains("get no user namespaces")).count();
    let pod = world.living_pods().await.into_iter().find(loggia_e2e::is_ready);
    let supported = pod.and_then(|pod| host_users(&pod)) == Some(false);
    assert_eq!(gave_up, usize::from(!supported), "{}", service.log().join("\n"));
    let again = begin.elapsed();
    assert!(again < Duration::from_secs(30), "{again:?}");
    drop(service);
    if supported {
        return;
    }
    world.kubectl(&["delete", "pods,services", "--all", "--wait=true"]);
    let service = world.start(&["--pod-user-namespaces=on", "--pod-ready-timeout=20s"]);
    let status = call(&service.address, &world.image, "").await.unwrap_err();
    assert!(status.message().contains("FailedCreatePodSandBox: "), "{}", status.message());
}

#[tokio::test]
async fn pods_of_all_functions_together_have_a_limit() {
    let Some(world) = World::new("max-pods").await else { return };
    let registry = world.namespace.cluster.registry();
    let service = world.start(&["--max-pods=1", "--scan-interval=1s"]);
    call(&service.address, &world.image, "").await.unwrap();
    let other = registry.push(&function_image("behave-function").unwrap(), "behave-other:v1").unwrap();
    for image in [other.as_str(), "registry.localhost:5000/not-there:v1"] {
        let status = call(&service.address, image, "").await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{}", status.message());
        let expected = format!(
            "unable to get the grpc client to the pod for {image}: 1 function pods exist, and there may be no more (--max-pods)"
        );
        assert!(status.message().starts_with(&expected), "{}", status.message());
    }
    assert_eq!((world.pods().await.len(), world.services().await.len()), (1, 1));
    // The one that exists goes on, and makes place once it has idled for half a minute.
    let first = pod_of(&call(&service.address, &world.image, "").await.unwrap());
    let makes_place = async || call(&service.address, &other, "").await.is_ok();
    until("it makes place", PATIENCE, makes_place).await;
    let gone = async || world.living_pods().await.iter().all(|pod| name(pod) != first);
    until("the first one is gone", PATIENCE, gone).await;
}
