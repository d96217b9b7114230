//! A namespace that came and went leaves nothing on the node.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{Api, PostParams};
use loggia_e2e::{Cluster, Footprint, pause_pod, wait_ready};

const ROUNDS: usize = 5;
/// Namespaces that live at the same time; most of a cycle is waiting.
const BESIDE: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 10)]
async fn fifty_namespaces_with_pods_leave_no_mount_interface_cgroup_or_process() {
    let Some(cluster) = Cluster::here() else { return };
    // Others must not come and go meanwhile.
    let alone = cluster.namespace_alone("leaks").await.unwrap();
    cycle(&cluster, 0).await;
    let before = settled(&cluster).await;
    for round in 1..=ROUNDS {
        let cycles = (0..BESIDE).map(|place| {
            let cluster = cluster.clone();
            tokio::spawn(async move { cycle(&cluster, round * BESIDE + place).await })
        });
        for cycle in cycles.collect::<Vec<_>>() {
            cycle.await.unwrap();
        }
    }
    let mut after = settled(&cluster).await;
    for _ in 0..60 {
        if after == before {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        after = Footprint::of(&cluster).unwrap();
    }
    assert_eq!(after, before);
    drop(alone);
}

/// One life of a namespace, with a pod that runs and has a volume of each kind that a function pod may have.
async fn cycle(cluster: &Cluster, number: usize) {
    let name = format!("leaks-cycle-{number}-{}", std::process::id());
    cluster.kubectl(&["create", "namespace", &name]).unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.admin().await.unwrap(), &name);
    let mut pod = pause_pod("one", &Quantity("10m".into())).unwrap();
    let volumes = serde_json::json!([{"name": "tools", "emptyDir": {}}, {"name": "fast", "emptyDir": {"medium": "Memory"}}]);
    let mounts =
        serde_json::json!([{"name": "tools", "mountPath": "/tools"}, {"name": "fast", "mountPath": "/fast"}]);
    let spec = pod.spec.as_mut().unwrap();
    spec.volumes = Some(serde_json::from_value(volumes).unwrap());
    spec.containers[0].volume_mounts = Some(serde_json::from_value(mounts).unwrap());
    // A namespace gets its service account a moment after it was made.
    for _ in 0..100 {
        match pods.create(&PostParams::default(), &pod).await {
            Ok(_) => break,
            Err(kube::Error::Api(status)) if status.code == 403 => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    wait_ready(&pods, "one", Duration::from_secs(60)).await.unwrap();
    cluster.kubectl(&["delete", "namespace", &name, "--timeout=120s"]).unwrap();
}

/// The footprint once it has stopped to change.
async fn settled(cluster: &Cluster) -> Footprint {
    let mut last = Footprint::of(cluster).unwrap();
    let mut same = 0;
    while same < 5 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = Footprint::of(cluster).unwrap();
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    last
}
