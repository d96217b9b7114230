//! Which addresses may be asked: public ones, private ones of registries that the operator named, and never those of
//! the link, where clouds keep their metadata services.
//!
//! Names are checked after they were resolved, by the resolver of the connection itself, so a name that leads
//! elsewhere the second time is checked then as well. Behind a proxy it is the proxy that resolves names.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Services of clouds for the machine itself, outside of the link-local networks.
const METADATA: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// Which registries may be in private networks or on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrivateRegistries {
    /// All of them: whoever names an image is the operator.
    Any,
    Listed(Vec<PrivateRegistry>),
}

/// A registry that may be in a private network: `host`, `host:port`, `*.domain`, or all in a network such as
/// `10.0.0.0/8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateRegistry(Listed);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Listed {
    Host { host: String, port: Option<u16> },
    Below { domain: String, port: Option<u16> },
    Network { address: IpAddr, length: u8 },
}

/// A text that is not a [`PrivateRegistry`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a registry; write `host`, `host:port`, `*.domain`, or a network such as `10.0.0.0/8`")]
pub struct InvalidPrivateRegistry(String);

/// How far an address is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Public,
    /// This machine, or a network that is not routed on the Internet.
    Private,
    /// The link, a metadata service, or no host at all: never asked.
    Never,
}

/// An address that is not asked.
#[derive(Debug, thiserror::Error)]
#[error("the address is not allowed")]
pub(crate) struct Forbidden {
    pub(crate) host: String,
    pub(crate) reach: Reach,
}

/// Resolves names and leaves out the addresses that are not asked.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    /// Private addresses are asked.
    pub(crate) private: bool,
    pub(crate) listed: PrivateRegistries,
    /// The names of proxies, which the operator chose.
    pub(crate) proxies: Arc<[String]>,
}

// === impl Reach ===

impl Reach {
    pub(crate) fn of(address: IpAddr) -> Self {
        if METADATA.contains(&address) {
            return Self::Never;
        }
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => match embedded(address) {
                Some(inner) => Self::of(IpAddr::V4(inner)),
                None => Self::of_v6(address),
            },
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [first, second, ..] = address.octets();
        if address.is_link_local() || first == 0 || address.is_multicast() || address.is_broadcast() {
            return Self::Never;
        }
        let shared = first == 100 && (64..128).contains(&second);
        let benchmarks = first == 198 && (18..20).contains(&second);
        let special = shared || benchmarks || first >= 240 || address.octets()[..3] == [192, 0, 0];
        if address.is_private() || address.is_loopback() || special { Self::Private } else { Self::Public }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        let first = address.segments()[0];
        if address.is_unspecified() || address.is_multicast() || first & 0xffc0 == 0xfe80 {
            return Self::Never;
        }
        // Unique local, and what was once site-local.
        let local = first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0;
        if address.is_loopback() || local { Self::Private } else { Self::Public }
    }
}

/// The IPv4 address that an IPv6 address leads to: mapped, compatible, translated (NAT64) or tunnelled (6to4).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let last = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => Some(last(high, low)),
        [0x64, 0xff9b, 0 | 1, .., high, low] => Some(last(high, low)),
        [0x2002, high, low, ..] => Some(last(high, low)),
        _ => None,
    }
}

// === impl PrivateRegistries ===

impl Default for PrivateRegistries {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl PrivateRegistries {
    /// Whether a host, without brackets, is named.
    pub(crate) fn names(&self, host: &str, port: u16) -> bool {
        match self {
            Self::Any => true,
            Self::Listed(listed) => listed.iter().any(|one| one.names(host, port)),
        }
    }

    fn holds(&self, address: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Listed(listed) => listed.iter().any(|one| one.holds(address)),
        }
    }
}

// === impl PrivateRegistry ===

impl PrivateRegistry {
    /// A host with any port, or `host:port`.
    #[must_use]
    pub fn host(name: &str) -> Self {
        let (host, port) = split_port(name);
        Self(Listed::Host { host: host.to_ascii_lowercase(), port })
    }

    fn names(&self, host: &str, port: u16) -> bool {
        let host = host.to_ascii_lowercase();
        let same_port = |wanted: &Option<u16>| wanted.is_none_or(|wanted| wanted == port);
        match &self.0 {
            Listed::Host { host: known, port } => *known == host && same_port(port),
            Listed::Below { domain, port } => {
                host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')) && same_port(port)
            }
            Listed::Network { .. } => host.parse().is_ok_and(|address| self.holds(address)),
        }
    }

