//! Pods: waiting for them, reading them, and doing them harm.

use std::fmt::Debug;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{Api, LogParams};
use kube::runtime::wait::await_condition;
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use serde_json::json;

/// Watches an object until it is as wanted, or is not there as wanted.
pub async fn wait_for<K>(
    api: &Api<K>,
    name: &str,
    timeout: Duration,
    wanted: impl Fn(Option<&K>) -> bool,
) -> anyhow::Result<()>
where
    K: kube::Resource + Clone + Debug + Send + DeserializeOwned + 'static,
{
    let waiting = await_condition(api.clone(), name, |object: Option<&K>| wanted(object));
    match tokio::time::timeout(timeout, waiting).await {
        Ok(seen) => seen.map(drop).with_context(|| format!("watching `{name}`")),
        Err(_) => {
            let last = api.get_opt(name).await?;
            bail!("`{name}` is not as wanted after {timeout:?}; it is {last:?}")
        }
    }
}

pub async fn wait_ready(pods: &Api<Pod>, name: &str, timeout: Duration) -> anyhow::Result<Pod> {
    wait_for(pods, name, timeout, |pod| pod.is_some_and(is_ready)).await?;
    Ok(pods.get(name).await?)
}

pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

/// The pod's address, once it has one.
pub fn address(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.pod_ip.as_deref()
}

pub async fn logs(pods: &Api<Pod>, name: &str) -> anyhow::Result<String> {
    Ok(pods.logs(name, &LogParams::default()).await?)
}

/// A pod that only is, and asks for as much of the node as it is told.
pub fn pause_pod(name: &str, cpu: &Quantity) -> anyhow::Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "pause",
                "image": "localhost:5000/pause:1",
                "resources": {"requests": {"cpu": cpu}},
            }],
        },
    }))?)
}

/// Kills every process of a pod's container, as the OOM killer would, and says how many there were.
pub fn kill_container(pod: &Pod, container: &str) -> anyhow::Result<usize> {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let status = statuses.and_then(|all| all.iter().find(|one| one.name == container));
    let id = status.and_then(|status| status.container_id.as_ref());
    let id = id.with_context(|| format!("container `{container}` has never run"))?;
    let id = id.rsplit('/').next().unwrap_or(id);
    let mut killed = 0;
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // A process may be gone before one looks at it.
        let Ok(groups) = fs::read_to_string(entry.path().join("cgroup")) else { continue };
        if groups.contains(id)
            && let Some(pid) = Pid::from_raw(pid)
            && kill_process(pid, Signal::KILL).is_ok()
        {
            killed += 1;
        }
    }
    if killed == 0 {
        bail!("container `{container}` ({id}) has no process");
    }
    Ok(killed)
}
