//! What a request carries to prove who asks: passwords as they are, tokens from the service that the registry names.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Response, Url};
use tokio::time::Instant;
use tracing::debug;
use zeroize::Zeroizing;

use super::Client;
use crate::challenge::Challenge;
use crate::credentials::Credential;
use crate::docker_config::Proof;
use crate::errand::Errand;
use crate::error::Step;
use crate::failure::{self, Trouble};
use crate::secret::Secret;
use crate::transport::{Clients, InTheClear, keeps_secrets, shown};
use crate::{Error, Kind, token};

/// The most of a token service's answer that is read.
const MAX_TOKEN: usize = 1 << 20;

/// What a request carries to prove who asks.
#[derive(Clone, Debug)]
pub(super) enum Authorization {
    Basic(Secret),
    Bearer(Secret),
}

// === impl Client ===

impl Client {
    /// Finds what a registry wants that just said 401, and remembers it.
    pub(super) async fn answer_challenge(
        &self,
        errand: &Errand<'_>,
        clients: &Clients,
        response: &Response,
    ) -> Result<Option<Authorization>, Trouble> {
        let registry = errand.reference.registry();
        let Some(challenge) = Challenge::of(response.headers()) else { return Ok(None) };
        debug!(registry, ?challenge, "The registry wants to know who asks");
        if let Some(credential) = self.credential(errand).await? {
            // A token that was just refused is no use.
            self.tokens.forget(&token::Key::new(errand.reference, Some(&credential.proof)));
        } else {
            self.tokens.forget(&token::Key::new(errand.reference, None));
        }
        let in_the_clear = self.change(registry, |habits| habits.challenge = Some(challenge.clone()));
        self.authorize(errand, clients, &challenge, in_the_clear).await
    }

    /// A password for a registry that did not ask for one. If none can be had, its answer stands.
    pub(super) async fn unasked(&self, errand: &Errand<'_>) -> Option<Authorization> {
        let credential = self.credential(errand).await.ok().flatten()?;
        Authorization::basic(&credential.proof)
    }

    /// What goes with a request to a registry that wants to see this. Nothing, if there is no credential
    /// for it or none may be sent.
    pub(super) async fn authorize(
        &self,
        errand: &Errand<'_>,
        clients: &Clients,
        challenge: &Challenge,
        in_the_clear: bool,
    ) -> Result<Option<Authorization>, Trouble> {
        let credential = self.credential(errand).await?;
        let proof = credential.map(|credential| &credential.proof);
        match (challenge, proof) {
            (_, Some(Proof::RegistryToken(token))) => Ok(Some(Authorization::Bearer(token.clone()))),
            (Challenge::Basic, proof) => Ok(proof.and_then(Authorization::basic)),
            (Challenge::Bearer { realm, service }, proof) => {
                let key = token::Key::new(errand.reference, proof);
                if let Some(token) = self.tokens.get(&key, Instant::now()) {
                    return Ok(Some(Authorization::Bearer(token)));
                }
                errand.at(Step::Token);
                let realm = self.realm(errand, realm, in_the_clear)?;
                let token = self.token(errand, clients, &realm, service.as_deref(), key, proof).await?;
                Ok(Some(Authorization::Bearer(token)))
            }
        }
    }

