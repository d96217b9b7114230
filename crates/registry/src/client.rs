//! One request to a registry, with what it takes to get an answer: authorization, redirects, retries, and the
//! choice between TLS and plain HTTP.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue, LOCATION};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use tokio::time::Instant;
use tracing::{debug, info};

use crate::challenge::Challenge;
use crate::credentials::Credentials;
use crate::error::Step;
use crate::request::{Fetch, RegistryRequest, RegistryResponse};
use crate::request_error::{self, RequestError};
use crate::token::Tokens;
use crate::transport::{Clients, PlainHttp, Transport, may_carry_credentials, shown};
use crate::{Error, Kind, Settings, retry};

mod authorization;

use authorization::Authorization;

const MAX_REDIRECTS: usize = 5;

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
            Some(challenge) => self.authorize(fetch, &clients, challenge, known.plain_http).await?,
            None => None,
        };
        fetch.at(step);
        let mut response = self.reach(fetch, &clients, request, authorization.as_ref()).await?;
        let status = response.status();
        if status == StatusCode::UNAUTHORIZED {
            authorization = self.answer_challenge(fetch, &clients, &response).await?;
            fetch.at(step);
            if authorization.is_some() {
                response = self.reach(fetch, &clients, request, authorization.as_ref()).await?;
            }
        } else if matches!(status, StatusCode::NOT_FOUND | StatusCode::FORBIDDEN) && authorization.is_none() {
            // Some registries hide private images from anonymous clients instead of sending a challenge.
            authorization = self.unchallenged(fetch).await;
            fetch.at(step);
            if authorization.is_some() {
                response = self.reach(fetch, &clients, request, authorization.as_ref()).await?;
            }
        }
        self.read(fetch, request, response, authorization.is_some()).await
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
    ) -> Result<Response, RequestError> {
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
            Ok(response) => {
                if !known.speaks_tls {
                    self.learn(registry, |known| known.speaks_tls = true);
                }
                Ok(response)
            }
            Err(RequestError::NoTls(error)) if allowed == PlainHttp::Fallback => {
                debug!("Trying without TLS: {error}");
                let response = send("http").await?;
                if is_bad_request(&response) {
                    return Err(RequestError::NoTls(error));
                }
                info!("The registry {registry} does not speak TLS: it is asked in the clear");
                self.learn(registry, |known| known.plain_http = true);
                Ok(response)
            }
            failed => failed,
        }
    }

    fn url(&self, fetch: &Fetch<'_>, scheme: &str, path: &str) -> Result<Url, RequestError> {
        // Docker Hub serves its API on another host than the one in references.
        let host = match fetch.reference.registry() {
            "index.docker.io" => "registry-1.docker.io",
            other => other,
        };
        let text = format!("{scheme}://{host}/v2/{}/{path}", fetch.reference.repository());
        text.parse().map_err(|error| {
            let observed = format!("`{host}` is no address: {error}");
            RequestError::Final(fetch.error(Kind::InvalidReference, observed, ""))
        })
    }

    /// Sends a request and follows redirects. The authorization is not sent to another origin, and a redirect
    /// from https to http is refused.
    async fn follow(
        &self,
        fetch: &Fetch<'_>,
        clients: &Clients,
        method: &Method,
        first: Url,
        accept: &'static str,
        authorization: Option<&Authorization>,
    ) -> Result<Response, RequestError> {
        let mut url = first.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut request = clients.for_url(&url).request(method.clone(), url.clone());
            request = request.header(ACCEPT, HeaderValue::from_static(accept));
            if let Some(authorization) = authorization.filter(|_| url.origin() == first.origin()) {
                if !may_carry_credentials(&url) {
                    return Err(RequestError::Final(credentials_need_tls(fetch, &url)));
                }
                request = request.header(AUTHORIZATION, authorization.header(fetch)?);
            }
            debug!(%method, url = shown(&url), "Asking");
            let response =
                self.send(&url, request).await.map_err(|error| request_error::of_transport(fetch, &error))?;
            debug!(status = response.status().as_u16(), "Answered");
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let target = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let target = target.and_then(|location| url.join(location).ok()).filter(Url::has_host);
            let malformed =
                |observed: String| RequestError::Final(fetch.error(Kind::Malformed, observed, ""));
            let target = target.ok_or_else(|| malformed("the registry sends us on to nowhere".to_owned()))?;
            if target.scheme() != "https" && (url.scheme() == "https" || target.scheme() != "http") {
                return Err(malformed(format!(
                    "the registry sends us from TLS into the clear, to {}",
                    shown(&target)
                )));
            }
            url = target;
        }
        let observed = format!("the registry sends us on more than {MAX_REDIRECTS} times");
        Err(RequestError::Final(fetch.error(Kind::Malformed, observed, "")))
    }

    /// Sends one request and reports it to the observer.
    async fn send(&self, url: &Url, request: RequestBuilder) -> reqwest::Result<Response> {
        let begin = Instant::now();
        let sent = request.send().await;
        if let Some(observer) = &self.settings.observer {
            let code = sent.as_ref().ok().map(|response| response.status().as_u16());
            // Without user and password, which may precede an `@`.
            let host = url.authority().rsplit('@').next().unwrap_or_default();
            observer.asked(host, code, begin.elapsed());
        }
        sent
    }

    async fn read(
        &self,
        fetch: &Fetch<'_>,
        request: RegistryRequest<'_>,
        response: Response,
        authorized: bool,
    ) -> Result<RegistryResponse, RequestError> {
        if *request.method == Method::HEAD && response.status().is_success() {
            return Ok(RegistryResponse::head(&response));
        }
        self.read_body(fetch, response, request.limit, authorized).await
    }

    /// The body of a successful response, or the error that follows from the status.
    async fn read_body(
        &self,
        fetch: &Fetch<'_>,
        mut response: Response,
        limit: usize,
        authorized: bool,
    ) -> Result<RegistryResponse, RequestError> {
        let status = response.status();
        if !status.is_success() {
            let retry_after = retry::retry_after(response.headers(), SystemTime::now());
            let reason = self.reason(fetch, &mut response).await;
            let error = request_error::of_status(fetch, status, &reason, retry_after, authorized);
            return Err(if retry::is_retryable(status) {
                RequestError::Retryable(error, retry_after)
            } else {
                RequestError::Final(error)
            });
        }
        let mut read = RegistryResponse::head(&response);
        let too_large = || {
            let observed = format!("the answer has more than {limit} bytes");
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
    async fn reason(&self, fetch: &Fetch<'_>, response: &mut Response) -> String {
        let mut body = Vec::new();
        while body.len() < MAX_ERROR_BODY {
            match response.chunk().await {
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                _ => break,
            }
        }
        request_error::reason(&body, fetch.proof())
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

fn is_bad_request(response: &Response) -> bool {
    response.status() == StatusCode::BAD_REQUEST
}

fn credentials_need_tls(fetch: &Fetch<'_>, url: &Url) -> Error {
    let observed = format!("{} has no TLS, and credentials are not sent in the clear", shown(url));
    fetch.error(Kind::Unauthorized, observed, "serve the registry over TLS")
}
