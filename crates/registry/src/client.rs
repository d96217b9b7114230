//! One request to a registry, with all that may come between: proof, redirects, repetitions.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::{Method, Response, StatusCode, Url};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tracing::{debug, info};
use zeroize::Zeroizing;

use crate::challenge::Challenge;
use crate::credentials::{Credential, Credentials};
use crate::docker_config::Proof;
use crate::error::Step;
use crate::failure::{self, Trouble};
use crate::secret::Secret;
use crate::token::{self, Tokens};
use crate::transport::{Clients, InTheClear, Transport, keeps_secrets, shown};
use crate::{Error, Kind, Reference, Settings, retry};

const MAX_REDIRECTS: usize = 5;

/// The most of a token service's answer, and of an error's, that is read.
const MAX_TOKEN: usize = 1 << 20;
const MAX_COMPLAINT: usize = 16 << 10;

/// Asks registries. What it learns of one it keeps: whether it speaks TLS, what it wants to see, tokens.
#[derive(Debug)]
pub(crate) struct Client {
    settings: Arc<Settings>,
    transport: Transport,
    credentials: Credentials,
    tokens: Tokens,
    registries: Mutex<HashMap<String, Habits>>,
}

/// How a registry wants to be spoken to.
#[derive(Clone, Debug, Default)]
struct Habits {
    in_the_clear: bool,
    challenge: Option<Challenge>,
}

/// All that is done about one image at one time.
#[derive(Debug)]
pub(crate) struct Errand<'a> {
    pub(crate) image: &'a str,
    pub(crate) reference: &'a Reference,
    deadline: Instant,
    step: Mutex<Step>,
    credential: OnceCell<Option<Credential>>,
}

/// What is asked of a registry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) method: &'a Method,
    /// Behind `/v2/REPOSITORY/`.
    pub(crate) path: &'a str,
    pub(crate) accept: &'static str,
    /// The most bytes of the answer that are taken.
    pub(crate) limit: usize,
}

/// What it answers.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) body: Bytes,
    pub(crate) content_type: String,
    /// The digest that the registry says the answer has.
    pub(crate) digest: Option<String>,
}

/// What a request carries to prove who asks.
#[derive(Clone, Debug)]
enum Authorization {
    Basic(Secret),
    Bearer(Secret),
}

// === impl Errand ===

impl<'a> Errand<'a> {
    pub(crate) fn new(image: &'a str, reference: &'a Reference, deadline: Instant) -> Self {
        let step = Mutex::new(Step::Manifest);
        Self { image, reference, deadline, step, credential: OnceCell::new() }
    }

    pub(crate) fn at(&self, step: Step) {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = step;
    }

    pub(crate) fn step(&self) -> Step {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn error(&self, kind: Kind, observed: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::new(kind, self.image, Some((self.reference.registry(), self.step())), observed, advice)
    }

    /// Where the credential came from, as it may be shown.
    fn origin(&self) -> Option<&str> {
        self.credential.get()?.as_ref().map(|credential| credential.origin.as_str())
    }
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

    /// Asks, and asks again as long as the trouble may pass and there is time.
    pub(crate) async fn ask(&self, errand: &Errand<'_>, question: Question<'_>) -> Result<Answer, Error> {
        let step = errand.step();
        for number in 0.. {
            errand.at(step);
            let (error, asked) = match self.try_once(errand, question).await {
                Ok(answer) => return Ok(answer),
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Passing(error, asked)) => (error, asked),
                Err(Trouble::NoTls(error)) => (error, None),
            };
            let pause = self.settings.retries.pause(number, asked);
            let too_long = asked.is_some_and(|asked| asked > self.settings.retries.longest_pause);
            if number >= self.settings.retries.count || too_long || Instant::now() + pause >= errand.deadline
            {
                return Err(error);
            }
            debug!(?pause, "Asking again: {error}");
            tokio::time::sleep(pause).await;
        }
        unreachable!("the loop ends by returning")
    }

