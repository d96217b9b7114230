//! The gRPC server: connections, routes, and an orderly end.
//!
//! It stands directly on hyper, because three things must be ours: the deadline of a call (so that it
//! ends with the code callers expect), the limits of HTTP/2 (Porch sends everything over one connection,
//! and cancels often), and the stop.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Code, Status};
use tonic_health::pb::health_server::HealthServer;
use tower_service::Service;
use tracing::{debug, warn};

use crate::Evaluator;
use crate::context::Context as CallContext;
use crate::error::SIZE_FLAGS;
use crate::health::HealthService;
use crate::lifecycle::{Lifecycle, Phase};
use crate::observe::{Observer, Watch};
use crate::service::{EvaluatorService, timeout_of};
#[cfg(feature = "tls")]
use crate::tls::ServerTls;
use crate::wire::FunctionEvaluatorServer;

/// How long an answer may take to leave once the service closes.
const FLUSH_TIME: Duration = Duration::from_millis(500);

/// How long a peer may take to show that it speaks HTTP/2.
const GREETING_TIME: Duration = Duration::from_secs(20);
/// The length of what an HTTP/2 client says first.
pub(crate) const GREETING: usize = 24;

type Response = http::Response<Body>;
type Handler = dyn Fn(http::Request<Body>) -> Pin<Box<dyn Future<Output = Response> + Send>> + Send + Sync;

/// When a request's headers came, which is when its deadline began to count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival(pub(crate) Instant);

/// The services of one port.
#[derive(Clone)]
pub struct Routes {
    lifecycle: Lifecycle,
    services: Arc<Vec<(&'static str, Box<Handler>)>>,
    observer: Option<Arc<dyn Observer>>,
    #[cfg(feature = "tls")]
    tls: Option<ServerTls>,
}

/// Listens on a port of all addresses, of both families where the machine has both.
pub fn listen(port: u16) -> io::Result<TcpListener> {
    let any_family = || {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::INET6, SocketType::STREAM, flags, None)?;
        sockopt::set_ipv6_v6only(&socket, false)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))?;
        rustix::net::listen(&socket, 1024)?;
        Ok(std::net::TcpListener::from(socket))
    };
    let listener = any_family().or_else(|error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(error),
        _ => std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)),
    })?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Answers calls until the lifecycle closes; by then every answer that could be given has left.
pub async fn serve(listener: TcpListener, routes: Routes) {
    let mut connections = JoinSet::new();
    let mut phase = routes.lifecycle.watch();
    let mut closing = pin!(reached(&mut phase, Phase::Closing));
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, routes.clone()));
                }
                Err(error) => {
                    // Most likely out of descriptors: those that are open must get a chance to end.
                    warn!(%error, "Could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = &mut closing => break,
        }
    }
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(FLUSH_TIME, ended).await.is_err() {
        debug!("Cutting the connections that are left");
    }
}

/// When the caller of a request stops waiting, counted from when its headers came.
pub fn deadline<T>(request: &tonic::Request<T>) -> Option<Instant> {
    let begin = request.extensions().get::<Arrival>().map_or_else(Instant::now, |arrival| arrival.0);
    timeout_of(request.metadata()).and_then(|timeout| begin.checked_add(timeout))
}

