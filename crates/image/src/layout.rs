//! An OCI image layout: blobs by their digests, and an index that names the image's manifest.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::layer::{self, digest};
use crate::{Config, Error, Image};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The digest of the manifest: the one that `NAME@DIGEST` means.
    pub digest: String,
    /// The bytes of all blobs, as a registry stores them.
    pub size: u64,
}

pub(crate) fn write(image: &Image, folder: &Path) -> Result<Written, Error> {
    let layer = layer::make(&image.entries)?;
    let config = text(&json!({
        "architecture": image.platform.architecture,
        "os": image.platform.os,
        "config": container(&image.config),
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id]},
        "history": [{"created_by": "loggia-image", "created": "1970-01-01T00:00:00Z"}],
    }));
    let manifest = text(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(CONFIG, &config),
        "layers": [descriptor(LAYER, &layer.compressed)],
    }));
    let mut named = descriptor(MANIFEST, &manifest);
    named["platform"] = json!({"architecture": image.platform.architecture, "os": image.platform.os});
    if let Some(tag) = &image.tag {
        named["annotations"] = json!({"org.opencontainers.image.ref.name": tag});
    }
    let index = text(&json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]}));

    let blobs = folder.join("blobs/sha256");
    if blobs.exists() {
        fs::remove_dir_all(&blobs).map_err(|source| Error::Unwritable { path: blobs.clone(), source })?;
    }
    fs::create_dir_all(&blobs).map_err(|source| Error::Unwritable { path: blobs.clone(), source })?;
    let blob = |bytes: &[u8]| file(&blobs.join(digest(bytes).trim_start_matches("sha256:")), bytes);
    blob(&layer.compressed)?;
    blob(&config)?;
    blob(&manifest)?;
    file(&folder.join("oci-layout"), &text(&json!({"imageLayoutVersion": "1.0.0"})))?;
    file(&folder.join("index.json"), &index)?;
    let size = [&layer.compressed, &config, &manifest].iter().map(|blob| blob.len() as u64).sum();
    Ok(Written { digest: digest(&manifest), size })
}

/// The part of the config that says what runs. Unset fields are left out, as other tools do.
fn container(config: &Config) -> Value {
    let Config { entrypoint, cmd, env, user, working_dir, labels } = config;
    let mut container = Map::new();
    for (key, list) in [("Entrypoint", entrypoint), ("Cmd", cmd), ("Env", env)] {
        if !list.is_empty() {
            container.insert(key.to_owned(), json!(list));
        }
    }
    for (key, value) in [("User", user), ("WorkingDir", working_dir)] {
        if let Some(value) = value {
            container.insert(key.to_owned(), json!(value));
        }
    }
    if !labels.is_empty() {
        container.insert("Labels".to_owned(), json!(labels));
    }
    Value::Object(container)
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": digest(bytes), "size": bytes.len()})
}

fn text(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::write(path, bytes).map_err(|source| Error::Unwritable { path: path.to_owned(), source })
}