    async fn try_once(&self, errand: &Errand<'_>, question: Question<'_>) -> Result<Answer, Trouble> {
        let clients = self.transport.clients().map_err(|error| {
            errand.at(Step::Certificates);
            let advice = "check `--tls-secret-path`, or `--ca` of `loggia image inspect`";
            Trouble::Final(errand.error(Kind::Configuration, error.to_string(), advice))
        })?;
        let step = errand.step();
        let habits = self.habits(errand.reference.registry());
        let mut authorization = match &habits.challenge {
            Some(challenge) => self.authorize(errand, &clients, challenge, habits.in_the_clear).await?,
            None => None,
        };
        errand.at(step);
        let mut response = self.reach(errand, &clients, question, authorization.as_ref()).await?;
        let status = response.status();
        if status == StatusCode::UNAUTHORIZED {
            authorization = self.answer_challenge(errand, &clients, &response).await?;
            errand.at(step);
            if authorization.is_some() {
                response = self.reach(errand, &clients, question, authorization.as_ref()).await?;
            }
        } else if matches!(status, StatusCode::NOT_FOUND | StatusCode::FORBIDDEN) && authorization.is_none() {
            // Some registries hide what is private from strangers without asking who they are.
            authorization = self.unasked(errand).await?;
            errand.at(step);
            if authorization.is_some() {
                response = self.reach(errand, &clients, question, authorization.as_ref()).await?;
            }
        }
        self.read(errand, question, response, authorization.is_some()).await
    }

    /// Finds what a registry wants that just said 401, and remembers it.
    async fn answer_challenge(
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

    /// A password for a registry that did not ask for one.
    async fn unasked(&self, errand: &Errand<'_>) -> Result<Option<Authorization>, Trouble> {
        let credential = self.credential(errand).await?;
        Ok(credential.and_then(|credential| Authorization::basic(&credential.proof)))
    }

    /// What goes with a request to a registry that wants to see this. Nothing, if there is no credential
    /// for it or none may be sent.
    async fn authorize(
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
                let sent = request.body(form.as_bytes().to_vec()).send().await;
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

    /// Sends a request to the registry, over TLS if it can.
    async fn reach(
        &self,
        errand: &Errand<'_>,
        clients: &Clients,
        question: Question<'_>,
        authorization: Option<&Authorization>,
    ) -> Result<Response, Trouble> {
        let registry = errand.reference.registry();
        let allowed = self.transport.in_the_clear(registry);
        let known = self.habits(registry).in_the_clear;
        let send = async |scheme: &str| {
            let url = self.url(errand, scheme, question.path)?;
            self.follow(errand, clients, question.method, url, question.accept, authorization).await
        };
        if allowed == InTheClear::Always {
            self.change(registry, |habits| habits.in_the_clear = true);
            return send("http").await;
        }
        if known && allowed == InTheClear::IfItMust {
            match send("http").await {
                // That is what TLS says to those who speak in the clear: it has learned since.
                Ok(response) if response.status() == StatusCode::BAD_REQUEST => {}
                Err(Trouble::Passing(error, asked)) => {
                    self.change(registry, |habits| habits.in_the_clear = false);
                    return Err(Trouble::Passing(error, asked));
                }
                sent => return sent,
            }
        }
        self.change(registry, |habits| habits.in_the_clear = false);
        match send("https").await {
            Err(Trouble::NoTls(error)) if allowed == InTheClear::IfItMust => {
                debug!("Trying without TLS: {error}");
                let sent = send("http").await?;
                if sent.status() == StatusCode::BAD_REQUEST {
                    return Err(Trouble::NoTls(error));
                }
                info!("The registry {registry} does not speak TLS: it is asked in the clear");
                self.change(registry, |habits| habits.in_the_clear = true);
                Ok(sent)
            }
            sent => sent,
        }
    }

    fn url(&self, errand: &Errand<'_>, scheme: &str, path: &str) -> Result<Url, Trouble> {
        // Docker Hub serves images under another name than the one that everybody writes.
        let host = match errand.reference.registry() {
            "index.docker.io" => "registry-1.docker.io",
            other => other,
        };
        let text = format!("{scheme}://{host}/v2/{}/{path}", errand.reference.repository());
        text.parse().map_err(|error| {
            let observed = format!("`{host}` is no address: {error}");
            Trouble::Final(errand.error(Kind::InvalidReference, observed, ""))
        })
    }

    /// Sends a request and follows where it is sent on to. The proof stays behind where the way leads to
    /// another host, and nothing leads from TLS into the clear.
    async fn follow(
        &self,
        errand: &Errand<'_>,
        clients: &Clients,
        method: &Method,
        first: Url,
        accept: &'static str,
        authorization: Option<&Authorization>,
    ) -> Result<Response, Trouble> {
        let mut url = first.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut request = clients.for_url(&url).request(method.clone(), url.clone());
            request = request.header(ACCEPT, HeaderValue::from_static(accept));
            if let Some(authorization) = authorization.filter(|_| url.origin() == first.origin()) {
                if !keeps_secrets(&url) {
                    return Err(Trouble::Final(self.not_in_the_clear(errand, &url)));
                }
                request = request.header(AUTHORIZATION, authorization.header(errand)?);
            }
            debug!(%method, url = shown(&url), "Asking");
            let response = request.send().await.map_err(|error| failure::of_request(errand, &error))?;
            debug!(status = response.status().as_u16(), "Answered");
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let target = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let target = target.and_then(|location| url.join(location).ok()).filter(Url::has_host);
            let wrong = |observed: String| Trouble::Final(errand.error(Kind::Malformed, observed, ""));
            let target = target.ok_or_else(|| wrong("the registry sends us on to nowhere".to_owned()))?;
            if target.scheme() != "https" && (url.scheme() == "https" || target.scheme() != "http") {
                return Err(wrong(format!(
                    "the registry sends us from TLS into the clear, to {}",
                    shown(&target)
                )));
            }
            url = target;
        }
        let observed = format!("the registry sends us on more than {MAX_REDIRECTS} times");
        Err(Trouble::Final(errand.error(Kind::Malformed, observed, "")))
    }

    async fn read(
        &self,
        errand: &Errand<'_>,
        question: Question<'_>,
        response: Response,
        proved: bool,
    ) -> Result<Answer, Trouble> {
        if *question.method == Method::HEAD && response.status().is_success() {
            return Ok(Answer::heading(&response));
        }
        self.read_any(errand, response, question.limit, proved).await
    }

    /// The answer, or what its status says.
    async fn read_any(
        &self,
        errand: &Errand<'_>,
        mut response: Response,
        limit: usize,
        proved: bool,
    ) -> Result<Answer, Trouble> {
        let status = response.status();
        if !status.is_success() {
            let asked = retry::asked_pause(response.headers(), SystemTime::now());
            let said = self.complaint(errand, &mut response).await;
            let error = failure::of_status(errand, status, &said, asked, proved, errand.origin());
            return Err(match retry::may_pass(status) {
                true => Trouble::Passing(error, asked),
                false => Trouble::Final(error),
            });
        }
        let mut answer = Answer::heading(&response);
        let too_large = || {
            let observed = format!("the answer has more than {limit} bytes");
            Trouble::Final(errand.error(Kind::TooLarge, observed, "check that this is a function's image"))
        };
        if response.content_length().is_some_and(|length| length > limit as u64) {
            return Err(too_large());
        }
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| failure::of_request(errand, &error))? {
            if body.len() + piece.len() > limit {
                return Err(too_large());
            }
            body.extend_from_slice(&piece);
        }
        answer.body = body.into();
        Ok(answer)
    }

