//! TLS on both ends of a connection, from files that may be rotated while the program runs.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use loggia_go::errno_text;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{info, warn};

/// How often files are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// How long a peer that was refused may take to close its side.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// The versions that are spoken.
const VERSIONS: &[&rustls::SupportedProtocolVersion] = &[
    &rustls::version::TLS13,
    #[cfg(feature = "tls12")]
    &rustls::version::TLS12,
];

/// Where a server's identity is, and whom it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// Its certificate, followed by those between it and its authority.
    pub cert: PathBuf,
    pub key: PathBuf,
    /// The authorities of callers; without them anybody is served.
    pub client_ca: Option<PathBuf>,
}

/// Whom a client trusts, and who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFiles {
    /// The authorities of servers.
    pub ca: PathBuf,
    /// Its certificate and key, for servers that want to know.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A TLS config that is loaded again when its files change. Clones share it.
pub struct Reloading<F: Files> {
    files: Arc<F>,
    config: Arc<RwLock<Arc<F::Config>>>,
}

/// The identity of a server.
pub type ServerTls = Reloading<ServerFiles>;

/// Whom a client trusts, and who it is.
pub type ClientTls = Reloading<ClientFiles>;

/// The files of one end of a connection.
pub trait Files {
    type Config;

    fn load(&self) -> Result<Self::Config, Error>;

    fn paths(&self) -> Vec<&Path>;
}

/// Why files are of no use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("open {}: {}", .0.display(), errno_text(.1))]
    Unreadable(PathBuf, io::Error),
    #[error("{}: there is no certificate in it; it must be in PEM form", .0.display())]
    NoCertificate(PathBuf),
    #[error("{}: there is no private key in it; it must be in PEM form, without a password", .0.display())]
    NoKey(PathBuf),
    #[error("{} and {}: {}", .cert.display(), .key.display(), .source)]
    Unusable { cert: PathBuf, key: PathBuf, source: rustls::Error },
    #[error("{}: {reason}", .file.display())]
    Authorities { file: PathBuf, reason: String },
}

/// Names of files that make no identity.
#[derive(Debug, thiserror::Error)]
pub enum NamesError {
    #[error("--client-ca: callers show certificates only over TLS; add --tls-cert")]
    NothingToCheck,
    #[error("--tls-cert and --tls-key belong together; one of them is missing")]
    OneOfTwo,
}

/// What tells one state of files from another. The inode is part of it because a mounted Secret changes by a
/// link that points elsewhere.
type Stamp = Vec<Option<(u64, u64, i64, i64)>>;

// === impl ServerFiles ===

impl ServerFiles {
    /// The files that flags name, of which empty ones name none.
    pub fn named(cert: &str, key: &str, client_ca: &str) -> Result<Option<Self>, NamesError> {
        let named = |file: &str| Some(PathBuf::from(file)).filter(|_| !file.is_empty());
        match (named(cert), named(key), named(client_ca)) {
            (Some(cert), Some(key), client_ca) => Ok(Some(Self { cert, key, client_ca })),
            (None, None, None) => Ok(None),
            (None, None, Some(_)) => Err(NamesError::NothingToCheck),
            _ => Err(NamesError::OneOfTwo),
        }
    }
}

impl Files for ServerFiles {
    type Config = ServerConfig;

    fn load(&self) -> Result<ServerConfig, Error> {
        let Self { cert, key, client_ca } = self;
        let provider = provider();
        let unusable = |source| Error::Unusable { cert: cert.clone(), key: key.clone(), source };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_protocol_versions(VERSIONS).map_err(unusable)?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let roots = Arc::new(authorities(file)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                let wrong = |error: rustls::server::VerifierBuilderError| Error::Authorities {
                    file: file.clone(),
                    reason: error.to_string(),
                };
                builder.with_client_cert_verifier(verifier.map_err(wrong)?)
            }
        };
        let mut config =
            builder.with_single_cert(certificates(cert)?, private_key(key)?).map_err(unusable)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    fn paths(&self) -> Vec<&Path> {
        [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
            .collect()
    }
}

// === impl Reloading ===

impl<F: Files> Reloading<F> {
    /// Reads the files.
    pub fn new(files: F) -> Result<Self, Error> {
        let config = Arc::new(files.load()?);
        Ok(Self { files: Arc::new(files), config: Arc::new(RwLock::new(config)) })
    }

