//! What is to be found out, and what came of it.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use reqwest::{Method, Response};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::credentials::Credential;
use crate::docker_config::Proof;
use crate::error::Step;
use crate::{Error, Kind, Reference};

/// All that is done about one image at one time.
#[derive(Debug)]
pub(crate) struct Errand<'a> {
    pub(crate) image: &'a str,
    pub(crate) reference: &'a Reference,
    pub(crate) deadline: Instant,
    step: Mutex<Step>,
    pub(crate) credential: OnceCell<Option<Credential>>,
}

/// What is asked of a registry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) method: &'a Method,
    /// Behind `/v2/REPOSITORY/`.
    pub(crate) path: &'a str,
    pub(crate) accept: &'static str,
    /// The most bytes of the answer that are taken.
    pub(crate) limit: usize,
}

/// What it answers.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) body: Bytes,
    pub(crate) content_type: String,
    /// The digest that the registry says the answer has.
    pub(crate) digest: Option<String>,
}

// === impl Errand ===

impl<'a> Errand<'a> {
    pub(crate) fn new(image: &'a str, reference: &'a Reference, deadline: Instant) -> Self {
        let step = Mutex::new(Step::Manifest);
        Self { image, reference, deadline, step, credential: OnceCell::new() }
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

    /// What proves who asks, if that was looked for and found.
    pub(crate) fn proof(&self) -> Option<&Proof> {
        self.credential.get()?.as_ref().map(|credential| &credential.proof)
    }

    /// Where the credential came from, as it may be shown.
    pub(crate) fn origin(&self) -> Option<&str> {
        self.credential.get()?.as_ref().map(|credential| credential.origin.as_str())
    }
}

// === impl Answer ===

impl Answer {
    pub(crate) fn heading(response: &Response) -> Self {
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        Self {
            body: Bytes::new(),
            content_type: header("content-type").unwrap_or_default().to_owned(),
            digest: header("docker-content-digest").map(str::to_owned),
        }
    }
}
