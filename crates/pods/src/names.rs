//! The names of instances and their objects.
//!
//! An instance's ID is `NAME-TAG-N-HASH8`, as Porch names it wherever that gives a name that Kubernetes
//! takes. The Service and the pod's label are the ID; the pod adds five random characters.

use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hasher as _};

use loggia_registry::Reference;
use ring::digest;

/// The label of a function pod, whose value is its ID.
pub(crate) const IMAGE_LABEL: &str = "fn.kpt.dev/image";
/// The annotation that names the template of a pod: `inline-v1`, or the resourceVersion of an object.
pub(crate) const TEMPLATE_VERSION: &str = "fn.kpt.dev/template-version";
/// The annotation with the time from which an unused pod may be removed, in seconds since 1970.
pub(crate) const RECLAIM_AFTER: &str = "fn.kpt.dev/reclaim-after";
/// The function that an instance runs, in full.
pub(crate) const IMAGE: &str = "loggia.dev/image";
/// The image as it was requested, prefix included. The pod's container has it by its digest.
pub(crate) const REQUESTED: &str = "loggia.dev/requested-image";
/// The digest that the image had when the pod was made.
pub(crate) const DIGEST: &str = "loggia.dev/digest";
/// The replica that made the instance.
pub(crate) const OWNER: &str = "loggia.dev/owner";
/// A hash of all that shapes a pod besides its image.
pub(crate) const TEMPLATE_HASH: &str = "loggia.dev/template-hash";

/// The name of the container that runs the function.
pub(crate) const CONTAINER: &str = "function";
/// Where the wrapper server listens.
pub(crate) const PORT: u16 = 9446;

/// The longest name of a Service, and the longest value of a label.
const LONGEST: usize = 63;
/// What a pod's name adds.
const SUFFIX: usize = 6;
/// What `-N-HASH8` takes with a number of three digits.
const TAIL: usize = 13;

/// The ID of the `number`th instance of an image with this digest.
pub(crate) fn id(reference: &Reference, digest: &str, number: usize) -> String {
    let hash = hex_of(digest).get(..8).unwrap_or("00000000");
    let name = reference.repository().rsplit('/').next().unwrap_or_default().replace('_', "-");
    let tag = match reference.tag() {
        Some(tag) => tag.replace('.', ""),
        None => hex_of(reference.digest().unwrap_or_default()).chars().take(12).collect(),
    };
    let plain = format!("{name}-{tag}-{number}-{hash}");
    if is_label(&plain) {
        return plain;
    }
    let mut stem = sanitized(&format!("{name}-{tag}"));
    if !stem.starts_with(|c: char| c.is_ascii_lowercase()) {
        stem.insert_str(0, "fn-");
    }
    if stem.len() > LONGEST - TAIL {
        let mark = short_hash(&reference.to_string());
        stem.truncate(LONGEST - TAIL - mark.len() - 1);
        stem = format!("{}-{mark}", stem.trim_end_matches('-'));
    }
    format!("{stem}-{number}-{hash}")
}

/// A name for a pod of the instance, with five characters that no other pod has.
pub(crate) fn pod_name(id: &str, random: u64) -> String {
    // The characters that Kubernetes itself uses for generated names.
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut stem = id;
    if stem.len() > LONGEST - SUFFIX {
        stem = stem[..LONGEST - SUFFIX].trim_end_matches('-');
    }
    let mut name = format!("{stem}-");
    let mut rest = random;
    for _ in 0..5 {
        name.push(char::from(LETTERS[(rest % 27) as usize]));
        rest /= 27;
    }
    name
}

/// A number that cannot be foreseen: each hasher of the standard library has random keys.
pub(crate) fn random_id() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The name under which a Service is found, and which the certificate of its pod must be for.
pub(crate) fn host(id: &str, namespace: &str, cluster_domain: &str) -> String {
    format!("{id}.{namespace}.svc.{cluster_domain}")
}