    fn holds(&self, found: IpAddr) -> bool {
        let Listed::Network { address, length } = &self.0 else { return false };
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, false),
            IpAddr::V6(address) => (u128::from(address), true),
        };
        let ((wanted, six), (found, found_six)) = (bits(*address), bits(found));
        let mask = u128::MAX.checked_shl(128 - u32::from(*length)).unwrap_or(0);
        six == found_six && wanted & mask == found & mask
    }
}

impl FromStr for PrivateRegistry {
    type Err = InvalidPrivateRegistry;

    fn from_str(text: &str) -> Result<Self, InvalidPrivateRegistry> {
        let invalid =
            || InvalidPrivateRegistry(text.chars().take(100).collect::<String>().escape_debug().to_string());
        if let Some((address, length)) = text.split_once('/') {
            let address: IpAddr = address.parse().map_err(|_| invalid())?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let length = length.parse().ok().filter(|length| *length <= most).ok_or_else(invalid)?;
            return Ok(Self(Listed::Network { address, length }));
        }
        let (domain, below) = text.strip_prefix("*.").map_or((text, false), |domain| (domain, true));
        // What is no host of an image cannot be asked either.
        let reference: loggia_function::Reference = format!("{domain}/x").parse().map_err(|_| invalid())?;
        let named = domain.eq_ignore_ascii_case(reference.registry());
        let single = !domain.contains(['.', ':'])
            && !domain.is_empty()
            && reference.repository() == format!("{domain}/x");
        if !named && !single {
            return Err(invalid());
        }
        let Self(Listed::Host { host, port }) = Self::host(domain) else { return Err(invalid()) };
        Ok(Self(if below { Listed::Below { domain: host, port } } else { Listed::Host { host, port } }))
    }
}

impl fmt::Display for PrivateRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with_port = |f: &mut fmt::Formatter<'_>, port: &Option<u16>| match port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        };
        match &self.0 {
            Listed::Host { host, port } => f.write_str(host).and_then(|()| with_port(f, port)),
            Listed::Below { domain, port } => write!(f, "*.{domain}").and_then(|()| with_port(f, port)),
            Listed::Network { address, length } => write!(f, "{address}/{length}"),
        }
    }
}

/// A host without brackets, and its port.
pub(crate) fn split_port(registry: &str) -> (&str, Option<u16>) {
    if let Some((address, rest)) = registry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (address, rest.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match registry.split_once(':') {
        Some((host, port)) => (host, port.parse().ok()),
        None => (registry, None),
    }
}

/// The address that a host, with or without brackets, is written as.
pub(crate) fn address(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

// === impl Resolver ===

impl Resolver {
    /// Whether an address of this host may be asked.
    pub(crate) fn check(&self, host: &str, address: IpAddr) -> Result<(), Forbidden> {
        let reach = Reach::of(address);
        match reach {
            Reach::Public => Ok(()),
            Reach::Private if self.private || self.listed.holds(address) => Ok(()),
            reach => Err(Forbidden { host: host.to_owned(), reach }),
        }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let host = name.as_str();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await?.collect();
            if resolver.proxies.iter().any(|proxy| proxy.eq_ignore_ascii_case(host)) {
                return Ok(Box::new(found.into_iter()) as Addrs);
            }
            let mut forbidden = None;
            let mut allowed = Vec::new();
            for address in found {
                match resolver.check(host, address.ip()) {
                    Ok(()) => allowed.push(address),
                    Err(error) => forbidden = Some(error),
                }
            }
            match forbidden {
                Some(error) if allowed.is_empty() => Err(error.into()),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

/// The hosts of the proxies that the environment names.
pub(crate) fn proxies(variable: impl Fn(&str) -> Option<String>) -> Arc<[String]> {
    let names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    let host = |text: String| {
        let text = if text.contains("://") { text } else { format!("http://{text}") };
        text.parse::<reqwest::Url>().ok()?.host_str().map(str::to_owned)
    };
    names.into_iter().filter_map(&variable).filter_map(host).collect()
}

#[cfg(test)]
mod tests;
