//! The platform an image is built for.

use std::fmt;
use std::str::FromStr;

/// An operating system and an architecture, in the words of Go and of image indexes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Platform {
    /// For instance `linux`.
    pub os: String,
    /// For instance `amd64` or `arm64`.
    pub architecture: String,
    /// For instance `v8`; empty if unspecified.
    pub variant: String,
}

/// A text that is not a platform.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no platform; write `os/architecture` or `os/architecture/variant`, for instance `linux/arm64`"
)]
pub struct InvalidPlatform(String);

// === impl Platform ===

impl Platform {
    /// Linux on the processor of this machine: that of the nodes, unless the cluster is mixed.
    pub fn here() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            "powerpc64" => "ppc64le",
            "loongarch64" => "loong64",
            other => other,
        };
        Self { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: String::new() }
    }

    /// Linux on x86-64, the only one that Porch knows.
    pub fn amd64() -> Self {
        Self { os: "linux".to_owned(), architecture: "amd64".to_owned(), variant: String::new() }
    }

    /// Whether images for `other` run on this platform. A variant is compared only if this one has one, and `v8`
    /// is the same as none, because every 64-bit ARM is v8.
    pub(crate) fn runs(&self, other: &Self) -> bool {
        let plain = |platform: &Self| match (platform.architecture.as_str(), platform.variant.as_str()) {
            ("arm64", "v8") => String::new(),
            (_, variant) => variant.to_owned(),
        };
        self.os == other.os
            && self.architecture == other.architecture
            && (plain(self).is_empty() || plain(self) == plain(other))
    }
}

impl FromStr for Platform {
    type Err = InvalidPlatform;

    fn from_str(text: &str) -> Result<Self, InvalidPlatform> {
        let parts: Vec<_> = text.split('/').map(str::to_owned).collect();
        let named = |part: &String| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric());
        match parts.as_slice() {
            [os, architecture, rest @ ..] if rest.len() < 2 && parts.iter().all(named) => Ok(Self {
                os: os.clone(),
                architecture: architecture.clone(),
                variant: rest.first().cloned().unwrap_or_default(),
            }),
            _ => Err(InvalidPlatform(text.to_owned())),
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        match self.variant.as_str() {
            "" => Ok(()),
            variant => write!(f, "/{variant}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(text: &str) -> Platform {
        text.parse().unwrap()
    }

    #[test]
    fn a_platform_is_written_as_it_is_read() {
        for text in ["linux/amd64", "linux/arm/v7", "windows/amd64"] {
            assert_eq!(platform(text).to_string(), text);
        }
        for text in ["", "linux", "linux/", "linux/arm/v7/x", "linux/a md64"] {
            assert!(text.parse::<Platform>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_variant_counts_only_where_one_is_asked_for() {
        assert!(platform("linux/arm64").runs(&platform("linux/arm64/v8")));
        assert!(platform("linux/arm64/v8").runs(&platform("linux/arm64")));
        assert!(platform("linux/amd64").runs(&platform("linux/amd64/v2")));
        assert!(!platform("linux/arm/v6").runs(&platform("linux/arm/v7")));
        assert!(!platform("linux/amd64").runs(&platform("windows/amd64")));
    }
}
