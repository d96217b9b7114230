//! The `Authorization` header of a request: a password, or a token from the service that the registry names.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Response, Url};
use tokio::time::Instant;
use tracing::debug;
use zeroize::Zeroizing;

use super::follow::Answer;
use super::{Client, credentials_need_tls};
use crate::Kind;
use crate::challenge::Challenge;
use crate::credentials::Credential;
use crate::docker_config::Proof;
use crate::error::Step;
use crate::network::split_port;
use crate::realm::is_related;
use crate::request::Fetch;
use crate::request_error::{self, Quote, RequestError};
use crate::secret::Secret;
use crate::token::{self, TokenResponse};
use crate::transport::{Clients, PlainHttp, bare_host, may_carry_credentials, shown};

/// How many bytes of a token service's response are read.
const MAX_TOKEN: usize = 1 << 20;

/// The value of an `Authorization` header, by scheme.
#[derive(Clone, Debug)]
pub(super) enum Authorization {
    Basic(Secret),
    Bearer(Secret),
}

// === impl Client ===

impl Client {
    /// Authorizes after HTTP 401, and remembers the challenge for later requests to this registry.
    pub(super) async fn answer_challenge(
        &self,
        fetch: &Fetch<'_>,
        clients: &Clients,
        response: &Response,
    ) -> Result<Option<Authorization>, RequestError> {
        let registry = fetch.reference.registry();
        let Some(challenge) = Challenge::of(response.headers()) else { return Ok(None) };
        debug!(registry, ?challenge, "The registry wants to know who asks");
        if let Some(credential) = self.credential(fetch).await? {
            // The registry may just have refused this very token.
            self.tokens.forget(&token::Key::new(fetch.reference, Some(&credential.proof)));
        } else {
            self.tokens.forget(&token::Key::new(fetch.reference, None));
        }
        let is_registry = self.is_registry(fetch, response);
        self.learn(registry, |known| {
            known.challenge = Some(challenge.clone());
            known.is_registry |= is_registry;
        });
        self.authorize(fetch, clients, &challenge).await
    }

    /// A password for a registry that sent no challenge. Without one, its first response is the result.
    pub(super) async fn unchallenged(&self, fetch: &Fetch<'_>) -> Option<Authorization> {
        let credential = self.credential(fetch).await.ok().flatten()?;
        Authorization::basic(&credential.proof)
    }

    /// The authorization that answers a challenge; none if it takes a password and there is none.
    pub(super) async fn authorize(
        &self,
        fetch: &Fetch<'_>,
        clients: &Clients,
        challenge: &Challenge,
    ) -> Result<Option<Authorization>, RequestError> {
        let credential = self.credential(fetch).await?;
        let proof = credential.map(|credential| &credential.proof);
        match (challenge, proof) {
            (_, Some(Proof::RegistryToken(token))) => Ok(Some(Authorization::Bearer(token.clone()))),
            (Challenge::Basic, proof) => Ok(proof.and_then(Authorization::basic)),
            (Challenge::Bearer { realm, service }, proof) => {
                let key = token::Key::new(fetch.reference, proof);
                if let Some(token) = self.tokens.get(&key, Instant::now()) {
                    return Ok(Some(Authorization::Bearer(token)));
                }
                fetch.at(Step::Token);
                let realm = self.realm(fetch, realm, proof)?;
                let token = self.token(fetch, clients, &realm, service.as_deref(), key, proof).await?;
                Ok(Some(Authorization::Bearer(token)))
            }
        }
    }

