//! A namespace for one test, and the runner's service account in it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace as Object, ServiceAccount};
use kube::api::{Api, ObjectMeta, PostParams};

use crate::cluster::{Held, client};
use crate::{Cluster, pod};

const RBAC: &str = include_str!("../rbac.yaml");
const SERVICE_ACCOUNT: &str = "porch-fn-runner";

/// Ends, with all that is in it, when it is dropped; the deletion goes on after that.
#[derive(Debug)]
pub struct Namespace {
    pub name: String,
    pub cluster: Cluster,
    folder: tempfile::TempDir,
    _held: Held,
}

/// What the function runner is to a cluster: a service account with the rights that Porch grants.
#[derive(Debug)]
pub struct Runner {
    /// The name that the audit log knows it by.
    pub user: String,
    pub kubeconfig: PathBuf,
    pub token: String,
}

// === impl Namespace ===

impl Namespace {
    pub(crate) async fn create(cluster: &Cluster, name: &str, held: Held) -> anyhow::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() % 1_000_000_000;
        let name = format!("{name}-{:x}-{}-{count}", now, std::process::id());
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let object = Object { metadata, ..Object::default() };
        Api::all(cluster.admin().await?).create(&PostParams::default(), &object).await?;
        let folder = tempfile::tempdir()?;
        let namespace = Self { name, cluster: cluster.clone(), folder, _held: held };
        // Pods are refused until the namespace has its default service account. After an outage of the API server
        // the controller that makes it takes its time.
        let accounts: Api<ServiceAccount> = Api::namespaced(cluster.admin().await?, &namespace.name);
        let exists = |found: Option<&ServiceAccount>| found.is_some();
        pod::wait_for(&accounts, "default", Duration::from_secs(120), exists).await?;
        Ok(namespace)
    }

    /// Applies manifests in this namespace, as admin.
    pub fn apply(&self, manifests: &str) -> anyhow::Result<()> {
        self.cluster.kubectl_with_input(&["apply", "-n", &self.name, "-f", "-"], manifests).map(drop)
    }

    /// The service account of a stock installation, with a token and a kubeconfig.
    pub async fn runner(&self) -> anyhow::Result<Runner> {
        self.apply(RBAC)?;
        let admin = self.cluster.admin().await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(admin, &self.name);
        let spec = TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let answer = accounts.create_token_request(SERVICE_ACCOUNT, &PostParams::default(), &request).await?;
        let token = answer.status.context("the token request has no answer")?.token;
        let kubeconfig = self.folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, self.kubeconfig(&token)?)?;
        let user = format!("system:serviceaccount:{}:{SERVICE_ACCOUNT}", self.name);
        Ok(Runner { user, kubeconfig, token })
    }

    /// A kubeconfig that differs from the admin's in who asks.
    fn kubeconfig(&self, token: &str) -> anyhow::Result<String> {
        let admin = std::fs::read_to_string(self.cluster.kubeconfig("admin"))?;
        let lines = admin.lines().filter(|line| !line.contains("client-key-data:"));
        let lines = lines.map(|line| match line.split_once("client-certificate-data:") {
            Some((indent, _)) => format!("{indent}token: {token}"),
            None if line.starts_with("  context: ") => {
                line.replace("user: admin", &format!("user: admin, namespace: {}", self.name))
            }
            None => line.to_owned(),
        });
        Ok(lines.map(|line| line + "\n").collect())
    }

    /// Deletes the namespace and returns when nothing is left of it.
    pub async fn end(self) -> anyhow::Result<()> {
        let namespaces: Api<Object> = Api::all(self.cluster.admin().await?);
        let name = self.name.clone();
        drop(self);
        pod::wait_for(&namespaces, &name, Duration::from_secs(120), |found| found.is_none()).await
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // There is no one to tell, and `e2e/cluster/down` ends what is left.
        let _ =
            self.cluster.kubectl(&["delete", "namespace", &self.name, "--wait=false", "--ignore-not-found"]);
    }
}

// === impl Runner ===

impl Runner {
    /// The same, by way of another address, which is one of this machine.
    pub fn by_way_of(&self, address: &str) -> anyhow::Result<Self> {
        let kubeconfig = std::fs::read_to_string(&self.kubeconfig)?;
        let lines = kubeconfig.lines().map(|line| match line.split_once("server: ") {
            Some((indent, _)) => format!("{indent}server: https://{address}\n"),
            None => format!("{line}\n"),
        });
        let port = address.rsplit(':').next().unwrap_or_default();
        let file = self.kubeconfig.with_file_name(format!("kubeconfig-{port}"));
        std::fs::write(&file, lines.collect::<String>())?;
        Ok(Self { user: self.user.clone(), kubeconfig: file, token: self.token.clone() })
    }

    /// Where the API server is, `HOST:PORT`.
    pub fn api_server(&self) -> anyhow::Result<String> {
        let kubeconfig = std::fs::read_to_string(&self.kubeconfig)?;
        let server = kubeconfig.lines().find_map(|line| line.split_once("server: https://"));
        Ok(server.context("the kubeconfig names no server")?.1.trim().to_owned())
    }

    pub async fn client(&self) -> anyhow::Result<kube::Client> {
        client(&self.kubeconfig).await
    }
}
