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
use loggia_function::SIZE_FLAGS;
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

use crate::headers::{self, Arrival, too_large};
use crate::health::HealthService;
use crate::lifecycle::{Lifecycle, Phase};
use crate::observe::{Observer, Watch};
use crate::preface::Prefaced;
use crate::service::{Evaluations, EvaluatorService};
use crate::tls::ServerTls;
use crate::wire::FunctionEvaluatorServer;

/// How long an answer may take to leave once the service closes.
const FLUSH_TIME: Duration = Duration::from_millis(500);

/// How long a peer may take to shake hands and to send its HTTP/2 preface.
const PREFACE_TIME: Duration = Duration::from_secs(20);

type Response = http::Response<Body>;
type Handler = dyn Fn(http::Request<Body>) -> Pin<Box<dyn Future<Output = Response> + Send>> + Send + Sync;

/// The services of one port.
#[derive(Clone)]
pub struct Routes {
    lifecycle: Lifecycle,
    services: Arc<Vec<(&'static str, Box<Handler>)>>,
    observer: Option<Arc<dyn Observer>>,
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

async fn reached(phase: &mut watch::Receiver<Phase>, target: Phase) {
    if phase.wait_for(|phase| *phase >= target).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn connection(stream: TcpStream, routes: Routes) {
    let _ = stream.set_nodelay(true);
    let mut phase = routes.lifecycle.watch();
    if let Some(tls) = routes.tls.clone() {
        let begun = async { Prefaced::read(tls.accept(stream).await?).await };
        if let Some(stream) = in_time(begun, &mut phase).await {
            converse(stream, routes, phase).await;
        }
        return;
    }
    if let Some(stream) = in_time(Prefaced::read(stream), &mut phase).await {
        converse(stream, routes, phase).await;
    }
}

/// The stream of a peer that sent its preface in time, before the service closed.
async fn in_time<S>(
    begun: impl Future<Output = io::Result<S>>,
    phase: &mut watch::Receiver<Phase>,
) -> Option<S> {
    let begun = tokio::select! {
        begun = tokio::time::timeout(PREFACE_TIME, begun) => begun,
        () = reached(phase, Phase::Closing) => return None,
    };
    match begun {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => debug!(%error, "A connection ended before it spoke HTTP/2"),
        Err(_) => debug!("A connection took too long to speak HTTP/2"),
    }
    None
}

/// Answers the calls of one connection until it or the service ends.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    routes: Routes,
    mut phase: watch::Receiver<Phase>,
) {
    // A connection that is made while the service drains gets an answer for each call; the others get GOAWAY now.
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
        // A caller may cancel a burst of calls; by default it would lose its connection as an attacker.
        .max_pending_accept_reset_streams(4096)
        .max_local_error_reset_streams(4096)
        .keep_alive_interval(Duration::from_secs(60))
        .keep_alive_timeout(Duration::from_secs(20));
    settings
}

// === impl Routes ===

impl Routes {
    /// The function evaluator and its health, with messages of at most `message_limit` bytes either way.
    pub fn new(evaluations: Evaluations, lifecycle: &Lifecycle, message_limit: usize) -> Self {
        let service = EvaluatorService::new(evaluations, lifecycle.clone(), message_limit);
        let server = FunctionEvaluatorServer::new(service)
            .max_decoding_message_size(message_limit)
            .max_encoding_message_size(message_limit);
        #[cfg(feature = "gzip")]
        let server = server.accept_compressed(tonic::codec::CompressionEncoding::Gzip);
        let mut routes =
            Self { lifecycle: lifecycle.clone(), services: Arc::default(), observer: None, tls: None };
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
    #[must_use]
    pub fn over_tls(mut self, tls: Option<ServerTls>) -> Self {
        self.tls = tls;
        self
    }

    /// Reports every call of every method to an observer.
    #[must_use]
    pub fn observed_by(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
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
        let context = headers::context(request.headers());
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use loggia_function::Chain;

    use super::*;

    async fn connect() -> TcpStream {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Routes::new(Evaluations::of(Arc::new(Chain::default())), &Lifecycle::default(), 1024);
        tokio::spawn(serve(listener, routes));
        TcpStream::connect(address).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_never_finishes_its_preface_is_disconnected() {
        for said in ["", "PRI * HTTP"] {
            let mut peer = connect().await;
            peer.write_all(said.as_bytes()).await.unwrap();
            let begin = Instant::now();
            assert_eq!(peer.read(&mut [0; 64]).await.unwrap_or(0), 0, "{said:?}");
            assert!(begin.elapsed() >= PREFACE_TIME, "{said:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_sends_its_preface_is_answered() {
        let mut peer = connect().await;
        peer.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        assert!(peer.read(&mut [0; 64]).await.unwrap() > 0);
    }
}
