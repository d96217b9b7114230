//! TLS to registries: trusts the certificates of the system and those of the installation.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use loggia_go::errno_text;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tracing::{debug, warn};

use crate::stamp::Stamp;

/// The file in a folder of certificates; the first that exists is used.
const NAMES: [&str; 2] = ["ca.crt", "ca.pem"];

/// Why the certificates cannot be used. The texts are Porch's where it has one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("stat {}: {}", .0.display(), errno_text(.1))]
    Missing(PathBuf, std::io::Error),
    #[error("ca.crt not found: {0}, and ca.pem also not found: {1}")]
    NeitherInFolder(String, String),
    #[error("open {}: {}", .0.display(), errno_text(.1))]
    Unreadable(PathBuf, std::io::Error),
    #[error("failed to append certificates from PEM: {} holds no certificate that can be used", .0.display())]
    NoCertificate(PathBuf),
    #[error("TLS cannot be set up")]
    Setup(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The stamp of the files that [`client_config`] would read.
pub(crate) fn stamp(authorities: &[PathBuf]) -> Stamp {
    Stamp::of(authorities.iter().flat_map(|path| match fs::metadata(path) {
        Ok(found) if found.is_dir() => NAMES.map(|name| path.join(name)).to_vec(),
        _ => vec![path.clone()],
    }))
}

/// A client configuration for TLS 1.2 and later that trusts the system's certificates and those at
/// `authorities`.
pub(crate) fn client_config(authorities: &[PathBuf]) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (mut roots, system) = (RootCertStore::empty(), system_roots());
    roots.extend(system.roots.iter().cloned());
    let mut own = Vec::new();
    for path in authorities {
        let file = file_at(path)?;
        let certificates = read(&file)?;
        let (usable, _) = roots.add_parsable_certificates(certificates.iter().cloned());
        if usable == 0 {
            return Err(Error::NoCertificate(file));
        }
        debug!(file = %file.display(), certificates = usable, "Trusting certificates beside the system's");
        own.extend(certificates);
    }
    if roots.is_empty() {
        warn!("There are no certificates to trust: no registry can be asked over TLS");
    }
    let verifier = Verifier::new(roots, own, &provider)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| Error::Setup(error.into()))?;
    Ok(config.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// The system's certificates, read once: reading them takes longer than a request.
fn system_roots() -> &'static RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            debug!("Reading the system's certificates: {error}");
        }
        let mut roots = RootCertStore::empty();
        let (usable, unusable) = roots.add_parsable_certificates(found.certs);
        debug!(usable, unusable, "Read the system's certificates");
        roots
    })
}

/// The file itself, or the first of [`NAMES`] in a folder.
fn file_at(path: &Path) -> Result<PathBuf, Error> {
    let found = fs::metadata(path).map_err(|error| Error::Missing(path.to_owned(), error))?;
    if !found.is_dir() {
        return Ok(path.to_owned());
    }
    let [first, second] = NAMES.map(|name| path.join(name));
    let problem = |file: &Path| match fs::File::open(file) {
        Ok(_) => None,
        Err(error) => Some(format!("open {}: {}", file.display(), errno_text(&error))),
    };
    match (problem(&first), problem(&second)) {
        (None, _) => Ok(first),
        (_, None) => Ok(second),
        (Some(first), Some(second)) => Err(Error::NeitherInFolder(first, second)),
    }
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = fs::read(file).map_err(|error| Error::Unreadable(file.to_owned(), error))?;
    Ok(CertificateDer::pem_slice_iter(&text).filter_map(Result::ok).collect())
}

/// rustls' verifier, which also accepts a server certificate that is itself among those to trust.
/// `openssl req -x509` makes such certificates and marks them as a CA, which webpki refuses for a server and Go
/// accepts.
#[derive(Debug)]
struct Verifier {
    chain: Arc<WebPkiServerVerifier>,
    own: Vec<CertificateDer<'static>>,
}

// === impl Verifier ===

impl Verifier {
    fn new(
        roots: RootCertStore,
        own: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, Error> {
        let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        Ok(Self { chain: chain.build().map_err(|error| Error::Setup(error.into()))?, own })
    }

    /// webpki checks the validity period before it refuses a CA as a server certificate, so what is left to check
    /// is the name.
    fn is_own(
        &self,
        certificate: &CertificateDer<'_>,
        server: &ServerName<'_>,
        error: &rustls::Error,
    ) -> bool {
        let is_ca = matches!(error, rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other))
            if matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)));
        is_ca
            && self.own.iter().any(|own| own == certificate)
            && ParsedCertificate::try_from(certificate)
                .is_ok_and(|parsed| rustls::client::verify_server_name(&parsed, server).is_ok())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.chain.verify_server_cert(certificate, intermediates, server, ocsp, now) {
            Err(error) if self.is_own(certificate, server, &error) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}
