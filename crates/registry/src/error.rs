//! Why nothing is known about an image.

use std::fmt;
use std::sync::Arc;

/// Why nothing is known about an image: which image, which registry, at which step, what was observed, and
/// what to check.
///
/// It is cheap to clone and holds no credential. It has no [`source`](std::error::Error::source): the errors of
/// HTTP, TLS and JSON below it may quote URLs with signatures or parts of a credentials file, so only checked
/// parts of their texts are in `observed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Arc<Failure>);

#[derive(Debug, PartialEq, Eq)]
struct Failure {
    kind: Kind,
    image: String,
    /// The registry and the step; none if the name of the image is invalid.
    at: Option<(String, Step)>,
    observed: String,
    advice: String,
}

/// What sort of failure it is, for callers that react to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The name is not a valid image reference.
    InvalidReference,
    /// The credentials or certificates of this installation cannot be used.
    Configuration,
    /// The registry has no such image, or does not show it to us.
    NotFound,
    /// The registry asks for credentials, or for other ones.
    Unauthorized,
    /// The registry accepts the credentials, but they may not pull the image.
    Forbidden,
    /// The registry's certificate is not trusted.
    Untrusted,
    /// The registry cannot be reached, or breaks off.
    Unreachable,
    /// It took too long.
    TimedOut,
    /// The registry answered that there were too many requests.
    RateLimited,
    /// The registry answered with a server error.
    RegistryFailed,
    /// The registry's response does not follow the protocol, or is not what was requested.
    Malformed,
    /// The settings of this installation do not let us ask this address.
    NotAllowed,
    /// The registry's response exceeds the limit.
    TooLarge,
    /// The index has no image for the platform.
    NoPlatform,
    /// The image's config has neither entrypoint nor command.
    NoEntrypoint,
}

/// What was being done when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Certificates,
    Credentials,
    Token,
    Manifest,
    Config,
    Signature,
}

// === impl Error ===

impl Error {
    pub(crate) fn new(
        kind: Kind,
        image: impl fmt::Display,
        at: Option<(&str, Step)>,
        observed: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self(Arc::new(Failure {
            kind,
            image: image.to_string(),
            at: at.map(|(registry, step)| (registry.to_owned(), step)),
            observed: observed.into(),
            advice: advice.into(),
        }))
    }

    /// What sort of failure it is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Whether the same request may succeed later without a change of configuration.
    pub fn may_pass(&self) -> bool {
        use Kind::{RateLimited, RegistryFailed, TimedOut, Unreachable};
        matches!(self.kind(), RateLimited | RegistryFailed | TimedOut | Unreachable)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { kind: _, image, at, observed, advice } = &*self.0;
        match at {
            Some((registry, step)) => {
                write!(f, "image `{image}`: registry `{registry}`: {step}: {observed}")?;
            }
            // Porch's text for an invalid reference already names the image.
            None => f.write_str(observed)?,
        }
        match advice.as_str() {
            "" => Ok(()),
            advice => write!(f, "; {advice}"),
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certificates => "reading the certificates to trust",
            Self::Credentials => "looking for credentials",
            Self::Token => "asking for a token",
            Self::Manifest => "reading the manifest",
            Self::Config => "reading the config",
            Self::Signature => "looking for signatures",
        })
    }
}
