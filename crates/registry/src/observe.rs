//! Reports requests to registries and cache lookups, for metrics.

use std::fmt;
use std::time::Duration;

/// Gets every request to a registry or its token service and every cache lookup. It must not block.
pub trait Observer: fmt::Debug + Send + Sync {
    /// A request ended; without a code there was no response.
    fn asked(&self, _host: &str, _code: Option<u16>, _took: Duration) {}

    /// An image was looked up.
    fn looked_up(&self, _found: Found) {}
}

/// How a lookup was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// From the cache, be it metadata or a recent failure.
    Known,
    /// By a fetch that was under way.
    Shared,
    /// By a fetch of its own.
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
