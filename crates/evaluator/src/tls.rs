//! TLS on both ends of a connection, from files that may be rotated while the program runs.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{info, warn};

use crate::process::errno_text;
use crate::server::GREETING;

/// How often files are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// The versions that are spoken.
const VERSIONS: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];

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

/// The identity of a server as the files have it. Clones share it.
#[derive(Clone, Debug)]
pub struct ServerTls {
    files: Arc<ServerFiles>,
    config: Arc<RwLock<Arc<ServerConfig>>>,
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

/// What tells one state of files from another. The inode is part of it because a mounted Secret changes by a
/// link that points elsewhere.
type Stamp = Vec<Option<(u64, u64, i64, i64)>>;

// === impl ServerFiles ===

impl ServerFiles {
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

    fn stamp(&self) -> Stamp {
        let files = [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()];
        let stamp = |found: fs::Metadata| (found.ino(), found.len(), found.mtime(), found.mtime_nsec());
        files.into_iter().flatten().map(|file| fs::metadata(file).ok().map(stamp)).collect()
    }
}

// === impl ServerTls ===

impl ServerTls {
    /// Reads the files.
    pub fn new(files: ServerFiles) -> Result<Self, Error> {
        let config = Arc::new(files.load()?);
        Ok(Self { files: Arc::new(files), config: Arc::new(RwLock::new(config)) })
    }

    /// Follows the files for as long as the future is polled. New connections get what they hold; one that
    /// cannot be used leaves the last that was good.
    pub async fn follow_changes(self) {
        let mut loaded = self.files.stamp();
        let mut complaint = None;
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let stamp = self.files.stamp();
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

    /// Shakes hands, and waits for the caller to greet.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<Greeted> {
        let config = Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner));
        let mut stream = TlsAcceptor::from(config).accept(stream).await?;
        let mut greeting = [0; GREETING];
        stream.read_exact(&mut greeting).await?;
        Ok(Greeted { greeting, told: 0, stream })
    }
}

// === impl ClientFiles ===

impl ClientFiles {
    #[cfg(feature = "client")]
    pub(crate) fn load(&self) -> Result<ClientConfig, Error> {
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

/// A stream whose caller greeted, to be read from its beginning.
#[derive(Debug)]
pub(crate) struct Greeted {
    greeting: [u8; GREETING],
    told: usize,
    stream: TlsStream<TcpStream>,
}

// === impl Greeted ===

impl AsyncRead for Greeted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = self.greeting.get(self.told..).unwrap_or_default();
        if rest.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = rest.len().min(buffer.remaining());
        buffer.put_slice(rest.get(..count).unwrap_or_default());
        self.told += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Greeted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
