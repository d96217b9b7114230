//! One connection to a server, for the gRPC clients of this project.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tonic::body::Body;
use tower_service::Service;

use crate::alert::{Alert, Alerted};
use crate::http2::{self, Failed, Incoming, Requests};
use crate::tls::{ClientFiles, ClientTls};

/// How long a server may take to accept.
const CONNECT_TIME: Duration = Duration::from_secs(5);

type Request = http::Request<Body>;
type Response = http::Response<Incoming>;

/// A connection that is made on first use and again when it broke. Clones share it.
#[derive(Clone, Debug)]
pub struct Connection {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: Target,
    tls: Option<Tls>,
    requests: Mutex<Option<Requests>>,
}

/// Who the server must be, and how it is spoken to.
#[derive(Debug)]
struct Tls {
    name: rustls::pki_types::ServerName<'static>,
    trust: ClientTls,
    origin: Uri,
    alert: Alert,
}

/// Where the server is.
#[derive(Clone, Debug)]
enum Target {
    /// A host, which is looked up for every connection, and a port.
    Name(String),
    /// To be tried one after another.
    Addresses(Vec<SocketAddr>),
}

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0} did not accept the connection within {CONNECT_TIME:?}")]
    NotAccepted(String),
    #[error("dial tcp {0}: {1}")]
    NotConnected(String, io::Error),
    #[error("{0}: no TLS: {1}")]
    NotTrusted(String, io::Error),
    #[error("the connection broke")]
    Broken(#[from] h2::Error),
}

/// A text that is not `HOST:PORT`.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not the address of a server; write HOST:PORT")]
pub struct AddressError(String);

/// Why there can be no connection over TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Files(#[from] crate::tls::Error),
}

// === impl Connection ===

impl Connection {
    /// A connection to `HOST:PORT`. Nothing is sent yet.
    pub fn new(address: &str) -> Result<Self, AddressError> {
        let authority: Option<http::uri::Authority> = address.parse().ok();
        match authority.filter(|authority| !authority.host().is_empty() && authority.port_u16().is_some()) {
            Some(_) => Ok(Self::with(Target::Name(address.to_owned()))),
            None => Err(AddressError(address.to_owned())),
        }
    }

    /// A connection to the first of these addresses that accepts it. Nothing is looked up.
    pub fn to(addresses: Vec<SocketAddr>) -> Self {
        Self::with(Target::Addresses(addresses))
    }

    /// The same over TLS, to a server whose certificate is for this name. Nothing was sent yet.
    ///
    /// # Errors
    /// If that cannot be the name of a server.
    pub fn secured(self, name: &str, trust: ClientTls) -> Result<Self, AddressError> {
        let refused = || AddressError(name.to_owned());
        let target = self.shared.target.clone();
        let origin = match &target {
            Target::Name(address) => Uri::try_from(format!("https://{address}")).map_err(|_| refused())?,
            Target::Addresses(_) => Uri::from_static("https://localhost"),
        };
        let name = name.to_owned().try_into().map_err(|_| refused())?;
        let tls = Some(Tls { name, trust, origin, alert: Alert::default() });
        Ok(Self { shared: Arc::new(Shared { target, tls, requests: Mutex::new(None) }) })
    }

    /// A connection to `HOST:PORT` over TLS, to a server of that host's name.
    ///
    /// # Errors
    /// If that is not an address, or the files cannot be used.
    pub fn over_tls(address: &str, files: &ClientFiles) -> Result<Self, TlsError> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let trust = ClientTls::new(files.clone())?;
        Ok(Self::new(address)?.secured(name, trust)?)
    }

    fn with(target: Target) -> Self {
        let shared = Shared { target, tls: None, requests: Mutex::new(None) };
        Self { shared: Arc::new(shared) }
    }

    /// Connects now, unless that was done.
    pub async fn ready(&self) -> Result<(), Error> {
        self.shared.requests().await.map(drop)
    }

    /// The TLS alert by which the server refused this end, if it did.
    pub fn alert(&self) -> Option<rustls::AlertDescription> {
        self.shared.tls.as_ref()?.alert.get()
    }

    /// What a client has to put before its paths.
    pub fn origin(&self) -> Uri {
        if let Some(tls) = &self.shared.tls {
            return tls.origin.clone();
        }
        // The name of a server means nothing to it, and an address of version 6 is hard to write down.
        Uri::from_static("http://localhost")
    }
}

impl Service<Request> for Connection {
    type Response = Response;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let request = match shared.requests().await?.send(request).await {
                Ok(response) => return Ok(response),
                // A server that is about to leave takes no more on this connection: that request was never
                // seen by anybody.
                Err(Failed::NotTaken(request, _)) => *request,
                Err(Failed::Broken(error)) => return Err(error.into()),
            };
            *shared.requests.lock().await = None;
            shared.requests().await?.send(request).await.map_err(|failed| match failed {
                Failed::NotTaken(_, error) | Failed::Broken(error) => error.into(),
            })
        })
    }
}

// === impl Shared ===

impl Shared {
    /// The way to send requests, over the connection there is or a new one.
    async fn requests(&self) -> Result<Requests, Error> {
        let mut requests = self.requests.lock().await;
        if let Some(requests) = requests.as_ref().filter(|requests| !requests.is_closed()) {
            return Ok(requests.clone());
        }
        let fresh = tokio::time::timeout(CONNECT_TIME, self.connect())
            .await
            .map_err(|_| Error::NotAccepted(self.target.to_string()))??;
        Ok(requests.insert(fresh).clone())
    }

    async fn connect(&self) -> Result<Requests, Error> {
        let stream = match &self.target {
            Target::Name(name) => TcpStream::connect(name).await,
            Target::Addresses(addresses) => TcpStream::connect(addresses.as_slice()).await,
        };
        let stream = stream.map_err(|error| Error::NotConnected(self.target.to_string(), error))?;
        let _ = stream.set_nodelay(true);
        if let Some(tls) = &self.tls {
            let connector = tokio_rustls::TlsConnector::from(tls.trust.config());
            let stream = connector.connect(tls.name.clone(), stream).await;
            let stream = stream.map_err(|error| Error::NotTrusted(self.target.to_string(), error))?;
            return Ok(http2::begin(Alerted { stream, alert: tls.alert.clone() }).await?);
        }
        Ok(http2::begin(stream).await?)
    }
}

// === impl Target ===

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Addresses(addresses) => {
                let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
                f.write_str(&addresses.join(", "))
            }
        }
    }
}
