//! A long time of everything at once, for `make soak`: several functions under load while pods, Services, the API
//! server and the registry come and go. Afterwards nothing may be left over.

use std::time::{Duration, Instant};

use loggia_e2e::{Service, function_image, kill_container};

use crate::support::{Load, World, call, name, until};

const SCAN: Duration = Duration::from_secs(5);
const TTL: Duration = Duration::from_secs(20);
const FLAGS: [&str; 4] =
    ["--max-parallel-pods-per-function=2", "--max-waitlist-length=2", "--scan-interval=5s", "--pod-ttl=20s"];

/// What the process of the runner holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    descriptors: usize,
    threads: usize,
    resident_mib: usize,
}

impl Held {
    fn by(service: &Service) -> Self {
        let process = format!("/proc/{}", service.pid());
        let status = std::fs::read_to_string(format!("{process}/status")).unwrap();
        let number = |key: &str| -> usize {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        let descriptors = std::fs::read_dir(format!("{process}/fd")).unwrap().count();
        Self { descriptors, threads: number("Threads:"), resident_mib: number("VmRSS:") / 1024 }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes long: make soak"]
async fn nothing_is_lost_or_left_over_after_a_long_time_of_faults() {
    let Some(world) = World::alone("soak").await else { return };
    let time = std::env::var("LOGGIA_SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let time = Duration::from_secs(time.unwrap_or(300));
    let registry = world.namespace.cluster.registry();
    let behave = function_image("behave-function").unwrap();
    let mut images = vec![world.image.clone()];
    images.extend((1..4).map(|number| registry.push(&behave, &format!("behave-soak-{number}:v1")).unwrap()));
    let service = world.start(&FLAGS);
    for image in &images {
        call(&service.address, image, "").await.unwrap();
    }
    let loads: Vec<_> = images
        .iter()
        .zip(["", "sleep 5", "sleep 30", "sleep 100"])
        .map(|(image, behave)| Load::start(&service.address, image, 4, behave))
        .collect();
    // What a process needs for its work it takes in the first moments.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let early = Held::by(&service);

    let begin = Instant::now();
    let mut round = 0_usize;
    while begin.elapsed() < time {
        disturb(&world, round).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        round += 1;
    }
    let (mut answered, mut failed) = (0, Vec::new());
    for load in loads {
        let (more, errors) = load.stop().await;
        answered += more;
        failed.extend(errors);
    }
    let late = Held::by(&service);
    println!("{answered} calls answered, {} failed, {round} faults; {early:?}, then {late:?}", failed.len());
    assert!(failed.is_empty() && answered > 1000, "{answered} answered; {failed:#?}");
    assert!(late.descriptors <= early.descriptors + 16, "descriptors: {early:?}, then {late:?}");
    assert!(late.threads <= early.threads + 4, "threads: {early:?}, then {late:?}");
    assert!(late.resident_mib <= early.resident_mib + 16, "memory: {early:?}, then {late:?}");

    // Nobody calls any more: the pods' time ends, and two looks later nothing is there.
    let gone = async || world.pods().await.is_empty() && world.services().await.is_empty();
    until("no pod and no Service is left", TTL + SCAN * 2 + Duration::from_secs(60), gone).await;
    call(&service.address, &world.image, "").await.unwrap();
    assert_eq!(service.stop().unwrap(), Some(0));
}

/// One thing goes wrong.
async fn disturb(world: &World, round: usize) {
    let cluster = &world.namespace.cluster;
    let pods = world.living_pods().await;
    let Some(pod) = pods.get(round % pods.len().max(1)) else { return };
    match round % 10 {
        0 | 3 | 6 => {
            world.kubectl(&["delete", "pod", &name(pod), "--wait=false", "--ignore-not-found"]);
        }
        // It may just have ended by itself.
        1 | 4 => drop(kill_container(pod, "function")),
        2 | 7 => {
            let services = world.services().await;
            if let Some(service) = services.get(round % services.len().max(1)) {
                world.kubectl(&["delete", "service", service, "--ignore-not-found"]);
            }
        }
        5 => {
            let registry = cluster.part("registry").stop().unwrap();
            tokio::time::sleep(Duration::from_secs(2)).await;
            registry.start().unwrap();
        }
        8 => {
            let api = cluster.part("kube-apiserver").pause().unwrap();
            tokio::time::sleep(Duration::from_secs(5)).await;
            api.resume();
        }
        _ => {}
    }
}
