//! Image references, by the rules of Docker and of the registry library that Porch uses.

use std::fmt;
use std::str::FromStr;

const DOCKER_HUB: &str = "index.docker.io";
const MAX_REPOSITORY: usize = 255;
const MAX_TAG: usize = 128;

/// The name of an image: a registry, a repository, and a tag or a digest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// Why a text is not an image reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not parse reference: {text}: {reason}")]
pub struct ParseError {
    text: String,
    reason: String,
}

// === impl Reference ===

impl Reference {
    /// The host, and port if there is one, that serves the image.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The path of the image on its registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag as written, or `latest` without tag and digest.
    pub fn tag(&self) -> Option<&str> {
        match (&self.tag, &self.digest) {
            (Some(tag), _) => Some(tag),
            (None, None) => Some("latest"),
            (None, Some(_)) => None,
        }
    }

    /// The digest, which takes precedence over the tag.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }
}

impl FromStr for Reference {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse(text).map_err(|reason| ParseError::new(text, reason))
    }
}

// === impl ParseError ===

impl ParseError {
    pub(super) fn new(text: &str, reason: String) -> Self {
        Self { text: text.to_owned(), reason }
    }
}

pub(super) fn parse(text: &str) -> Result<Reference, String> {
    if text.is_empty() {
        return Err("it is empty; write the image of a function".to_owned());
    }
    let (name, digest) = match text.split_once('@') {
        Some((name, digest)) => (name, Some(check_digest(digest)?)),
        None => (text, None),
    };
    // A colon in the last element begins a tag; one before it belongs to the registry's port.
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match name[last..].split_once(':') {
        Some((element, tag)) => (&name[..last + element.len()], Some(check_tag(tag)?)),
        None => (name, None),
    };
    let (registry, repository) = match name.split_once('/') {
        Some((host, path)) if host == "localhost" || host.contains(['.', ':']) => (host, path),
        _ => (DOCKER_HUB, name),
    };
    let registry = if registry == "docker.io" { DOCKER_HUB } else { check_registry(registry)? };
    let repository = match repository {
        official if registry == DOCKER_HUB && !official.contains('/') => {
            check_repository(official)?;
            format!("library/{official}")
        }
        path => check_repository(path)?.to_owned(),
    };
    Ok(Reference { registry: registry.to_owned(), repository, tag, digest })
}

fn check_registry(host: &str) -> Result<&str, String> {
    let (name, port) = host.rsplit_once(':').unwrap_or((host, "0"));
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let named = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:".contains(&b));
    if named && port.parse::<u16>().is_ok() { Ok(host) } else { Err(format!("`{host}` is not a registry")) }
}

fn check_repository(path: &str) -> Result<&str, String> {
    if path.is_empty() || path.len() > MAX_REPOSITORY {
        return Err(format!(
            "a repository has 1 to {MAX_REPOSITORY} characters, `{path}` has {}",
            path.len()
        ));
    }
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-./".contains(c);
    match path.chars().find(|&c| !allowed(c)) {
        Some(wrong) => Err(format!(
            "the repository `{path}` has a {wrong:?}; it may have lower-case letters, digits and `_-./`"
        )),
        None if path.split('/').any(str::is_empty) => {
            Err(format!("the repository `{path}` has an empty element"))
        }
        None => Ok(path),
    }
}

fn check_tag(tag: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    match tag.len() {
        1..=MAX_TAG if tag.chars().all(allowed) => Ok(tag.to_owned()),
        _ => Err(format!("a tag has 1 to {MAX_TAG} letters, digits and `_-.`, and not `{tag}`")),
    }
}

fn check_digest(digest: &str) -> Result<String, String> {
    if !is_sha256(digest) {
        return Err(format!("a digest is `sha256:` and 64 hexadecimal digits, and not `{digest}`"));
    }
    Ok(digest.to_owned())
}

/// Whether a text is `sha256:` and 64 hexadecimal digits in lower case.
#[must_use]
pub fn is_sha256(digest: &str) -> bool {
    let hex = digest.strip_prefix("sha256:").unwrap_or_default();
    hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = self.tag() {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn read(text: &str) -> String {
        text.parse::<Reference>().unwrap_or_else(|error| panic!("{error}")).to_string()
    }

    #[test]
    fn what_is_left_out_is_implied() {
        assert_eq!(read("set-labels"), "index.docker.io/library/set-labels:latest");
        assert_eq!(read("nephio/fn:v1"), "index.docker.io/nephio/fn:v1");
        assert_eq!(read("docker.io/nephio/fn"), "index.docker.io/nephio/fn:latest");
        assert_eq!(read("ghcr.io/kptdev/x/set-labels:v0.2"), "ghcr.io/kptdev/x/set-labels:v0.2");
        assert_eq!(read("localhost/fn"), "localhost/fn:latest");
        assert_eq!(read("localhost:5000/fn:a"), "localhost:5000/fn:a");
        assert_eq!(read("registry:5000/fn"), "registry:5000/fn:latest");
    }

    #[test]
    fn digests_are_kept_with_or_without_a_tag() {
        assert_eq!(read(&format!("gcr.io/x@{DIGEST}")), format!("gcr.io/x@{DIGEST}"));
        assert_eq!(read(&format!("gcr.io/x:v1@{DIGEST}")), format!("gcr.io/x:v1@{DIGEST}"));
    }

    #[test]
    fn invalid_references_are_refused_with_the_reason() {
        for (text, reason) in [
            ("", "it is empty"),
            ("Upper:v1", "has a 'U'"),
            ("a b", "has a ' '"),
            ("x:", "a tag has"),
            ("x:v 1", "a tag has"),
            ("x@sha256:12", "a digest is"),
            ("gcr.io/", "a repository has 1 to 255"),
            ("gcr.io//x", "has an empty element"),
            ("http://gcr.io/x", "is not a registry"),
            ("gcr.io:port/x", "is not a registry"),
        ] {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("could not parse reference: {text}: ")), "{error}");
            assert!(error.contains(reason), "{error}");
        }
        assert!(format!("x:{}", "t".repeat(129)).parse::<Reference>().is_err());
        assert!("r".repeat(256).parse::<Reference>().is_err());
    }
}