    /// The token service, if it may be asked the way that the registry says.
    fn realm(&self, errand: &Errand<'_>, realm: &str, in_the_clear: bool) -> Result<Url, Trouble> {
        let wrong = |observed: String| {
            let advice = "this is for those who run the registry to mend";
            Trouble::Final(errand.error(Kind::Malformed, observed, advice))
        };
        let url: Url = realm
            .parse()
            .map_err(|_| wrong("the registry names a token service that is no address".to_owned()))?;
        let authority = url.host_str().map(|host| match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        });
        match (url.scheme(), authority) {
            ("https", Some(_)) => Ok(url),
            ("http", Some(authority))
                if in_the_clear || self.transport.in_the_clear(&authority) != InTheClear::Never =>
            {
                Ok(url)
            }
            _ => Err(wrong(format!("the registry names a token service without TLS: {}", shown(&url)))),
        }
    }

    /// Gets a token: for a token of identity by its exchange, otherwise by name and password or as anybody.
    async fn token(
        &self,
        errand: &Errand<'_>,
        clients: &Clients,
        realm: &Url,
        service: Option<&str>,
        key: token::Key,
        proof: Option<&Proof>,
    ) -> Result<Secret, Trouble> {
        if proof.is_some() && !keeps_secrets(realm) {
            return Err(Trouble::Final(self.not_in_the_clear(errand, realm)));
        }
        debug!(realm = shown(realm), scope = key.scope(), "Asking for a token");
        let mut fields = vec![("scope", key.scope())];
        fields.extend(service.map(|service| ("service", service)));
        let response = match proof {
            Some(Proof::IdentityToken(token)) => {
                fields.extend([
                    ("grant_type", "refresh_token"),
                    ("client_id", "loggia"),
                    ("refresh_token", token.reveal()),
                ]);
                let form = Zeroizing::new(form(&fields));
                let request = clients.for_url(realm).post(realm.clone());
                let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
                let sent = self.send(realm, request.body(form.as_bytes().to_vec())).await;
                sent.map_err(|error| failure::of_request(errand, &error))?
            }
            proof => {
                let mut url = realm.clone();
                url.query_pairs_mut().extend_pairs(fields);
                let basic = proof.and_then(Authorization::basic);
                self.follow(errand, clients, &Method::GET, url, "application/json", basic.as_ref()).await?
            }
        };
        let with_proof = proof.is_some();
        let answer = self.read_any(errand, response, MAX_TOKEN, with_proof).await?;
        let token = serde_json::from_slice(&answer.body).ok();
        token.and_then(|token| self.tokens.keep(key, token, Instant::now())).ok_or_else(|| {
            let observed = format!("{} answered without a token", shown(realm));
            Trouble::Final(errand.error(Kind::Malformed, observed, "this is for those who run it to mend"))
        })
    }

    pub(super) fn not_in_the_clear(&self, errand: &Errand<'_>, url: &Url) -> Error {
        let observed = format!("{} has no TLS, and credentials are not sent in the clear", shown(url));
        errand.error(Kind::Unauthorized, observed, "serve the registry over TLS")
    }

    async fn credential<'a>(&self, errand: &'a Errand<'_>) -> Result<Option<&'a Credential>, Trouble> {
        let find = async || {
            errand.at(Step::Credentials);
            self.credentials.find(errand.image, errand.reference).await
        };
        let found = errand.credential.get_or_try_init(find).await.map_err(|reason| {
            let advice =
                "check `--registry-auth-secret-path`, or `--registry-auth` of `loggia image inspect`";
            Trouble::Final(errand.error(Kind::Configuration, reason, advice))
        });
        found.map(Option::as_ref)
    }
}

/// Names and values as a form has them.
fn form(fields: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        if !text.is_empty() {
            text.push('&');
        }
        text.push_str(name);
        text.push('=');
        for byte in value.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => text.push(byte.into()),
                _ => {
                    let _ = write!(text, "%{byte:02X}");
                }
            }
        }
    }
    text
}

// === impl Authorization ===

impl Authorization {
    fn basic(proof: &Proof) -> Option<Self> {
        let Proof::Password { username, password } = proof else { return None };
        let pair = Zeroizing::new(format!("{}:{}", username.reveal(), password.reveal()));
        Some(Self::Basic(Secret::new(BASE64_STANDARD.encode(pair.as_bytes()))))
    }

    pub(super) fn header(&self, errand: &Errand<'_>) -> Result<HeaderValue, Trouble> {
        let text = Zeroizing::new(match self {
            Self::Basic(pair) => format!("Basic {}", pair.reveal()),
            Self::Bearer(token) => format!("Bearer {}", token.reveal()),
        });
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            let observed = "the credential has characters that no request can carry";
            Trouble::Final(errand.error(Kind::Configuration, observed, "check for line breaks in it"))
        })?;
        value.set_sensitive(true);
        Ok(value)
    }
}
