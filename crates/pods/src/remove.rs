//! Deleting objects, a few at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::time::sleep;
use tracing::{debug, info, warn};

use crate::cluster::{Cluster, Error};
use crate::roster::Garbage;

/// Deletions at once.
const AT_ONCE: usize = 4;

/// The time between the beginnings of two deletions.
const PACE: Duration = Duration::from_millis(25);

/// How often a deletion is tried. What is left then is found by a later scan.
const TRIES: u32 = 6;

/// Deletes what arrives, until the channel closes.
pub(crate) async fn remove_all(cluster: Cluster, mut garbage: mpsc::UnboundedReceiver<Garbage>) {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let refused = Arc::new(AtomicBool::new(false));
    while let Some(thing) = garbage.recv().await {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let (cluster, refused) = (cluster.clone(), Arc::clone(&refused));
        tokio::spawn(async move {
            remove(&cluster, &thing, &refused).await;
            drop(slot);
        });
        sleep(PACE).await;
    }
}

/// Deletes one object, with retries. A refusal is logged once, until a deletion succeeds.
async fn remove(cluster: &Cluster, thing: &Garbage, refused: &AtomicBool) {
    let mut pause = Duration::from_millis(500);
    for attempt in 1..=TRIES {
        let result = match thing {
            Garbage::Pod { name, uid, service, why } => {
                info!(pod = name, why, "Removing a function pod");
                remove_pod(cluster, name, uid.as_deref(), service.as_ref()).await
            }
            Garbage::Service { name, uid } => {
                info!(service = name, "Removing a service without a pod");
                cluster.delete_service(name, uid.as_deref()).await.map_err(|error| ("services", error))
            }
        };
        let Err((resource, error)) = result else {
            refused.store(false, Ordering::Relaxed);
            return;
        };
        let text = cluster.diagnose("delete", resource, &error).text;
        if matches!(error.code(), Some(401 | 403)) {
            let logged = refused.swap(true, Ordering::Relaxed);
            if logged {
                debug!("{text}");
            } else {
                warn!("{text}; until then pods that nobody uses stay");
            }
            return;
        }
        if attempt == TRIES {
            warn!("{text}");
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(10));
    }
}

/// The pod goes first: as long as it is there, its Service is not an orphan.
async fn remove_pod(
    cluster: &Cluster,
    name: &str,
    uid: Option<&str>,
    service: Option<&(String, Option<String>)>,
) -> Result<(), (&'static str, Error)> {
    cluster.delete_pod(name, uid).await.map_err(|error| ("pods", error))?;
    match service {
        Some((service, uid)) => {
            cluster.delete_service(service, uid.as_deref()).await.map_err(|error| ("services", error))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::fake::ApiServer;

    fn pod(name: &str) -> Garbage {
        let service = Some((format!("s-{name}"), None));
        Garbage::Pod { name: name.to_owned(), uid: None, service, why: "nobody wants it".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn deletions_are_paced_and_a_pod_goes_before_its_service() {
        let api = ApiServer::default();
        let (send, garbage) = mpsc::unbounded_channel();
        for number in 0..100 {
            send.send(pod(&format!("p{number}"))).unwrap();
        }
        drop(send);
        let begin = Instant::now();
        remove_all(api.cluster(), garbage).await;
        assert!(begin.elapsed() >= PACE * 100, "{:?}", begin.elapsed());
        sleep(Duration::from_secs(1)).await;
        let requests = api.requests();
        assert_eq!(requests.len(), 200);
        let position = |path: &str| requests.iter().position(|request| request.ends_with(path)).unwrap();
        assert!(position("/pods/p7") < position("/services/s-p7"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_forbidden_is_not_tried_again_and_again() {
        let api = ApiServer::refusing();
        let refused = AtomicBool::new(false);
        remove(&api.cluster(), &pod("p"), &refused).await;
        assert_eq!(api.requests().len(), 1);
        assert!(refused.load(Ordering::Relaxed), "it was logged");
    }
}
