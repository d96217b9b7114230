//! Which images may run: patterns on the full name, decided before a registry is asked and before any runtime.
//!
//! A [`Pattern`] is `HOST/PATH[:TAG][@DIGEST]`, in which `*` stands for any characters, slashes included. The host is
//! matched apart from the rest, so a `*` in a path never reaches into a host. Names are compared in one spelling:
//! with the prefix for short names, `docker.io/library` spelled out, hosts in lower case and without port 443.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use loggia_go::quote;

use crate::{Call, Context, FunctionRef, Image, Knows, Reference, RunError, Running, Runtime};

/// The names that Docker Hub goes by. The first is the one in references.
const DOCKER_HUB: [&str; 4] =
    ["index.docker.io", "docker.io", "registry-1.docker.io", "registry.hub.docker.com"];

/// The longest pattern, and how many one policy may have.
const MAX_PATTERN: usize = 1024;

/// Images by name. See the module for what a pattern means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    written: String,
    host: String,
    path: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// A text that is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a pattern of images: {reason}; write for instance `ghcr.io/org/*`")]
pub struct InvalidPattern {
    text: String,
    reason: &'static str,
}

/// Which images may run. The default allows all.
#[derive(Clone, Debug, Default)]
pub struct ImagePolicy {
    /// If there are any, an image must match one of them.
    pub allowed: Vec<Pattern>,
    /// An image must match none of them.
    pub denied: Vec<Pattern>,
    /// An image must be named by its digest.
    pub require_digest: bool,
}

/// Which images one caller may run.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The name of the rule that says so.
    pub rule: Arc<str>,
    /// An image must match one of them; none for every image.
    pub allowed: Option<Vec<Pattern>>,
    /// An image must match none of them.
    pub denied: Vec<Pattern>,
}

/// A runtime that runs only what a policy and the grant of the caller allow. Commands of this machine are not its
/// concern.
#[derive(Clone, Debug)]
pub struct Allowed<R> {
    pub runtime: R,
    pub policy: Arc<ImagePolicy>,
}

// === impl Pattern ===

impl Pattern {
    /// The pattern as it was written.
    #[must_use]
    pub fn written(&self) -> &str {
        &self.written
    }

    /// The host, if the pattern names one in full.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        (!self.host.contains('*')).then_some(&self.host)
    }

    /// Whether the image is one that the pattern allows. A pattern with a tag does not allow an image with a digest,
    /// because then the digest decides what runs.
    #[must_use]
    pub fn allows(&self, reference: &Reference) -> bool {
        let tag = match &self.tag {
            None => true,
            Some(tag) => {
                reference.digest().is_none() && reference.tag().is_some_and(|found| glob(tag, found))
            }
        };
        tag && glob(&self.host, &one_spelling(reference.registry())) && self.names(reference)
    }

    /// Whether the image is one that the pattern denies: also if the tag that it matches comes with a digest, and on
    /// every port of a host that the pattern names without one.
    #[must_use]
    pub fn denies(&self, reference: &Reference) -> bool {
        let tag = self.tag.as_deref();
        let host = one_spelling(reference.registry());
        let on_host = glob(&self.host, &host) || glob(&self.host, &one_spelling(without_port(&host)));
        on_host
            && tag.is_none_or(|tag| reference.tag().is_some_and(|found| glob(tag, found)))
            && self.names(reference)
    }

    /// Whether repository and digest match.
    fn names(&self, reference: &Reference) -> bool {
        let digest = self.digest.as_deref();
        glob(&self.path, reference.repository())
            && digest.is_none_or(|digest| reference.digest().is_some_and(|found| glob(digest, found)))
    }
}

impl FromStr for Pattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        let invalid = |reason| {
            let text: String = text.chars().take(200).collect();
            Err(InvalidPattern { text: text.escape_debug().to_string(), reason })
        };
        if text.is_empty() {
            return invalid("it is empty");
        }
        if text.len() > MAX_PATTERN {
            return invalid("it is too long");
        }
        if !text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:/@*[]".contains(&b)) {
            return invalid("it has characters that no image has");
        }
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest.to_owned())),
            None => (text, None),
        };
        let last = name.rfind('/').map_or(0, |slash| slash + 1);
        let alone = !name.contains('/');
        let is_host = |first: &str| first == "localhost" || first.contains(['.', ':', '*', '[']);
        // A lone word is a host if it looks like one: `ghcr.io` and `localhost:5000` mean all that is there.
        let (name, tag) = match name[last..].rsplit_once(':') {
            Some((element, tag)) if !alone || !is_host(element) && tag.parse::<u16>().is_err() => {
                (&name[..last + element.len()], Some(tag.to_owned()))
            }
            _ => (name, None),
        };
        let (host, path) = match name.split_once('/') {
            Some((host, path)) if is_host(host) => (host, path.to_owned()),
            None if is_host(name) => (name, "*".to_owned()),
            Some(_) => (DOCKER_HUB[0], name.to_owned()),
            None => (DOCKER_HUB[0], format!("library/{name}")),
        };
        let host = one_spelling(&host.to_ascii_lowercase());
        let path = match path {
            official if host == DOCKER_HUB[0] && !official.contains(['/', '*']) => {
                format!("library/{official}")
            }
            path => path,
        };
        if host.is_empty() || path.split('/').any(|element| matches!(element, "" | "." | "..")) {
            return invalid("it has an empty element, `.` or `..`");
        }
        if path.bytes().any(|b| b.is_ascii_uppercase()) {
            return invalid("a repository has no capital letters");
        }
        if tag.as_deref() == Some("") || digest.as_deref() == Some("") {
            return invalid("its tag or digest is empty");
        }
        Ok(Self { written: text.to_owned(), host, path, tag, digest })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// A host in the spelling that is compared.
