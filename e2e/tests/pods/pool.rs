//! What the pool promises: one start for many callers, growth under load, turns, an end for what idles.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use loggia_e2e::{Service, static_program};
use loggia_evaluator::Client;

use crate::support::{LIST, PATIENCE, World, call, list, name, pod_of, until};

/// What a health probe that asks for `loggia.warm` gets to hear.
fn is_warm(service: &Service) -> bool {
    use std::os::unix::process::CommandExt as _;
    let mut probe = std::process::Command::new(static_program("wrapper-server"));
    let probe = probe.arg0("grpc-health-probe").args(["-addr", &service.address, "-service", "loggia.warm"]);
    probe.output().unwrap().status.success()
}

#[tokio::test]
async fn twenty_callers_of_a_new_function_share_one_pod_and_warm_calls_ask_the_api_nothing() {
    let Some(world) = World::new("cold").await else { return };
    let service = world.start(&[]);
    assert!(service.up_after < Duration::from_secs(1), "it listens after {:?}", service.up_after);
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let (address, image) = (service.address.clone(), world.image.clone());
            tokio::spawn(async move { call(&address, &image, "").await })
        })
        .collect();
    for answer in calls {
        assert_eq!(answer.await.unwrap().unwrap().resource_list, LIST);
    }
    let pods = world.pods().await;
    assert_eq!(pods.len(), 1);
    let id = pods[0].metadata.labels.as_ref().unwrap()["fn.kpt.dev/image"].clone();
    assert!(id.starts_with(&format!("{}1-", world.stem)), "{id}");
    assert!(name(&pods[0]).starts_with(&format!("{id}-")));
    assert_eq!(world.services().await, [id]);

    let audit = world.namespace.cluster.audit();
    let client = Client::new(&service.address, 6 << 20).unwrap();
    for _ in 0..1000 {
        client.evaluate(&world.image, list(""), Some(PATIENCE)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let asked = audit.requests(&world.runner.user).unwrap();
    // A watch is begun anew once a minute whoever calls, and one note a pod may be due.
    let asked: Vec<_> =
        asked.iter().filter(|request| !matches!(request.verb.as_str(), "watch" | "patch")).collect();
    assert!(asked.is_empty(), "{asked:?}");
}

#[tokio::test]
async fn four_calls_at_threshold_two_make_two_pods_which_then_take_turns() {
    let Some(world) = World::new("scale").await else { return };
    let service = world.start(&["--max-waitlist-length=2", "--max-parallel-pods-per-function=3"]);
    let calls: Vec<_> = (0..4)
        .map(|_| {
            let (address, image) = (service.address.clone(), world.image.clone());
            tokio::spawn(async move { call(&address, &image, "sleep 3000").await })
        })
        .collect();
    for answer in calls {
        answer.await.unwrap().unwrap();
    }
    world.wait_for_pods(2, Duration::from_secs(30)).await;
    // Both are up, so that turns can be taken; and nothing more was started.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut used: HashMap<String, usize> = HashMap::new();
    for _ in 0..20 {
        let answer = call(&service.address, &world.image, "").await.unwrap();
        *used.entry(pod_of(&answer)).or_default() += 1;
    }
    assert_eq!(used.values().copied().collect::<Vec<_>>(), [10, 10], "{used:?}");
    assert_eq!(world.pods().await.len(), 2);
}

#[tokio::test]
async fn what_nobody_uses_goes_with_its_service_and_nothing_else_does() {
    let Some(world) = World::new("ttl").await else { return };
    world
        .namespace
        .apply(
            "apiVersion: v1\nkind: Service\nmetadata: {name: foreign}\nspec: {selector: {app: x}, ports: [{port: 80}]}\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata: {name: foreign}\nspec: {containers: [{name: x, image: \
             'localhost:5000/pause:1'}]}\n",
        )
        .unwrap();
    let service = world.start(&["--pod-ttl=8s", "--scan-interval=1s"]);
    let first = pod_of(&call(&service.address, &world.image, "").await.unwrap());
    let noted = || {
        let query = r"jsonpath={.metadata.annotations.fn\.kpt\.dev/reclaim-after}";
        world.kubectl(&["get", "pod", &first, "-o", query]).parse::<i64>().unwrap()
    };
    let until = noted();
    // Use keeps it.
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(pod_of(&call(&service.address, &world.image, "").await.unwrap()), first);
    }
    assert!(noted() >= until + 8, "others can see that it is used");
    // A long call keeps it, too.
    assert_eq!(pod_of(&call(&service.address, &world.image, "sleep 12000").await.unwrap()), first);
    let begin = Instant::now();
    world.wait_for_pods(0, Duration::from_secs(30)).await;
    assert!(begin.elapsed() > Duration::from_secs(5), "it went after {:?}", begin.elapsed());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.services().await, ["foreign"]);
    world.kubectl(&["get", "pod", "foreign"]);
    assert_ne!(pod_of(&call(&service.address, &world.image, "").await.unwrap()), first);
}

