//! The readers of what comes from outside, by bytes alone: for fuzzing.

use reqwest::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};

use crate::Reference;
use crate::challenge::Challenge;
use crate::docker_config::DockerConfig;
use crate::manifest::{Config, Manifest};
use crate::token::TokenResponse;

/// Reads a header `WWW-Authenticate`.
pub fn challenge(header: &str) {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(header) {
        headers.insert(WWW_AUTHENTICATE, value);
    }
    let _ = Challenge::of(&headers);
}

/// Reads the answer of a token service.
pub fn token(body: &[u8]) {
    let _ = serde_json::from_slice::<TokenResponse>(body);
}

/// Reads a manifest or an index.
pub fn manifest(body: &[u8], content_type: &str) {
    let _ = Manifest::parse(body, content_type);
}

/// Reads the config of an image.
pub fn config(body: &[u8]) {
    let _ = Config::parse(body);
}

/// Reads Docker's configuration and looks for the credentials of an image.
///
/// # Errors
/// If the file is not such a configuration.
pub fn docker_config(file: &[u8], image: &str) -> Result<(), String> {
    let config = DockerConfig::parse(file)?;
    let reference: Reference = image.parse().map_err(|_| format!("`{image}` is not an image"))?;
    config.find(&reference).map(drop)
}