async fn reached(phase: &mut watch::Receiver<Phase>, target: Phase) {
    if phase.wait_for(|phase| *phase >= target).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Whether the peer greets in time; HTTP/2's own pings watch over it only from then on.
async fn greeted(stream: &TcpStream) -> bool {
    let said = async {
        loop {
            match stream.peek(&mut [0; GREETING]).await {
                Ok(0) | Err(_) => return false,
                Ok(GREETING) => return true,
                Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(GREETING_TIME, said).await.unwrap_or(false)
}

async fn connection(stream: TcpStream, routes: Routes) {
    let _ = stream.set_nodelay(true);
    let mut phase = routes.lifecycle.watch();
    #[cfg(feature = "tls")]
    if let Some(tls) = &routes.tls {
        let accepted = tokio::select! {
            accepted = tokio::time::timeout(GREETING_TIME, tls.accept(stream)) => accepted,
            () = reached(&mut phase, Phase::Closing) => return,
        };
        return match accepted {
            Ok(Ok(stream)) => converse(stream, routes, phase).await,
            Ok(Err(error)) => debug!(%error, "A connection ended before it spoke HTTP/2 over TLS"),
            Err(_) => debug!("A connection took too long to speak HTTP/2 over TLS"),
        };
    }
    let greeted = tokio::select! {
        greeted = greeted(&stream) => greeted,
        () = reached(&mut phase, Phase::Closing) => false,
    };
    if !greeted {
        return debug!("A connection ended before it spoke HTTP/2");
    }
    converse(stream, routes, phase).await;
}

/// Answers the calls of one connection until it or the service ends.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    routes: Routes,
    mut phase: watch::Receiver<Phase>,
) {
    // Who comes while the service drains is told so, call by call; the others are asked to leave now.
    let leave = if *phase.borrow() < Phase::Draining { Phase::Draining } else { Phase::Closing };
    let mut connection = pin!(http2_settings().serve_connection(TokioIo::new(stream), routes));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = reached(&mut phase, leave) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "A connection ended");
    }
}

fn http2_settings() -> http2::Builder<TokioExecutor> {
    let mut settings = http2::Builder::new(TokioExecutor::new());
    settings
        .timer(TokioTimer::new())
        .max_concurrent_streams(1024)
        // A message of several MiB in few round trips, without letting one stream take the whole line.
        .initial_stream_window_size(2 << 20)
        .initial_connection_window_size(16 << 20)
        .max_frame_size(256 << 10)
        .max_send_buf_size(1 << 20)
        .max_header_list_size(64 << 10)
        // A caller that cancels a burst of calls is no attacker; by default it would lose its connection.
        .max_pending_accept_reset_streams(4096)
        .max_local_error_reset_streams(4096)
        .keep_alive_interval(Duration::from_secs(60))
        .keep_alive_timeout(Duration::from_secs(20));
    settings
}

// === impl Routes ===

impl Routes {
    /// The evaluator and its health, with messages of at most `message_limit` bytes either way.
    pub fn new(evaluator: Arc<dyn Evaluator>, lifecycle: &Lifecycle, message_limit: usize) -> Self {
        let service = EvaluatorService { evaluator, lifecycle: lifecycle.clone(), message_limit };
        let server = FunctionEvaluatorServer::new(service)
            .max_decoding_message_size(message_limit)
            .max_encoding_message_size(message_limit);
        #[cfg(feature = "gzip")]
        let server = server.accept_compressed(tonic::codec::CompressionEncoding::Gzip);
        let mut routes = Self {
            lifecycle: lifecycle.clone(),
            services: Arc::default(),
            observer: None,
            #[cfg(feature = "tls")]
            tls: None,
        };
        routes.add(server);
        routes.add(HealthServer::new(HealthService(lifecycle.clone())));
        routes
    }

    /// Adds another service. It has limits and checks of its own.
    #[must_use]
    pub fn with<S>(mut self, service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = Response, Error = Infallible> + NamedService,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        self.add(service);
        self
    }

    /// Serves over TLS alone.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn over_tls(mut self, tls: Option<ServerTls>) -> Self {
        self.tls = tls;
        self
    }

    /// Has every call told to an observer.
    #[must_use]
    pub fn observed_by(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Lets clients ask for the protocol.
    #[cfg(feature = "reflection")]
    #[must_use]
    pub fn with_reflection(self) -> Self {
        self.with_reflection_of(&[])
    }

    /// Lets clients ask for the protocol and for that of services that were added.
    #[cfg(feature = "reflection")]
    #[must_use]
    pub fn with_reflection_of(mut self, added: &[&'static [u8]]) -> Self {
        let builder = || {
            let builder = tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(crate::wire::DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
            added.iter().fold(builder, |builder, set| builder.register_encoded_file_descriptor_set(set))
        };
        match (builder().build_v1(), builder().build_v1alpha()) {
            (Ok(v1), Ok(v1alpha)) => {
                self.add(v1);
                self.add(v1alpha);
            }
            // The descriptors are compiled in, so this is for developers.
            (Err(error), _) | (_, Err(error)) => warn!(%error, "No server reflection"),
        }
        self
    }

    fn add<S>(&mut self, service: S)
    where
        S: Service<http::Request<Body>, Response = Response, Error = Infallible> + NamedService,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        let handler = move |request| -> Pin<Box<dyn Future<Output = Response> + Send>> {
            let answer = service.clone().call(request);
            Box::pin(async move { answer.await.unwrap_or_else(|never| match never {}) })
        };
        // Routes are put together before they are shared.
        if let Some(services) = Arc::get_mut(&mut self.services) {
            services.push((S::NAME, Box::new(handler)));
        }
    }
}

impl hyper::service::Service<http::Request<hyper::body::Incoming>> for Routes {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: http::Request<hyper::body::Incoming>) -> Self::Future {
        let path = request.uri().path().to_owned();
        let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or((&path, ""));
        let (mut request, arrival) = (request.map(Body::new), Instant::now());
        request.extensions_mut().insert(Arrival(arrival));
        let Some((service, handler)) = self.services.iter().find(|(name, _)| *name == service) else {
            let unknown = Status::unimplemented(format!("unknown service {service}")).into_http();
            return Box::pin(std::future::ready(Ok(unknown)));
        };
        let context = CallContext::of(request.headers());
        let observer = self.observer.clone();
        let watch = observer.map(|observer| Watch::new(observer, service, method, arrival, context.clone()));
        let context = watch.as_ref().map_or(context, |watch| watch.context().clone());
        let unknown_method = format!("unknown method {method} for service {service}");
        let answer = handler(request);
        Box::pin(context.scope(async move {
            let response = in_grpc_go_words(answer.await, unknown_method);
            Ok(match watch {
                Some(watch) => watch.over(response),
                None => response,
            })
        }))
    }
}

impl std::fmt::Debug for Routes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.services.iter().map(|(name, _)| name)).finish()
    }
}

