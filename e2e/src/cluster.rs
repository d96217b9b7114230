//! The cluster, as seen from its node.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustix::fs::FlockOperation;

use crate::{Audit, Namespace, Part, Registry};

/// The cluster that this process runs on the node of.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The folder of the cluster's present life: certificates, kubeconfigs, logs.
    pub life: PathBuf,
}

/// Holds the cluster, shared with others or alone, until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    _lock: File,
}

impl Cluster {
    /// The cluster, or a line on standard output that says why there is none.
    pub fn here() -> Option<Self> {
        let life = std::env::var_os("LOGGIA_CLUSTER").map(PathBuf::from);
        if life.is_none() {
            loggia_testing::missing("cluster", "no cluster (make e2e)");
        }
        life.map(|life| Self { life })
    }

    /// The control group that everything of this cluster is below.
    pub(crate) fn cgroup(&self) -> anyhow::Result<String> {
        std::env::var("LOGGIA_CLUSTER_CGROUP").context("e2e/cluster/run sets LOGGIA_CLUSTER_CGROUP")
    }

    /// A fresh namespace, used beside those of other tests.
    pub async fn namespace(&self, name: &str) -> anyhow::Result<Namespace> {
        Namespace::create(self, name, self.hold(FlockOperation::LockShared).await?).await
    }

    /// A fresh namespace for a test that breaks what others need: it waits until no other test has one, and
    /// others wait for it.
    pub async fn namespace_alone(&self, name: &str) -> anyhow::Result<Namespace> {
        Namespace::create(self, name, self.hold(FlockOperation::LockExclusive).await?).await
    }

    /// May do everything.
    pub async fn admin(&self) -> anyhow::Result<kube::Client> {
        client(&self.kubeconfig("admin")).await
    }

    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.life.join("kubeconfig").join(user)
    }

    /// The registry that asks for nothing, on plain HTTP.
    pub fn registry(&self) -> Registry {
        Registry::open()
    }

    /// The registry with TLS and a password.
    pub fn private_registry(&self) -> Registry {
        Registry::private(&self.life)
    }

    /// One of the cluster's processes, by the name that `e2e/cluster/status` gives it.
    pub fn part(&self, name: &'static str) -> Part {
        Part::new(name)
    }

    pub fn audit(&self) -> Audit {
        Audit::new(self.life.join("audit.log"))
    }

    /// Runs kubectl as admin and returns what it printed.
    pub fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.kubectl_with_input(arguments, "")
    }

    pub fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        use std::io::Write as _;
        let mut child = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(self.kubeconfig("admin"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("kubectl")?;
        child.stdin.take().context("kubectl has no input")?.write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("kubectl {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    async fn hold(&self, how: FlockOperation) -> anyhow::Result<Held> {
        let lock = File::create(self.life.join("tests.lock"))?;
        let lock =
            tokio::task::spawn_blocking(move || rustix::fs::flock(&lock, how).map(|()| lock)).await??;
        Ok(Held { _lock: lock })
    }
}

/// A client that speaks as the user of a kubeconfig.
pub(crate) async fn client(kubeconfig: &Path) -> anyhow::Result<kube::Client> {
    let read =
        Kubeconfig::read_from(kubeconfig).with_context(|| format!("kubeconfig {}", kubeconfig.display()))?;
    let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}
