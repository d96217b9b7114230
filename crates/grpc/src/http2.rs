//! HTTP/2 as a client of gRPC needs it.
//!
//! The body of a request is all there when it is sent, so its headers and its body leave in one packet, without a
//! task that feeds the one after the other: on the way to a function pod that is a wake-up less on both sides.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use h2::{Ping, PingPong, Reason, RecvStream};
use http_body::{Body as _, Frame};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::body::Body;

/// How often a server that owes an answer is pinged, and how long it may take to reply.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIME: Duration = Duration::from_secs(10);

/// The way to send requests over one connection. Clones share it; it ends with the last of them and of the answers.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    stream: SendRequest<Bytes>,
    open: Arc<Open>,
}

/// Held by the sending side and by each answer that is due.
#[derive(Debug, Default)]
struct Open {
    ended: AtomicBool,
}

/// Why a request has no response.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The connection takes no more requests, and has not taken this one.
    NotTaken(Box<http::Request<Body>>, h2::Error),
    Broken(h2::Error),
}

/// The body of a response as it comes in.
#[derive(Debug)]
pub struct Incoming {
    stream: RecvStream,
    data_over: bool,
    _open: Arc<Open>,
}

/// Speaks HTTP/2 on a connection, in a task of its own.
pub(crate) async fn begin(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Requests, h2::Error> {
    let (requests, mut connection) = settings().handshake(stream).await?;
    let open = Arc::<Open>::default();
    let ping = connection.ping_pong();
    tokio::spawn(drive(connection, ping, Arc::downgrade(&open)));
    Ok(Requests { stream: requests, open })
}

fn settings() -> Builder {
    let mut settings = Builder::new();
    settings
        .enable_push(false)
        .initial_window_size(2 << 20)
        .initial_connection_window_size(16 << 20)
        .max_frame_size(256 << 10)
        // The status of a function that failed with much to say travels in headers.
        .max_header_list_size(1 << 20);
    settings
}

/// Works on the connection until it ends, or until the server does not answer a ping while a call waits for it.
async fn drive<T>(connection: Connection<T>, ping: Option<PingPong>, open: Weak<Open>)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut connection = pin!(connection);
    let Some(mut ping) = ping else { return drop(connection.await) };
    let silent = async {
        loop {
            tokio::time::sleep(PING_INTERVAL).await;
            // One is the way to send; the others are answers that are due.
            if open.strong_count() < 2 {
                continue;
            }
            let pong = tokio::time::timeout(PING_TIME, ping.ping(Ping::opaque())).await;
            if !matches!(pong, Ok(Ok(_))) {
                return;
            }
        }
    };
    tokio::select! {
        // h2 hands the error to the streams that wait.
        _ = connection.as_mut() => {}
        () = silent => {}
    }
    if let Some(open) = open.upgrade() {
        open.ended.store(true, Ordering::Relaxed);
    }
}

// === impl Requests ===

impl Requests {
    pub(crate) fn is_closed(&self) -> bool {
        self.open.ended.load(Ordering::Relaxed)
    }

    /// Sends a request whose body is at hand. Dropping the future, or the response, cancels it.
    pub(crate) async fn send(
        mut self,
        request: http::Request<Body>,
    ) -> Result<http::Response<Incoming>, Failed> {
        if let Err(error) = poll_fn(|context| self.stream.poll_ready(context)).await {
            return Err(Failed::NotTaken(Box::new(request), error));
        }
        let (head, body) = request.into_parts();
        let taken = self.stream.send_request(http::Request::from_parts(head.clone(), ()), false);
        let (response, mut sending) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                return Err(Failed::NotTaken(Box::new(http::Request::from_parts(head, body)), error));
            }
        };
        let mut body = pin!(body);
        loop {
            let frame = poll_fn(|context| body.as_mut().poll_frame(context)).await;
            let data = match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => data,
                // Requests of gRPC have nothing after their messages.
                Some(Ok(Err(_))) => continue,
                Some(Err(_)) => {
                    sending.send_reset(Reason::CANCEL);
                    break;
                }
                None => Bytes::new(),
            };
            let over = data.is_empty() || body.is_end_stream();
            // What the other side cannot take yet waits here, by reference.
            sending.send_data(data, over).map_err(Failed::Broken)?;
            if over {
                break;
            }
        }
        let (head, stream) = response.await.map_err(Failed::Broken)?.into_parts();
        let body = Incoming { stream, data_over: false, _open: self.open };
        Ok(http::Response::from_parts(head, body))
    }
}

// === impl Incoming ===

impl http_body::Body for Incoming {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.data_over {
            match ready!(self.stream.poll_data(context)) {
                Some(Ok(data)) => {
                    // Taken, so the server may send as much again.
                    let taken = self.stream.flow_control().release_capacity(data.len());
                    return Poll::Ready(Some(taken.map(|()| Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.data_over = true,
            }
        }
        let trailers = ready!(self.stream.poll_trailers(context)).transpose();
        Poll::Ready(trailers.map(|trailers| trailers.map(Frame::trailers)))
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }
}
