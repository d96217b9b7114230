//! One request to a registry, with all that may come between: proof, redirects, repetitions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue, LOCATION};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use tokio::time::Instant;
use tracing::{debug, info};

use crate::challenge::Challenge;
use crate::credentials::Credentials;
use crate::errand::{Answer, Errand, Question};
use crate::error::Step;
use crate::failure::{self, Trouble};
use crate::token::Tokens;
use crate::transport::{Clients, InTheClear, Transport, keeps_secrets, shown};
use crate::{Error, Kind, Settings, retry};

mod authorization;

use authorization::Authorization;

const MAX_REDIRECTS: usize = 5;

/// The most of an error's own words that is read.
const MAX_COMPLAINT: usize = 16 << 10;

/// The most registries whose habits are kept.
const MAX_REGISTRIES: usize = 4096;

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
    /// It was heard over TLS once, and is not spoken to otherwise any more.
    speaks_tls: bool,
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
            authorization = self.unasked(errand).await;
            errand.at(step);
            if authorization.is_some() {
                response = self.reach(errand, &clients, question, authorization.as_ref()).await?;
            }
        }
        self.read(errand, question, response, authorization.is_some()).await
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
        let habits = self.habits(registry);
        let allowed = match self.transport.in_the_clear(registry) {
            InTheClear::IfItMust if habits.speaks_tls => InTheClear::Never,
            allowed => allowed,
        };
        let send = async |scheme: &str| {
            let url = self.url(errand, scheme, question.path)?;
            self.follow(errand, clients, question.method, url, question.accept, authorization).await
        };
        if allowed == InTheClear::Always {
            self.change(registry, |habits| habits.in_the_clear = true);
            return send("http").await;
        }
        if habits.in_the_clear && allowed == InTheClear::IfItMust {
            let sent = send("http").await;
            // HTTP 400 is what TLS says to those who speak in the clear. It may have learned since.
            let refused = matches!(&sent, Ok(response) if response.status() == StatusCode::BAD_REQUEST);
            if refused || matches!(sent, Err(Trouble::Passing(..))) {
                self.change(registry, |habits| habits.in_the_clear = false);
            }
            if !refused {
                return sent;
            }
        }
        match send("https").await {
            Ok(response) => {
                if !habits.speaks_tls {
                    self.change(registry, |habits| habits.speaks_tls = true);
                }
                Ok(response)
            }
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
            trouble => trouble,
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
            let response =
                self.send(&url, request).await.map_err(|error| failure::of_request(errand, &error))?;
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

    /// Sends one request, and tells of it.
    async fn send(&self, url: &Url, request: RequestBuilder) -> reqwest::Result<Response> {
        let begin = Instant::now();
        let sent = request.send().await;
        if let Some(observer) = &self.settings.observer {
            let code = sent.as_ref().ok().map(|response| response.status().as_u16());
            // Never with a name or a password: what is in front of `@` stays behind.
            let host = url.authority().rsplit('@').next().unwrap_or_default();
            observer.asked(host, code, begin.elapsed());
        }
        sent
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
        failure::complaint(&body, errand.proof())
    }

    fn habits(&self, registry: &str) -> Habits {
        let registries = self.registries.lock().unwrap_or_else(PoisonError::into_inner);
        registries.get(registry).cloned().unwrap_or_default()
    }

    /// Notes a habit, and says whether the registry is asked in the clear.
    fn change(&self, registry: &str, change: impl FnOnce(&mut Habits)) -> bool {
        let mut registries = self.registries.lock().unwrap_or_else(PoisonError::into_inner);
        if registries.len() >= MAX_REGISTRIES && !registries.contains_key(registry) {
            registries.clear();
        }
        let habits = registries.entry(registry.to_owned()).or_default();
        change(habits);
        habits.in_the_clear
    }
}
