//! A real registry, and the settings of those who ask it.

use std::time::Duration;

use loggia_registry::{Images, Platform, PrivateRegistries, Retries, Settings, Timeouts};

pub(crate) use loggia_testing::certificates;
pub(crate) use loggia_testing::registry::*;

/// Settings for amd64 that see nothing of the user who runs the tests, ask this machine, and do not wait long.
pub(crate) fn settings() -> Settings {
    Settings {
        platform: Platform::amd64(),
        private: PrivateRegistries::Any,
        retries: Retries { first_pause: Duration::from_millis(50), ..Retries::default() },
        timeouts: Timeouts { total: Duration::from_secs(20), ..Timeouts::default() },
        ..Settings::default()
    }
}

pub(crate) fn images() -> Images {
    Images::new(settings())
}
