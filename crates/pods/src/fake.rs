//! What unit tests have instead of a cluster: an API server that notes what it is asked, and the servers of
//! pods, which are real.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response};
use kube::client::Body;
use loggia_function::{Call, FunctionRef, Knows, Outcome, Running, Runtime};
use loggia_grpc::server::{Routes, serve};
use loggia_grpc::tls::{ServerFiles, ServerTls};
use loggia_grpc::{Evaluations, Lifecycle};
use serde_json::json;
use tokio::net::TcpListener;

use crate::Settings;
use crate::cluster::Cluster;
use crate::names::{PORT, random_id};
use crate::settings::{PodAddress, PodSecurity};

/// Does as it is told, or refuses everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct ApiServer {
    requests: Arc<Mutex<Vec<String>>>,
    refuses: bool,
}

/// A server as a function pod has it. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct PodServer {
    pub(crate) address: String,
    running: tokio::task::JoinHandle<()>,
}

/// Gives back what it gets.
#[derive(Debug)]
struct Echo;

/// Settings with short times. Pods are reached by their own addresses.
pub(crate) fn settings() -> Settings {
    Settings {
        namespace: "fn".to_owned(),
        manager_namespace: "system".to_owned(),
        wrapper_image: "x.io/wrapper:v1".to_owned(),
        template: None,
        cache_config: None,
        warm_up: true,
        ttl: Duration::from_secs(600),
        max_waitlist_length: 2,
        max_parallel_pods_per_function: 1,
        max_concurrent_evaluations_per_pod: None,
        max_queue_length: None,
        scan_interval: None,
        ready_timeout: Duration::from_secs(1),
        message_limit: 1 << 20,
        security: PodSecurity::Baseline,
        keep_capabilities: false,
        user_namespaces: crate::UserNamespaces::Off,
        resources: crate::PodResources::default(),
        image_by_tag: false,
        max_pods: None,
        address: PodAddress::PodIp,
        cluster_domain: "cluster.local".to_owned(),
        pull_secret: "auth-secret".to_owned(),
        image_prefix: None,
        images: Arc::default(),
        tls: None,
        owner: "us.1".to_owned(),
    }
}

// === impl ApiServer ===

impl ApiServer {
    pub(crate) fn refusing() -> Self {
        Self { refuses: true, ..Self::default() }
    }

    pub(crate) fn cluster(&self) -> Cluster {
        Cluster::new(&kube::Client::new(self.clone(), "fn"), "fn", "system")
    }

    /// What was asked so far, each `METHOD path`.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl tower_service::Service<Request<Body>> for ApiServer {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let asked = format!("{} {}", request.method(), request.uri().path());
        self.requests.lock().unwrap().push(asked);
        let status = |code: u16, status: &str, message: &str| json!({ "kind": "Status", "apiVersion": "v1", "status": status, "code": code, "message": message });
        let (code, answer) = match *request.method() {
            _ if self.refuses => (
                403,
                status(403, "Failure", "pods \"p\" is forbidden: User \"u\" cannot delete resource \"pods\""),
            ),
            Method::PATCH => {
                let metadata = json!({ "name": "p" });
                let kind = "PartialObjectMetadata";
                (200, json!({ "apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": metadata }))
            }
            Method::DELETE => (200, status(200, "Success", "")),
            Method::GET if request.uri().path().ends_with("/events") => {
                (200, json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": [] }))
            }
            _ => (404, status(404, "Failure", "not found")),
        };
        let body = Body::from(serde_json::to_vec(&answer).unwrap());
        ready(Ok(Response::builder().status(code).body(body).unwrap()))
    }
}

// === impl PodServer ===

impl PodServer {
    /// An address of this machine that no other test has.
    pub(crate) fn some_address() -> String {
        let [a, b, c, ..] = random_id().to_be_bytes();
        format!("127.{}.{b}.{}", a.clamp(1, 254), c.clamp(1, 254))
    }

    pub(crate) async fn start(address: &str) -> Self {
        Self::start_with(address, None).await
    }

    /// One that speaks TLS, if it is told who it is.
    pub(crate) async fn start_with(address: &str, files: Option<ServerFiles>) -> Self {
        let listener = TcpListener::bind((address, PORT)).await.unwrap();
        let lifecycle = Lifecycle::default();
        let tls = files.map(|files| ServerTls::new(files).unwrap());
        let routes = Routes::new(Evaluations::of(Arc::new(Echo)), &lifecycle, 1 << 20).over_tls(tls);
        lifecycle.serve();
        Self { address: address.to_owned(), running: tokio::spawn(serve(listener, routes)) }
    }
}

impl Drop for PodServer {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Runtime for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn knows(&self, _: &FunctionRef) -> Knows {
        Knows::Yes
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(async { Ok(Outcome { output: call.input.clone(), ..Outcome::default() }) })
    }
}
