//! Connections to registries: whether plain HTTP is allowed, which proxy, which certificates.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::redirect::Policy;
use reqwest::{Client, Url};

use crate::Settings;
use crate::stamp::Stamp;
use crate::tls;

/// Provides HTTP clients that trust the certificates as they are now.
#[derive(Debug)]
pub(crate) struct Transport {
    settings: Arc<Settings>,
    current: Mutex<Option<(Stamp, Clients)>>,
}

/// Two clients: requests to this machine must not go through a proxy, where `localhost` is another host.
#[derive(Clone)]
pub(crate) struct Clients {
    by_proxy: Client,
    direct: Client,
}

/// Whether a registry may be reached by plain HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainHttp {
    /// Only TLS.
    Never,
    /// If it does not speak TLS: it is on this machine or in a private network.
    Fallback,
    /// The operator configured it ([`Settings::plain_http`]).
    Always,
}

// === impl Transport ===

impl Transport {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, current: Mutex::default() }
    }

    /// The clients, rebuilt if the certificates changed.
    pub(crate) fn clients(&self) -> Result<Clients, tls::Error> {
        let stamp = tls::stamp(&self.settings.authorities);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, clients)) = &*current
            && *known == stamp
        {
            return Ok(clients.clone());
        }
        let clients = Clients::new(&self.settings)?;
        *current = Some((stamp, clients.clone()));
        Ok(clients)
    }

    /// Whether the certificates differ from those in use.
    pub(crate) fn certificates_changed(&self) -> bool {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().is_some_and(|(known, _)| *known != tls::stamp(&self.settings.authorities))
    }

    /// Whether plain HTTP is allowed to `host` or `host:port`.
    pub(crate) fn plain_http(&self, registry: &str) -> PlainHttp {
        if self.settings.plain_http.iter().any(|known| known == registry) {
            return PlainHttp::Always;
        }
        if is_private(host(registry)) { PlainHttp::Fallback } else { PlainHttp::Never }
    }
}

// === impl Clients ===

impl Clients {
    fn new(settings: &Settings) -> Result<Self, tls::Error> {
        let tls = tls::client_config(&settings.authorities)?;
        let builder = || {
            Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .redirect(Policy::none())
                .referer(false)
                .retry(reqwest::retry::never())
                .http1_only()
                .user_agent(concat!("loggia/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(settings.timeouts.connect)
                .read_timeout(settings.timeouts.read)
        };
        let setup = |error: reqwest::Error| tls::Error::Setup(error.without_url().into());
        Ok(Self {
            by_proxy: builder().build().map_err(setup)?,
            direct: builder().no_proxy().build().map_err(setup)?,
        })
    }

    pub(crate) fn for_url(&self, url: &Url) -> &Client {
        if url.host_str().is_some_and(is_loopback) { &self.direct } else { &self.by_proxy }
    }
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // `Debug` of a client shows its proxies, and the URL of a proxy may hold a password.
        f.write_str("Clients")
    }
}

/// The host without its port and brackets.
fn host(registry: &str) -> &str {
    match registry.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !host.ends_with(':') => host,
        _ => registry,
    }
}

fn address(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Whether the host is certainly this machine; a name below `localhost` may be resolved to another one.
fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || address(host).is_some_and(|address| address.is_loopback())
}

/// Loopback, names below `localhost`, and the private IPv4 networks.
fn is_private(host: &str) -> bool {
    let private = |address: Ipv4Addr| address.is_private();
    is_loopback(host)
        || host.to_ascii_lowercase().ends_with(".localhost")
        || matches!(address(host), Some(IpAddr::V4(address)) if private(address))
}

/// Whether a request to this URL may carry a credential: over TLS, or without leaving the machine.
pub(crate) fn may_carry_credentials(url: &Url) -> bool {
    url.scheme() == "https" || url.host_str().is_some_and(is_loopback)
}

/// The URL for messages: without user and password, and without the query, which may hold a signature.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_hosts_may_fall_back_to_plain_http() {
        let settings = Settings { plain_http: vec!["r.io:80".to_owned()], ..Settings::default() };
        let transport = Transport::new(Arc::new(settings));
        for registry in [
            "localhost:5000",
            "localhost",
            "a.localhost:1",
            "127.0.0.1:5000",
            "127.9.9.9",
            "[::1]:5000",
            "10.0.0.1:5000",
            "172.16.0.1",
            "192.168.1.1:443",
        ] {
            assert_eq!(transport.plain_http(registry), PlainHttp::Fallback, "{registry}");
        }
        for registry in [
            "r.io",
            "r.io:5000",
            "localhost.io",
            "172.32.0.1",
            "8.8.8.8:80",
            "169.254.169.254",
            "[fd00::1]:5000",
            "10.0.0.1.io",
        ] {
            assert_eq!(transport.plain_http(registry), PlainHttp::Never, "{registry}");
        }
        assert_eq!(transport.plain_http("r.io:80"), PlainHttp::Always);
    }

    #[test]
    fn credentials_go_over_tls_or_stay_on_this_machine() {
        let may = |url: &str| may_carry_credentials(&url.parse().unwrap());
        assert!(may("https://r.io/v2/") && may("http://127.0.0.1:5000/") && may("http://[::1]:5000/"));
        assert!(!may("http://r.io/") && !may("http://10.0.0.1/") && !may("http://a.localhost/"));
    }

    #[test]
    fn a_url_is_shown_without_what_may_be_a_secret() {
        assert_eq!(shown(&"https://u:p@s3.io/blob?X-Signature=abc#f".parse().unwrap()), "https://s3.io/blob");
    }
}
