//! What the pod path costs, as ratios of one run: `make bench` runs it on the test cluster.
//!
//! - a warm call beside a direct call to the same wrapper server (at most 1.15)
//! - a cold call beside a bare pod of the same shape from its creation to Ready (at most 1.15)
//! - 64 callers of 8 functions: calls a second, and the 99th percentile
//! - requests to the API server per warm call (none), resident memory

#![allow(clippy::print_stdout, reason = "its output is the point")]

use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use loggia_e2e::{Cluster, Namespace, Service, function_image, wait_ready};
use loggia_evaluator::Client;

const LIST: &[u8] = b"apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: []\n";
const PATIENCE: Duration = Duration::from_secs(120);

/// Pairs of calls, and of cold starts.
const WARM_PAIRS: usize = 2000;
const COLD_PAIRS: usize = 5;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Some(cluster) = Cluster::here() else { return Ok(()) };
    let namespace = cluster.namespace_alone("bench").await?;
    let runner = namespace.runner().await?;
    let echo = function_image("echo-function")?;
    let mut images = Vec::new();
    for number in 0..8 {
        images.push(cluster.registry().push(&echo, &format!("bench-{number}:v1"))?);
    }
    let service = Service::start(&namespace, &runner, &["--log-level=0"])?;
    println!("memory idle: {} KiB resident", resident(service.pid())?);
    let client = Client::new(&service.address, 6 << 20)?;
    evaluate(&client, &images[0]).await?;

    let pods: Api<Pod> = Api::namespaced(cluster.admin().await?, &namespace.name);
    let direct = direct_client(&pods, &namespace).await?;
    let audit = cluster.audit();
    let (mut through, mut straight) = (Vec::new(), Vec::new());
    for _ in 0..WARM_PAIRS {
        through.push(evaluate(&client, &images[0]).await?);
        straight.push(evaluate(&direct, &images[0]).await?);
    }
    let asked = audit.requests(&runner.user)?;
    let asked = asked.iter().filter(|request| request.verb != "watch").count();
    let (through, straight) = (median(&mut through), median(&mut straight));
    println!(
        "warm call: {:.3} ms, direct: {:.3} ms, ratio {:.2}; {asked} requests to the API server in {WARM_PAIRS} calls",
        through * 1e3,
        straight * 1e3,
        through / straight
    );

    cold(&client, &pods, &images).await?;
    crowd(&service.address, &images).await?;
    println!("memory with 8 functions under load: {} KiB resident", resident(service.pid())?);
    drop(service);
    namespace.end().await
}

/// A client of the wrapper server in the one pod there is, by the address of its Service.
async fn direct_client(pods: &Api<Pod>, namespace: &Namespace) -> anyhow::Result<Client> {
    let list = pods.list(&ListParams::default().labels("fn.kpt.dev/image")).await?;
    let pod = list.items.first().context("there is no pod")?;
    let id = pod.metadata.labels.as_ref().and_then(|labels| labels.get("fn.kpt.dev/image"));
    let id = id.context("the pod has no label")?;
    let path = ["get", "service", id, "-n", &namespace.name, "-o", "jsonpath={.spec.clusterIP}"];
    let address = namespace.cluster.kubectl(&path)?;
    Ok(Client::new(&format!("{address}:9446"), 6 << 20)?)
}

/// The first call of a function, and right after it the same pod once more without a runner.
async fn cold(client: &Client, pods: &Api<Pod>, images: &[String]) -> anyhow::Result<()> {
    let (mut calls, mut bare) = (Vec::new(), Vec::new());
    for image in images.iter().skip(1).take(COLD_PAIRS) {
        calls.push(evaluate(client, image).await?);
        let list = pods.list(&ListParams::default().labels("fn.kpt.dev/image")).await?;
        let runs = |pod: &&Pod| {
            pod.spec.as_ref().is_some_and(|spec| spec.containers[0].image.as_deref() == Some(image))
        };
        let mut copy = list.items.iter().find(runs).context("the pod is gone")?.clone();
        copy.metadata = kube::api::ObjectMeta { name: Some("bare".to_owned()), ..Default::default() };
        copy.status = None;
        if let Some(spec) = &mut copy.spec {
            spec.node_name = None;
        }
        let begin = Instant::now();
        pods.create(&PostParams::default(), &copy).await?;
        wait_ready(pods, "bare", PATIENCE).await?;
        bare.push(begin.elapsed().as_secs_f64());
        pods.delete("bare", &DeleteParams { grace_period_seconds: Some(0), ..Default::default() }).await?;
        loggia_e2e::wait_for(pods, "bare", PATIENCE, |pod| pod.is_none()).await?;
    }
    let (calls, bare) = (median(&mut calls), median(&mut bare));
    println!("cold call: {calls:.2} s, bare pod to Ready: {bare:.2} s, ratio {:.2}", calls / bare);
    Ok(())
}

/// 64 callers of 8 functions, for ten seconds.
async fn crowd(address: &str, images: &[String]) -> anyhow::Result<()> {
    for image in images {
        evaluate(&Client::new(address, 6 << 20)?, image).await?;
    }
    let begin = Instant::now();
    let callers = (0..64).map(|number| {
        let (address, image) = (address.to_owned(), images[number % images.len()].clone());
        tokio::spawn(async move {
            let client = Client::new(&address, 6 << 20)?;
            let mut times = Vec::new();
            while begin.elapsed() < Duration::from_secs(10) {
                times.push(evaluate(&client, &image).await?);
            }
            anyhow::Ok(times)
        })
    });
    let callers: Vec<_> = callers.collect();
    let mut times = Vec::new();
    for caller in callers {
        times.extend(caller.await??);
    }
    let seconds = begin.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    let worst = times[times.len() * 99 / 100];
    println!(
        "64 callers of 8 functions: {:.0} calls/s, p50 {:.1} ms, p99 {:.1} ms",
        times.len() as f64 / seconds,
        times[times.len() / 2] * 1e3,
        worst * 1e3
    );
    Ok(())
}

/// Seconds for one call.
async fn evaluate(client: &Client, image: &str) -> anyhow::Result<f64> {
    let begin = Instant::now();
    client.evaluate(image, Bytes::from_static(LIST), Some(PATIENCE)).await?;
    Ok(begin.elapsed().as_secs_f64())
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Resident memory of a process in KiB.
fn resident(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).context("no number")?.parse()?)
}
