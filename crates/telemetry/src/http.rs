//! The port for operators: `/metrics`, and in a runner the status page. Everything is read-only.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tracing::{debug, warn};

use crate::{Telemetry, runner};

/// How many connections are served at once. Another one takes the place of the oldest, so that peers that do not send
/// or read cannot keep a probe out.
const MOST_CONNECTIONS: usize = 64;

/// How long a peer may take to send its request's headers.
const HEADER_TIME: Duration = Duration::from_secs(5);

/// How long a connection may last.
const CONNECTION_TIME: Duration = Duration::from_secs(60);

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a browser may do with the page: run what is in it, ask this server, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

pub(crate) type Answer = Response<Full<Bytes>>;

/// Listens at `HOST:PORT`; without a host at all addresses.
pub async fn listen(address: &str) -> std::io::Result<TcpListener> {
    match address.strip_prefix(':').map(str::parse) {
        Some(Ok(port)) => loggia_grpc::server::listen(port),
        _ => TcpListener::bind(address).await,
    }
}

/// Answers until it is dropped.
pub async fn serve(listener: TcpListener, telemetry: Telemetry) {
    let mut connections = JoinSet::new();
    let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => {
                oldest_first.retain(|connection| !connection.is_finished());
                continue;
            }
        };
        match accepted {
            Ok((stream, _)) => {
                while oldest_first.len() >= MOST_CONNECTIONS {
                    if let Some(oldest) = oldest_first.pop_front() {
                        oldest.abort();
                    }
                }
                oldest_first.push_back(connections.spawn(connection(stream, telemetry.clone())));
            }
            Err(error) => {
                warn!(%error, "Could not accept a connection for metrics");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, telemetry: Telemetry) {
    let service = service_fn(move |request: Request<Incoming>| {
        let telemetry = telemetry.clone();
        async move { Ok::<_, Infallible>(answer(&telemetry, request.method(), request.uri().path()).await) }
    });
    let mut settings = http1::Builder::new();
    settings.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME).max_buf_size(16 << 10).max_headers(64);
    let connection = settings.serve_connection(TokioIo::new(stream), service);
    if let Ok(Err(error)) = tokio::time::timeout(CONNECTION_TIME, connection).await {
        debug!(%error, "A connection for metrics ended");
    }
}

async fn answer(telemetry: &Telemetry, method: &Method, path: &str) -> Answer {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut refused =
            page(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "this port is read-only\n".into());
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match path {
        "/metrics" => page(StatusCode::OK, METRICS_TYPE, telemetry.metrics().await),
        _ => match runner::page(telemetry, path).await {
            Some(page) => page,
            None => page(
                StatusCode::NOT_FOUND,
                "text/plain",
                "there is /metrics, and in a function runner also /, /status.json, /healthz and /readyz\n"
                    .into(),
            ),
        },
    }
}

pub(crate) fn page(status: StatusCode, kind: &'static str, text: String) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("content-security-policy"), POLICY),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
