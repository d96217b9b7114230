//! What a thousand function pods cost the runner in memory.
//!
//! No cluster is needed: the API server here only lists pods and has no news, and all pods are one server. The
//! runner is the real program; it takes over every pod, with a connection for each.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "its output is the point")]

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use loggia_bench::{Group, Wanted};
use loggia_evaluator::server::{Routes, serve};
use loggia_evaluator::{Answer, Call, Evaluation, Evaluator, Lifecycle};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const PODS: usize = 1000;

/// The server of all pods.
#[derive(Debug)]
struct Echo;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let program = std::env::var_os("LOGGIA_RUNNER").context("LOGGIA_RUNNER names the function-runner")?;
    let pod_server = TcpListener::bind("127.0.0.1:9446").await.context("the port of function pods")?;
    let lifecycle = Lifecycle::default();
    lifecycle.serve();
    tokio::spawn(serve(pod_server, Routes::new(Arc::new(Echo), &lifecycle, 6 << 20)));
    let mut figures = Vec::new();
    for pods in [0, PODS] {
        let api = api_server(pods).await?;
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, kubeconfig_for(&api))?;
        let mut runner = Command::new(&program)
            .args(["--port=0", "--config=", "--disable-runtimes=exec,builtin", "--pod-cache-config="])
            .args(["--pod-address=pod-ip", "--pod-namespace=functions"])
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .env("WRAPPER_SERVER_IMAGE", "registry.test/wrapper:v1")
            .env_remove("KUBECONFIG")
            .stderr(Stdio::piped())
            .spawn()
            .context("function-runner")?;
        let resident = settled(&mut runner, pods);
        let _ = runner.kill();
        let _ = runner.wait();
        let resident = resident?;
        println!("memory with {pods} pods: {resident} KiB resident");
        figures.push(resident);
    }
    if let [idle, full] = figures[..] {
        println!("a pod costs {:.1} KiB", (full.saturating_sub(idle)) as f64 / PODS as f64);
        let mut group = Group::new("pool-memory", "Memory of the pool");
        let values = [("1,000 pods", full as f64 / 1024.0), ("none", idle as f64 / 1024.0)];
        group.add("resident, pods simulated", "MiB", &values, values[0].1 / values[1].1, Wanted::Nothing);
        group.finish()?;
    }
    Ok(())
}

/// Waits until so many pods are ready, and a little longer; then says how much memory the process has.
fn settled(runner: &mut Child, pods: usize) -> anyhow::Result<usize> {
    let log = runner.stderr.take().context("the runner has no log")?;
    let mut ready = 0;
    let mut lines = BufReader::new(log).lines().map_while(Result::ok);
    let enough = lines.by_ref().find(|line| {
        ready += usize::from(line.contains("is ready for image"));
        if pods == 0 { line.contains("Listening on") } else { ready == pods }
    });
    enough.with_context(|| format!("the runner ended, and {ready} of {pods} pods were ready"))?;
    // Its log is read on, or else it would wait for us.
    std::thread::scope(|scope| {
        scope.spawn(move || lines.for_each(drop));
        std::thread::sleep(Duration::from_secs(3));
        let status = std::fs::read_to_string(format!("/proc/{}/status", runner.id()))?;
        let _ = runner.kill();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|text| text.split_whitespace().next());
        Ok(resident.context("the process has no memory")?.parse()?)
    })
}

/// An API server with so many pods, each with its Service, and with nothing that ever changes.
async fn api_server(pods: usize) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = service_fn(move |request: Request<Incoming>| answer(request, pods));
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer),
            );
        }
    });
    Ok(address)
}

async fn answer(request: Request<Incoming>, pods: usize) -> Result<Response<Body>, Infallible> {
    let query = request.uri().query().unwrap_or_default();
    if query.contains("watch=true") {
        std::future::pending::<()>().await;
    }
    let (code, answer) = match request.uri().path().rsplit('/').next() {
        _ if request.method() == Method::PATCH => {
            let kind = "PartialObjectMetadata";
            (200, json!({ "apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": { "name": "p" } }))
        }
        Some("pods") => (200, page("PodList", pod, pods, query)),
        Some("services") => (200, page("ServiceList", service, pods, query)),
        Some("endpoints") => (200, page("EndpointsList", endpoints, pods, query)),
        _ => {
            let refusal = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
                "reason": "Forbidden", "message": "the runner cannot do that" });
            (403, refusal)
        }
    };
    let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    Ok(response)
}

