//! Why nothing is known about an image.

use std::fmt;
use std::sync::Arc;

/// Why nothing is known about an image: which image, which registry, at which step, what was observed, and
/// what to check. It is cheap to clone and holds no credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Arc<Failure>);

#[derive(Debug, PartialEq, Eq)]
struct Failure {
    kind: Kind,
    image: String,
    /// Where and at what it failed; a name that is no reference leads nowhere.
    place: Option<(String, Step)>,
    observed: String,
    advice: String,
}

/// What sort of failure it is, for those who must act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The name is no image reference.
    InvalidReference,
    /// The credentials or certificates of this installation cannot be used.
    Configuration,
    /// The registry has no such image, or does not show it to us.
    NotFound,
    /// The registry wants other credentials.
    Unauthorized,
    /// The registry knows us and refuses.
    Forbidden,
    /// The registry's certificate is not trusted.
    Untrusted,
    /// The registry cannot be reached, or breaks off.
    Unreachable,
    /// It took too long.
    TimedOut,
    /// The registry says that there were too many requests.
    RateLimited,
    /// The registry failed.
    RegistryFailed,
    /// What the registry sent is not what a registry sends, or not what was asked for.
    Malformed,
    /// What the registry sent is larger than we take.
    TooLarge,
    /// There is no image for the platform.
    NoPlatform,
    /// The image says neither entrypoint nor command.
    NoEntrypoint,
}

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Certificates,
    Credentials,
    Token,
    Manifest,
    Config,
}

// === impl Error ===

impl Error {
    pub(crate) fn new(
        kind: Kind,
        image: impl fmt::Display,
        place: Option<(&str, Step)>,
        observed: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self(Arc::new(Failure {
            kind,
            image: image.to_string(),
            place: place.map(|(registry, step)| (registry.to_owned(), step)),
            observed: observed.into(),
            advice: advice.into(),
        }))
    }

    /// What sort of failure it is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Whether asking again later may help without anybody doing anything.
    pub fn may_pass(&self) -> bool {
        use Kind::{RateLimited, RegistryFailed, TimedOut, Unreachable};
        matches!(self.kind(), RateLimited | RegistryFailed | TimedOut | Unreachable)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { kind: _, image, place, observed, advice } = &*self.0;
        match place {
            Some((registry, step)) => {
                write!(f, "image `{image}`: registry `{registry}`: {step}: {observed}")?;
            }
            // Porch's words for it already name the image.
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
        })
    }
}
