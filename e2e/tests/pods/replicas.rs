//! Restarts, and more than one runner.

use std::time::{Duration, Instant};

use crate::support::{Load, World, call, name, pod_of};

#[tokio::test]
async fn a_runner_that_was_killed_finds_its_pods_again_and_makes_no_others() {
    let Some(world) = World::new("restart").await else { return };
    let flags = ["--max-parallel-pods-per-function=2", "--max-waitlist-length=1"];
    let service = world.start(&flags);
    let calls: Vec<_> = (0..2)
        .map(|_| {
            let (address, image) = (service.address.clone(), world.image.clone());
            tokio::spawn(async move { call(&address, &image, "sleep 2000").await })
        })
        .collect();
    for answer in calls {
        answer.await.unwrap().unwrap();
    }
    world.wait_for_pods(2, Duration::from_secs(60)).await;
    let mut before: Vec<_> = world.pods().await.iter().map(name).collect();
    drop(service);
    let service = world.start(&flags);
    let begin = Instant::now();
    let answer = call(&service.address, &world.image, "").await.unwrap();
    println!("first answer after a restart: {:?}", begin.elapsed());
    assert!(before.contains(&pod_of(&answer)), "{before:?}");
    let load = Load::start(&service.address, &world.image, 6, "sleep 50");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (answered, failed) = load.stop().await;
    assert!(failed.is_empty() && answered > 20, "{answered} answered, {failed:?}");
    let mut after: Vec<_> = world.pods().await.iter().map(name).collect();
    before.sort();
    after.sort();
    assert_eq!(after, before);
}

#[tokio::test]
async fn two_replicas_share_what_there_may_be_and_one_that_dies_takes_nothing_with_it() {
    let Some(world) = World::new("replicas").await else { return };
    let flags = ["--pod-ttl=10s", "--scan-interval=1s"];
    let (one, other) = (world.start(&flags), world.start(&flags));
    let answers = tokio::join!(
        call(&one.address, &world.image, "sleep 100"),
        call(&other.address, &world.image, "sleep 100")
    );
    let (first, second) = (pod_of(&answers.0.unwrap()), pod_of(&answers.1.unwrap()));
    assert_eq!(first, second, "both use the one pod that there may be");
    assert_eq!(world.living_pods().await.len(), 1);

    // The other one alone uses it, beyond the time to live; its owner must not take it away.
    let load = Load::start(&other.address, &world.image, 3, "sleep 50");
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert_eq!(world.living_pods().await.len(), 1);
    drop(one);
    tokio::time::sleep(Duration::from_secs(15)).await;
    let (answered, failed) = load.stop().await;
    assert!(failed.is_empty() && answered > 100, "{answered} answered, {failed:?}");
    assert_eq!(world.living_pods().await.iter().map(name).collect::<Vec<_>>(), [first]);
    // When nobody wants it any more, the one that is left cleans up.
    world.wait_for_pods(0, Duration::from_secs(60)).await;
    drop(other);
}

#[tokio::test]
async fn what_a_dead_runner_left_behind_is_used_or_cleaned_up() {
    let Some(world) = World::new("leftovers").await else { return };
    world
        .namespace
        .apply(
            "apiVersion: v1\nkind: Service\nmetadata: {name: lost-v1-1-00000000}\nspec: {selector: {fn.kpt.dev/image: \
             lost-v1-1-00000000}, ports: [{port: 9446}]}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: lost, labels: \
             {fn.kpt.dev/image: gone-v1-1-00000000}, annotations: {fn.kpt.dev/reclaim-after: '1000'}}\nspec: {containers: \
             [{name: function, image: 'localhost:5000/pause:1'}]}\n",
        )
        .unwrap();
    let service = world.start(&["--scan-interval=1s"]);
    call(&service.address, &world.image, "").await.unwrap();
    let begin = Instant::now();
    loop {
        let names: Vec<_> = world.living_pods().await.iter().map(name).collect();
        let services = world.services().await;
        if !names.contains(&"lost".to_owned()) && !services.contains(&"lost-v1-1-00000000".to_owned()) {
            assert_eq!((names.len(), services.len()), (1, 1));
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(90), "{names:?} {services:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
