//! The bearer tokens of registries, until they expire.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use crate::Reference;
use crate::docker_config::Proof;
use crate::secret::Secret;

/// The lifetime of a token without `expires_in`, as the token protocol of the distribution project has it.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(60);

/// A token is not used shortly before it expires, when it might expire on its way.
const MARGIN: Duration = Duration::from_secs(5);

/// The longest token: servers take headers of 8 to 64 KiB.
const MAX_TOKEN: usize = 32 << 10;

/// How many tokens are kept.
const CAPACITY: usize = 1024;

/// The valid tokens, by what they are for and the credential they were issued for.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    known: Mutex<HashMap<Key, Token>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    registry: String,
    repository: String,
    scope: String,
    proof: Option<Proof>,
}

#[derive(Debug)]
struct Token {
    secret: Secret,
    until: Instant,
}

/// The response of a token service.
#[derive(Deserialize)]
pub(crate) struct TokenResponse {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<f64>,
}

// === impl TokenResponse ===

impl TokenResponse {
    /// Reads a response; none if it is not one, or if its token is too long for a header.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let response: Self = serde_json::from_slice(body).ok()?;
        let short = |token: &Option<String>| token.as_ref().is_none_or(|token| token.len() <= MAX_TOKEN);
        (short(&response.token) && short(&response.access_token)).then_some(response)
    }
}

// === impl Key ===

impl Key {
    pub(crate) fn new(reference: &Reference, proof: Option<&Proof>) -> Self {
        Self {
            registry: reference.registry().to_owned(),
            repository: reference.repository().to_owned(),
            scope: format!("repository:{}:pull", reference.repository()),
            proof: proof.cloned(),
        }
    }

    pub(crate) fn scope(&self) -> &str {
        &self.scope
    }
}

// === impl Tokens ===

impl Tokens {
    pub(crate) fn get(&self, key: &Key, now: Instant) -> Option<Secret> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|token| now < token.until).map(|token| token.secret.clone())
    }

    /// Stores the token of a response and returns it; none if the response has none.
    pub(crate) fn keep(&self, key: Key, response: TokenResponse, now: Instant) -> Option<Secret> {
        let TokenResponse { token, access_token, expires_in } = response;
        let secret = Secret::new(token.filter(|text| !text.is_empty()).or(access_token)?);
        if secret.is_empty() {
            return None;
        }
        let declared =
            expires_in.filter(|seconds| *seconds >= 1.0 && *seconds < 1e9).map(Duration::from_secs_f64);
        let lifetime = declared.unwrap_or(DEFAULT_LIFETIME);
        let until = now + lifetime.saturating_sub(MARGIN.min(lifetime / 2));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CAPACITY {
            known.retain(|_, token| now < token.until);
        }
        if known.len() < CAPACITY {
            known.insert(key, Token { secret: secret.clone(), until });
        }
        Some(secret)
    }

    /// Drops a token that the registry refused.
    pub(crate) fn forget(&self, key: &Key) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(json: &str) -> TokenResponse {
        serde_json::from_str(json).unwrap()
    }

    fn key(image: &str, password: Option<&str>) -> Key {
        let proof = password.map(|text| Proof::RegistryToken(Secret::new(text)));
        Key::new(&image.parse().unwrap(), proof.as_ref())
    }

    #[test]
    fn a_token_is_kept_for_its_lifetime_and_for_its_credential() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        let mine = key("r.io/a", Some("p"));
        assert!(tokens.keep(mine.clone(), response(r#"{"token": "t", "expires_in": 300}"#), now).is_some());
        assert_eq!(tokens.get(&mine, now + Duration::from_secs(294)), Some(Secret::new("t")));
        assert_eq!(tokens.get(&mine, now + Duration::from_secs(295)), None);
        for other in [
            key("r.io/b", Some("p")),
            key("q.io/a", Some("p")),
            key("r.io/a", Some("q")),
            key("r.io/a", None),
        ] {
            assert_eq!(tokens.get(&other, now), None, "{other:?}");
        }
        tokens.forget(&mine);
        assert_eq!(tokens.get(&mine, now), None);
    }

    #[test]
    fn a_response_may_have_an_access_token_and_no_lifetime() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        let mine = key("r.io/a", None);
        assert!(tokens.keep(mine.clone(), response(r#"{"token": "", "access_token": "t"}"#), now).is_some());
        assert!(tokens.get(&mine, now + Duration::from_secs(54)).is_some());
        assert!(tokens.get(&mine, now + Duration::from_secs(55)).is_none());
        for nothing in ["{}", r#"{"token": ""}"#] {
            assert!(tokens.keep(mine.clone(), response(nothing), now).is_none());
        }
    }

    #[test]
    fn a_token_that_no_header_can_carry_is_none() {
        let of = |length: usize| {
            TokenResponse::parse(format!("{{\"token\": \"{}\"}}", "t".repeat(length)).as_bytes())
        };
        assert!(of(32 << 10).is_some() && of((32 << 10) + 1).is_none());
        assert!(TokenResponse::parse("[".repeat(1 << 20).as_bytes()).is_none());
    }
}
