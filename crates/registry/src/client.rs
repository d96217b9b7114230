//! One request to a registry, with what it takes to get an answer: authorization, redirects, retries, and the
//! choice between TLS and plain HTTP.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use reqwest::{Method, Response, StatusCode, Url};
use tokio::time::Instant;
use tracing::{debug, info};

use crate::challenge::Challenge;
use crate::credentials::Credentials;
use crate::error::Step;
use crate::request::{Fetch, RegistryRequest, RegistryResponse};
use crate::request_error::{self, Quote, RequestError};
use crate::token::Tokens;
use crate::transport::{Clients, PlainHttp, Transport, shown};
use crate::{Error, Kind, Settings, retry};

mod authorization;
mod follow;

use authorization::Authorization;
use follow::Answer;

/// How many bytes of an error response are read.
const MAX_ERROR_BODY: usize = 16 << 10;

/// How many registries are remembered.
const MAX_REGISTRIES: usize = 4096;

/// Sends requests to registries. It remembers of each whether it speaks TLS, its challenge and its tokens.
#[derive(Debug)]
pub(crate) struct Client {
    settings: Arc<Settings>,
    transport: Transport,
    credentials: Credentials,
    tokens: Tokens,
    registries: Mutex<HashMap<String, KnownRegistry>>,
}

/// What earlier requests to a registry showed.
#[derive(Clone, Debug, Default)]
struct KnownRegistry {
    /// It answered plain HTTP.
    plain_http: bool,
    /// It answered over TLS once. From then on there is no fallback to plain HTTP, which an attacker could
    /// provoke by breaking connections.
    speaks_tls: bool,
    /// It sent the header of the registry protocol.
    is_registry: bool,
    /// What it answered to a request without authorization.
    challenge: Option<Challenge>,
}

// === impl Client ===

