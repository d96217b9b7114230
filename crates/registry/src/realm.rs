//! Which token services a registry may name: its own host, one of the same owner, or one that the operator listed.
//!
//! A registry could ask for the password itself, so this is a second line: it keeps a credential at home if a registry's
//! answers can be influenced, for instance by a header that it copies from a request.

use crate::network::address;

/// Domains whose subdomains belong to many owners. Below them only the same host is related.
const SHARED: [&str; 21] = [
    "amazonaws.com",
    "appspot.com",
    "azure.com",
    "azurecr.io",
    "azurecr.cn",
    "azurewebsites.net",
    "cloudfront.net",
    "github.io",
    "gitlab.io",
    "googleapis.com",
    "herokuapp.com",
    "jfrog.io",
    "netlify.app",
    "pages.dev",
    "pkg.dev",
    "run.app",
    "vercel.app",
    "web.app",
    "windows.net",
    "workers.dev",
    "aliyuncs.com",
];

/// Registries with a token service under another owner's or a shared domain: the end of the registry's name, and the
/// beginning and the end of the token service's.
const KNOWN: [(&str, &str, &str); 2] =
    [(".aliyuncs.com", "dockerauth.cn-", ".aliyuncs.com"), (".scw.cloud", "api.", "scaleway.com")];

/// Whether the host of a token service belongs to the owner of a registry's host. Both are without port.
pub(crate) fn is_related(registry: &str, realm: &str) -> bool {
    let (registry, realm) = (registry.to_ascii_lowercase(), realm.to_ascii_lowercase());
    let loopback =
        |host: &str| host == "localhost" || address(host).is_some_and(|address| address.is_loopback());
    let known = |(end, first, last): &(&str, &str, &str)| {
        registry.ends_with(end) && realm.starts_with(first) && realm.ends_with(last)
    };
    registry == realm
        || (loopback(&registry) && loopback(&realm))
        || owner(&registry).is_some_and(|site| owner(&realm) == Some(site))
        || KNOWN.iter().any(known)
}

/// The domain that was registered by the owner of a host, as far as that shows without a list of all public suffixes;
/// none if others may have names below it.
fn owner(host: &str) -> Option<&str> {
    if address(host).is_some() {
        return None;
    }
    let dots: Vec<_> = host.rmatch_indices('.').map(|(at, _)| at).collect();
    let top = &host[dots.first()? + 1..];
    let second = &host[dots.get(1).map_or(0, |at| at + 1)..*dots.first()?];
    // `example.co.uk`, `example.com.au`.
    let deep = top.len() == 2 && (second.len() <= 3 || second == "gouv");
    let start = match dots.get(if deep { 2 } else { 1 }) {
        Some(at) => at + 1,
        None if deep && dots.len() < 2 => return None,
        None => 0,
    };
    let domain = &host[start..];
    let internal = ["local", "internal", "localhost", "svc", "test", "invalid"].contains(&top);
    (!internal && !SHARED.contains(&domain)).then_some(domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_services_of_the_registries_in_use_are_related() {
        for (registry, realm) in [
            ("registry-1.docker.io", "auth.docker.io"),
            ("ghcr.io", "ghcr.io"),
            ("quay.io", "quay.io"),
            ("us-docker.pkg.dev", "us-docker.pkg.dev"),
            ("x.azurecr.io", "x.azurecr.io"),
            ("registry.gitlab.com", "gitlab.com"),
            ("registry.corp.example.com", "gitlab.example.com"),
            ("registry.example.co.uk", "auth.example.co.uk"),
            ("docker.elastic.co", "docker-auth.elastic.co"),
            ("registry.digitalocean.com", "api.digitalocean.com"),
            ("registry.cn-hangzhou.aliyuncs.com", "dockerauth.cn-hangzhou.aliyuncs.com"),
            ("rg.fr-par.scw.cloud", "api.scaleway.com"),
            ("Registry.Example.com", "auth.example.COM"),
            ("localhost", "127.0.0.1"),
        ] {
            assert!(is_related(registry, realm), "{registry} {realm}");
        }
    }

    #[test]
    fn token_services_of_others_are_not() {
        for (registry, realm) in [
            ("ghcr.io", "evil.io"),
            ("ghcr.io", "evil-ghcr.io"),
            ("ghcr.io", "ghcr.io.evil.com"),
            ("a.azurecr.io", "b.azurecr.io"),
            ("a.pkg.dev", "b.pkg.dev"),
            ("a.example.co.uk", "b.other.co.uk"),
            ("x.co.uk", "y.co.uk"),
            ("registry.a.svc.cluster.local", "evil.b.svc.cluster.local"),
            ("10.0.0.1", "10.0.0.2"),
            ("10.0.0.1", "localhost"),
            ("registry", "auth"),
            ("r.com", "com"),
            ("registry.cn-hangzhou.aliyuncs.com", "bucket.oss-cn-hangzhou.aliyuncs.com"),
        ] {
            assert!(!is_related(registry, realm), "{registry} {realm}");
        }
    }
}
