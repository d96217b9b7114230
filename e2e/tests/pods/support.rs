//! What every story needs: a namespace, a runner in it, and callers.

use std::hash::Hasher as _;
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::core::v1::{Pod, Service as KubeService};
use kube::api::{Api, ListParams};
use loggia_e2e::{Cluster, Namespace, Runner, Service, Wire, function_image, static_program};
use loggia_evaluator::{Answer, Client};
use tonic::Status;

pub(crate) use loggia_testing::until;

pub(crate) const LIST: &str = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n- apiVersion: v1\n  \
                               kind: ConfigMap\n  metadata:\n    name: from-a-test\n";

/// How long a caller of these stories waits.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A namespace with the runner's service account, and an image to call.
pub(crate) struct World {
    pub(crate) namespace: Namespace,
    pub(crate) runner: Runner,
    pub(crate) image: String,
    /// How the names of the image's pods begin, up to their number.
    pub(crate) stem: String,
}

impl World {
    /// A world of its own, unless there is no cluster.
    pub(crate) async fn new(name: &str) -> Option<Self> {
        let cluster = Cluster::here()?;
        let namespace = cluster.namespace(name).await.unwrap();
        Some(Self::of(namespace).await)
    }

    /// A world in which nobody else is, for a story that breaks what others need.
    pub(crate) async fn alone(name: &str) -> Option<Self> {
        let cluster = Cluster::here()?;
        let namespace = cluster.namespace_alone(name).await.unwrap();
        Some(Self::of(namespace).await)
    }

    async fn of(namespace: Namespace) -> Self {
        let runner = namespace.runner().await.unwrap();
        static TAG: std::sync::OnceLock<String> = std::sync::OnceLock::new();
        let tag = TAG.get_or_init(|| {
            // Nodes keep what they pulled, so another program needs another tag.
            let mut hash = std::hash::DefaultHasher::new();
            hash.write(&std::fs::read(static_program("behave-function")).unwrap());
            let tag = format!("v0.1-{:08x}", hash.finish() & 0xffff_ffff);
            let behave = function_image("behave-function").unwrap();
            namespace.cluster.registry().push(&behave, &format!("behave:{tag}")).unwrap();
            tag
        });
        let image = format!("{}/behave:{tag}", namespace.cluster.registry().host);
        let stem = format!("behave-{}-", tag.replace('.', ""));
        Self { namespace, runner, image, stem }
    }

    pub(crate) fn start(&self, flags: &[&str]) -> Service {
        Service::start(&self.namespace, &self.runner, flags).unwrap()
    }

    /// Starts a runner that reaches the API server by a wire of its own.
    pub(crate) async fn start_by_wire(&self, flags: &[&str]) -> (Service, Wire) {
        let wire = Wire::to(&self.runner.api_server().unwrap()).await.unwrap();
        let runner = self.runner.by_way_of(&wire.address).unwrap();
        (Service::start(&self.namespace, &runner, flags).unwrap(), wire)
    }

    /// Calls so often at once, each with what the function is to do.
    pub(crate) async fn calls(
        &self,
        service: &Service,
        count: usize,
        behave: &'static str,
    ) -> Vec<Result<Answer, Status>> {
        let calls: Vec<_> = (0..count)
            .map(|_| {
                let (address, image) = (service.address.clone(), self.image.clone());
                tokio::spawn(async move { call(&address, &image, behave).await })
            })
            .collect();
        let mut answers = Vec::new();
        for answer in calls {
            answers.push(answer.await.unwrap());
        }
        answers
    }

    /// Lets the runner do something more, or less: changes its role as a JSON patch says.
    pub(crate) fn patch_role(&self, patch: &str) {
        self.kubectl(&["patch", "role", "porch-function-executor", "--type=json", "-p", patch]);
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        let pods: Api<Pod> =
            Api::namespaced(self.namespace.cluster.admin().await.unwrap(), &self.namespace.name);
        pods.list(&ListParams::default().labels("fn.kpt.dev/image")).await.unwrap().items
    }

    /// The pods that are not about to go.
    pub(crate) async fn living_pods(&self) -> Vec<Pod> {
        let pods = self.pods().await;
        pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect()
    }

    pub(crate) async fn services(&self) -> Vec<String> {
        let services: Api<KubeService> =
            Api::namespaced(self.namespace.cluster.admin().await.unwrap(), &self.namespace.name);
        let found = services.list(&ListParams::default()).await.unwrap().items;
        found.into_iter().filter_map(|service| service.metadata.name).collect()
    }

    /// Waits until a number of pods lives here.
    pub(crate) async fn wait_for_pods(&self, count: usize, patience: Duration) {
        let begin = std::time::Instant::now();
        loop {
            let pods = self.living_pods().await;
            if pods.len() == count {
                return;
            }
            let names: Vec<_> = pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
            assert!(begin.elapsed() < patience, "{count} pods were expected, and there are {names:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        let mut all = vec!["-n", self.namespace.name.as_str()];
        all.extend(arguments);
        self.namespace.cluster.kubectl(&all).unwrap()
    }
}

/// Calls with what the function is to do.
pub(crate) async fn call(address: &str, image: &str, behave: &str) -> Result<Answer, Status> {
    call_within(address, image, behave, PATIENCE).await
}

pub(crate) async fn call_within(
    address: &str,
    image: &str,
    behave: &str,
    patience: Duration,
) -> Result<Answer, Status> {
    let client = Client::new(address, 6 << 20).unwrap();
    client.evaluate(image, list(behave), Some(patience)).await
}

pub(crate) fn list(behave: &str) -> Bytes {
    match behave {
        "" => Bytes::from_static(LIST.as_bytes()),
        behave => Bytes::from(format!("{LIST}behave: {behave}\n")),
    }
}

/// The pod that an answer came from.
pub(crate) fn pod_of(answer: &Answer) -> String {
    let log = String::from_utf8_lossy(&answer.log);
    log.lines().next().and_then(|line| line.strip_prefix("pod ")).unwrap_or_default().to_owned()
}

pub(crate) fn name(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}

pub(crate) fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

/// So many callers, each calling again and again until told to stop.
pub(crate) struct Load {
    stop: tokio::sync::watch::Sender<bool>,
    callers: Vec<tokio::task::JoinHandle<(usize, Vec<String>)>>,
}

impl Load {
    pub(crate) fn start(address: &str, image: &str, callers: usize, behave: &'static str) -> Self {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let caller = |_| {
            let (address, image, stopped) = (address.to_owned(), image.to_owned(), stopped.clone());
            tokio::spawn(async move {
                let client = Client::new(&address, 6 << 20).unwrap();
                let (mut answered, mut failed) = (0, Vec::new());
                while !*stopped.borrow() {
                    match client.evaluate(&image, list(behave), Some(PATIENCE)).await {
                        Ok(answer) if answer.resource_list == list(behave) => answered += 1,
                        Ok(_) => failed.push("another list came back".to_owned()),
                        Err(status) => failed.push(status.to_string()),
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                (answered, failed)
            })
        };
        Self { callers: (0..callers).map(caller).collect(), stop }
    }

    /// How many calls were answered, and what the others were told.
    pub(crate) async fn stop(self) -> (usize, Vec<String>) {
        self.stop.send_replace(true);
        let (mut answered, mut failed) = (0, Vec::new());
        for caller in self.callers {
            let (more, errors) = caller.await.unwrap();
            answered += more;
            failed.extend(errors);
        }
        (answered, failed)
    }
}
