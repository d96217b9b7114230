//! The pull secret in the namespace of function pods, kept in step with the mounted file.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use loggia_registry::{Images, PullSecret};
use tokio::sync::Mutex;
use tracing::{info, warn};

use crate::cluster::Cluster;
use crate::diagnosis::Diagnosis;

const KEY: &str = ".dockerconfigjson";

/// Keeps the secret in step.
#[derive(Debug)]
pub(crate) struct PullSecrets {
    cluster: Cluster,
    name: String,
    /// What the cluster is known to have. Locked while it is being changed, so that two starts do not both do it.
    there: Mutex<Option<PullSecret>>,
}

// === impl PullSecrets ===

impl PullSecrets {
    pub(crate) fn new(cluster: Cluster, name: String) -> Self {
        Self { cluster, name, there: Mutex::new(None) }
    }

    /// Returns once the cluster has this secret.
    pub(crate) async fn ensure(&self, secret: &PullSecret) -> Result<(), Diagnosis> {
        let mut there = self.there.lock().await;
        if there.as_ref() == Some(secret) {
            return Ok(());
        }
        for _ in 0..3 {
            let found = self.cluster.secret(&self.name).await;
            let found = found.map_err(|error| self.cluster.diagnose("get", "secrets", &error))?;
            let wanted = ByteString(secret.docker_config().to_vec());
            let (verb, done) = match found {
                Some(found) if found.data.as_ref().and_then(|data| data.get(KEY)) == Some(&wanted) => {
                    info!("Private registry secret already exists");
                    *there = Some(secret.clone());
                    return Ok(());
                }
                Some(mut found) => {
                    found.data.get_or_insert_default().insert(KEY.to_owned(), wanted);
                    ("update", self.cluster.replace_secret(&self.name, &found).await)
                }
                None => {
                    info!(
                        "Secret for private registry pods does not exist and is required. Generating Secret Now"
                    );
                    ("create", self.cluster.create_secret(&self.fresh(wanted)).await)
                }
            };
            match done {
                Ok(()) if verb == "create" => info!("Private registry secret created successfully"),
                Ok(()) => info!("Private registry secret patched successfully."),
                // Another replica was faster: read it again.
                Err(error) if error.code() == Some(409) => continue,
                Err(error) => return Err(self.cluster.diagnose(verb, "secrets", &error)),
            }
            *there = Some(secret.clone());
            return Ok(());
        }
        // Other replicas keep writing it, from the same file.
        Ok(())
    }

    /// Carries changes of the file to the cluster, for as long as the future is polled. The secret is made
    /// by the first pod that needs it.
    pub(crate) async fn follow_changes(&self, images: &Images) {
        let mut secrets = images.pull_secret();
        while secrets.changed().await.is_ok() {
            let secret = secrets.borrow_and_update().clone();
            let needed = self.there.lock().await.is_some();
            if let Some(secret) = secret.filter(|_| needed)
                && let Err(problem) = self.ensure(&secret).await
            {
                warn!("The pull secret is not what the file says: {}", problem.text);
            }
        }
    }

    fn fresh(&self, content: ByteString) -> Secret {
        Secret {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.cluster.namespace.clone()),
                ..Default::default()
            },
            type_: Some("kubernetes.io/dockerconfigjson".to_owned()),
            data: Some(BTreeMap::from([(KEY.to_owned(), content)])),
            ..Default::default()
        }
    }
}
