//! Image references, by the rules of Docker and of the registry library that Porch uses.

use std::borrow::Cow;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

const DOCKER_HUB: &str = "index.docker.io";
const MAX_REPOSITORY: usize = 255;
const MAX_TAG: usize = 128;
/// What stands for a port that is not there.
const NO_PORT: &str = "1";
/// The longest name of a host, by DNS.
const MAX_HOST: usize = 253;
/// More than a host, a repository, a tag and a digest can have together.
const MAX_TEXT: usize = 1024;
/// How much of a wrong reference its error repeats.
const MAX_SHOWN: usize = 256;

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
        Self { text: shown(text).into_owned(), reason }
    }
}

/// Reads a reference by the grammar of the distribution project (`reference/regexp.go`), which registries and nodes
/// follow. Hosts are compared without case, so they are kept in lower case.
///
/// # Errors
/// Why the text is not a reference.
pub(super) fn parse(text: &str) -> Result<Reference, String> {
    if text.is_empty() {
        return Err("it is empty; write the image of a function".to_owned());
    }
    if text.len() > MAX_TEXT {
        return Err(format!("it has {} bytes, and a reference has at most {MAX_TEXT}", text.len()));
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
        Some((host, path)) if host == "localhost" || host.contains(['.', ':']) => {
            (check_registry(host)?, path)
        }
        _ => (DOCKER_HUB.to_owned(), name),
    };
    let registry = if registry == "docker.io" { DOCKER_HUB.to_owned() } else { registry };
    check_repository(repository)?;
    let repository = match repository {
        official if registry == DOCKER_HUB && !official.contains('/') => format!("library/{official}"),
        path => path.to_owned(),
    };
    Ok(Reference { registry, repository, tag, digest })
}

/// The host in lower case.
fn check_registry(host: &str) -> Result<String, String> {
    let invalid = || Err(format!("`{}` is not a registry", shown(host)));
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            if address.parse::<Ipv6Addr>().is_err() {
                return invalid();
            }
            (address, rest.strip_prefix(':').or_else(|| rest.is_empty().then_some(NO_PORT)))
        }
        None => {
            let (name, port) = host.split_once(':').unwrap_or((host, NO_PORT));
            if !is_host_name(name) {
                return invalid();
            }
            (name, Some(port))
        }
    };
    // A number has one spelling: `:0443` would be another name for `:443`.
    let digits = |port: &str| {
        (1..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit()) && !port.starts_with('0')
    };
    match port.filter(|port| digits(port)).map(str::parse::<u16>) {
        Some(Ok(_)) if name.len() <= MAX_HOST => Ok(host.to_ascii_lowercase()),
        _ => invalid(),
    }
}

/// Whether a text is a host's name or an IPv4 address. URLs read `127.1` and `0x7f.0.0.1` as addresses, too, so what
/// ends in a number must be an address in the usual form.
fn is_host_name(name: &str) -> bool {
    let label = |label: &str| {
        let inner = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        (1..=63).contains(&label.len()) && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let number = last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x");
    name.split('.').all(label) && (!number || name.parse::<Ipv4Addr>().is_ok())
}

fn check_repository(path: &str) -> Result<(), String> {
    if path.is_empty() || path.len() > MAX_REPOSITORY {
        return Err(format!(
            "a repository has 1 to {MAX_REPOSITORY} characters, `{}` has {}",
            shown(path),
            path.len()
        ));
    }
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-./".contains(c);
    if let Some(wrong) = path.chars().find(|&c| !allowed(c)) {
        return Err(format!(
            "the repository `{}` has a {wrong:?}; it may have lower-case letters, digits and `_-./`",
            shown(path)
        ));
    }
    match path.split('/').find(|element| !is_element(element)) {
        None => Ok(()),
        Some("") => Err(format!("the repository `{path}` has an empty element")),
        Some(element) => Err(format!(
            "the repository `{path}` has the element `{element}`; an element begins and ends with a letter or digit, \
             with `.`, `_`, `__` or dashes between"
        )),
    }
}

/// Whether an element of a path is letters and digits, separated by `.`, `_`, `__` or any number of dashes.
fn is_element(element: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let separator = |text: &str| matches!(text, "" | "." | "_" | "__") || text.bytes().all(|b| b == b'-');
    element.starts_with(plain) && element.ends_with(plain) && element.split(plain).all(separator)
}

fn check_tag(tag: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    match tag.len() {
        1..=MAX_TAG if tag.chars().all(allowed) && !tag.starts_with(['.', '-']) => Ok(tag.to_owned()),
        _ => Err(format!(
            "a tag has 1 to {MAX_TAG} letters, digits and `_-.`, the first one no dash or dot, and not `{}`",
            shown(tag)
        )),
    }
}

fn check_digest(digest: &str) -> Result<String, String> {
    if !is_sha256(digest) {
        return Err(format!("a digest is `sha256:` and 64 hexadecimal digits, and not `{}`", shown(digest)));
    }
    Ok(digest.to_owned())
}

/// A text for messages: not longer than [`MAX_SHOWN`] characters.
fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
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
    fn a_host_has_one_spelling() {
        assert_eq!(read("GHCR.IO/x"), "ghcr.io/x:latest");
        assert_eq!(read("Docker.IO/x"), "index.docker.io/library/x:latest");
        assert_eq!(read("[FE80::1]:5000/x"), "[fe80::1]:5000/x:latest");
        assert_eq!(read("r.io/a--b__c.d_e/f"), "r.io/a--b__c.d_e/f:latest");
    }

    #[test]
    fn a_long_text_is_repeated_in_part() {
        for text in ["A".repeat(9_000_000), format!("x:{}", "é".repeat(400)), "x/".repeat(400)] {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            assert!(error.len() < 2000, "{} bytes", error.len());
        }
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
            ("gcr.io:+80/x", "is not a registry"),
            ("gcr.io:0443/x", "is not a registry"),
            ("gcr.io:0/x", "is not a registry"),
            ("[::1]:0443/x", "is not a registry"),
            ("127.1/x", "is not a registry"),
            ("0x7f.0.0.1/x", "is not a registry"),
            ("127.0.0.010/x", "is not a registry"),
            ("10.0.0.5.:80/x", "is not a registry"),
            ("a..b/x", "is not a registry"),
            ("[::1/x", "is not a registry"),
            ("[fe80::1%25eth0]:80/x", "is not a registry"),
            ("::1:80/x", "is not a registry"),
            ("10.0.0.5:8080/../../internal/admin/shutdown:..", "a tag has"),
            ("10.0.0.5:8080/../../internal/admin/shutdown", "has the element `..`"),
            ("r.io/./x", "has the element `.`"),
            ("r.io/x/..", "has the element `..`"),
            ("r.io/a..b", "has the element `a..b`"),
            ("r.io/_a", "has the element `_a`"),
            ("r.io/a-", "has the element `a-`"),
            ("r.io/a___b", "has the element `a___b`"),
            ("r.io/x:.", "a tag has"),
            ("r.io/x:-a", "a tag has"),
        ] {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("could not parse reference: {text}: ")), "{error}");
            assert!(error.contains(reason), "{error}");
        }
        assert!(format!("x:{}", "t".repeat(129)).parse::<Reference>().is_err());
        assert!("r".repeat(256).parse::<Reference>().is_err());
    }
}