    /// The address of the token service. It may do without TLS only if the registry may, and then gets a credential only
    /// on this machine. A service of another owner must be listed if it is to get a credential.
    fn realm(&self, fetch: &Fetch<'_>, realm: &str, proof: Option<&Proof>) -> Result<Url, RequestError> {
        let malformed = |observed: String| {
            let advice = "this is for those who run the registry to mend";
            RequestError::Final(fetch.error(Kind::Malformed, observed, advice))
        };
        let mut url: Url =
            realm.parse().ok().filter(Url::has_host).ok_or_else(|| {
                malformed("the registry names a token service that is no address".to_owned())
            })?;
        // They would be sent as Basic authorization.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        let registry = match fetch.reference.registry() {
            "index.docker.io" => "registry-1.docker.io",
            other => other,
        };
        let related = is_related(split_port(registry).0, bare_host(&url));
        let listed = self.settings.realms.iter().any(|known| is_host_of(known, &url));
        match url.scheme() {
            "https" => {}
            "http" if (related || listed) && self.transport.plain_http(registry) != PlainHttp::Never => {}
            _ => {
                let observed = format!("the registry names a token service without TLS: {}", shown(&url));
                return Err(malformed(observed));
            }
        }
        if proof.is_some() && !related && !listed {
            let host = url.host_str().unwrap_or_default();
            let observed =
                format!("the registry names a token service of another owner, `{host}`: nothing was sent");
            let advice = "if it may get the credentials of this registry, name it in `--registry-realms`";
            return Err(RequestError::Final(fetch.error(Kind::NotAllowed, observed, advice)));
        }
        Ok(url)
    }

    /// Gets a token from the token service: in exchange for an identity token, by name and password, or
    /// anonymously.
    async fn token(
        &self,
        fetch: &Fetch<'_>,
        clients: &Clients,
        realm: &Url,
        service: Option<&str>,
        key: token::Key,
        proof: Option<&Proof>,
    ) -> Result<Secret, RequestError> {
        if proof.is_some() && !may_carry_credentials(realm) {
            return Err(RequestError::Final(credentials_need_tls(fetch, realm)));
        }
        debug!(realm = shown(realm), scope = key.scope(), "Asking for a token");
        let mut fields = vec![("scope", key.scope())];
        fields.extend(service.map(|service| ("service", service)));
        let Answer { response, redirected } = match proof {
            Some(Proof::IdentityToken(token)) => {
                fields.extend([
                    ("grant_type", "refresh_token"),
                    ("client_id", "loggia"),
                    ("refresh_token", token.reveal()),
                ]);
                let form = Zeroizing::new(form(&fields));
                let private = self.may_be_private(fetch, realm).await;
                let client = clients.for_url(realm, private);
                let client = client.map_err(|forbidden| request_error::of_address(fetch, &forbidden))?;
                let request = client.post(realm.clone());
                let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
                let sent = self.send(realm, request.body(form.as_bytes().to_vec())).await;
                let response = sent.map_err(|error| request_error::of_transport(fetch, &error))?;
                Answer { response, redirected: false }
            }
            proof => {
                let mut url = realm.clone();
                url.query_pairs_mut().extend_pairs(fields);
                let basic = proof.and_then(Authorization::basic);
                self.follow(fetch, clients, &Method::GET, url, "application/json", basic.as_ref()).await?
            }
        };
        let known = self.known(fetch.reference.registry());
        let quote = if known.is_registry && !redirected { Quote::Registry } else { Quote::Nothing };
        let response = self.read_body(fetch, response, MAX_TOKEN, proof.is_some(), quote).await?;
        let token = TokenResponse::parse(&response.body);
        token.and_then(|token| self.tokens.keep(key, token, Instant::now())).ok_or_else(|| {
            let observed = format!("{} answered without a token", shown(realm));
            RequestError::Final(fetch.error(
                Kind::Malformed,
                observed,
                "this is for those who run it to mend",
            ))
        })
    }

    async fn credential<'a>(&self, fetch: &'a Fetch<'_>) -> Result<Option<&'a Credential>, RequestError> {
        let find = async || {
            fetch.at(Step::Credentials);
            self.credentials.find(fetch.image, fetch.reference).await
        };
        let found = fetch.credential.get_or_try_init(find).await.map_err(|reason| {
            let advice =
                "check `--registry-auth-secret-path`, or `--registry-auth` of `loggia image inspect`";
            RequestError::Final(fetch.error(Kind::Configuration, reason, advice))
        });
        found.map(Option::as_ref)
    }
}

/// Whether `host` or `host:port` is where a URL leads.
fn is_host_of(known: &str, url: &Url) -> bool {
    let (host, port) = split_port(known);
    host.eq_ignore_ascii_case(bare_host(url))
        && port.is_none_or(|port| url.port_or_known_default() == Some(port))
}

/// Names and values as `application/x-www-form-urlencoded`.
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

    pub(super) fn header(&self, fetch: &Fetch<'_>) -> Result<HeaderValue, RequestError> {
        let text = Zeroizing::new(match self {
            Self::Basic(pair) => format!("Basic {}", pair.reveal()),
            Self::Bearer(token) => format!("Bearer {}", token.reveal()),
        });
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            let observed = "the credential has characters that no request can carry";
            RequestError::Final(fetch.error(Kind::Configuration, observed, "check for line breaks in it"))
        })?;
        value.set_sensitive(true);
        Ok(value)
    }
}
