//! What an image's name stands for, here and on the node.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use loggia_e2e::function_image;
use loggia_image::{Entries, Image};

use crate::support::{PATIENCE, World, call, name, pod_of};

#[tokio::test]
async fn two_spellings_of_one_image_share_their_pod() {
    let Some(world) = World::new("spellings").await else { return };
    let full = world.namespace.cluster.registry();
    let full = full.push(&function_image("behave-function").unwrap(), "behave-spelling:latest").unwrap();
    let short = full.strip_suffix(":latest").unwrap();
    let service = world.start(&[]);
    let one = pod_of(&call(&service.address, &full, "").await.unwrap());
    let other = pod_of(&call(&service.address, short, "").await.unwrap());
    assert_eq!(one, other);
    assert_eq!(world.pods().await.len(), 1);
}

#[tokio::test]
async fn a_short_name_is_warmed_up_called_and_shown_as_one_function_below_the_default_prefix() {
    let Some(world) = World::new("prefix").await else { return };
    let registry = world.namespace.cluster.registry();
    let full = registry.push(&function_image("behave-function").unwrap(), "behave-short:v1").unwrap();
    let (prefix, short) = full.rsplit_once('/').unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cache.yaml");
    std::fs::write(&file, format!("- name: {short}\n  timeToLive: 10m\n")).unwrap();
    let mut service = world.start(&[
        &format!("--default-image-prefix={prefix}"),
        &format!("--pod-cache-config={}", file.display()),
        "--warm-up-pod-cache=true",
        "--metrics-address=127.0.0.1:0",
    ]);
    // Without the prefix the warm-up would ask Docker Hub, and no pod would start.
    world.wait_for_pods(1, PATIENCE).await;
    let warm = name(&world.living_pods().await[0]);
    for spelling in [short, &full] {
        assert_eq!(pod_of(&call(&service.address, spelling, "").await.unwrap()), warm, "{spelling}");
    }
    let line = service.wait_for_line("status page are at http://", PATIENCE).unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
    let status: serde_json::Value = serde_json::from_str(&get(address, "/status.json")).unwrap();
    let functions = status["functions"].as_array().unwrap();
    let shown: Vec<_> = functions.iter().map(|one| (&one["image"], &one["evaluations"])).collect();
    assert_eq!(shown, [(&full.as_str().into(), &2.into())], "one row for both spellings");
    let metrics = get(address, "/metrics");
    for line in [
        format!(r#"loggia_evaluations_total{{image="{full}",evaluator="pod",outcome="OK"}} 2"#),
        format!(r#"loggia_pods{{image="{full}",state="idle"}} 1"#),
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in {metrics}");
    }
}

/// The body of a page.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    body.to_owned()
}

#[tokio::test]
async fn a_tag_that_moved_is_noticed_by_what_the_node_pulled() {
    let Some(world) = World::new("moved").await else { return };
    let registry = world.namespace.cluster.registry();
    let with_word = |word: &str| {
        let mut image: Image = function_image("behave-function").unwrap();
        image.config.cmd = vec![word.to_owned()];
        image
    };
    // Nodes always pull what is tagged `latest`.
    let image = registry.push(&with_word("old"), "behave-moving:latest").unwrap();
    let mut service = world.start(&["--pod-image-by-tag"]);
    let words = |answer: &loggia_grpc::Answer| String::from_utf8_lossy(&answer.log).into_owned();
    let answer = call(&service.address, &image, "").await.unwrap();
    assert!(words(&answer).contains("word old"), "{}", words(&answer));
    registry.push(&with_word("new"), "behave-moving:latest").unwrap();
    world.kubectl(&["delete", "pods", "--all", "--wait=true"]);
    // The runner still knows the old command, and starts the new image with it.
    call(&service.address, &image, "").await.unwrap();
    service.wait_for_line("it is asked again", PATIENCE).unwrap();
    let begin = Instant::now();
    loop {
        let answer = call(&service.address, &image, "").await.unwrap();
        if words(&answer).contains("word new") {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "the old command is still used");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    // And that is that: nothing is replaced once more.
    world.wait_for_pods(1, PATIENCE).await;
    let settled = name(&world.living_pods().await[0]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(pod_of(&call(&service.address, &image, "").await.unwrap()), settled);
}

#[tokio::test]
async fn an_image_that_the_node_cannot_pull_is_told_in_the_kubelets_words() {
    let Some(world) = World::new("no-pull").await else { return };
    let folder = tempfile::tempdir().unwrap();
    let filling = folder.path().join("filling");
    std::fs::write(&filling, world.namespace.name.as_bytes()).unwrap();
    let mut image: Image = function_image("behave-function").unwrap();
    let mut entries = Entries::default();
    entries.file("/filling", &filling, Some(0o444)).unwrap();
    image.entries = entries;
    let tag = format!("hollow:{}", world.namespace.name);
    let reference = world.namespace.cluster.registry().push(&image, &tag).unwrap();
    remove_layers(&world, &tag);
    let service = world.start(&[]);
    let begin = Instant::now();
    let status = call(&service.address, &reference, "").await.unwrap_err();
    let text = status.message();
    assert!(text.contains("container `function`: ErrImagePull: "), "{text}");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    world.wait_for_pods(0, PATIENCE).await;
}

/// Takes the layers of an image away from under the registry, which still has its manifest and config.
fn remove_layers(world: &World, name: &str) {
    let inspect = std::process::Command::new("skopeo")
        .args(["inspect", "--raw", "--tls-verify=false", &format!("docker://registry.localhost:5000/{name}")])
        .output()
        .unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&inspect.stdout).unwrap();
    let blobs = world.namespace.cluster.life.join("registry/open/docker/registry/v2/blobs/sha256");
    for layer in manifest["layers"].as_array().unwrap() {
        let digest = layer["digest"].as_str().unwrap().trim_start_matches("sha256:");
        std::fs::remove_file(blobs.join(&digest[..2]).join(digest).join("data")).unwrap();
    }
}
