//! The readers of what comes from outside, by bytes alone: for fuzzing.

use reqwest::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};

use crate::challenge::Challenge;
use crate::docker_config::DockerConfig;
use crate::manifest::{Config, Manifest, choose};
use crate::request_error::{Quote, reason};
use crate::signatures::{bundle, simple};
use crate::token::TokenResponse;
use crate::{Platform, Reference};

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
    let _ = TokenResponse::parse(body);
}

/// Reads a manifest, or an index and chooses from it.
pub fn manifest(body: &[u8], content_type: &str) {
    if let Ok(Manifest::Index { manifests }) = Manifest::parse(body, content_type) {
        let _ = choose(&manifests, &Platform::amd64());
    }
}

/// Reads the config of an image.
pub fn config(body: &[u8]) {
    let _ = Config::parse(body);
}

/// Reads the body of an error response.
pub fn error_body(body: &[u8]) {
    let _ = reason(body, Quote::Registry, None);
}

/// Reads signatures in both forms.
pub fn signature(body: &[u8], annotation: &str) {
    let _ = (simple::parse(body, annotation), bundle::parse(body));
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