/// As much of a list as is asked for, and where to go on.
fn page(kind: &str, item: fn(usize) -> Value, count: usize, query: &str) -> Value {
    let number = |key: &str| {
        let pair = query.split('&').find_map(|pair| pair.strip_prefix(key));
        pair.and_then(|number| number.strip_prefix('=')).and_then(|number| number.parse::<usize>().ok())
    };
    let from = number("continue").unwrap_or_default();
    let to = number("limit").map_or(count, |limit| count.min(from + limit));
    let go_on = if to < count { to.to_string() } else { String::new() };
    let metadata = json!({ "resourceVersion": "1", "continue": go_on });
    let items: Vec<_> = (from..to).map(item).collect();
    json!({ "kind": kind, "apiVersion": "v1", "metadata": metadata, "items": items })
}

fn id(number: usize) -> String {
    format!("function-{number}-v1-1-12345678")
}

/// A function pod as an API server tells of it, with all that one carries along.
fn pod(number: usize) -> Value {
    let (id, image) = (id(number), format!("registry.test/catalog/function-{number}:v1"));
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    let fields = |of: &str| {
        let keys =
            (0..40).map(|key| (format!("f:{of}-{key}"), json!({ ".": {}, "f:name": {}, "f:value": {} })));
        json!({ "f:spec": keys.collect::<serde_json::Map<_, _>>() })
    };
    let managed = |manager: &str| {
        json!({ "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields(manager), "manager": manager,
            "operation": "Update", "time": "2026-01-01T00:00:00Z" })
    };
    let mount = json!([{ "mountPath": "/wrapper-server-tools", "name": "wrapper-server-tools" }]);
    let condition = |kind: &str| json!({ "type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let conditions: Vec<_> =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
            .map(condition)
            .into();
    let status = |name: &str, image: &str| {
        json!({ "name": name, "image": image, "imageID": format!("{image}@sha256:{}", "a".repeat(64)), "ready": true,
            "restartCount": 0, "started": true, "containerID": format!("containerd://{}", "b".repeat(64)),
            "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } }, "lastState": {} })
    };
    json!({
        "metadata": {
            "name": format!("{id}-bbbbb"),
            "namespace": "functions",
            "uid": format!("00000000-0000-0000-0000-{number:012}"),
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "fn.kpt.dev/image": id },
            "annotations": {
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
                "fn.kpt.dev/reclaim-after": (now + 1800).to_string(),
                "fn.kpt.dev/template-version": "inline-v1",
                "loggia.dev/digest": format!("sha256:{}", "a".repeat(64)),
                "loggia.dev/image": image,
                "loggia.dev/owner": "another.12345678",
                "loggia.dev/template-hash": "0123456789abcdef",
            },
            "managedFields": [managed("krm-function-runner"), managed("kubelet")],
        },
        "spec": {
            "nodeName": "node-1",
            "initContainers": [{ "name": "copy-wrapper-server", "image": "registry.test/wrapper:v1",
                "command": ["cp", "-a", "/home/nonroot/wrapper-server/.", "/wrapper-server-tools"], "volumeMounts": mount }],
            "containers": [{ "name": "function", "image": image, "command": ["/wrapper-server-tools/wrapper-server"],
                "args": ["--port", "9446", "--max-request-body-size", "6291456", "--", "/function"],
                "env": [{ "name": "OTEL_METRICS_EXPORTER", "value": "prometheus" }], "volumeMounts": mount }],
            "volumes": [{ "name": "wrapper-server-tools", "emptyDir": {} }],
            "tolerations": [{ "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300 }],
        },
        "status": {
            "phase": "Running",
            "podIP": "127.0.0.1",
            "podIPs": [{ "ip": "127.0.0.1" }],
            "hostIP": "192.0.2.1",
            "conditions": conditions,
            "initContainerStatuses": [status("copy-wrapper-server", "registry.test/wrapper")],
            "containerStatuses": [status("function", &image)],
        },
    })
}

fn service(number: usize) -> Value {
    let id = id(number);
    json!({ "metadata": { "name": id, "namespace": "functions", "uid": format!("s-{number}") },
        "spec": { "clusterIP": "198.51.100.1", "selector": { "fn.kpt.dev/image": id }, "ports": [{ "port": 9446 }] } })
}

fn endpoints(number: usize) -> Value {
    json!({ "metadata": { "name": id(number), "namespace": "functions" },
        "subsets": [{ "addresses": [{ "ip": "127.0.0.1" }], "ports": [{ "port": 9446 }] }] })
}

fn kubeconfig_for(api: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'http://{api}'}}}}]\n\
         users: [{{name: u, user: {{token: none}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
         current-context: x\n"
    )
}

impl Evaluator for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn evaluate<'a>(&'a self, call: &'a Call) -> Evaluation<'a> {
        Box::pin(async { Ok(Answer { resource_list: call.resource_list.clone(), ..Answer::default() }) })
    }
}
