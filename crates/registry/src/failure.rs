//! What went wrong with a request, in words, and whether it may pass.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::StatusCode;
use rustls::CertificateError;
use serde::Deserialize;

use crate::docker_config::Proof;
use crate::errand::Errand;
use crate::error::Step;
use crate::{Error, Kind};

/// The most of a registry's own words that is repeated.
const MAX_WORDS: usize = 300;

/// A request that was not answered well.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Asking again gives the same.
    Final(Error),
    /// Asking again may help, after the pause that the registry asks for.
    Passing(Error, Option<Duration>),
    /// There is somebody, but perhaps nobody who speaks TLS; it may also pass.
    NoTls(Error),
}

/// What the registry says in the body of a failed request.
#[derive(Deserialize)]
struct Complaints {
    #[serde(default)]
    errors: Vec<Complaint>,
    /// Token services have a form of their own.
    details: Option<String>,
    error_description: Option<String>,
}

#[derive(Deserialize)]
struct Complaint {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// A request that got no answer, or half of one.
pub(crate) fn of_request(errand: &Errand<'_>, error: &reqwest::Error) -> Trouble {
    if let Some(tls) = causes::<rustls::Error>(error).next() {
        return of_tls(errand, tls);
    }
    if error.is_timeout() || causes::<io::Error>(error).any(|io| io.kind() == io::ErrorKind::TimedOut) {
        let what = if error.is_connect() { "no connection in time" } else { "no answer in time" };
        let advice = "check that the registry is up and that this machine can reach it; `--registry-timeout` is the limit";
        return Trouble::Passing(errand.error(Kind::TimedOut, what, advice), None);
    }
    let (what, advice) = match error.is_connect() {
        true => {
            ("no connection", "check the registry's name and port, DNS, firewalls and the proxy settings")
        }
        false => ("the connection broke off", "check what stands between this machine and the registry"),
    };
    let told = errand.error(Kind::Unreachable, format!("{what}: {}", innermost(error)), advice);
    // A server in the clear may just hang up on a greeting that it does not understand; and where no port is
    // told, TLS has another one.
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, UnexpectedEof};
    let hung_up = causes::<io::Error>(error).any(|io| match io.kind() {
        UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe => true,
        ConnectionRefused => !errand.reference.registry().contains(':'),
        _ => false,
    });
    match error.is_connect() && hung_up {
        true => Trouble::NoTls(told),
        false => Trouble::Passing(told, None),
    }
}

fn of_tls(errand: &Errand<'_>, error: &rustls::Error) -> Trouble {
    let (observed, advice) = match error {
        rustls::Error::InvalidCertificate(wrong) => (
            format!("the registry's certificate is not trusted: {}", certificate(wrong)),
            "nothing was sent; check that `--tls-secret-path` (`--ca` of `loggia image inspect`) holds the \
             authority that signed it",
        ),
        // What is no TLS at all may be a registry in the clear, which the caller may want to try.
        rustls::Error::InvalidMessage(_) => {
            let observed = "the registry does not speak TLS";
            let advice = "check its port; if it really has none, name it in `--plain-http-registries`";
            return Trouble::NoTls(errand.error(Kind::Unreachable, observed, advice));
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
    Trouble::Final(errand.error(Kind::Untrusted, observed, advice))
}

fn certificate(wrong: &CertificateError) -> String {
    match wrong {
        // An authority of the same name with another key is another authority.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "it is signed by an unknown authority".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("it is for another name: {wrong}")
        }
        other => other.to_string(),
    }
}

/// A request that was answered with an error.
pub(crate) fn of_status(
    errand: &Errand<'_>,
    status: StatusCode,
    said: &str,
    asked: Option<Duration>,
    proved: bool,
    origin: Option<&str>,
) -> Error {
    let code = status.as_u16();
    let mut observed = format!("HTTP {code}{}{said}", if said.is_empty() { "" } else { ": " });
    let token = errand.step() == Step::Token;
    let (kind, advice) = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if !proved || origin.is_none() => {
            let advice = "the image is private or does not exist, and there are no credentials for the registry: \
                          check the key in `--registry-auth-secret-path` (`--registry-auth` of `loggia image inspect`)";
            (kind_of_refusal(status), advice.to_owned())
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let origin = origin.unwrap_or("the credentials");
            let advice = match (token, status) {
                (false, StatusCode::FORBIDDEN) => format!("{origin} may not pull this image"),
                _ => format!("{origin} was refused: check that it is right and has not expired"),
            };
            (kind_of_refusal(status), advice)
        }
        StatusCode::NOT_FOUND if token => {
            (Kind::NotFound, "the registry names a token service that is not there".to_owned())
        }
        StatusCode::NOT_FOUND => {
            (Kind::NotFound, "check the image's name and tag, and that its credentials may see it".to_owned())
        }
        StatusCode::TOO_MANY_REQUESTS => {
            if let Some(asked) = asked {
                observed.push_str(&format!("; try again in {} s", asked.as_secs()));
            }
            (Kind::RateLimited, "use credentials with a higher limit, or a mirror".to_owned())
        }
        StatusCode::REQUEST_TIMEOUT => (Kind::TimedOut, "check the registry's load".to_owned()),
        status if status.is_server_error() => {
            (Kind::RegistryFailed, "check the registry and its storage".to_owned())
        }
        _ => (Kind::Malformed, "check that this address is a registry".to_owned()),
    };
    errand.error(kind, observed, advice)
}

fn kind_of_refusal(status: StatusCode) -> Kind {
    match status {
        StatusCode::FORBIDDEN => Kind::Forbidden,
        _ => Kind::Unauthorized,
    }
}

/// The words in the body of a failed request: short, on one line, and without what we sent as proof.
pub(crate) fn complaint(body: &[u8], proof: Option<&Proof>) -> String {
    let Ok(Complaints { errors, details, error_description }) = serde_json::from_slice(body) else {
        return String::new();
    };
    let one = |Complaint { code, message }: Complaint| match (code.as_str(), message.as_str()) {
        (code, "") => code.to_owned(),
        ("", message) => message.to_owned(),
        (code, message) => format!("{code}: {message}"),
    };
    let words: Vec<_> = errors.into_iter().take(3).map(one).chain(details).chain(error_description).collect();
    let mut text = words.join("; ").replace(|c: char| c.is_control(), " ");
    for secret in secrets(proof) {
        text = text.replace(&secret, "[secret]");
    }
    match text.char_indices().nth(MAX_WORDS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// All forms in which a registry may repeat a proof.
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

/// An error and all its causes of a type; an I/O error hides its own.
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

/// What the deepest cause says, without the number of the system's error.
fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    let text = deepest.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn a_complaint_is_short_and_holds_no_secret() {
        let said = |body: &str| {
            let proof = Proof::Password { username: Secret::new("bob"), password: Secret::new("hunter2") };
            complaint(body.as_bytes(), Some(&proof))
        };
        assert_eq!(
            said(r#"{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}"#),
            "MANIFEST_UNKNOWN: manifest unknown"
        );
        assert_eq!(
            said(r#"{"details": "incorrect username or password"}"#),
            "incorrect username or password"
        );
        assert_eq!(
            said(r#"{"errors": [{"message": "no hunter2 Ym9iOmh1bnRlcjI=\nhere"}]}"#),
            "no [secret] [secret] here"
        );
        assert_eq!(said("<html>"), "");
        assert!(said(&format!("{{\"details\": \"{}\"}}", "é".repeat(999))).chars().count() == 301);
    }
}
