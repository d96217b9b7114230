//! What the pod path costs, on the test cluster, beside what Kubernetes itself costs and beside Porch's runner.
//!
//! - a warm call beside a direct call to the same wrapper server
//! - a cold call beside a bare pod of the same shape from its creation to Ready
//! - 64 callers of 8 functions: calls a second, and the 99th percentile
//! - requests to the API server per warm call (none), resident memory
//!
//! `PEER_RUNNER` and `PEER_WRAPPER` name Porch's function runner and wrapper server; each runner has a namespace of
//! its own, its own wrapper server in the pods, and the same service account rights. They take turns.

#![allow(clippy::print_stdout, reason = "its output is the point")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use loggia_bench::{Group, Wanted};
use loggia_e2e::{Cluster, Namespace, Service, function_image, push_wrapper, wait_ready};
use loggia_grpc::Client;

const LIST: &[u8] = b"apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: []\n";
const PATIENCE: Duration = Duration::from_secs(120);
const MESSAGE: usize = 6 << 20;

/// Pairs of calls, cold starts, and rounds of the crowd.
const WARM_PAIRS: usize = 2000;
const COLD_PAIRS: usize = 5;
const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(5);

/// A runner in a namespace of its own.
struct Side {
    who: &'static str,
    namespace: Namespace,
    service: Service,
    user: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Some(cluster) = Cluster::here() else { return Ok(()) };
    let echo = function_image("echo-function")?;
    let mut images = Vec::new();
    for number in 0..8 {
        images.push(cluster.registry().push(&echo, &format!("bench-{number}:v1"))?);
    }
    let mut group = Group::new("pod-path", "Evaluations in function pods");
    let ours = Side::ours(&cluster).await?;
    println!("memory idle: {:.1} MiB resident", ours.resident()?);
    warm(&cluster, &ours, &images[0], &mut group).await?;
    let calls = cold_beside_bare(&cluster, &ours, &images[1..=COLD_PAIRS], &mut group).await?;
    match Side::peer(&cluster).await? {
        None => {
            println!("left out: there is no other runner (PEER_RUNNER= and PEER_WRAPPER=, or make peers)");
            let crowd = ours.crowd(&images).await?;
            println!("64 callers of 8 functions: {crowd}");
        }
        Some(peer) => {
            beside(&ours, &peer, calls, &images, &mut group).await?;
            peer.end().await?;
        }
    }
    println!("memory with 8 functions under load: {:.1} MiB resident", ours.resident()?);
    ours.end().await?;
    Ok(group.finish()?)
}

/// A warm call beside a direct call of the same wrapper server, and what it asks of the API server.
async fn warm(cluster: &Cluster, ours: &Side, image: &str, group: &mut Group) -> anyhow::Result<()> {
    let client = ours.client()?;
    evaluate(&client, image).await?;
    let direct = ours.direct_client().await?;
    let audit = cluster.audit();
    let worked = ours.processor_seconds()?;
    let (mut through, mut straight) = (Vec::new(), Vec::new());
    for _ in 0..WARM_PAIRS {
        through.push(evaluate(&client, image).await?);
        straight.push(evaluate(&direct, image).await?);
    }
    let worked = (ours.processor_seconds()? - worked) / WARM_PAIRS as f64 * 1e3;
    let asked = audit.requests(&ours.user)?;
    let asked = asked.iter().filter(|request| request.verb != "watch").count();
    let (through, straight) = (median(&mut through) * 1e3, median(&mut straight) * 1e3);
    let ratio = through / straight;
    println!(
        "warm call: {through:.3} ms, direct: {straight:.3} ms, ratio {ratio:.2}; the runner works {worked:.3} ms for it; {asked} requests to the API server in {WARM_PAIRS} calls"
    );
    let values = [("Loggia", through), ("wrapper server, direct", straight)];
    group.add("warm call", "ms", &values, ratio, Wanted::AtMost(1.15));
    let asked = asked as f64;
    let what = format!("API requests in {WARM_PAIRS} warm calls");
    group.add(&what, "", &[("Loggia", asked)], asked, Wanted::AtMost(0.0));
    Ok(())
}

/// The first call of a function, and right after it the same pod once more without a runner. The seconds of the calls.
async fn cold_beside_bare(
    cluster: &Cluster,
    ours: &Side,
    images: &[String],
    group: &mut Group,
) -> anyhow::Result<f64> {
    let pods: Api<Pod> = Api::namespaced(cluster.admin().await?, &ours.namespace.name);
    let client = ours.client()?;
    let (mut calls, mut bare) = (Vec::new(), Vec::new());
    for image in images {
        calls.push(evaluate(&client, image).await?);
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
        wait_ready(&pods, "bare", PATIENCE).await?;
        bare.push(begin.elapsed().as_secs_f64());
        pods.delete("bare", &DeleteParams { grace_period_seconds: Some(0), ..Default::default() }).await?;
        loggia_e2e::wait_for(&pods, "bare", PATIENCE, |pod| pod.is_none()).await?;
    }
    let (calls, bare) = (median(&mut calls), median(&mut bare));
    println!("cold call: {calls:.2} s, bare pod to Ready: {bare:.2} s, ratio {:.2}", calls / bare);
    let values = [("Loggia", calls), ("bare pod to Ready", bare)];
    group.add("cold call beside a bare pod", "s", &values, calls / bare, Wanted::AtMost(1.15));
    Ok(calls)
}