/// The first hexadecimal digits of a text's SHA-256.
pub(crate) fn short_hash(text: &str) -> String {
    let mut hash = String::new();
    for byte in digest::digest(&digest::SHA256, text.as_bytes()).as_ref().iter().take(4) {
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

/// The name of an image without its tag and digest.
pub(crate) fn without_tag(image: &str) -> &str {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    // A colon before the last slash belongs to the registry's port.
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    name[last..].find(':').map_or(name, |colon| &name[..last + colon])
}

fn hex_of(digest: &str) -> &str {
    digest.split_once(':').map_or(digest, |(_, hex)| hex)
}

/// What Kubernetes takes as the name of a Service.
fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    text.len() <= LONGEST
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
        && text.chars().all(inner)
}

fn sanitized(text: &str) -> String {
    let keep = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_lowercase() || c.is_ascii_digit() => c,
        _ => '-',
    };
    text.chars().map(keep).collect::<String>().trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "sha256:1234567890abcdef1234567890abcdef1234567890abcdef1234567890abcdef";

    fn named(image: &str, number: usize) -> String {
        let id = id(&image.parse().unwrap(), HASH, number);
        assert!(is_label(&id), "{id}");
        let pod = pod_name(&id, 123_456_789);
        assert!(is_label(&pod) && pod.len() <= 63, "{pod}");
        id
    }

    #[test]
    fn ordinary_images_have_the_names_that_porch_gives_them() {
        assert_eq!(named("ghcr.io/kptdev/catalog/set-labels:v0.4.1", 1), "set-labels-v041-1-12345678");
        assert_eq!(named("x.io/my_function", 1), "my-function-latest-1-12345678");
        assert_eq!(named("set-labels:v0.4.1", 12), "set-labels-v041-12-12345678");
    }

    #[test]
    fn what_would_be_an_invalid_name_is_made_valid() {
        let digest = "sha256:aaaabbbbccccdddd000000000000000000000000000000000000000000000000";
        assert_eq!(named(&format!("x.io/f@{digest}"), 1), "f-aaaabbbbcccc-1-12345678");
        assert_eq!(named(&format!("x.io/f:v1@{digest}"), 1), "f-v1-1-12345678");
        assert_eq!(named("x.io/f:RC_1", 1), "f-rc-1-1-12345678");
        assert_eq!(named("x.io/my.function:v1", 2), "my-function-v1-2-12345678");
        assert_eq!(named("x.io/2fa:v1", 1), "fn-2fa-v1-1-12345678");
        assert_eq!(named("x.io/f:v1-", 1), "f-v1--1-12345678");
    }

    #[test]
    fn long_names_are_cut_and_stay_different() {
        let long = "r".repeat(120);
        let (one, other) = (named(&format!("x.io/{long}:v1"), 1), named(&format!("x.io/{long}:v2"), 1));
        assert_ne!(one, other);
        assert_eq!(one, named(&format!("x.io/{long}:v1"), 1), "names are stable");
        assert!(named(&format!("x.io/f:{}", "T".repeat(128)), 999).len() <= 63);
        assert!(named(&format!("x.io/{long}:v1"), 1).ends_with("-1-12345678"));
    }

    #[test]
    fn a_name_without_its_tag_keeps_the_port_of_its_registry() {
        for image in
            ["r.io:5000/a/f:v1", "r.io:5000/a/f", "r.io:5000/a/f:v1@sha256:12", "r.io:5000/a/f@sha256:12"]
        {
            assert_eq!(without_tag(image), "r.io:5000/a/f", "{image}");
        }
        assert_eq!((without_tag("set-labels:v1"), without_tag("set-labels")), ("set-labels", "set-labels"));
    }

    #[test]
    fn pods_of_one_instance_differ_by_random_characters() {
        assert_ne!(pod_name("f-v1-1-12345678", 1), pod_name("f-v1-1-12345678", 2));
        assert_eq!(pod_name("f-v1-1-12345678", 0), "f-v1-1-12345678-bbbbb");
    }
}