/// The library's own refusals, in the codes and words that clients of the original know.
fn in_grpc_go_words(response: Response, unknown_method: String) -> Response {
    let code = response.headers().get("grpc-status").map(|code| Code::from_bytes(code.as_bytes()));
    // Nothing else is looked at: a status of ours may be long, and means what it says.
    if !matches!(code, Some(Code::Unimplemented | Code::OutOfRange | Code::ResourceExhausted)) {
        return response;
    }
    let Some(status) = Status::from_header_map(response.headers()) else { return response };
    let better = match (status.code(), status.message()) {
        (Code::Unimplemented, "") => Status::unimplemented(unknown_method),
        (Code::OutOfRange, text) => match too_large(text) {
            Some((size, limit)) => Status::resource_exhausted(format!(
                "grpc: received message larger than max ({size} vs. {limit}); {SIZE_FLAGS}"
            )),
            None => return response,
        },
        (Code::ResourceExhausted, text) if text.starts_with("Error decompressing") => {
            let text = format!("grpc: received message after decompression larger than max; {SIZE_FLAGS}");
            Status::resource_exhausted(text)
        }
        _ => return response,
    };
    better.into_http()
}

/// The two numbers in the library's complaint about a long message.
pub(crate) fn too_large(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("Error, decoded message length too large: found ")?;
    let (size, rest) = rest.split_once(" bytes, the limit is: ")?;
    Some((size, rest.strip_suffix(" bytes")?))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::Multi;

    async fn connect() -> TcpStream {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Routes::new(Arc::new(Multi::new(vec![])), &Lifecycle::default(), 1024);
        tokio::spawn(serve(listener, routes));
        TcpStream::connect(address).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_never_speaks_or_stops_in_its_greeting_is_let_go() {
        for said in ["", "PRI * HTTP"] {
            let mut peer = connect().await;
            peer.write_all(said.as_bytes()).await.unwrap();
            let begin = Instant::now();
            assert_eq!(peer.read(&mut [0; 64]).await.unwrap_or(0), 0, "{said:?}");
            assert!(begin.elapsed() >= GREETING_TIME, "{said:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_greets_is_answered() {
        let mut peer = connect().await;
        peer.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        assert!(peer.read(&mut [0; 64]).await.unwrap() > 0);
    }
}