#[tokio::test]
async fn settings_of_a_function_reach_its_pods_in_both_forms_and_while_running() {
    let Some(world) = World::new("settings").await else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pod-cache-config.yaml");
    let image = &world.image;
    let listed = |cpu: &str| {
        format!(
            "- name: {image}\n  timeToLive: 20m\n  maxParallelPodsPerFunction: 1\n  resources: {{requests: {{cpu: {cpu}}}}}\n\
             - name: 7\n  maxWaitlistLength: many\n"
        )
    };
    std::fs::write(&file, listed("7m")).unwrap();
    let flag = format!("--pod-cache-config={}", file.display());
    let mut service = world.start(&[&flag]);
    assert!(!is_warm(&service), "it takes calls before it is warm");
    service.wait_for_line("pod-cache-config.yaml:6: `maxWaitlistLength` is a number", PATIENCE).unwrap();
    // It is warm before anybody asks.
    world.wait_for_pods(1, PATIENCE).await;
    service.wait_for_line("is ready for image", PATIENCE).unwrap();
    until("it is warm", PATIENCE, async || is_warm(&service)).await;
    let cpu = |pod: &k8s_openapi::api::core::v1::Pod| {
        let container = &pod.spec.as_ref().unwrap().containers[0];
        container.resources.as_ref().unwrap().requests.as_ref().unwrap()["cpu"].0.clone()
    };
    assert_eq!(cpu(&world.pods().await[0]), "7m");
    let first = pod_of(&call(&service.address, image, "").await.unwrap());

    std::fs::write(&file, listed("9m")).unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let begin = Instant::now();
    while pod_of(&call(&service.address, image, "").await.unwrap()) == first {
        assert!(begin.elapsed() < PATIENCE, "the old pod is still used");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    world.wait_for_pods(1, PATIENCE).await;
    assert_eq!(cpu(&world.living_pods().await[0]), "9m");

    std::fs::write(&file, format!("{image}: 10m\n")).unwrap();
    service.wait_for_line("Loaded 1 pod cache configurations", PATIENCE).unwrap();
}

#[tokio::test]
async fn a_catalog_function_gives_the_same_bytes_in_a_pod_as_on_the_spot() {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let Some(world) = World::new("catalog").await else { return };
    let folder =
        std::path::PathBuf::from(std::env::var_os("LOGGIA_CACHE").unwrap_or_default()).join("functions");
    let found = std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
    let Some(program) = found.map(|entry| entry.path()).find(|path| path.ends_with("set-namespace-v0.4.1"))
    else {
        let what = format!("there is no set-namespace in {}", folder.display());
        return loggia_testing::missing("cluster", &what);
    };
    let input = format!(
        "{LIST}functionConfig:\n  apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: config\n  data:\n    \
         namespace: prod\n"
    );
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let expected = child.wait_with_output().unwrap().stdout;
    let mut entries = loggia_image::Entries::default();
    entries.file("/function", &program, Some(0o555)).unwrap();
    let config = loggia_image::Config { entrypoint: vec!["/function".into()], ..Default::default() };
    let image = loggia_image::Image { entries, config, ..Default::default() };
    let image = world.namespace.cluster.registry().push(&image, "set-namespace:v0.4.1").unwrap();
    let service = world.start(&[]);
    let client = Client::new(&service.address, 6 << 20).unwrap();
    let answer = client.evaluate(&image, input.into(), Some(PATIENCE)).await.unwrap();
    assert!(String::from_utf8_lossy(&expected).contains("namespace: prod"));
    assert_eq!(answer.resource_list, expected);
}