    /// Which files they are.
    pub fn files(&self) -> &F {
        &self.files
    }

    /// What the files held when they were last good.
    pub(crate) fn config(&self) -> Arc<F::Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn stamp(&self) -> Stamp {
        let stamp = |found: fs::Metadata| (found.ino(), found.len(), found.mtime(), found.mtime_nsec());
        self.files.paths().into_iter().map(|file| fs::metadata(file).ok().map(stamp)).collect()
    }

    /// Follows the files for as long as the future is polled. New connections get what they hold; one that
    /// cannot be used leaves the last that was good.
    pub async fn follow_changes(self) {
        let mut loaded = self.stamp();
        let mut complaint = None;
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let stamp = self.stamp();
            if stamp == loaded {
                continue;
            }
            match self.files.load() {
                Ok(config) => {
                    *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
                    info!("The certificate changed: new connections get the new one");
                    (loaded, complaint) = (stamp, None);
                }
                // Files change one after another; the next look may find them whole.
                Err(error) => {
                    let text = error.to_string();
                    if complaint.as_ref() != Some(&text) {
                        warn!("{text}; the certificate stays as it was");
                    }
                    complaint = Some(text);
                }
            }
        }
    }
}

impl<F: Files> Clone for Reloading<F> {
    fn clone(&self) -> Self {
        Self { files: Arc::clone(&self.files), config: Arc::clone(&self.config) }
    }
}

impl<F: Files + fmt::Debug> fmt::Debug for Reloading<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

// === impl ServerTls ===

impl ServerTls {
    /// Shakes hands.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        match TlsAcceptor::from(self.config()).accept(stream).into_fallible().await {
            Ok(stream) => Ok(stream),
            Err((error, stream)) => {
                close_gracefully(stream).await;
                Err(error)
            }
        }
    }
}

// === impl ClientFiles ===

impl Files for ClientFiles {
    type Config = ClientConfig;

    fn load(&self) -> Result<ClientConfig, Error> {
        let builder = ClientConfig::builder_with_provider(provider());
        let wrong = |reason: String| Error::Authorities { file: self.ca.clone(), reason };
        let builder = builder.with_protocol_versions(VERSIONS).map_err(|error| wrong(error.to_string()))?;
        let builder = builder.with_root_certificates(authorities(&self.ca)?);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let unusable = |source| Error::Unusable { cert: cert.clone(), key: key.clone(), source };
                builder.with_client_auth_cert(certificates(cert)?, private_key(key)?).map_err(unusable)?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    fn paths(&self) -> Vec<&Path> {
        let identity = self.identity.iter().flat_map(|(cert, key)| [cert, key]);
        std::iter::once(&self.ca).chain(identity).map(PathBuf::as_path).collect()
    }
}

/// Reads what is left before closing: unread data would make the kernel send RST, and the peer would lose our alert.
async fn close_gracefully(mut stream: TcpStream) {
    let leave = async {
        let _ = stream.shutdown().await;
        let mut rest = [0; 512];
        while matches!(stream.read(&mut rest).await, Ok(1..)) {}
    };
    let _ = tokio::time::timeout(CLOSE_TIME, leave).await;
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn read(file: &Path) -> Result<Vec<u8>, Error> {
    fs::read(file).map_err(|error| Error::Unreadable(file.to_owned(), error))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(&read(file)?).filter_map(Result::ok).collect();
    if found.is_empty() { Err(Error::NoCertificate(file.to_owned())) } else { Ok(found) }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(&read(file)?).map_err(|_| Error::NoKey(file.to_owned()))
}

fn authorities(file: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    match roots.add_parsable_certificates(certificates(file)?) {
        (0, _) => Err(Error::NoCertificate(file.to_owned())),
        _ => Ok(roots),
    }
}
