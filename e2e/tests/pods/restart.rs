//! A runner that starts in a namespace in which much has happened, and runners that follow each other.

use std::time::{Duration, Instant};

use loggia_e2e::function_image;

use crate::support::{Load, PATIENCE, World, call, name, pod_of, uid, until};

/// A pod that looks like a function's, of a runner that is long gone.
fn relic(name: &str, image: &str, more: &str, container: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  labels: {{fn.kpt.dev/image: {name}-v1-1-00000000}}\n  \
         annotations: {{fn.kpt.dev/reclaim-after: '1000', loggia.dev/owner: gone.1}}\n  {more}\nspec:\n  \
         terminationGracePeriodSeconds: 1\n  containers:\n  - name: function\n    image: {image}\n    {container}\n---\n"
    )
}

#[tokio::test]
async fn a_start_among_pods_in_every_state_serves_at_once_and_tidies_up() {
    let Some(world) = World::new("mixed").await else { return };
    let behave = function_image("behave-function").unwrap();
    let other = world.namespace.cluster.registry().push(&behave, "behave-other:v1").unwrap();
    let flags = ["--max-waitlist-length=1", "--max-parallel-pods-per-function=3", "--scan-interval=1s"];
    // Three ready pods of one function, and one of another that was made with another message limit.
    let before = world.start(&flags);
    for answer in world.calls(&before, 3, "sleep 3000").await {
        answer.unwrap();
    }
    world.wait_for_pods(3, PATIENCE).await;
    let ready = async || before.log().iter().filter(|line| line.contains("is ready for image")).count() == 3;
    until("three pods are ready", PATIENCE, ready).await;
    drop(before);
    let older = world.start(&["--max-request-body-size=1000000", "--pod-ttl=8s", "--scan-interval=5m"]);
    let old_pod = pod_of(&call(&older.address, &other, "").await.unwrap());
    drop(older);
    let mut kept: Vec<_> =
        world.living_pods().await.iter().filter(|pod| name(pod) != old_pod).map(uid).collect();
    kept.sort();
    assert_eq!(kept.len(), 3);
    let finalizer = "finalizers: [loggia.dev/test]";
    let relics = relic("pending", "'registry.localhost:5000/never-there:v1'", "", "resources: {}")
        + &relic("nowhere", "'localhost:5000/pause:1'", "", "resources: {requests: {cpu: 4000}}")
        + &relic("going", "'localhost:5000/pause:1'", finalizer, "resources: {}")
        + "apiVersion: v1\nkind: Service\nmetadata: {name: lost-v1-1-00000000}\nspec: {selector: {fn.kpt.dev/image: \
           lost-v1-1-00000000}, ports: [{port: 9446}]}\n";
    world.namespace.apply(&relics).unwrap();
    world.kubectl(&["delete", "pod", "going", "--wait=false"]);

    let service = world.start(&["--max-waitlist-length=50", "--scan-interval=1s"]);
    assert!(service.up_after < Duration::from_secs(1), "{:?}", service.up_after);
    let begin = Instant::now();
    let pod = pod_of(&call(&service.address, &world.image, "").await.unwrap());
    println!("first answer after {:?}", begin.elapsed());
    let known: Vec<_> = world.living_pods().await;
    let used = known.iter().find(|one| name(one) == pod).map(uid).unwrap();
    assert!(kept.contains(&used), "one of those that were there");
    // The old one serves until there is a new one, and no call fails meanwhile.
    let load = Load::start(&service.address, &other, 3, "sleep 30");
    let replaced = async || {
        let pods = world.living_pods().await;
        pods.iter().all(|pod| name(pod) != old_pod)
    };
    until("the old pod is replaced", PATIENCE, replaced).await;
    let tidy = async || {
        let pods: Vec<_> = world.living_pods().await.iter().map(name).collect();
        let services = world.services().await;
        let relics = ["pending", "nowhere"].iter().any(|relic| pods.iter().any(|pod| pod == relic));
        !relics && !services.contains(&"lost-v1-1-00000000".to_owned())
    };
    until("all is tidy", PATIENCE, tidy).await;
    let (answered, failed) = load.stop().await;
    assert!(failed.is_empty() && answered > 20, "{answered} answered, {failed:?}");
    // Three adopted, one new, each once; the one that goes is left to go.
    let starts =
        service.log().iter().filter(|line| line.contains("created KRM function evaluator pod")).count();
    assert_eq!(starts, 1, "{}", service.log().join("\n"));
    let mut left: Vec<_> =
        world.living_pods().await.iter().map(uid).filter(|one| kept.contains(one)).collect();
    left.sort();
    assert_eq!(left, kept);
    world.kubectl(&["patch", "pod", "going", "--type=merge", "-p", r#"{"metadata": {"finalizers": []}}"#]);
}

#[tokio::test]
async fn runners_that_follow_each_other_under_load_fail_no_call_and_hold_the_limit() {
    let Some(world) = World::new("rolling").await else { return };
    let flags = ["--max-waitlist-length=1", "--max-parallel-pods-per-function=2", "--scan-interval=1s"];
    let (first, second) = (world.start(&flags), world.start(&flags));
    for answer in world.calls(&first, 2, "sleep 1000").await {
        answer.unwrap();
    }
    let load = Load::start(&second.address, &world.image, 3, "sleep 30");
    let most = watch_most_pods(&world);
    // The first one leaves with calls in hand, and a third one comes.
    let in_hand: Vec<_> = (0..5)
        .map(|_| {
            let (address, image) = (first.address.clone(), world.image.clone());
            tokio::spawn(async move { call(&address, &image, "sleep 2500").await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(700)).await;
    let third = world.start(&flags);
    let stopping = tokio::task::spawn_blocking(move || first.stop());
    let more = Load::start(&third.address, &world.image, 3, "sleep 30");
    for answer in in_hand {
        answer.await.unwrap().unwrap();
    }
    assert_eq!(stopping.await.unwrap().unwrap(), Some(0));
    tokio::time::sleep(Duration::from_secs(8)).await;
    for load in [load, more] {
        let (answered, failed) = load.stop().await;
        assert!(failed.is_empty() && answered > 50, "{answered} answered, {failed:?}");
    }
    let most = most.await;
    assert!(most <= 2, "{most} pods at once");
}

/// The most pods that were there at once, looked at until it is awaited.
fn watch_most_pods(world: &World) -> impl Future<Output = usize> {
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{Api, ListParams};
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let (cluster, space) = (world.namespace.cluster.clone(), world.namespace.name.clone());
    let watching = tokio::spawn(async move {
        let pods: Api<Pod> = Api::namespaced(cluster.admin().await.unwrap(), &space);
        let mut most = 0;
        while !*stopped.borrow() {
            let all = pods.list(&ListParams::default().labels("fn.kpt.dev/image")).await.unwrap().items;
            most = most.max(all.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).count());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        most
    });
    async move {
        stop.send_replace(true);
        watching.await.unwrap()
    }
}
