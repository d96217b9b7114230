//! What registries say about images.
//!
//! [`Images`] resolves an image to its digest and what it runs, with the credentials and certificates of this
//! installation, and caches the result. [`Reference`] is the parsed name of an image. Nothing is ever written to
//! a registry.

mod cache;
mod challenge;
mod client;
mod credentials;
mod docker_config;
mod error;
mod fetch;
mod helper;
mod images;
mod manifest;
mod metadata;
mod observe;
#[doc(hidden)]
pub mod parsing;
mod platform;
mod pull_secret;
mod request;
mod request_error;
mod retry;
mod secret;
mod settings;
mod stamp;
mod tls;
mod token;
mod transport;

pub use error::{Error, Kind, Step};
pub use images::Images;
pub use loggia_function::image::{ParseError, Reference};
pub use metadata::Metadata;
pub use observe::{Found, Observer};
pub use platform::{InvalidPlatform, Platform};
pub use pull_secret::PullSecret;
pub use settings::{Keychain, Retries, Settings, Timeouts};