fn one_spelling(host: &str) -> String {
    let host = host.strip_suffix(":443").unwrap_or(host);
    if DOCKER_HUB.contains(&host) { DOCKER_HUB[0].to_owned() } else { host.to_owned() }
}

/// A host without its port.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// Whether a text matches a pattern with `*`. It takes at most the product of both lengths.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(byte) if *byte == text[from] => (at, from) = (at + 1, from + 1),
            _ => match star {
                // The last star takes one character more.
                Some((place, taken)) => {
                    star = Some((place, taken + 1));
                    (at, from) = (place + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Reads patterns that are separated by commas.
///
/// # Errors
/// The first text that is not a pattern.
pub fn patterns<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Vec<Pattern>, InvalidPattern> {
    let texts = texts.into_iter().flat_map(|text| text.split(',')).map(str::trim);
    texts.filter(|text| !text.is_empty()).map(str::parse).collect()
}

// === impl ImagePolicy ===

impl ImagePolicy {
    /// Whether it says nothing about any image.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { allowed, denied, require_digest } = self;
        allowed.is_empty() && denied.is_empty() && !require_digest
    }

    /// Whether an image may run.
    ///
    /// # Errors
    /// [`RunError::Refused`] with the rule, or that its name cannot be read.
    pub fn check(&self, image: &Image) -> Result<(), RunError> {
        if self.is_empty() {
            return Ok(());
        }
        let reference = image.reference().map_err(RunError::InvalidImage)?;
        let refused = |rule: String, reason: String| Err(RunError::Refused { rule, reason });
        if let Some(pattern) = self.denied.iter().find(|pattern| pattern.denies(reference)) {
            return refused("--denied-images".to_owned(), format!("`{reference}` matches `{pattern}`"));
        }
        if !self.allowed.is_empty() && !self.allowed.iter().any(|pattern| pattern.allows(reference)) {
            return refused(
                "--allowed-images".to_owned(),
                format!("`{reference}` matches none of its patterns"),
            );
        }
        if self.require_digest && reference.digest().is_none() {
            let reason = format!("`{reference}` has no digest; write `NAME@sha256:…`");
            return refused("--require-digest".to_owned(), reason);
        }
        Ok(())
    }
}

// === impl Grant ===

impl Grant {
    /// Whether the caller may run an image.
    ///
    /// # Errors
    /// [`RunError::Refused`] with the rule, or that its name cannot be read.
    pub fn check(&self, image: &Image) -> Result<(), RunError> {
        if self.allowed.is_none() && self.denied.is_empty() {
            return Ok(());
        }
        let reference = image.reference().map_err(RunError::InvalidImage)?;
        let refused = |reason| {
            let rule = format!("rule {} of the access config", quote(&self.rule));
            Err(RunError::Refused { rule, reason })
        };
        if let Some(pattern) = self.denied.iter().find(|pattern| pattern.denies(reference)) {
            return refused(format!("`{reference}` matches `{pattern}` of `deniedImages`"));
        }
        match &self.allowed {
            Some(allowed) if !allowed.iter().any(|pattern| pattern.allows(reference)) => {
                refused(format!("`{reference}` matches none of its `images`"))
            }
            _ => Ok(()),
        }
    }
}

// === impl Allowed ===

impl<R> Allowed<R> {
    fn check(&self, function: &FunctionRef) -> Result<(), RunError> {
        let Some(image) = function.image() else { return Ok(()) };
        self.policy.check(image)?;
        match Context::current().as_ref().and_then(Context::grant) {
            Some(grant) => grant.check(image),
            None => Ok(()),
        }
    }
}

impl<R: Runtime> Runtime for Allowed<R> {
    fn name(&self) -> &'static str {
        self.runtime.name()
    }

    fn knows(&self, function: &FunctionRef) -> Knows {
        match self.check(function) {
            Ok(()) => self.runtime.knows(function),
            Err(error) => Knows::Refused(error),
        }
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        match self.check(&call.function) {
            Ok(()) => self.runtime.run(call),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn advice(&self, function: &FunctionRef) -> Vec<String> {
        self.runtime.advice(function)
    }

    fn tags(&self, image: &str) -> Vec<String> {
        self.runtime.tags(image)
    }
}

#[cfg(test)]
mod tests;
