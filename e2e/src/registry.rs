//! The cluster's registries.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use loggia_image::Image;

/// A registry that the node and the pods know by the same name.
#[derive(Debug, Clone)]
pub struct Registry {
    /// As image names begin: `HOST:PORT`.
    pub host: &'static str,
    /// User and password.
    pub credentials: Option<(&'static str, &'static str)>,
    /// The certificate that it is to be trusted by; without one it speaks plain HTTP.
    pub authority: Option<PathBuf>,
}

/// A tag for what a file holds. Nodes do not pull a tag that they have, so what changes needs another one.
pub fn content_tag(file: &Path) -> anyhow::Result<String> {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    std::fs::read(file).with_context(|| file.display().to_string())?.hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

impl Registry {
    pub(crate) fn open() -> Self {
        Self { host: "registry.localhost:5000", credentials: None, authority: None }
    }

    pub(crate) fn private(life: &Path) -> Self {
        let authority = Some(life.join("pki/trust/ca.crt"));
        Self { host: "registry.test:5443", credentials: Some(("loggia", "lantern")), authority }
    }

    /// Pushes an image as `NAME[:TAG]` and returns the name to pull it by.
    pub fn push(&self, image: &Image, name: &str) -> anyhow::Result<String> {
        let layout = tempfile::tempdir()?;
        image.write(layout.path())?;
        self.push_layout(layout.path(), name)
    }

    /// Pushes what lies in an OCI image layout.
    pub fn push_layout(&self, layout: &Path, name: &str) -> anyhow::Result<String> {
        let reference = format!("{}/{name}", self.host);
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["copy", "--quiet", "--insecure-policy"]);
        match &self.authority {
            None => skopeo.arg("--dest-tls-verify=false"),
            Some(authority) => skopeo
                .arg("--dest-cert-dir")
                .arg(authority.parent().context("the certificate has no folder")?),
        };
        if let Some((user, password)) = self.credentials {
            skopeo.arg("--dest-creds").arg(format!("{user}:{password}"));
        }
        let output =
            skopeo.arg(format!("oci:{}", layout.display())).arg(format!("docker://{reference}")).output();
        let output = output.context("skopeo")?;
        if !output.status.success() {
            bail!("pushing `{reference}`: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(reference)
    }

    /// The content of a docker config file that lets its holder in.
    pub fn docker_config(&self) -> String {
        let auths = match self.credentials {
            None => serde_json::json!({}),
            Some((user, password)) => {
                serde_json::json!({self.host: {"username": user, "password": password}})
            }
        };
        serde_json::json!({"auths": auths}).to_string()
    }
}
