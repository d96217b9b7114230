//! Deleting what is not wanted, a little at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::cluster::{Cluster, Error};
use crate::roster::Garbage;

/// Deletions at once.
const AT_ONCE: usize = 4;

/// The time between the beginnings of two deletions.
const PACE: Duration = Duration::from_millis(25);

/// How often a deletion is tried. What is left then is found by a later look at the namespace.
const TRIES: u32 = 6;

/// Deletes what it is sent, until nobody sends any more.
pub(crate) async fn remove_all(cluster: Cluster, mut garbage: mpsc::UnboundedReceiver<Garbage>) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(thing) = garbage.recv().await {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let cluster = cluster.clone();
        tokio::spawn(async move {
            remove(&cluster, &thing).await;
            drop(place);
        });
        sleep(PACE).await;
    }
}

async fn remove(cluster: &Cluster, thing: &Garbage) {
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
        let Err((resource, error)) = result else { return };
        if attempt == TRIES || matches!(error.code(), Some(401 | 403)) {
            warn!("{}", cluster.diagnose("delete", resource, &error).text);
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
