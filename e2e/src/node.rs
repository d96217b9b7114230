//! The node: filling it, and what of it the cluster takes up.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{Api, DeleteParams, ListParams, PostParams};

use crate::{Cluster, Namespace, pause_pod, pod, wait_ready};

/// A pod that asks for all the CPU that the node had left. It goes with its namespace, or by `lift`.
#[derive(Debug)]
pub struct Ballast {
    pods: Api<Pod>,
}

/// One address that nothing from the node reaches, until this is dropped.
#[derive(Debug)]
pub struct Partition {
    address: String,
}

/// What a cluster has of the kernel's things that a pod takes up; equal before and after, nothing leaked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footprint {
    pub mounts: usize,
    pub interfaces: usize,
    pub cgroups: usize,
    /// Of containers: the processes of the cluster itself come and go.
    pub processes: usize,
    pub network_namespaces: usize,
}

// === impl Ballast ===

impl Ballast {
    /// Fills the node, so that no further pod with a CPU request fits. Use it in a namespace that is alone.
    pub async fn place(namespace: &Namespace) -> anyhow::Result<Self> {
        let admin = namespace.cluster.admin().await?;
        let nodes: Api<Node> = Api::all(admin.clone());
        let nodes = nodes.list(&ListParams::default()).await?;
        let capacity =
            nodes.items.first().and_then(|node| node.status.as_ref()?.allocatable.as_ref()?.get("cpu"));
        let capacity = millicores(capacity.context("the node has no CPU")?)?;
        let mut used = 0;
        for pod in Api::<Pod>::all(admin.clone()).list(&ListParams::default()).await?.items {
            for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
                let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
                used += requests.and_then(|all| all.get("cpu")).map_or(Ok(0), millicores)?;
            }
        }
        let pods: Api<Pod> = Api::namespaced(admin, &namespace.name);
        let pod = pause_pod("ballast", &Quantity(format!("{}m", capacity.saturating_sub(used))))?;
        pods.create(&PostParams::default(), &pod).await?;
        wait_ready(&pods, "ballast", Duration::from_secs(60)).await?;
        Ok(Self { pods })
    }

    pub async fn lift(self) -> anyhow::Result<()> {
        self.pods.delete("ballast", &DeleteParams::default()).await?;
        pod::wait_for(&self.pods, "ballast", Duration::from_secs(60), |found| found.is_none()).await
    }
}

// === impl Partition ===

impl Partition {
    /// Has the node drop what it would send to an address.
    pub fn of(address: &str) -> anyhow::Result<Self> {
        iptables("-I", address)?;
        Ok(Self { address: address.to_owned() })
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        // The rule is for an address that goes with its pod.
        let _ = iptables("-D", &self.address);
    }
}

fn iptables(action: &str, address: &str) -> anyhow::Result<()> {
    let rule = ["-w", action, "OUTPUT", "-d", address, "-j", "DROP"];
    let output = Command::new("iptables").args(rule).output().context("iptables")?;
    if !output.status.success() {
        bail!("iptables {action} {address}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn millicores(quantity: &Quantity) -> anyhow::Result<u64> {
    let text = quantity.0.as_str();
    let number = match text.strip_suffix('m') {
        Some(number) => number.parse(),
        None => text.parse::<u64>().map(|cores| cores * 1000),
    };
    number.with_context(|| format!("`{text}` is no number of CPUs"))
}

// === impl Footprint ===

impl Footprint {
    /// Looks from inside the sandbox, whose mounts, interfaces and processes are the cluster's own. Control groups are the
    /// machine's, and there may be other clusters on it.
    pub fn of(cluster: &Cluster) -> anyhow::Result<Self> {
        let cgroup = cluster.cgroup()?;
        let cgroups = cgroups_of_pods(Path::new("/sys/fs/cgroup"), &cgroup)?;
        let pods = format!("/{cgroup}/kubepods/");
        let processes = fs::read_dir("/proc")?
            .filter_map(Result::ok)
            .filter_map(|entry| fs::read_to_string(entry.path().join("cgroup")).ok())
            .filter(|groups| groups.contains(&pods))
            .count();
        Ok(Self {
            mounts: fs::read_to_string("/proc/self/mountinfo")?.lines().count(),
            interfaces: fs::read_to_string("/proc/net/dev")?.lines().count(),
            cgroups,
            processes,
            network_namespaces: fs::read_dir("/run/netns")?.count(),
        })
    }
}

/// How many control groups the pods of a cluster have. The cluster's own group is at the top of each hierarchy, or of the
/// only one.
fn cgroups_of_pods(root: &Path, cluster: &str) -> anyhow::Result<usize> {
    let mut count = folders_of_pods(&root.join(cluster), false);
    for hierarchy in fs::read_dir(root).with_context(|| root.display().to_string())? {
        let name = hierarchy?.file_name();
        // The group itself was counted above, as the top of the only hierarchy.
        if name != cluster {
            count += folders_of_pods(&root.join(name).join(cluster), false);
        }
    }
    Ok(count)
}

/// How many folders there are at and below every `kubepods`.
fn folders_of_pods(folder: &Path, inside: bool) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let folders =
        entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders
        .map(|entry| {
            let inside = inside || entry.file_name() == "kubepods";
            usize::from(inside) + folders_of_pods(&entry.path(), inside)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::cgroups_of_pods;

    const OURS: &str = "loggia-e2e-1";

    /// Control groups as folders below `root`.
    fn make(root: &tempfile::TempDir, groups: &[&str]) {
        for group in groups {
            fs::create_dir_all(root.path().join(group)).unwrap();
        }
    }

    #[test]
    fn only_the_groups_of_its_own_pods_count() {
        let root = tempfile::tempdir().unwrap();
        make(&root, &["cpu/loggia-e2e-1/kubepods/burstable/pod1/c1", "memory/loggia-e2e-1/kubepods/pod1/c1"]);
        assert_eq!(cgroups_of_pods(root.path(), OURS).unwrap(), 4 + 3);
        // Another cluster, one whose name begins the same, the cluster's own processes, and the machine's services.
        make(
            &root,
            &["cpu/loggia-e2e-2/kubepods/pod2/c2", "cpu/loggia-e2e-12/kubepods/pod3", "cpu/kubepods/pod4"],
        );
        make(&root, &["cpu/loggia-e2e-1/parts/etcd", "memory/system.slice/ssh.service"]);
        fs::write(root.path().join("cpu/loggia-e2e-1/kubepods/cgroup.procs"), "").unwrap();
        assert_eq!(cgroups_of_pods(root.path(), OURS).unwrap(), 4 + 3);
        // A pod of ours is seen.
        make(&root, &["cpu/loggia-e2e-1/kubepods/besteffort/pod5/c5"]);
        assert_eq!(cgroups_of_pods(root.path(), OURS).unwrap(), 4 + 3 + 3);
    }

    #[test]
    fn with_one_hierarchy_the_cluster_is_at_its_top() {
        let root = tempfile::tempdir().unwrap();
        make(&root, &["loggia-e2e-1/kubepods/pod1/c1", "loggia-e2e-2/kubepods/pod2", "system.slice"]);
        assert_eq!(cgroups_of_pods(root.path(), OURS).unwrap(), 3);
    }
}
