//! Images, as folders in the layout that skopeo reads.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// An image to be pushed.
#[derive(Debug, Clone, Default)]
pub struct Image {
    /// What the config says is run, `null` where nothing.
    pub run: Value,
    pub platforms: Vec<&'static str>,
    /// In an index, even if there is one platform only.
    pub index: bool,
    /// Media types of Docker instead of OCI's.
    pub docker: bool,
    /// Bytes that the config has besides.
    pub padding: usize,
}

impl Image {
    pub fn running(run: Value) -> Self {
        Self { run, platforms: vec!["amd64"], ..Self::default() }
    }

    /// An image that runs `/fn NAME`.
    pub fn named(name: &str) -> Self {
        Self::running(json!({"Entrypoint": ["/fn", name]}))
    }

    pub fn format(&self) -> Option<&'static str> {
        self.docker.then_some("v2s2")
    }

    /// Writes the layout with the image under the name `image`.
    pub fn write(&self, folder: &Path) {
        fs::create_dir_all(folder.join("blobs/sha256")).unwrap();
        fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion": "1.0.0"}"#).unwrap();
        let manifests: Vec<_> =
            self.platforms.iter().map(|architecture| self.manifest(folder, architecture)).collect();
        let mut top = match manifests.as_slice() {
            [one] if !self.index => one.clone(),
            _ => {
                let index = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
                                   "manifests": manifests});
                blob(folder, "application/vnd.oci.image.index.v1+json", &index.to_string().into_bytes())
            }
        };
        top["annotations"] = json!({"org.opencontainers.image.ref.name": "image"});
        let index = json!({"schemaVersion": 2, "manifests": [top]});
        fs::write(folder.join("index.json"), index.to_string()).unwrap();
    }

    fn manifest(&self, folder: &Path, architecture: &str) -> Value {
        // A layer of no files: two empty blocks, not compressed.
        let layer = vec![0; 1024];
        let diff = sha256(&layer);
        let layer = blob(folder, "application/vnd.oci.image.layer.v1.tar", &layer);
        let mut config = json!({
            "os": "linux", "architecture": architecture, "config": self.run,
            "rootfs": {"type": "layers", "diff_ids": [diff]},
            "history": [{"created_by": "test"}],
        });
        if self.padding > 0 {
            config["history"][0]["comment"] = Value::from("x".repeat(self.padding));
        }
        let config =
            blob(folder, "application/vnd.oci.image.config.v1+json", &config.to_string().into_bytes());
        let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                              "config": config, "layers": [layer]});
        let mut manifest =
            blob(folder, "application/vnd.oci.image.manifest.v1+json", &manifest.to_string().into_bytes());
        manifest["platform"] = json!({"os": "linux", "architecture": architecture});
        manifest
    }
}

/// Writes a blob and gives its descriptor.
fn blob(folder: &Path, media_type: &str, bytes: &[u8]) -> Value {
    let digest = sha256(bytes);
    fs::write(folder.join("blobs").join(digest.replace(':', "/")), bytes).unwrap();
    json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
}

pub fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", crate::sha256(bytes))
}