    /// What the registry says is wrong, short and without any secret it may have been sent.
    async fn complaint(&self, errand: &Errand<'_>, response: &mut Response) -> String {
        let mut body = Vec::new();
        while body.len() < MAX_COMPLAINT {
            match response.chunk().await {
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                _ => break,
            }
        }
        let proof = errand.credential.get().and_then(Option::as_ref).map(|credential| &credential.proof);
        failure::complaint(&body, proof)
    }

    fn not_in_the_clear(&self, errand: &Errand<'_>, url: &Url) -> Error {
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

    fn habits(&self, registry: &str) -> Habits {
        let registries = self.registries.lock().unwrap_or_else(PoisonError::into_inner);
        registries.get(registry).cloned().unwrap_or_default()
    }

    /// Notes a habit, and says whether the registry is asked in the clear.
    fn change(&self, registry: &str, change: impl FnOnce(&mut Habits)) -> bool {
        let mut registries = self.registries.lock().unwrap_or_else(PoisonError::into_inner);
        let habits = registries.entry(registry.to_owned()).or_default();
        change(habits);
        habits.in_the_clear
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

// === impl Answer ===

impl Answer {
    fn heading(response: &Response) -> Self {
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        Self {
            body: Bytes::new(),
            content_type: header("content-type").unwrap_or_default().to_owned(),
            digest: header("docker-content-digest").map(str::to_owned),
        }
    }
}

// === impl Authorization ===

impl Authorization {
    fn basic(proof: &Proof) -> Option<Self> {
        let Proof::Password { username, password } = proof else { return None };
        let pair = Zeroizing::new(format!("{}:{}", username.reveal(), password.reveal()));
        Some(Self::Basic(Secret::new(BASE64_STANDARD.encode(pair.as_bytes()))))
    }

    fn header(&self, errand: &Errand<'_>) -> Result<HeaderValue, Trouble> {
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
