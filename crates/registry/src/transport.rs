//! Connections to registries: whether plain HTTP is allowed, which proxy, which certificates, which addresses.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::redirect::Policy;
use reqwest::{Client, Url};

use crate::Settings;
use crate::network::{self, Forbidden, Reach, Resolver, address, split_port};
use crate::stamp::Stamp;
use crate::tls;

/// How much of a URL is shown.
const MAX_SHOWN: usize = 300;

/// Provides HTTP clients that trust the certificates as they are now.
#[derive(Debug)]
pub(crate) struct Transport {
    settings: Arc<Settings>,
    current: Mutex<Option<(Stamp, Clients)>>,
}

/// The clients for public addresses only, and those for hosts that may have private ones. Their connections are apart,
/// so an address that was checked for one host does not serve another.
#[derive(Clone)]
pub(crate) struct Clients {
    public: Pair,
    private: Pair,
}

/// Requests to this machine must not go through a proxy, where `localhost` is another host.
#[derive(Clone)]
struct Pair {
    resolver: Resolver,
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
        if self.settings.plain_http.iter().any(|known| known.eq_ignore_ascii_case(registry)) {
            return PlainHttp::Always;
        }
        let (host, port) = split_port(registry);
        let configured = self.settings.private.names(host, port.unwrap_or(443))
            || self.settings.private.names(host, port.unwrap_or(80));
        if configured && is_private(host) { PlainHttp::Fallback } else { PlainHttp::Never }
    }

    /// Whether the operator's settings name the host of a URL, so that it may be in a private network. With CA
    /// certificates of the installation, TLS in a private network is what they are for.
    pub(crate) fn may_be_private(&self, url: &Url) -> bool {
        let host = bare_host(url);
        let port = url.port_or_known_default().unwrap_or_default();
        let listed = |known: &String| {
            let (name, wanted) = split_port(known);
            name.eq_ignore_ascii_case(host) && wanted.is_none_or(|wanted| wanted == port)
        };
        self.settings.private.names(host, port)
            || self.settings.plain_http.iter().any(listed)
            || (url.scheme() == "https" && !self.settings.authorities.is_empty())
    }
}

// === impl Clients ===

impl Clients {
    fn new(settings: &Settings) -> Result<Self, tls::Error> {
        let tls = tls::client_config(&settings.authorities)?;
        let builder = |resolver: &Resolver| {
            Client::builder()
                .dns_resolver(Arc::new(resolver.clone()))
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
        let proxies = network::proxies(|name| std::env::var(name).ok());
        let pair = |private| -> Result<Pair, tls::Error> {
            let resolver =
                Resolver { private, listed: settings.private.clone(), proxies: Arc::clone(&proxies) };
            Ok(Pair {
                by_proxy: builder(&resolver).build().map_err(setup)?,
                direct: builder(&resolver).no_proxy().build().map_err(setup)?,
                resolver,
            })
        };
        Ok(Self { public: pair(false)?, private: pair(true)? })
    }

    /// The client for a URL; `private` says whether its host may be in a private network. An address in the URL is
    /// checked here, a name when it is resolved.
    pub(crate) fn for_url(&self, url: &Url, private: bool) -> Result<&Client, Forbidden> {
        let pair = if private { &self.private } else { &self.public };
        let host = bare_host(url);
        if let Some(address) = address(host) {
            pair.resolver.check(host, address)?;
        }
        // The resolver lets the names of proxies pass, which may be private: they are not registries.
        if !private && pair.resolver.proxies.iter().any(|proxy| proxy.eq_ignore_ascii_case(host)) {
            return Err(Forbidden { host: host.to_owned(), reach: Reach::Private });
        }
        Ok(if is_loopback(host) { &pair.direct } else { &pair.by_proxy })
    }
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // `Debug` of a client shows its proxies, and the URL of a proxy may hold a password.
        f.write_str("Clients")
    }
}

/// The host of a URL without brackets.
pub(crate) fn bare_host(url: &Url) -> &str {
    url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

/// Whether the host is certainly this machine; a name below `localhost` may be resolved to another one.
fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || address(host).is_some_and(|address| address.is_loopback())
}

/// Loopback, names below `localhost`, and the private IPv4 networks.
fn is_private(host: &str) -> bool {
    is_loopback(host)
        || host.to_ascii_lowercase().ends_with(".localhost")
        || matches!(address(host), Some(IpAddr::V4(address)) if address.is_private())
}

/// Whether a request to this URL may carry a credential: over TLS, or without leaving the machine.
pub(crate) fn may_carry_credentials(url: &Url) -> bool {
    url.scheme() == "https" || is_loopback(bare_host(url))
}

/// The URL for messages: without user and password, without the query, which may hold a signature, and not too long.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let mut text = url.to_string();
    // A URL is ASCII.
    if text.len() > MAX_SHOWN {
        text.truncate(MAX_SHOWN);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_hosts_may_fall_back_to_plain_http() {
        let settings = Settings {
            plain_http: vec!["r.io:80".to_owned()],
            private: crate::PrivateRegistries::Any,
            ..Settings::default()
        };
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
        // Nothing in a private network is asked if it is not configured.
        let listed = crate::PrivateRegistries::Listed(vec!["10.0.0.1:5000".parse().unwrap()]);
        let transport = Transport::new(Arc::new(Settings { private: listed, ..Settings::default() }));
        assert_eq!(transport.plain_http("10.0.0.1:5000"), PlainHttp::Fallback);
        assert_eq!(transport.plain_http("10.0.0.2:5000"), PlainHttp::Never);
        assert_eq!(transport.plain_http("localhost:5000"), PlainHttp::Never);
    }

    #[test]
    fn a_host_may_be_private_if_the_settings_name_it() {
        let may = |settings: Settings, url: &str| {
            Transport::new(Arc::new(settings)).may_be_private(&url.parse().unwrap())
        };
        let none = Settings::default;
        assert!(!may(none(), "https://10.0.0.1/") && !may(none(), "http://localhost:5000/"));
        let plain = Settings { plain_http: vec!["r.corp:5000".to_owned()], ..none() };
        assert!(may(plain.clone(), "http://r.corp:5000/") && !may(plain, "http://r.corp:8080/"));
        let trusting = Settings { authorities: vec!["/ca".into()], ..none() };
        assert!(may(trusting.clone(), "https://r.corp/") && !may(trusting, "http://r.corp/"));
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
