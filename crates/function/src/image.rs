//! Images: as they were written, and what that means. Made once, where an image enters.

mod range;
mod reference;
mod step;

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub use reference::{ParseError, Reference, is_sha256};
pub use step::{DEFAULT_PREFIX, ImageError, check_prefix, of_step};

/// An image as it was written, with the prefix for short names applied, and parsed. Clones share it.
///
/// Two images are equal if they mean the same, however they were written.
#[derive(Clone)]
pub struct Image(Arc<Inner>);

struct Inner {
    written: String,
    /// With the prefix, if one applies; none if that is as it was written.
    prefixed: Option<String>,
    /// Registry, repository, tag and digest spelled out; the name itself if it cannot be parsed.
    full: String,
    reference: Result<Reference, ParseError>,
}

// === impl Image ===

impl Image {
    /// An image that means what it says.
    #[must_use]
    pub fn new(written: &str) -> Self {
        Self::with_prefix(written, None)
    }

    /// An image that is below the prefix if its name has no slash.
    #[must_use]
    pub fn with_prefix(written: &str, prefix: Option<&str>) -> Self {
        let prefixed = match prefix.map(|prefix| prefixed(written, prefix)) {
            Some(Cow::Owned(name)) => Some(name),
            _ => None,
        };
        let name = prefixed.as_deref().unwrap_or(written);
        // The caller knows the name as it wrote it.
        let reference = reference::parse(name).map_err(|reason| ParseError::new(written, reason));
        let full = reference.as_ref().map_or_else(|_| name.to_owned(), ToString::to_string);
        Self(Arc::new(Inner { written: written.to_owned(), prefixed, full, reference }))
    }

    /// An image that is known to mean this reference, however it is written.
    #[must_use]
    pub fn known_as(reference: Reference, written: &str) -> Self {
        let full = reference.to_string();
        Self(Arc::new(Inner { written: written.to_owned(), prefixed: None, full, reference: Ok(reference) }))
    }

    /// As the caller wrote it.
    #[must_use]
    pub fn written(&self) -> &str {
        &self.0.written
    }

    /// With the prefix for short names.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.prefixed.as_deref().unwrap_or(&self.0.written)
    }

    /// With registry, repository and tag spelled out: the one name that metrics, the pool and the status page have for
    /// it, however callers write it.
    #[must_use]
    pub fn full_name(&self) -> &str {
        &self.0.full
    }

    /// Where the image is.
    ///
    /// # Errors
    /// If it is not an image reference.
    pub fn reference(&self) -> Result<&Reference, ParseError> {
        self.0.reference.as_ref().map_err(Clone::clone)
    }
}

impl PartialEq for Image {
    fn eq(&self, other: &Self) -> bool {
        self.0.full == other.0.full
    }
}

impl Eq for Image {}

impl Hash for Image {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.full.hash(state);
    }
}

impl PartialOrd for Image {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Image {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.full.cmp(&other.0.full)
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.written())
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0.full, f)
    }
}

/// The name below the prefix, if it has no slash.
fn prefixed<'a>(image: &'a str, prefix: &str) -> Cow<'a, str> {
    match prefix.trim_end_matches('/') {
        "" => Cow::Borrowed(image),
        _ if image.contains('/') => Cow::Borrowed(image),
        prefix => Cow::Owned(format!("{prefix}/{image}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_below_the_prefix() {
        let name = |image, prefix| Image::with_prefix(image, Some(prefix)).name().to_owned();
        assert_eq!(name("set-labels:v0.2", "ghcr.io/fns//"), "ghcr.io/fns/set-labels:v0.2");
        assert_eq!(name("nephio/fn", "ghcr.io/fns"), "nephio/fn");
        assert_eq!(name("set-labels", ""), "set-labels");
        assert_eq!(name("set-labels", "/"), "set-labels");
    }

    #[test]
    fn images_that_mean_the_same_are_equal() {
        let short = Image::with_prefix("set-labels", Some("ghcr.io/fns"));
        assert_eq!(short, Image::new("ghcr.io/fns/set-labels:latest"));
        assert_eq!(short.full_name(), "ghcr.io/fns/set-labels:latest");
        assert_eq!(short.written(), "set-labels");
        assert_ne!(short, Image::new("set-labels"));
    }

    #[test]
    fn what_cannot_be_parsed_says_so_in_the_callers_words() {
        let image = Image::with_prefix("Upper:v1", Some("ghcr.io/fns"));
        let error = image.reference().unwrap_err().to_string();
        assert!(error.starts_with("could not parse reference: Upper:v1: "), "{error}");
        assert_eq!(image.full_name(), "ghcr.io/fns/Upper:v1");
    }
}