impl Client {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self {
            transport: Transport::new(Arc::clone(&settings)),
            credentials: Credentials::new(Arc::clone(&settings)),
            tokens: Tokens::default(),
            registries: Mutex::default(),
            settings,
        }
    }

    pub(crate) fn certificates_changed(&self) -> bool {
        self.transport.certificates_changed()
    }

    /// Sends a request, and sends it again while the failure is retryable and the deadline allows.
    pub(crate) async fn request(
        &self,
        fetch: &Fetch<'_>,
        request: RegistryRequest<'_>,
    ) -> Result<RegistryResponse, Error> {
        let step = fetch.step();
        for number in 0.. {
            fetch.at(step);
            let (error, retry_after) = match self.try_once(fetch, request).await {
                Ok(response) => return Ok(response),
                Err(RequestError::Final(error)) => return Err(error),
                Err(RequestError::Retryable(error, retry_after)) => (error, retry_after),
                Err(RequestError::NoTls(error)) => (error, None),
            };
            let retries = &self.settings.retries;
            let pause = retries.pause(number, retry_after);
            let too_long = retry_after.is_some_and(|pause| pause > retries.longest_pause);
            if number >= retries.count || too_long || Instant::now() + pause >= fetch.deadline {
                return Err(error);
            }
            debug!(?pause, "Asking again: {error}");
            tokio::time::sleep(pause).await;
        }
        unreachable!("the loop ends by returning")
    }

    async fn try_once(
        &self,
        fetch: &Fetch<'_>,
        request: RegistryRequest<'_>,
    ) -> Result<RegistryResponse, RequestError> {
        let clients = self.transport.clients().map_err(|error| {
            fetch.at(Step::Certificates);
            let advice = "check `--tls-secret-path`, or `--ca` of `loggia image inspect`";
            RequestError::Final(fetch.error(Kind::Configuration, loggia_go::chain(&error), advice))
        })?;
        let step = fetch.step();
        let known = self.known(fetch.reference.registry());
        let mut authorization = match &known.challenge {
            Some(challenge) => self.authorize(fetch, &clients, challenge).await?,
            None => None,
        };
        fetch.at(step);
        let mut answer = self.reach(fetch, &clients, request, authorization.as_ref()).await?;
        let status = answer.response.status();
        // What a host says that the registry sent us to is final: it is asked nothing and gets no credential.
        if answer.redirected {
            debug!("Answered by another host than the registry's");
        } else if status == StatusCode::UNAUTHORIZED {
            authorization = self.answer_challenge(fetch, &clients, &answer.response).await?;
            fetch.at(step);
            if authorization.is_some() {
                answer = self.reach(fetch, &clients, request, authorization.as_ref()).await?;
            }
        } else if matches!(status, StatusCode::NOT_FOUND | StatusCode::FORBIDDEN) && authorization.is_none() {
            // Some registries hide private images from anonymous clients instead of sending a challenge.
            authorization = self.unchallenged(fetch).await;
            fetch.at(step);
            if authorization.is_some() {
                answer = self.reach(fetch, &clients, request, authorization.as_ref()).await?;
            }
        }
        self.read(fetch, request, answer, authorization.is_some()).await
    }

    /// Sends a request to the registry, over TLS or as plain HTTP.
    ///
    /// The scheme follows from what is allowed ([`PlainHttp`]) and from what is known of the registry:
    ///
    /// | allowed    | known        | sends | then                                                              |
    /// |------------|--------------|-------|-------------------------------------------------------------------|
    /// | `Always`   | any          | http  | returns the outcome                                               |
    /// | `Never`    | any          | https | returns the outcome; a response sets `speaks_tls`                 |
    /// | `Fallback` | `speaks_tls` | https | as for `Never`: no downgrade                                      |
    /// | `Fallback` | `plain_http` | http  | HTTP 400: unsets `plain_http`, goes on as if nothing was known    |
    /// |            |              |       | retryable failure: unsets `plain_http`, returns it                |
    /// |            |              |       | otherwise: returns the outcome                                    |
    /// | `Fallback` | nothing      | https | no TLS: sends http (next line); otherwise as for `Never`          |
    /// |            |              | http  | HTTP 400: returns the failure of https                            |
    /// |            |              |       | other response: sets `plain_http`, returns it                     |
    /// |            |              |       | failure: returns it                                               |
    ///
    /// HTTP 400 counts because it is how a TLS server answers plain HTTP.
    async fn reach(
        &self,
        fetch: &Fetch<'_>,
        clients: &Clients,
        request: RegistryRequest<'_>,
        authorization: Option<&Authorization>,
    ) -> Result<Answer, RequestError> {
        let registry = fetch.reference.registry();
        let known = self.known(registry);
        let allowed = match self.transport.plain_http(registry) {
            PlainHttp::Fallback if known.speaks_tls => PlainHttp::Never,
            allowed => allowed,
        };
        let send = async |scheme: &str| {
            let url = self.url(fetch, scheme, request.path)?;
            self.follow(fetch, clients, request.method, url, request.accept, authorization).await
        };
        if allowed == PlainHttp::Always {
            self.learn(registry, |known| known.plain_http = true);
            return send("http").await;
        }
        if allowed == PlainHttp::Fallback && known.plain_http {
            let sent = send("http").await;
            let wants_tls = sent.as_ref().is_ok_and(is_bad_request);
            if wants_tls || matches!(sent, Err(RequestError::Retryable(..))) {
                self.learn(registry, |known| known.plain_http = false);
            }
            if !wants_tls {
                return sent;
            }
        }
        match send("https").await {
            Ok(answer) => {
                if !known.speaks_tls {
                    self.learn(registry, |known| known.speaks_tls = true);
                }
                Ok(answer)
            }
            Err(RequestError::NoTls(error)) if allowed == PlainHttp::Fallback => {
                debug!("Trying without TLS: {error}");
                let answer = send("http").await?;
                if is_bad_request(&answer) {
                    return Err(RequestError::NoTls(error));
                }
                info!("The registry {registry} does not speak TLS: it is asked in the clear");
                self.learn(registry, |known| known.plain_http = true);
                Ok(answer)
            }
            failed => failed,
        }
    }

    /// The URL of a registry's API, made of segments: what is part of a name stays one.
    fn url(&self, fetch: &Fetch<'_>, scheme: &str, path: &str) -> Result<Url, RequestError> {
        // Docker Hub serves its API on another host than the one in references.
        let host = match fetch.reference.registry() {
            "index.docker.io" => "registry-1.docker.io",
            other => other,
        };
        let repository = fetch.reference.repository();
        let path = format!("/v2/{repository}/{path}");
        let built = Url::parse(&format!("{scheme}://{host}/")).ok().and_then(|mut url| {
            let (path, query) =
                path.split_once('?').map_or((path.as_str(), None), |(path, query)| (path, Some(query)));
            url.path_segments_mut().ok()?.clear().extend(path.split('/').skip(1));
            url.set_query(query);
            (url.path() == path && url.host().is_some()).then_some(url)
        });
        built.ok_or_else(|| {
            let observed = format!("`{host}` is not the address of a registry");
            RequestError::Final(fetch.error(Kind::InvalidReference, observed, ""))
        })
    }

    async fn read(
        &self,
        fetch: &Fetch<'_>,
        request: RegistryRequest<'_>,
        answer: Answer,
        authorized: bool,
    ) -> Result<RegistryResponse, RequestError> {
        let Answer { response, redirected } = answer;
        if *request.method == Method::HEAD && response.status().is_success() {
            return Ok(RegistryResponse::head(&response));
        }
        let quote = match redirected {
            true => Quote::Nothing,
            false if self.is_registry(fetch, &response) => Quote::Registry,
            false => Quote::IfCoded,
        };
        self.read_body(fetch, response, request.limit, authorized, quote).await
    }

    /// Whether the registry's host has shown that it is one, by the header of the protocol.
    fn is_registry(&self, fetch: &Fetch<'_>, response: &Response) -> bool {
        let registry = fetch.reference.registry();
        let known = self.known(registry).is_registry;
        let version = response.headers().get("docker-distribution-api-version");
        let says = version.is_some_and(|version| version.as_bytes().starts_with(b"registry/2"));
        if says && !known {
            self.learn(registry, |known| known.is_registry = true);
        }
        says || known
    }

    /// The body of a successful response, or the error that follows from the status.
    async fn read_body(
        &self,
        fetch: &Fetch<'_>,
        mut response: Response,
        limit: usize,
        authorized: bool,
        quote: Quote,
    ) -> Result<RegistryResponse, RequestError> {
        let status = response.status();
        if !status.is_success() {
            let retry_after = retry::retry_after(response.headers(), SystemTime::now());
            let reason = self.reason(fetch, &mut response, quote).await;
            let error = request_error::of_status(fetch, status, &reason, retry_after, authorized);
            return Err(if retry::is_retryable(status) {
                RequestError::Retryable(error, retry_after)
            } else {
                RequestError::Final(error)
            });
        }
        let mut read = RegistryResponse::head(&response);
        let too_large = || {
            let observed = format!("the answer has more than {limit} bytes, which is the limit");
            RequestError::Final(fetch.error(
                Kind::TooLarge,
                observed,
                "check that this is a function's image",
            ))
        };
        if response.content_length().is_some_and(|length| length > limit as u64) {
            return Err(too_large());
        }
        let mut body = Vec::new();
        while let Some(piece) =
            response.chunk().await.map_err(|error| request_error::of_transport(fetch, &error))?
        {
            if body.len() + piece.len() > limit {
                return Err(too_large());
            }
            body.extend_from_slice(&piece);
        }
        read.body = body.into();
        Ok(read)
    }

    /// The reason in the body of an error response, shortened and without credentials.
    async fn reason(&self, fetch: &Fetch<'_>, response: &mut Response, quote: Quote) -> String {
        let mut body = Vec::new();
        while body.len() < MAX_ERROR_BODY {
            match response.chunk().await {
                Ok(Some(piece)) => {
                    body.extend_from_slice(&piece[..piece.len().min(MAX_ERROR_BODY - body.len())]);
                }
                _ => break,
            }
        }
        request_error::reason(&body, quote, fetch.proof())
    }

    fn known(&self, registry: &str) -> KnownRegistry {
        let registries = self.registries.lock().unwrap_or_else(PoisonError::into_inner);
        registries.get(registry).cloned().unwrap_or_default()
    }

    /// Changes what is known of a registry, and returns it.
    fn learn(&self, registry: &str, change: impl FnOnce(&mut KnownRegistry)) -> KnownRegistry {
        let mut registries = self.registries.lock().unwrap_or_else(PoisonError::into_inner);
        if registries.len() >= MAX_REGISTRIES && !registries.contains_key(registry) {
            registries.clear();
        }
        let known = registries.entry(registry.to_owned()).or_default();
        change(known);
        known.clone()
    }
}

fn is_bad_request(answer: &Answer) -> bool {
    answer.response.status() == StatusCode::BAD_REQUEST
}

fn credentials_need_tls(fetch: &Fetch<'_>, url: &Url) -> Error {
    let observed = format!("{} has no TLS, and credentials are not sent in the clear", shown(url));
    fetch.error(Kind::Unauthorized, observed, "serve the registry over TLS")
}
