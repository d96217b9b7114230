//! The gRPC server: listening, connections, and an orderly end.
//!
//! It stands directly on hyper, because three things must be ours: the deadline of a call (so that it
//! ends with the code callers expect), the limits of HTTP/2 (Porch sends everything over one connection,
//! and cancels often), and the stop.

use std::future::{Future, pending};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use loggia_go::random_id;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tracing::{debug, warn};

use crate::gate::Caller;
use crate::lifecycle::Phase;
use crate::limits::{CONNECTION_WINDOW, FRAME, Limits, SEND_BUFFER, SOCKET_BUFFER, STREAM_WINDOW, STREAMS};
use crate::line::{Finding, Line, Reported};
use crate::peers::{Peers, Seat};
use crate::preface::Prefaced;
use crate::routes::Calls;

pub use crate::routes::Routes;

/// How long an answer may take to leave once the service closes.
const FLUSH_TIME: Duration = Duration::from_millis(500);

/// How long a peer may take to shake hands and to send its HTTP/2 preface.
const PREFACE_TIME: Duration = Duration::from_secs(20);

/// How often a connection is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// How long the other calls of a peer that does not read an answer may take to end.
const UNREAD_GRACE: Duration = Duration::from_secs(10);

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

/// Listens on a port of one address; without one, as [`listen`].
pub fn listen_at(address: Option<IpAddr>, port: u16) -> io::Result<TcpListener> {
    let Some(address) = address else { return listen(port) };
    let listener = std::net::TcpListener::bind((address, port))?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Answers calls until the lifecycle closes; by then every answer that could be given has left.
pub async fn serve(listener: TcpListener, routes: Routes) {
    let mut connections = JoinSet::new();
    let mut phase = routes.lifecycle().watch();
    let mut closing = pin!(reached(&mut phase, Phase::Closing));
    let peers = Peers::new(most_connections(routes.limits().connections));
    let routes = Arc::new(routes);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    let line = Line::new(routes.limits().memory.places_of_a_connection());
                    match peers.enter(address.ip(), &line) {
                        Some(seat) => {
                            connections.spawn(connection(stream, Arc::clone(&routes), line, seat));
                        }
                        None => peers.refuse(stream, routes.tls().is_some()),
                    }
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

/// No more than half of what the process may open: children and requests to others need descriptors too.
fn most_connections(wanted: usize) -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = files.and_then(|files| usize::try_from(files / 2).ok()).unwrap_or(usize::MAX);
    wanted.min(most)
}

async fn reached(phase: &mut watch::Receiver<Phase>, target: Phase) {
    if phase.wait_for(|phase| *phase >= target).await.is_err() {
        pending::<()>().await;
    }
}

async fn connection(stream: TcpStream, routes: Arc<Routes>, line: Arc<Line>, _seat: Seat) {
    let _ = stream.set_nodelay(true);
    // Left alone, the kernel keeps megabytes for a peer that does not read.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&stream, SOCKET_BUFFER);
    let mut phase = routes.lifecycle().watch();
    if let Some(tls) = routes.tls().cloned() {
        let begun = async {
            let stream = tls.accept(stream).await?;
            let caller = Caller::of(stream.get_ref().1.peer_certificates());
            Ok((caller, Prefaced::read(stream).await?))
        };
        if let Some((caller, stream)) = in_time(begun, &line, &mut phase).await {
            converse(stream, routes, caller, line, phase).await;
        }
        return;
    }
    if let Some(stream) = in_time(Prefaced::read(stream), &line, &mut phase).await {
        converse(stream, routes, Caller::default(), line, phase).await;
    }
}

/// The stream of a peer that sent its preface in time, before the service closed or needed its place.
async fn in_time<S>(
    begun: impl Future<Output = io::Result<S>>,
    line: &Line,
    phase: &mut watch::Receiver<Phase>,
) -> Option<S> {
    let begun = tokio::select! {
        begun = tokio::time::timeout(PREFACE_TIME, begun) => begun,
        () = reached(phase, Phase::Closing) => return None,
        () = line.asked_to_leave() => return None,
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
    routes: Arc<Routes>,
    caller: Caller,
    line: Arc<Line>,
    mut phase: watch::Receiver<Phase>,
) {
    // A connection that is made while the service drains gets an answer for each call; the others get GOAWAY now.
    let leave = if *phase.borrow() < Phase::Draining { Phase::Draining } else { Phase::Closing };
    let calls = Calls { routes: Arc::clone(&routes), line: Arc::clone(&line), caller };
    let stream = TokioIo::new(Reported { stream, line: Arc::clone(&line) });
    let mut connection = pin!(http2_settings().serve_connection(stream, calls));
    let cut = tokio::select! {
        ended = connection.as_mut() => Err(ended),
        () = reached(&mut phase, leave) => Ok(None),
        grace = must_leave(&line, routes.limits()) => Ok(grace),
    };
    let ended = match cut {
        Err(ended) => ended,
        Ok(grace) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = after(grace) => Ok(()),
            }
        }
    };
    line.close();
    if let Err(error) = ended {
        debug!(%error, "A connection ended");
    }
}

/// Returns when the peer must be asked to leave, and how long its calls may take to end then.
async fn must_leave(line: &Line, limits: &Limits) -> Option<Duration> {
    let Limits { connection_age, connection_age_grace, connection_idle, answer_time, .. } = *limits;
    let mut look = tokio::time::interval(LOOK_INTERVAL.min(answer_time));
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut old = pin!(after(connection_age.map(with_jitter)));
    loop {
        tokio::select! {
            () = &mut old => return connection_age_grace,
            () = line.asked_to_leave() => {
                debug!("Closing a connection without calls for another one; see --max-connections");
                return Some(UNREAD_GRACE);
            }
            _ = look.tick() => match line.look(connection_idle, answer_time) {
                None => {}
                Some(Finding::Idle(quiet)) => {
                    debug!(?quiet, "Closing a connection without calls");
                    return Some(UNREAD_GRACE);
                }
                Some(Finding::Unread) => {
                    warn!(?answer_time, "Closing a connection whose peer does not read its answers; see --answer-timeout");
                    return Some(UNREAD_GRACE);
                }
            },
        }
    }
}

/// Up to a tenth more or less, so that connections made together do not end together.
fn with_jitter(age: Duration) -> Duration {
    let thousandths = u32::try_from(random_id() % 201).unwrap_or(100) + 900;
    age.saturating_mul(thousandths) / 1000
}

async fn after(time: Option<Duration>) {
    match time.and_then(|time| Instant::now().checked_add(time)) {
        Some(then) => tokio::time::sleep_until(then).await,
        None => pending().await,
    }
}

fn http2_settings() -> http2::Builder<TokioExecutor> {
    let mut settings = http2::Builder::new(TokioExecutor::new());
    settings
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .max_send_buf_size(SEND_BUFFER)
        // Above our own limit, so that a caller gets a status that says what it is.
        .max_header_list_size(64 << 10)
        // A caller may cancel a burst of calls; by default it would lose its connection as an attacker.
        .max_pending_accept_reset_streams(4096)
        .max_local_error_reset_streams(4096)
        .keep_alive_interval(Duration::from_secs(60))
        .keep_alive_timeout(Duration::from_secs(20));
    settings
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use loggia_function::Chain;

    use super::*;
    use crate::{Evaluations, Lifecycle};

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
