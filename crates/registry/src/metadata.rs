//! What is known of one image.

use std::fmt::Display;

use serde::{Serialize, Serializer};

use crate::{Platform, Reference};

/// What a registry says about an image, for one platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The image as it was requested.
    #[serde(rename = "image", serialize_with = "as_text")]
    pub reference: Reference,
    /// The digest of the image's manifest: `sha256:` and 64 hexadecimal digits, checked against its bytes.
    pub digest: String,
    /// The digest of the index that lists the manifest, if the reference names an index.
    pub index_digest: Option<String>,
    /// The digest by which Porch names the pods of this image: that of the linux/amd64 manifest where there
    /// is one, else `digest`.
    pub porch_digest: String,
    /// What the image was built for.
    #[serde(serialize_with = "as_text")]
    pub platform: Platform,
    /// The command line, never empty: the entrypoint followed by the command, as container runtimes join
    /// them.
    pub entrypoint: Vec<String>,
    /// The image's variables, each `NAME=value`.
    pub env: Vec<String>,
    /// The folder the command starts in; empty for `/`.
    pub working_dir: String,
    /// The user it runs as, `user[:group]`; empty for root.
    pub user: String,
}

// === impl Metadata ===

impl Metadata {
    /// The digest that the name resolves to: that of the index if it names one, else of the image. It is what
    /// signatures are for.
    pub fn resolved(&self) -> &str {
        self.index_digest.as_deref().unwrap_or(&self.digest)
    }

    /// Whether a digest, for instance of the `imageID` that a node reports, is one of this image.
    pub fn is(&self, digest: &str) -> bool {
        self.digest == digest || self.index_digest.as_deref() == Some(digest)
    }
}

fn as_text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
