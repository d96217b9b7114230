//! Every failure says what happened, in the code and words that Porch's users know.

use std::time::{Duration, Instant};

use loggia_e2e::{Ballast, function_image};
use loggia_image::Image;
use tonic::Code;

use crate::support::{PATIENCE, World, call, call_within};

const READY: &str = "unable to get the grpc client to the pod for IMG: error occurred when waiting the pod and service to \
                     be ready. If the error is caused by timeout, you may want to examine the pod/service in namespace \
                     \"NS\". Error: pod `";

fn frame(world: &World, image: &str) -> String {
    READY.replace("IMG", image).replace("NS", &world.namespace.name)
}

#[tokio::test]
async fn a_function_that_fails_is_told_as_by_the_wrapper_and_framed_as_by_porch() {
    let Some(world) = World::new("function-errors").await else { return };
    let service = world.start(&[]);
    let image = &world.image;
    let status = call(&service.address, image, "exit 3").await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    let begin = format!(
        "unable to evaluate {image} with pod evaluator: rpc error: code = Internal desc = failed to parse the output of \
         function \"{image}\" with stderr 'pod "
    );
    assert!(status.message().starts_with(&begin), "{}", status.message());
    let status = call(&service.address, image, "results").await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert!(status.message().contains("with structured results: [error]: not good"), "{}", status.message());
    let details = loggia_grpc::wire::details::EvaluationError::of(&status).unwrap();
    assert_eq!((details.exit_code, details.results.len()), (Some(1), 1));
    assert!(details.pod.starts_with(&format!("{}1-", world.stem)), "{}", details.pod);

    let status = call(&service.address, image, "die").await.unwrap_err();
    assert_eq!(status.code(), Code::Internal, "{}", status.message());
    assert!(status.message().starts_with(&begin), "{}", status.message());

    let status = call(&service.address, image, "flood").await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{}", status.message());
    let begin = Instant::now();
    let status =
        call_within(&service.address, image, "sleep 60000", Duration::from_secs(2)).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(begin.elapsed() < Duration::from_secs(4));
    // None of this harmed the pod.
    call(&service.address, image, "").await.unwrap();
    assert_eq!(world.pods().await.len(), 1);
}

#[tokio::test]
async fn an_image_that_is_not_there_is_told_by_the_registry() {
    let Some(world) = World::new("no-image").await else { return };
    let service = world.start(&[]);
    let image = "registry.localhost:5000/not-there:v1";
    let begin = Instant::now();
    let status = call(&service.address, image, "").await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert_eq!(status.code(), Code::Unknown);
    let expected = format!(
        "unable to get the grpc client to the pod for {image}: unable to get the entrypoint for {image}: "
    );
    assert!(status.message().starts_with(&expected), "{}", status.message());
    let status = call(&service.address, "Not/An:Image", "").await.unwrap_err();
    assert!(status.message().contains("could not parse reference: Not/An:Image"), "{}", status.message());
    assert!(world.pods().await.is_empty() && world.services().await.is_empty());
}

#[tokio::test]
async fn an_image_without_a_command_is_refused_and_one_with_a_command_only_runs() {
    let Some(world) = World::new("commands").await else { return };
    let service = world.start(&[]);
    let registry = world.namespace.cluster.registry();
    let mut image: Image = function_image("behave-function").unwrap();
    let words = std::mem::take(&mut image.config.entrypoint);
    let none = registry.push(&image, "no-command:v1").unwrap();
    let status = call(&service.address, &none, "").await.unwrap_err();
    assert!(status.message().contains("neither an entrypoint nor a command"), "{}", status.message());
    image.config.cmd = words;
    let only = registry.push(&image, "cmd-only:v1").unwrap();
    call(&service.address, &only, "").await.unwrap();
}

