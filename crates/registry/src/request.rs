//! What one fetch sends to a registry and gets back.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use reqwest::{Method, Response};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::credentials::Credential;
use crate::docker_config::Proof;
use crate::error::Step;
use crate::{Error, Kind, Reference};
use loggia_function::image::is_sha256;

/// The context of all requests about one image: its deadline, the step for error messages, the credential.
#[derive(Debug)]
pub(crate) struct Fetch<'a> {
    pub(crate) image: &'a str,
    pub(crate) reference: &'a Reference,
    pub(crate) deadline: Instant,
    step: Mutex<Step>,
    /// Searched for when the first request needs it, and then used by all.
    pub(crate) credential: OnceCell<Option<Credential>>,
    /// Whether a file with credentials has an entry for the registry.
    pub(crate) named: OnceCell<bool>,
}

/// A request to a registry's API.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegistryRequest<'a> {
    pub(crate) method: &'a Method,
    /// The part of the URL after `/v2/REPOSITORY/`.
    pub(crate) path: &'a str,
    pub(crate) accept: &'static str,
    /// How many bytes the response may have.
    pub(crate) limit: usize,
}

/// What the callers of [`Client::request`](crate::client::Client::request) need of a response.
#[derive(Debug)]
pub(crate) struct RegistryResponse {
    pub(crate) body: Bytes,
    pub(crate) content_type: String,
    /// The digest in the header, if it is one; it is not compared with the body here.
    pub(crate) digest: Option<String>,
}

// === impl Fetch ===

impl<'a> Fetch<'a> {
    pub(crate) fn new(image: &'a str, reference: &'a Reference, deadline: Instant) -> Self {
        let step = Mutex::new(Step::Manifest);
        Self { image, reference, deadline, step, credential: OnceCell::new(), named: OnceCell::new() }
    }

    pub(crate) fn at(&self, step: Step) {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = step;
    }

    pub(crate) fn step(&self) -> Step {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn error(&self, kind: Kind, observed: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::new(kind, self.image, Some((self.reference.registry(), self.step())), observed, advice)
    }

    /// The proof of the credential, if one was searched for and found.
    pub(crate) fn proof(&self) -> Option<&Proof> {
        self.credential.get()?.as_ref().map(|credential| &credential.proof)
    }

    /// Where the credential came from, for error messages.
    pub(crate) fn origin(&self) -> Option<&str> {
        self.credential.get()?.as_ref().map(|credential| credential.origin.as_str())
    }
}

// === impl RegistryResponse ===

impl RegistryResponse {
    /// The headers of a response; its body is still to be read.
    pub(crate) fn head(response: &Response) -> Self {
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        Self {
            body: Bytes::new(),
            content_type: header("content-type").unwrap_or_default().to_owned(),
            digest: header("docker-content-digest").filter(|digest| is_sha256(digest)).map(str::to_owned),
        }
    }
}
