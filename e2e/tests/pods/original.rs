//! Side by side with the function runner that this one takes the place of, where that was built.

use std::path::PathBuf;
use std::time::Duration;

use loggia_e2e::{Cluster, Service, static_program, wrapper_image};
use serde_json::Value;
use tonic::Status;

use crate::support::{PATIENCE, World, call, list, name, pod_of, until};

/// A program of the original, or a line that says that it is not there.
fn program(name: &str) -> Option<PathBuf> {
    let cache = PathBuf::from(std::env::var_os("LOGGIA_CACHE").unwrap_or_default());
    let program = cache.join("peers/porch").join(name);
    if !program.exists() {
        loggia_testing::left_out("the original was not built (make peers)");
        return None;
    }
    Some(program)
}

fn original(world: &World) -> Option<Service> {
    let program = program("server")?;
    let wrapper = wrapper_image(&world.namespace.cluster).unwrap();
    Some(Service::start_other(&program, &wrapper, &world.namespace, &world.runner).unwrap())
}

/// What a caller sees, without the names of pods.
fn seen(status: &Status) -> (tonic::Code, String) {
    let text = status.message();
    let text = match text.split_once("stderr 'pod ") {
        Some((before, after)) => {
            format!("{before}stderr 'pod {}", after.split_once('\n').map_or("", |(_, rest)| rest))
        }
        None => text.to_owned(),
    };
    (status.code(), text)
}

#[tokio::test]
async fn a_function_that_fails_is_told_as_the_original_tells_it() {
    let Some(world) = World::new("as-original").await else { return };
    let Some(theirs) = original(&world) else { return };
    let behaviours = ["exit 3", "results", "die"];
    let mut expected = Vec::new();
    for behave in behaviours {
        expected.push(seen(&call(&theirs.address, &world.image, behave).await.unwrap_err()));
    }
    let missing = "registry.localhost:5000/not-there:v1";
    let their_missing = call(&theirs.address, missing, "").await.unwrap_err();
    let their_name = call(&theirs.address, "Not/An:Image", "").await.unwrap_err();
    drop(theirs);
    let ours = world.start(&[]);
    for (behave, expected) in behaviours.iter().zip(expected) {
        let status = call(&ours.address, &world.image, behave).await.unwrap_err();
        assert_eq!(seen(&status), expected, "{behave}");
    }
    // What a registry's refusal reads like is each program's own; the frame and the code are not.
    let frame = format!(
        "unable to get the grpc client to the pod for {missing}: unable to get the entrypoint for {missing}: "
    );
    let our_missing = call(&ours.address, missing, "").await.unwrap_err();
    for status in [&their_missing, &our_missing] {
        assert!(status.message().starts_with(&frame), "{}", status.message());
    }
    assert_eq!(our_missing.code(), their_missing.code());
    // What is no image's name is refused before anybody looks for it, which the original does not do.
    let our_name = call(&ours.address, "Not/An:Image", "").await.unwrap_err();
    for status in [&their_name, &our_name] {
        assert!(status.message().contains("could not parse reference: Not/An:Image"), "{}", status.message());
    }
}

#[tokio::test]
async fn each_uses_the_pods_that_the_other_left() {
    let Some(world) = World::new("handed-over").await else { return };
    let Some(theirs) = original(&world) else { return };
    let pod = pod_of(&call(&theirs.address, &world.image, "").await.unwrap());
    drop(theirs);
    // Ours answers from the pod that is there, and has one of its own made for later.
    // The original knows a pod by the image of its container, so ours must have the tag.
    let ours = world.start(&["--scan-interval=1s", "--pod-image-by-tag"]);
    assert_eq!(pod_of(&call(&ours.address, &world.image, "").await.unwrap()), pod);
    let another = async || pod_of(&call(&ours.address, &world.image, "").await.unwrap()) != pod;
    until("there is one of ours", PATIENCE, another).await;
    let own = pod_of(&call(&ours.address, &world.image, "").await.unwrap());
    drop(ours);
    // The original takes over one and deletes what is more.
    world.kubectl(&["delete", "pod", &pod, "--wait=true"]);
    let theirs = original(&world).unwrap();
    for _ in 0..3 {
        let answer = call(&theirs.address, &world.image, "").await.unwrap();
        assert_eq!(pod_of(&answer), own, "{}", theirs.log().join("\n"));
    }
    assert_eq!(world.living_pods().await.iter().map(name).collect::<Vec<_>>(), [own]);
}

