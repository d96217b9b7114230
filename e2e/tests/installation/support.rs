//! What whoever uses an installation does: calls it by its Service's name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use loggia_e2e::Cluster;
use loggia_grpc::Client;

pub(crate) const SYSTEM: &str = "porch-system";
pub(crate) const FUNCTIONS: &str = "porch-fn-system";
const ADDRESS: &str = "function-runner.porch-system.svc.cluster.local:9445";
pub(crate) const LIST: &str = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n- apiVersion: v1\n  \
                               kind: ConfigMap\n  metadata:\n    name: from-a-test\n";

pub(crate) fn client() -> Client {
    Client::new(ADDRESS, 6 << 20).unwrap()
}

/// Ends an installation.
pub(crate) fn remove(cluster: &Cluster) {
    for namespace in [SYSTEM, FUNCTIONS] {
        let _ = cluster.kubectl(&["delete", "namespace", namespace, "--ignore-not-found", "--timeout=120s"]);
    }
}

/// Callers that go on until they are told to stop, each with a connection of its own.
pub(crate) struct Load {
    over: Arc<AtomicBool>,
    callers: Vec<tokio::task::JoinHandle<(usize, Vec<String>)>>,
}

impl Load {
    pub(crate) fn start(image: &str) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let caller = |_| {
            let (over, image) = (Arc::clone(&over), image.to_owned());
            tokio::spawn(async move {
                let client = client();
                let (mut answered, mut failed) = (0, Vec::new());
                while !over.load(Ordering::Relaxed) {
                    match evaluate(&client, &image).await {
                        Ok(answer) if answer == LIST => answered += 1,
                        Ok(answer) => failed.push(answer),
                        Err(status) => failed.push(status.to_string()),
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                (answered, failed)
            })
        };
        let callers = (0..8).map(caller).collect();
        Self { over, callers }
    }

    pub(crate) async fn stop(self) -> (usize, Vec<String>) {
        self.over.store(true, Ordering::Relaxed);
        let (mut answered, mut failed) = (0, Vec::new());
        for caller in self.callers {
            let (count, errors) = caller.await.unwrap();
            answered += count;
            failed.extend(errors);
        }
        (answered, failed)
    }
}

/// The first answer. A new Service is known to DNS and to the node's packet filter a little after its pods are ready.
pub(crate) async fn first_answer(client: &Client, image: &str) -> String {
    let begin = Instant::now();
    loop {
        match evaluate(client, image).await {
            Ok(answer) => return answer,
            Err(status)
                if status.message().starts_with("connection error: ")
                    && begin.elapsed() < Duration::from_secs(60) =>
            {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(status) => panic!("{status}"),
        }
    }
}

pub(crate) async fn evaluate(client: &Client, image: &str) -> Result<String, tonic::Status> {
    let list = Bytes::from_static(LIST.as_bytes());
    let answer = client.evaluate(image, list, Some(Duration::from_secs(60))).await?;
    Ok(String::from_utf8_lossy(&answer.resource_list).into_owned())
}
