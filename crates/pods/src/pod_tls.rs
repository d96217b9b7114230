//! TLS on the way to a pod: why it fails, in words for the caller.

use std::io;

use loggia_grpc::connection;
use rustls::{AlertDescription, CertificateError, Error as TlsError};

use crate::PodTls;

/// Why a server has not reported that it takes calls.
#[derive(Debug)]
pub(crate) enum Unready {
    /// It may yet.
    Unanswered,
    Tls(TlsFailure),
}

/// Which end refused the other.
#[derive(Debug)]
pub(crate) enum TlsFailure {
    /// This end refused the server.
    Local(TlsError),
    /// The server refused this end by an alert.
    Remote(AlertDescription),
}

// === impl Unready ===

impl Unready {
    pub(crate) fn of_connection(error: &connection::Error) -> Self {
        let found = match error {
            connection::Error::NotTrusted(_, error) => of_tls(error),
            _ => None,
        };
        found.map_or(Self::Unanswered, |error| Self::Tls(TlsFailure::Local(error)))
    }

    /// In TLS 1.3 a server refuses a client's certificate after the client has finished its handshake, so the alert
    /// arrives in place of the answer to the first request.
    pub(crate) fn of_alert(alert: Option<AlertDescription>) -> Self {
        alert.map_or(Self::Unanswered, |alert| Self::Tls(TlsFailure::Remote(alert)))
    }
}

fn of_tls(error: &io::Error) -> Option<TlsError> {
    error.get_ref()?.downcast_ref::<TlsError>().cloned()
}

/// What is wrong, and what to check.
pub(crate) fn explain(failure: &TlsFailure, tls: &PodTls, host: &str) -> String {
    let PodTls { secret, files } = tls;
    let wildcard = host.split_once('.').map_or(host, |(_, rest)| rest);
    let error = match failure {
        TlsFailure::Remote(alert) | TlsFailure::Local(TlsError::AlertReceived(alert)) => {
            return refused(*alert, tls);
        }
        TlsFailure::Local(error) => error,
    };
    let (what, check) = match error {
        TlsError::InvalidCertificate(wrong) => match wrong {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => (
                "its certificate comes from an authority that is not in --pod-tls-ca",
                format!("check that {} is the `ca.crt` of the Secret `{secret}`", files.ca.display()),
            ),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
                "its certificate is for another name",
                format!("the one in the Secret `{secret}` must be for `*.{wildcard}`"),
            ),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                ("its certificate has expired", format!("renew the one in the Secret `{secret}`"))
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => (
                "its certificate is not valid yet",
                format!("check the clocks, and the one in the Secret `{secret}`"),
            ),
            _ => ("its certificate is of no use", format!("check the one in the Secret `{secret}`")),
        },
        TlsError::InvalidMessage(_) => (
            "its server speaks no TLS",
            "check that its template starts wrapper-server, and what else listens there".to_owned(),
        ),
        _ => ("its server and this program find no common TLS", "check who listens there".to_owned()),
    };
    format!("no TLS: {what} ({error}); {check}")
}

fn refused(alert: AlertDescription, tls: &PodTls) -> String {
    let secret = &tls.secret;
    match &tls.files.identity {
        Some((cert, _)) => format!(
            "no TLS: its server refuses the certificate of this program ({alert:?}); check that {} was signed by `ca.crt` of \
             the Secret `{secret}`, is for the authentication of clients and has not expired",
            cert.display()
        ),
        None => format!(
            "no TLS: its server wants a certificate of this program ({alert:?}); name one by --pod-tls-cert and --pod-tls-key"
        ),
    }
}

/// The hint for a pod that waits before its first container: the kubelet may be missing the Secret.
pub(crate) fn no_secret(secret: &str, namespace: &str) -> String {
    format!(
        "; it mounts the Secret `{secret}` (--pod-tls-secret): check that the namespace `{namespace}` has it"
    )
}
