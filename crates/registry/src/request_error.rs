//! Why a request failed, and whether to send it again.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::StatusCode;
use rustls::CertificateError;
use serde::Deserialize;

use crate::docker_config::Proof;
use crate::error::Step;
use crate::network::{Forbidden, Reach};
use crate::request::Fetch;
use crate::{Error, Kind};

/// How many characters of a registry's error message are repeated.
const MAX_REASON: usize = 300;

/// A failed request, by what the client does next.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The same request would fail again.
    Final(Error),
    /// The same request may succeed later, after the pause of `Retry-After` if the registry sent one.
    Retryable(Error, Option<Duration>),
    /// A server is there but may not speak TLS: plain HTTP may work. If that is not allowed, it is retryable.
    NoTls(Error),
}

/// Whether what a response says may be repeated to the caller. Whoever names an image chooses the host that is asked, so
/// only a registry is quoted, and not whatever else answers there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quote {
    /// The host is known to speak the registry protocol, or is the token service of one that does.
    Registry,
    /// Only entries with a code of the protocol.
    IfCoded,
    /// The response came from a host that the registry sent us to.
    Nothing,
}

/// The codes of the registry protocol: those of the OCI distribution specification and of Docker's registry.
const CODES: [&str; 24] = [
    "BLOB_UNKNOWN",
    "BLOB_UPLOAD_INVALID",
    "BLOB_UPLOAD_UNKNOWN",
    "DENIED",
    "DIGEST_INVALID",
    "MANIFEST_BLOB_UNKNOWN",
    "MANIFEST_INVALID",
    "MANIFEST_UNKNOWN",
    "MANIFEST_UNVERIFIED",
    "NAME_INVALID",
    "NAME_UNKNOWN",
    "PAGINATION_NUMBER_INVALID",
    "RANGE_INVALID",
    "SIZE_INVALID",
    "TAG_INVALID",
    "TOOMANYREQUESTS",
    "UNAUTHORIZED",
    "UNAVAILABLE",
    "UNKNOWN",
    "UNSUPPORTED",
    "NOT_FOUND",
    "FORBIDDEN",
    "PRECONDITION",
    "PROJECTPOLICYVIOLATION",
];

/// The body of an error response.
#[derive(Deserialize)]
struct ErrorBody {
    /// What registries send.
    #[serde(default)]
    errors: Vec<ErrorEntry>,
    /// What token services send: Docker's in `details`, those of OAuth 2.0 in `error_description`.
    details: Option<String>,
    error_description: Option<String>,
}

#[derive(Deserialize)]
struct ErrorEntry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// A request without a response, or with an incomplete one.
pub(crate) fn of_transport(fetch: &Fetch<'_>, error: &reqwest::Error) -> RequestError {
    if let Some(forbidden) = causes::<Forbidden>(error).next() {
        return of_address(fetch, forbidden);
    }
    if let Some(tls) = causes::<rustls::Error>(error).next() {
        return of_tls(fetch, tls);
    }
    if error.is_timeout() || causes::<io::Error>(error).any(|io| io.kind() == io::ErrorKind::TimedOut) {
        let what = if error.is_connect() { "no connection in time" } else { "no answer in time" };
        let advice = "check that the registry is up and that this machine can reach it; `--registry-timeout` is the limit";
        return RequestError::Retryable(fetch.error(Kind::TimedOut, what, advice), None);
    }
    let (what, advice) = if error.is_connect() {
        ("no connection", "check the registry's name and port, DNS, firewalls and the proxy settings")
    } else {
        ("the connection broke off", "check what stands between this machine and the registry")
    };
    let unreachable = fetch.error(Kind::Unreachable, format!("{what}: {}", innermost(error)), advice);
    // A plain HTTP server may just close the connection on a TLS ClientHello. And without a port, https means
    // 443, where a server of plain HTTP does not listen.
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, UnexpectedEof};
    let closed = causes::<io::Error>(error).any(|io| match io.kind() {
        UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe => true,
        ConnectionRefused => !fetch.reference.registry().contains(':'),
        _ => false,
    });
    if error.is_connect() && closed {
        RequestError::NoTls(unreachable)
    } else {
        RequestError::Retryable(unreachable, None)
    }
}

