//! The credentials file as the content of a Kubernetes Secret.

use std::fmt;

use bytes::Bytes;

/// The content of the file with credentials: Docker's configuration, as a Kubernetes Secret of type
/// `kubernetes.io/dockerconfigjson` holds it. Nothing prints it.
#[derive(Clone, PartialEq, Eq)]
pub struct PullSecret(Bytes);

// === impl PullSecret ===

impl PullSecret {
    pub(crate) fn new(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// The file, byte for byte.
    pub fn docker_config(&self) -> &Bytes {
        &self.0
    }
}

impl fmt::Debug for PullSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PullSecret({} bytes)", self.0.len())
    }
}
