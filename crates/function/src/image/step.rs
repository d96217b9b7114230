//! From the image and the tag of a pipeline step to the image that is run, by kpt's rules.

use loggia_go::quote;
use loggia_krm::kptfile::is_tag;

use super::range::{self, Constraint};
use super::{Image, prefixed};

/// Where images without a registry are looked for.
pub const DEFAULT_PREFIX: &str = "ghcr.io/kptdev/krm-functions-catalog";

/// Why there is no image to run. The texts are kpt's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The prefix cannot begin a reference.
    #[error("invalid image prefix {}: {reason}", quote(.prefix))]
    Prefix {
        /// The prefix.
        prefix: String,
        /// What about it.
        reason: &'static str,
    },
    /// No known tag is in the range.
    #[error("no tag could be found matching the version constraint {}", quote(.0))]
    NoMatch(String),
    /// The tag could not be one.
    #[error(
        "`function.tag` {} must be a valid image tag: must start with an alphanumeric character or underscore, followed by at most 127 alphanumeric characters, underscores, periods, or dashes",
        quote(.0)
    )]
    Tag(String),
}

/// Checks a prefix and takes the slashes off its end. The empty one means none.
///
/// # Errors
/// If it has a scheme, or is not the path of a registry.
pub fn check_prefix(prefix: &str) -> Result<String, ImageError> {
    let trimmed = prefix.trim_end_matches('/');
    let fail = |reason| Err(ImageError::Prefix { prefix: prefix.to_owned(), reason });
    if trimmed.contains("://") {
        fail("must not include a scheme (e.g. https://)")
    } else if trimmed.contains(['?', '#']) {
        fail("must not contain '?' or '#'")
    } else if !trimmed.is_empty() && loggia_krm::kptfile::check_image(&format!("{trimmed}/x")).is_err() {
        fail("must be a valid registry path")
    } else {
        Ok(trimmed.to_owned())
    }
}

/// The image to run for a step: prefix applied, `tag` in place of what the image says, `latest` if neither says
/// anything. `known` gives the tags that a range of versions chooses from.
///
/// # Errors
/// If the tag could not be one, or nothing matches the range.
pub fn of_step(
    image: &str,
    tag: &str,
    prefix: &str,
    known: impl FnOnce(&str) -> Vec<String>,
) -> Result<Image, ImageError> {
    resolve(image, tag, prefix, known).map(|name| Image::new(&name))
}

fn resolve(
    image: &str,
    tag: &str,
    prefix: &str,
    known: impl FnOnce(&str) -> Vec<String>,
) -> Result<String, ImageError> {
    let image = prefixed(image, prefix);
    let name = without_tag(&image);
    if tag.is_empty() {
        return Ok(if name.len() == image.len() { format!("{image}:latest") } else { image.into_owned() });
    }
    if !range::is_version(tag)
        && let Some(constraint) = Constraint::parse(tag)
    {
        let tags = known(name);
        let best = constraint.best(tags.iter().map(String::as_str));
        return best.map(|best| format!("{name}:{best}")).ok_or_else(|| ImageError::NoMatch(tag.to_owned()));
    }
    if is_tag(tag) { Ok(format!("{name}:{tag}")) } else { Err(ImageError::Tag(tag.to_owned())) }
}

fn without_tag(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or(image);
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(image: &str, tag: &str, prefix: &str) -> Result<String, ImageError> {
        let known =
            |name: &str| if name == "x.io/a" { vec!["v1.0".to_owned(), "v1.1".to_owned()] } else { vec![] };
        super::resolve(image, tag, prefix, known)
    }

    #[test]
    fn short_names_get_the_prefix_and_latest() {
        let run = |image, tag| resolve(image, tag, DEFAULT_PREFIX).unwrap();
        assert_eq!(run("set-labels", ""), "ghcr.io/kptdev/krm-functions-catalog/set-labels:latest");
        assert_eq!(run("set-labels:v0.2", ""), "ghcr.io/kptdev/krm-functions-catalog/set-labels:v0.2");
        assert_eq!(run("localhost:5000/a", ""), "localhost:5000/a:latest");
        assert_eq!(run("x.io/a@sha256:00", ""), "x.io/a@sha256:00");
        assert_eq!(resolve("a", "", "").unwrap(), "a:latest");
    }

    #[test]
    fn a_tag_replaces_tag_and_digest() {
        assert_eq!(resolve("x.io/a:v1@sha256:00", "v2.0.0", "").unwrap(), "x.io/a:v2.0.0");
        assert_eq!(resolve("x.io/a", "nightly", "").unwrap(), "x.io/a:nightly");
        assert_eq!(resolve("x.io/a:v0", "^1", "").unwrap(), "x.io/a:v1.1");
        assert_eq!(resolve("x.io/a", "~9", ""), Err(ImageError::NoMatch("~9".to_owned())));
        assert!(matches!(resolve("x.io/a", "no good", ""), Err(ImageError::Tag(_))));
    }

    #[test]
    fn prefixes_are_checked() {
        assert_eq!(check_prefix("example.com/fns//").unwrap(), "example.com/fns");
        assert_eq!(check_prefix("").unwrap(), "");
        for (prefix, reason) in [("https://x", "scheme"), ("x?y", "'?'"), ("X Y", "registry path")] {
            assert!(check_prefix(prefix).unwrap_err().to_string().contains(reason), "{prefix}");
        }
    }
}