/// Porch's runner on the same cluster: cold calls, the crowd in turns, memory.
async fn beside(
    ours: &Side,
    peer: &Side,
    our_cold: f64,
    images: &[String],
    group: &mut Group,
) -> anyhow::Result<()> {
    let mut cold = Vec::new();
    for image in images {
        cold.push(evaluate(&peer.client()?, image).await?);
        // Those that were not cold before must be warm for the crowd.
        evaluate(&ours.client()?, image).await?;
    }
    let their_cold = median(&mut cold);
    println!("cold call of the other runner: {their_cold:.2} s, ratio {:.2}", our_cold / their_cold);
    let values = [("Loggia", our_cold), ("Porch", their_cold)];
    group.add("cold call", "s", &values, our_cold / their_cold, Wanted::AtMost(0.5));

    let (mut own, mut other, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (this, that) = (ours.crowd(images).await?, peer.crowd(images).await?);
        println!("64 callers of 8 functions: {this}; {that}");
        ratios.push(this.rate / that.rate);
        own.push(this);
        other.push(that);
    }
    let ratio = median(&mut ratios);
    let middle =
        |crowds: &[Crowd], of: fn(&Crowd) -> f64| median(&mut crowds.iter().map(of).collect::<Vec<_>>());
    let values =
        [("Loggia", middle(&own, |crowd| crowd.rate)), ("Porch", middle(&other, |crowd| crowd.rate))];
    group.add("64 callers of 8 functions", "/s", &values, ratio, Wanted::AtLeast(5.0));
    let values = [("Loggia", middle(&own, |crowd| crowd.p99)), ("Porch", middle(&other, |crowd| crowd.p99))];
    group.add("64 callers, 99th percentile", "ms", &values, values[0].1 / values[1].1, Wanted::Nothing);
    let values = [("Loggia", ours.resident()?), ("Porch", peer.resident()?)];
    group.add("resident memory", "MiB", &values, values[0].1 / values[1].1, Wanted::AtMost(0.25));
    println!("resident: {:.1} MiB, the other {:.1} MiB", values[0].1, values[1].1);
    Ok(())
}

// === impl Side ===

impl Side {
    async fn ours(cluster: &Cluster) -> anyhow::Result<Self> {
        let namespace = cluster.namespace("bench").await?;
        let runner = namespace.runner().await?;
        let service = Service::start(&namespace, &runner, &["--log-level=0"])?;
        Ok(Self { who: "Loggia", namespace, service, user: runner.user.clone() })
    }

    async fn peer(cluster: &Cluster) -> anyhow::Result<Option<Self>> {
        let given = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_file());
        let (Some(program), Some(wrapper)) = (given("PEER_RUNNER"), given("PEER_WRAPPER")) else {
            return Ok(None);
        };
        let namespace = cluster.namespace("bench-peer").await?;
        let runner = namespace.runner().await?;
        let wrapper = push_wrapper(cluster, &wrapper, "wrapper-server:peer")?;
        let service = Service::start_other(&program, &wrapper, &namespace, &runner)?;
        Ok(Some(Self { who: "Porch", namespace, service, user: runner.user.clone() }))
    }

    fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::new(&self.service.address, MESSAGE)?)
    }

    /// A client of the wrapper server in the one pod there is, by the address of its Service.
    async fn direct_client(&self) -> anyhow::Result<Client> {
        let cluster = &self.namespace.cluster;
        let pods: Api<Pod> = Api::namespaced(cluster.admin().await?, &self.namespace.name);
        let list = pods.list(&ListParams::default().labels("fn.kpt.dev/image")).await?;
        let pod = list.items.first().context("there is no pod")?;
        let id = pod.metadata.labels.as_ref().and_then(|labels| labels.get("fn.kpt.dev/image"));
        let id = id.context("the pod has no label")?;
        let path = ["get", "service", id, "-n", &self.namespace.name, "-o", "jsonpath={.spec.clusterIP}"];
        let address = cluster.kubectl(&path)?;
        Ok(Client::new(&format!("{address}:9446"), MESSAGE)?)
    }

    /// 64 callers of functions that are warm.
    async fn crowd(&self, images: &[String]) -> anyhow::Result<Crowd> {
        let begin = Instant::now();
        let callers = (0..64).map(|number| {
            let (address, image) = (self.service.address.clone(), images[number % images.len()].clone());
            tokio::spawn(async move {
                let client = Client::new(&address, MESSAGE)?;
                let mut times = Vec::new();
                while begin.elapsed() < ROUND {
                    times.push(evaluate(&client, &image).await?);
                }
                anyhow::Ok(times)
            })
        });
        let callers: Vec<_> = callers.collect();
        let mut times = Vec::new();
        for caller in callers {
            times.extend(caller.await?.with_context(|| format!("a caller of {}", self.who))?);
        }
        let seconds = begin.elapsed().as_secs_f64();
        times.sort_by(f64::total_cmp);
        let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)] * 1e3;
        Ok(Crowd { who: self.who, rate: times.len() as f64 / seconds, p50: at(50), p99: at(99) })
    }

    /// What the runner has used of the processors since it began.
    fn processor_seconds(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.service.pid()))?;
        // The name may have spaces in it; user and system time are the 12th and 13th field after it.
        let fields = stat.rsplit_once(')').context("no name")?.1;
        let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        // A hundredth of a second each, on every Linux.
        Ok(ticks.sum::<Result<f64, _>>()? / 100.0)
    }

    /// Resident memory in MiB.
    fn resident(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.service.pid()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
        Ok(kib / 1024.0)
    }

    async fn end(self) -> anyhow::Result<()> {
        drop(self.service);
        self.namespace.end().await
    }
}

/// What many callers at once saw; milliseconds.
struct Crowd {
    who: &'static str,
    rate: f64,
    p50: f64,
    p99: f64,
}

impl std::fmt::Display for Crowd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:.0} calls/s, p50 {:.1} ms, p99 {:.1} ms", self.who, self.rate, self.p50, self.p99)
    }
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