#[tokio::test]
async fn a_pod_that_finds_no_node_is_told_in_the_schedulers_words_within_seconds() {
    let Some(world) = World::new("no-node").await else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.yaml");
    std::fs::write(&file, format!("- name: {}\n  resources: {{requests: {{cpu: 4000}}}}\n", world.image))
        .unwrap();
    let flag = format!("--pod-cache-config={}", file.display());
    let service = world.start(&[&flag, "--warm-up-pod-cache=false"]);
    let begin = Instant::now();
    let status = call(&service.address, &world.image, "").await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    assert_eq!(status.code(), Code::Unknown);
    let text = status.message();
    assert!(text.starts_with(&frame(&world, &world.image)), "{text}");
    assert!(text.contains("Unschedulable: 0/1 nodes are available"), "{text}");
    // The next caller is told at once, and nothing is left behind.
    let begin = Instant::now();
    call(&service.address, &world.image, "").await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(12));
    world.wait_for_pods(0, Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_wrapper_that_crashes_is_told_with_its_exit_code_and_last_words() {
    let Some(world) = World::new("crash").await else { return };
    // A template whose server does not know one of its flags.
    let wrapper = loggia_e2e::wrapper_image(&world.namespace.cluster).unwrap();
    crate::templates::install(
        &world,
        "crash",
        &crate::templates::template(&wrapper, "args: [--nonsense]"),
        None,
    );
    let flag = format!("--function-pod-template={}", crate::templates::config_map(&world, "crash"));
    let service = world.start(&[&flag]);
    let status = call(&service.address, &world.image, "").await.unwrap_err();
    let text = status.message();
    assert!(text.contains("container `function`: exited with code 2; it wrote last: "), "{text}");
    assert!(text.contains("unknown flag: --nonsense"), "{text}");
}

#[tokio::test]
async fn a_quota_and_a_missing_right_are_named() {
    let Some(world) = World::new("refused").await else { return };
    let service = world.start(&[]);
    world
        .namespace
        .apply("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none}\nspec: {hard: {pods: '0'}}\n")
        .unwrap();
    let begin = Instant::now();
    let text = loop {
        // The quota counts once its controller has seen it.
        let status = call(&service.address, &world.image, "").await;
        match status {
            Err(status) => break status.message().to_owned(),
            Ok(_) => assert!(begin.elapsed() < Duration::from_secs(60)),
        }
        world.kubectl(&["delete", "pods", "--all", "--wait=true"]);
    };
    assert!(text.contains("unable to apply the pod: could not create pods"), "{text}");
    assert!(text.contains("exceeded quota: none"), "{text}");
    world.kubectl(&["delete", "resourcequota", "none"]);

    world.kubectl(&[
        "patch",
        "role",
        "porch-function-executor",
        "--type=json",
        "-p",
        r#"[{"op": "replace", "path": "/rules/0/verbs", "value": ["get", "list", "watch"]}]"#,
    ]);
    let begin = Instant::now();
    let text = loop {
        let status = call(&service.address, &world.image, "").await.unwrap_err();
        if !status.message().contains("exceeded quota") {
            break status.message().to_owned();
        }
        assert!(begin.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    assert!(text.contains("grant the verb `create` on `pods` to the runner's service account"), "{text}");
}

#[tokio::test]
async fn a_full_node_is_told_and_a_freed_one_used() {
    let Some(world) = World::alone("full").await else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.yaml");
    std::fs::write(&file, format!("- name: {}\n  resources: {{requests: {{cpu: 50m}}}}\n", world.image))
        .unwrap();
    let flag = format!("--pod-cache-config={}", file.display());
    let ballast = Ballast::place(&world.namespace).await.unwrap();
    let service = world.start(&[&flag, "--warm-up-pod-cache=false"]);
    let status = call(&service.address, &world.image, "").await.unwrap_err();
    assert!(status.message().contains("Insufficient cpu"), "{}", status.message());
    ballast.lift().await.unwrap();
    let begin = Instant::now();
    while let Err(status) = call(&service.address, &world.image, "").await {
        assert!(begin.elapsed() < Duration::from_secs(60), "{}", status.message());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn a_pod_that_never_answers_is_told_with_what_it_waits_for_and_leaves_an_event() {
    let Some(world) = World::new("never-ready").await else { return };
    let wrapper = loggia_e2e::wrapper_image(&world.namespace.cluster).unwrap();
    // A function that waits for its input is no server.
    let template = crate::templates::template(&wrapper, "stdin: true")
        .replace("command: [/wrapper-server-tools/wrapper-server]", "command: [/function]");
    crate::templates::install(&world, "never", &template, None);
    let events = r#"[{"op": "add", "path": "/rules/-", "value": {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}}]"#;
    world.patch_role(events);
    let flag = format!("--function-pod-template={}", crate::templates::config_map(&world, "never"));
    let service = world.start(&[&flag, "--pod-ready-timeout=6s"]);
    let begin = Instant::now();
    let status = call(&service.address, &world.image, "").await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(12), "{:?}", begin.elapsed());
    assert_eq!(status.code(), Code::DeadlineExceeded);
    let text = status.message();
    assert!(text.starts_with(&frame(&world, &world.image)), "{text}");
    assert!(
        text.ends_with("not ready within 6s: container `function` runs, and its server does not answer"),
        "{text}"
    );
    let noted = async || {
        let query = [
            "get",
            "events",
            "--field-selector=reason=FunctionNotReady",
            "-o",
            "jsonpath={.items[*].message}",
        ];
        world.kubectl(&query).contains("not ready within 6s")
    };
    crate::support::until("there is an Event", Duration::from_secs(20), noted).await;
}

#[tokio::test]
async fn a_template_without_a_place_for_the_function_ends_the_start() {
    let Some(world) = World::new("no-place").await else { return };
    let wrapper = loggia_e2e::wrapper_image(&world.namespace.cluster).unwrap();
    let template =
        crate::templates::template(&wrapper, "tty: false").replace("- name: function", "- name: other");
    crate::templates::install(&world, "other", &template, None);
    let flag = format!("--function-pod-template={}", crate::templates::config_map(&world, "other"));
    let begin = Instant::now();
    let error = loop {
        match loggia_e2e::Service::start(&world.namespace, &world.runner, &[&flag]) {
            Err(error) => break error.to_string(),
            // The API server learns of the runner's new role a moment later, and until then hides the template.
            Ok(service) => {
                assert!(begin.elapsed() < PATIENCE, "{:?}", service.log());
                service.stop().unwrap();
            }
        }
    };
    let expected = "failed to generate a base pod template: failed to find the function container in the pod";
    assert!(error.contains(expected), "{error}");
}

#[tokio::test]
async fn an_init_container_that_cannot_run_or_be_pulled_is_named() {
    let Some(world) = World::new("init").await else { return };
    // An image without a `cp`, and one that is not there.
    let cases = [
        (
            "no-cp",
            world.image.as_str(),
            ["StartError", "RunContainerError", "CreateContainerError"].as_slice(),
        ),
        ("no-image", "registry.localhost:5000/no-wrapper:v1", ["ErrImagePull"].as_slice()),
    ];
    for (name, wrapper, reasons) in cases {
        crate::templates::install(&world, name, &crate::templates::template(wrapper, "tty: false"), None);
        let flag = format!("--function-pod-template={}", crate::templates::config_map(&world, name));
        let service = world.start(&[&flag]);
        let begin = Instant::now();
        let status = call(&service.address, &world.image, "").await.unwrap_err();
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
        assert_eq!(status.code(), Code::Unknown);
        let text = status.message();
        let said = |reason: &&str| text.contains(&format!("container `copy-wrapper-server`: {reason}: "));
        assert!(text.starts_with(&frame(&world, &world.image)) && reasons.iter().any(said), "{text}");
        println!("{name}: {text}");
        world.wait_for_pods(0, Duration::from_secs(60)).await;
    }
}
