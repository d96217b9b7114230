//! What registries say about images.
//!
//! [`Images`] answers for all of it: which digest a name stands for and what the image runs, with the
//! credentials and certificates of this installation, asked once and remembered. [`Reference`] is what a
//! name means. A registry is only ever read.

mod cache;
mod challenge;
mod client;
mod credentials;
mod docker_config;
mod errand;
mod error;
mod failure;
mod fetch;
mod helper;
mod images;
mod manifest;
mod metadata;
mod observe;
mod platform;
mod pull_secret;
mod reference;
mod retry;
mod secret;
mod settings;
mod tls;
mod token;
mod transport;

pub use error::{Error, Kind, Step};
pub use images::Images;
pub use metadata::Metadata;
pub use observe::{Found, Observer};
pub use platform::{InvalidPlatform, Platform};
pub use pull_secret::PullSecret;
pub use reference::{ParseError, Reference, with_default_prefix};
pub use settings::{Keychain, Retries, Settings, Timeouts};