/// An address that is not asked. The address itself is not shown: whoever names an image must not learn what a name
/// leads to inside.
pub(crate) fn of_address(fetch: &Fetch<'_>, Forbidden { host, reach }: &Forbidden) -> RequestError {
    let host: String = host.chars().take(253).collect();
    let (what, advice) = match reach {
        Reach::Never => {
            ("has an address of the link, which is never asked", "check the registry's name and DNS")
        }
        _ => (
            "is in a private network or on this machine, which is asked only where that is configured",
            "name the registry in `--private-registries`, or in `--plain-http-registries` if it has no TLS",
        ),
    };
    RequestError::Final(fetch.error(Kind::NotAllowed, format!("`{host}` {what}"), advice))
}

fn of_tls(fetch: &Fetch<'_>, error: &rustls::Error) -> RequestError {
    let (observed, advice) = match error {
        rustls::Error::InvalidCertificate(reason) => (
            format!("the registry's certificate is not trusted: {}", certificate(reason)),
            "nothing was sent; check that `--tls-secret-path` (`--ca` of `loggia image inspect`) holds the \
             authority that signed it",
        ),
        // The response is not TLS; it may be plain HTTP.
        rustls::Error::InvalidMessage(_) => {
            let observed = "the registry does not speak TLS";
            let advice = "check its port; if it really has none, name it in `--plain-http-registries`";
            return RequestError::NoTls(fetch.error(Kind::Unreachable, observed, advice));
        }
        rustls::Error::AlertReceived(alert) => (
            format!("the registry ended the TLS handshake: {alert:?}"),
            "check that it speaks TLS 1.2 or later",
        ),
        rustls::Error::PeerIncompatible(why) => (
            format!("the registry's TLS is not compatible: {why:?}"),
            "check that it speaks TLS 1.2 or later",
        ),
        other => (format!("TLS: {other}"), "check the registry's TLS settings"),
    };
    RequestError::Final(fetch.error(Kind::Untrusted, observed, advice))
}

fn certificate(reason: &CertificateError) -> String {
    match reason {
        // A bad signature: the trusted CA has the same name, but another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "it is signed by an unknown authority".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("it is for another name: {reason}")
        }
        other => other.to_string(),
    }
}

/// An error response; `authorized` says whether the request carried a credential.
pub(crate) fn of_status(
    fetch: &Fetch<'_>,
    status: StatusCode,
    reason: &str,
    retry_after: Option<Duration>,
    authorized: bool,
) -> Error {
    let code = status.as_u16();
    let mut observed = format!("HTTP {code}{}{reason}", if reason.is_empty() { "" } else { ": " });
    let origin = fetch.origin().filter(|_| authorized);
    let token = fetch.step() == Step::Token;
    let (kind, advice) = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let advice = match origin {
                None => "the image is private or does not exist, and there are no credentials for the registry: \
                         check the key in `--registry-auth-secret-path` (`--registry-auth` of `loggia image inspect`)"
                    .to_owned(),
                Some(origin) if status == StatusCode::FORBIDDEN && !token => {
                    format!("{origin} may not pull this image")
                }
                Some(origin) => format!("{origin} was refused: check that it is right and has not expired"),
            };
            (if status == StatusCode::FORBIDDEN { Kind::Forbidden } else { Kind::Unauthorized }, advice)
        }
        StatusCode::NOT_FOUND if token => {
            (Kind::NotFound, "the registry names a token service that is not there".to_owned())
        }
        StatusCode::NOT_FOUND => {
            (Kind::NotFound, "check the image's name and tag, and that its credentials may see it".to_owned())
        }
        StatusCode::TOO_MANY_REQUESTS => {
            if let Some(pause) = retry_after {
                observed.push_str(&format!("; try again in {} s", pause.as_secs()));
            }
            (Kind::RateLimited, "use credentials with a higher limit, or a mirror".to_owned())
        }
        StatusCode::REQUEST_TIMEOUT => (Kind::TimedOut, "check the registry's load".to_owned()),
        status if status.is_server_error() => {
            (Kind::RegistryFailed, "check the registry and its storage".to_owned())
        }
        _ => (Kind::Malformed, "check that this address is a registry".to_owned()),
    };
    fetch.error(kind, observed, advice)
}

