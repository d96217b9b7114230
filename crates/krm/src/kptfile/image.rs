//! The grammar of image references, `[HOST[:PORT]/]NAME[:TAG][@DIGEST]`, as far as saying yes or no.

/// Checks a reference; the error is in the words of the library that kpt uses.
pub(super) fn check(reference: &str) -> Result<(), &'static str> {
    match split(reference) {
        Some(parts) => parts.check_size(),
        None if reference.is_empty() => Err("repository name must have at least one component"),
        None if split(&reference.to_lowercase()).is_some() => Err("repository name must be lowercase"),
        None => Err("invalid reference format"),
    }
}

struct Parts<'a> {
    path: &'a str,
    digest: Option<(&'a str, &'a str)>,
}

/// The parts of a reference that follows the grammar.
fn split(reference: &str) -> Option<Parts<'_>> {
    let (rest, digest) = match reference.split_once('@') {
        Some((rest, digest)) => (rest, Some(split_digest(digest)?)),
        None => (reference, None),
    };
    let name = match rest.rsplit_once(':') {
        // A colon before a slash is that of a port.
        Some((_, tag)) if tag.contains('/') => rest,
        Some((name, tag)) if is_tag(tag) => name,
        Some(_) => return None,
        None => rest,
    };
    let path = match name.split_once('/') {
        Some((host, path)) if is_host(host) && is_path(path) => path,
        _ if is_path(name) => name,
        _ => return None,
    };
    Some(Parts { path, digest })
}

impl Parts<'_> {
    fn check_size(&self) -> Result<(), &'static str> {
        if self.path.len() > 255 {
            return Err("repository name must not be more than 255 characters");
        }
        let Some((algorithm, hex)) = self.digest else { return Ok(()) };
        let length = match algorithm {
            "sha256" => 64,
            "sha384" => 96,
            "sha512" => 128,
            _ => return Err("unsupported digest algorithm"),
        };
        if hex.len() != length {
            return Err("invalid checksum digest length");
        }
        let lower = hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if lower { Ok(()) } else { Err("invalid checksum digest format") }
    }
}

/// Whether this could be the tag of an image.
#[must_use]
pub fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

fn split_digest(digest: &str) -> Option<(&str, &str)> {
    let (algorithm, hex) = digest.split_once(':')?;
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let valid = algorithm.split(['-', '_', '+', '.']).all(is_part)
        && hex.len() >= 32
        && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    valid.then_some((algorithm, hex))
}

fn is_host(host: &str) -> bool {
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (host, None),
    };
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_address = |address: &str| {
        !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
    };
    let valid_host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => is_address(address),
        None => host.split('.').all(is_label),
    };
    valid_host && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_path(path: &str) -> bool {
    path.split('/').all(is_component)
}

/// Lower-case letters and digits, with `.`, `_`, `__` or dashes between them.
fn is_component(component: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    component.starts_with(inner)
        && component.ends_with(inner)
        && component
            .split(inner)
            .all(|gap| matches!(gap, "" | "." | "_" | "__") || gap.bytes().all(|byte| byte == b'-'))
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn references_that_registries_take_are_fine() {
        let digest = format!("a@sha256:{}", "0".repeat(64));
        let both = format!("ghcr.io/a/b:v1@sha256:{}", "f".repeat(64));
        for reference in [
            "set-labels",
            "set-labels:v0.2",
            "ghcr.io/kptdev/krm-functions-catalog/set-labels:latest",
            "localhost:5000/a/b_c.d__e--f",
            "Foo/bar",
            "[::1]:5000/a",
            "a:5000",
            &digest,
            &both,
        ] {
            assert_eq!(check(reference), Ok(()), "{reference}");
        }
    }

    #[test]
    fn others_are_refused_in_known_words() {
        let long = "a".repeat(256);
        let short = format!("a@sha256:{}", "0".repeat(40));
        let upper = format!("a@sha256:{}", "A".repeat(64));
        let odd = format!("a@md5:{}", "0".repeat(32));
        for (reference, reason) in [
            ("", "repository name must have at least one component"),
            ("a b", "invalid reference format"),
            ("a:", "invalid reference format"),
            ("a@", "invalid reference format"),
            ("/a", "invalid reference format"),
            ("a//b", "invalid reference format"),
            ("a:b:c", "invalid reference format"),
            ("-a", "invalid reference format"),
            ("a..b", "invalid reference format"),
            ("https://a/b", "invalid reference format"),
            ("a/Foo", "repository name must be lowercase"),
            ("Foo", "repository name must be lowercase"),
            (&long, "repository name must not be more than 255 characters"),
            (&short, "invalid checksum digest length"),
            (&upper, "invalid checksum digest format"),
            (&odd, "unsupported digest algorithm"),
        ] {
            assert_eq!(check(reference), Err(reason), "{reference}");
        }
    }
}