#[tokio::test]
async fn a_call_that_takes_minutes_in_the_original_server_of_a_pod_is_answered() {
    let (Some(_), Some(program)) = (Cluster::here(), program("wrapper-server")) else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = std::process::Command::new(program)
        .args(["--port", &port.to_string(), "--"])
        .arg(static_program("behave-function"))
        .envs([("OTEL_METRICS_EXPORTER", "none"), ("OTEL_TRACES_EXPORTER", "none")])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let address = format!("127.0.0.1:{port}");
    let client = loggia_grpc::Client::new(&address, 6 << 20).unwrap();
    until("it serves", PATIENCE, async || client.is_serving().await.is_ok()).await;
    // It ends a connection after the fourth ping in a row, which is after two minutes.
    let answer = client.evaluate("x.io/f:v1", list("sleep 125000"), Some(Duration::from_secs(180))).await;
    let _ = server.kill();
    let _ = server.wait();
    assert_eq!(answer.unwrap().resource_list, list("sleep 125000"));
}

/// Where two values differ, each with its path; what only the second one has is not looked at.
fn differences(path: &str, theirs: &Value, ours: &Value, found: &mut Vec<String>) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (key, value) in theirs {
                differences(&format!("{path}.{key}"), value, ours.get(key).unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(theirs), Value::Array(ours)) if theirs.len() == ours.len() => {
            for (number, (value, other)) in theirs.iter().zip(ours).enumerate() {
                differences(&format!("{path}[{number}]"), value, other, found);
            }
        }
        (theirs, ours) if theirs != ours => found.push(path.to_owned()),
        _ => {}
    }
}

/// The one pod and the one Service of a namespace, without what is different each time.
fn made_in(world: &World) -> (Value, Value) {
    let get = |kind: &str| -> Value {
        let list: Value = serde_json::from_str(&world.kubectl(&["get", kind, "-o", "json"])).unwrap();
        let [object] = list["items"].as_array().unwrap().as_slice() else { panic!("{list}") };
        let mut object = object.clone();
        let fields = object.as_object_mut().unwrap();
        fields.remove("status");
        let metadata = fields["metadata"].as_object_mut().unwrap();
        for key in [
            "name",
            "generateName",
            "namespace",
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
        ] {
            metadata.remove(key);
        }
        let spec = fields["spec"].as_object_mut().unwrap();
        ["clusterIP", "clusterIPs", "nodeName"].iter().for_each(|key| drop(spec.remove(*key)));
        object
    };
    (get("pods"), get("services"))
}

#[tokio::test]
async fn pods_and_services_are_made_as_the_original_makes_them() {
    let Some(world) = World::new("made-by-them").await else { return };
    let Some(theirs) = original(&world) else { return };
    call(&theirs.address, &world.image, "").await.unwrap();
    let (their_pod, their_service) = made_in(&world);
    let world = World::new("made-by-us").await.unwrap();
    let ours = world.start(&["--pod-image-by-tag"]);
    call(&ours.address, &world.image, "").await.unwrap();
    let (our_pod, our_service) = made_in(&world);
    let mut found = Vec::new();
    differences("pod", &their_pod, &our_pod, &mut found);
    differences("service", &their_service, &our_service, &mut found);
    // No token, so no volume for it; a probe of the kubelet's own; links to no Services; words after a crash.
    let expected = [
        "pod.spec.containers[0].readinessProbe.exec",
        "pod.spec.containers[0].readinessProbe.periodSeconds",
        "pod.spec.containers[0].readinessProbe.timeoutSeconds",
        "pod.spec.containers[0].terminationMessagePolicy",
        "pod.spec.containers[0].volumeMounts",
        "pod.spec.enableServiceLinks",
        "pod.spec.initContainers[0].terminationMessagePolicy",
        "pod.spec.initContainers[0].volumeMounts",
        "pod.spec.volumes",
    ];
    found.sort();
    assert_eq!(found, expected, "{their_pod:#}\n{our_pod:#}");
}
