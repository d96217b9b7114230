//! What others may watch: which registries are asked, and how often none need be.

use std::fmt;
use std::time::Duration;

/// Is told of every request to a registry or its token service, and of every look at the cache. An observer
/// must not block.
pub trait Observer: fmt::Debug + Send + Sync {
    /// A host was asked; without a code it did not answer.
    fn asked(&self, _host: &str, _code: Option<u16>, _took: Duration) {}

    /// Somebody wanted to know what an image is.
    fn looked_up(&self, _found: Found) {}
}

/// Where the answer about an image came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// It was known, for better or worse.
    Known,
    /// Somebody was asking already.
    Shared,
    /// The registry had to be asked.
    Fetched,
}

// === impl Found ===

impl Found {
    pub fn name(self) -> &'static str {
        match self {
            Self::Known => "hit",
            Self::Shared => "shared",
            Self::Fetched => "miss",
        }
    }
}
