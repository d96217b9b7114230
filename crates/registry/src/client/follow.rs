//! One request and the redirects that it leads to.

use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue, LOCATION};
use reqwest::{Method, RequestBuilder, Response, Url};
use tokio::time::Instant;
use tracing::debug;

use super::authorization::Authorization;
use super::{Client, credentials_need_tls};
use crate::Kind;
use crate::request::Fetch;
use crate::request_error::{self, RequestError};
use crate::transport::{Clients, PlainHttp, may_carry_credentials, shown};

const MAX_REDIRECTS: usize = 5;

/// The answer at the end of all redirects.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) response: Response,
    /// It came from another origin than the one that was asked.
    pub(super) redirected: bool,
}

// === impl Client ===

impl Client {
    /// Sends a request and follows redirects. The authorization is not sent to another origin. A redirect goes to
    /// https; from plain HTTP also to the same origin or to a registry that is configured as one without TLS.
    pub(super) async fn follow(
        &self,
        fetch: &Fetch<'_>,
        clients: &Clients,
        method: &Method,
        first: Url,
        accept: &'static str,
        authorization: Option<&Authorization>,
    ) -> Result<Answer, RequestError> {
        let mut url = first.clone();
        // A redirect that comes back to the origin was chosen by another host: it gets nothing, either.
        let mut redirected = false;
        for _ in 0..=MAX_REDIRECTS {
            redirected |= url.origin() != first.origin();
            let private = self.may_be_private(fetch, &url).await;
            let client = clients.for_url(&url, private);
            let client = client.map_err(|forbidden| request_error::of_address(fetch, &forbidden))?;
            let mut request = client.request(method.clone(), url.clone());
            request = request.header(ACCEPT, HeaderValue::from_static(accept));
            if let Some(authorization) = authorization.filter(|_| !redirected) {
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
                return Ok(Answer { response, redirected });
            }
            url = self
                .target(&url, &response)
                .map_err(|observed| RequestError::Final(fetch.error(Kind::Malformed, observed, "")))?;
        }
        let observed = format!("the registry sends us on more than {MAX_REDIRECTS} times");
        Err(RequestError::Final(fetch.error(Kind::Malformed, observed, "")))
    }

    /// Where a redirect leads, if we go there.
    fn target(&self, from: &Url, response: &Response) -> Result<Url, String> {
        let target = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let target = target.and_then(|location| from.join(location).ok()).filter(Url::has_host);
        let mut target = target.ok_or("the registry sends us on to nowhere")?;
        // A name and a password in a redirect would be sent as Basic authorization.
        let _ = target.set_username("");
        let _ = target.set_password(None);
        match target.scheme() {
            "https" => Ok(target),
            "http" if from.scheme() == "https" => {
                Err(format!("the registry sends us from TLS into the clear, to {}", shown(&target)))
            }
            "http" if target.origin() == from.origin() || self.is_plain_http(&target) => Ok(target),
            "http" => {
                Err(format!("the registry sends us on without TLS to another host, {}", shown(&target)))
            }
            _ => Err("the registry sends us on to an address that is not http or https".to_owned()),
        }
    }

    fn is_plain_http(&self, url: &Url) -> bool {
        self.transport.plain_http(url.authority()) == PlainHttp::Always
    }

    /// Whether a host may be in a private network: the settings name it, or it is the registry itself and a file with
    /// credentials has an entry for it.
    pub(super) async fn may_be_private(&self, fetch: &Fetch<'_>, url: &Url) -> bool {
        if self.transport.may_be_private(url) {
            return true;
        }
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let registry = format!("{}{port}", url.host_str().unwrap_or_default());
        url.scheme() == "https"
            && registry == fetch.reference.registry()
            && *fetch.named.get_or_init(|| async { self.credentials.name(fetch.reference) }).await
    }

    /// Sends one request and reports it to the observer.
    pub(super) async fn send(&self, url: &Url, request: RequestBuilder) -> reqwest::Result<Response> {
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
}