/// The reason in the body of an error response: short, on one line, and without the credentials we sent.
pub(crate) fn reason(body: &[u8], quote: Quote, proof: Option<&Proof>) -> String {
    if quote == Quote::Nothing {
        return String::new();
    }
    let Ok(ErrorBody { errors, details, error_description }) = serde_json::from_slice(body) else {
        return String::new();
    };
    let coded = |entry: &ErrorEntry| quote == Quote::Registry || CODES.contains(&entry.code.as_str());
    let one = |ErrorEntry { code, message }: ErrorEntry| match (code.as_str(), message.as_str()) {
        (code, "") => code.to_owned(),
        ("", message) => message.to_owned(),
        (code, message) => format!("{code}: {message}"),
    };
    let free = [details, error_description].into_iter().flatten().filter(|_| quote == Quote::Registry);
    let words: Vec<_> = errors.into_iter().filter(coded).take(3).map(one).chain(free).collect();
    let mut text = words.join("; ").replace(|c: char| c.is_control(), " ");
    for secret in secrets(proof) {
        text = text.replace(&secret, "[secret]");
    }
    match text.char_indices().nth(MAX_REASON) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The forms in which a registry may repeat a credential.
fn secrets(proof: Option<&Proof>) -> Vec<String> {
    let texts = match proof {
        Some(Proof::Password { username, password }) => {
            let pair = BASE64_STANDARD.encode(format!("{}:{}", username.reveal(), password.reveal()));
            vec![pair, password.reveal().to_owned()]
        }
        Some(Proof::IdentityToken(token) | Proof::RegistryToken(token)) => vec![token.reveal().to_owned()],
        None => vec![],
    };
    texts.into_iter().filter(|text| !text.is_empty()).collect()
}

/// An error and its causes, as far as they are of one type. `source` of an I/O error skips the error that it
/// wraps, hence `get_ref`.
fn causes<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a E> {
    fn next<'a>(error: &&'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
        let error: &'a (dyn StdError + 'static) = *error;
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        }
    }
    std::iter::successors(Some(error), next).filter_map(|error| error.downcast_ref())
}

/// The text of the last cause. The errors above it may quote URLs with signatures, and say no more.
fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    match deepest.downcast_ref::<io::Error>() {
        Some(error) => loggia_go::errno_text(error),
        None => deepest.to_string().to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn a_reason_is_short_and_holds_no_secret() {
        let text = |body: &str| {
            let proof = Proof::Password { username: Secret::new("bob"), password: Secret::new("hunter2") };
            reason(body.as_bytes(), Quote::Registry, Some(&proof))
        };
        assert_eq!(
            text(r#"{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}"#),
            "MANIFEST_UNKNOWN: manifest unknown"
        );
        assert_eq!(
            text(r#"{"details": "incorrect username or password"}"#),
            "incorrect username or password"
        );
        assert_eq!(
            text(r#"{"errors": [{"message": "no hunter2 Ym9iOmh1bnRlcjI=\nhere"}]}"#),
            "no [secret] [secret] here"
        );
        assert_eq!(text("<html>"), "");
        assert_eq!(text(&"[".repeat(16 << 10)), "");
        assert!(text(&format!("{{\"details\": \"{}\"}}", "é".repeat(999))).chars().count() == 301);
    }

    #[test]
    fn only_a_registry_is_quoted() {
        let text = |body: &str, quote| reason(body.as_bytes(), quote, None);
        let internal = r#"{"details": "INTERNAL SERVICE SAYS", "error_description": "x", "errors": [{"message": "y"}, {"code": "E1", "message": "z"}]}"#;
        assert_eq!(text(internal, Quote::IfCoded), "");
        assert_eq!(text(internal, Quote::Nothing), "");
        assert_eq!(text(internal, Quote::Registry), "y; E1: z; INTERNAL SERVICE SAYS; x");
        let denied = r#"{"errors": [{"code": "DENIED", "message": "no"}]}"#;
        assert_eq!(text(denied, Quote::IfCoded), "DENIED: no");
        assert_eq!(text(denied, Quote::Nothing), "");
    }
}
