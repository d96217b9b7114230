//! A server in this process, and clients that speak HTTP/2 as they please.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test file uses its own part")]

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use loggia_function::{Call, Exit, FunctionRef, Knows, Outcome, Payload, Running, Runtime};
use loggia_grpc::server::{Routes, listen_at, serve};
use loggia_grpc::wire::EvaluateFunctionRequest;
use loggia_grpc::{Client, Ended, Evaluations, Lifecycle, Limits, MessageMemory, Observer};
use prost::Message as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tonic::Code;

pub const EVALUATE: &str = "/evaluator.FunctionEvaluator/EvaluateFunction";
pub const CHECK: &str = "/grpc.health.v1.Health/Check";
pub const MIB: usize = 1 << 20;

/// The most bytes of a message here.
pub const MESSAGE: usize = 4 * MIB;

/// `echo` answers what it got, `large` four MiB, `forever` never, `failing` with as many results as it got bytes.
#[derive(Debug)]
struct Tested;

impl Runtime for Tested {
    fn name(&self) -> &'static str {
        "tested"
    }

    fn knows(&self, _: &FunctionRef) -> Knows {
        Knows::Yes
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(async move {
            let input = call.input.to_bytes();
            let outcome = |output: Bytes, code| Outcome {
                output: Payload::Bytes(output),
                exit: Exit::Code(code),
                ..Outcome::default()
            };
            Ok(match call.function.name() {
                "large" => outcome(vec![b'x'; MESSAGE - 1000].into(), 0),
                "forever" => std::future::pending().await,
                "failing" => {
                    let results = "- {message: bad, severity: error}\n".repeat(input.len());
                    outcome(format!("kind: ResourceList\nresults:\n{results}").into(), 1)
                }
                _ => outcome(input, 0),
            })
        })
    }
}

/// Remembers the methods and codes of calls.
#[derive(Clone, Debug, Default)]
pub struct Heard(pub Arc<Mutex<Vec<(String, Code)>>>);

impl Observer for Heard {
    fn ended(&self, call: Ended<'_>) {
        self.0.lock().unwrap().push((call.method.to_owned(), call.code));
    }
}

pub struct Tester {
    pub address: SocketAddr,
    pub lifecycle: Lifecycle,
    pub memory: MessageMemory,
    pub heard: Heard,
}

/// Serves with these limits.
pub fn start(limits: Limits) -> Tester {
    let listener = listen_at(Some([127, 0, 0, 1].into()), 0).unwrap();
    let (address, memory) = (listener.local_addr().unwrap(), limits.memory.clone());
    let (lifecycle, heard) = (Lifecycle::default(), Heard::default());
    let routes = Routes::new(Evaluations::of(Arc::new(Tested)), &lifecycle, MESSAGE)
        .within(limits)
        .observed_by(Arc::new(heard.clone()));
    tokio::spawn(serve(listener, routes));
    lifecycle.serve();
    Tester { address, lifecycle, memory, heard }
}

pub fn limits(memory: usize) -> Limits {
    Limits { memory: MessageMemory::new(memory), ..Limits::default() }
}

impl Tester {
    pub async fn connect(&self) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>) {
        self.connect_as(&Builder::new()).await
    }

    pub async fn connect_as(
        &self,
        settings: &Builder,
    ) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>) {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (requests, connection) = settings.handshake(stream).await.unwrap();
        let driver = tokio::spawn(connection);
        // The server's settings must be here before its limits can be kept.
        let mut ready = requests.ready().await.unwrap();
        let check = begin(&mut ready, CHECK, &[]).await;
        finish(check, framed(0, 0)).await.unwrap();
        (ready, driver)
    }

    pub fn client(&self) -> Client {
        Client::new(&self.address.to_string(), MESSAGE).unwrap()
    }

    /// Health, which must be there within a second, on a connection of its own.
    pub async fn is_healthy(&self) -> bool {
        let client = self.client();
        tokio::time::timeout(Duration::from_secs(1), client.is_serving())
            .await
            .is_ok_and(|answer| answer.unwrap())
    }

    /// Waits until all memory has come back.
    pub async fn memory_returns(&self) {
        eventually("all memory comes back", || self.memory.usage().used == 0).await;
        assert_eq!(self.memory.usage().waiting, 0);
    }
}

pub async fn eventually(what: &str, holds: impl FnMut() -> bool) {
    within(Duration::from_secs(20), what, holds).await;
}

pub async fn within(time: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !holds() {
        assert!(begin.elapsed() < time, "not in {time:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A socket that is not read from while it is deaf.
pub struct Deaf {
    pub stream: TcpStream,
    pub deaf: Arc<AtomicBool>,
}

impl AsyncRead for Deaf {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.deaf.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Deaf {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

pub type Begun = (ResponseFuture, SendStream<Bytes>);

/// Sends the headers of a call.
pub async fn begin(requests: &mut SendRequest<Bytes>, path: &str, headers: &[(&str, &str)]) -> Begun {
    let mut ready = requests.clone().ready().await.unwrap();
    let mut request = Request::post(format!("http://x{path}")).header("content-type", "application/grpc");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    ready.send_request(request.body(()).unwrap(), false).unwrap()
}

/// Sends the rest of a call, and returns its answer and status.
pub async fn finish((response, mut body): Begun, data: Bytes) -> Result<(Bytes, Code, String), h2::Error> {
    body.send_data(data, true)?;
    answer(response.await?).await
}

/// An answer, and its status.
pub async fn answer(response: Response<RecvStream>) -> Result<(Bytes, Code, String), h2::Error> {
    if let Some(status) = status(response.headers()) {
        return Ok((Bytes::new(), status.0, status.1));
    }
    let mut body = response.into_body();
    let mut all = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data?;
        let _ = body.flow_control().release_capacity(data.len());
        all.extend_from_slice(&data);
    }
    let trailers = body.trailers().await?.unwrap_or_default();
    let (code, text) = status(&trailers).unwrap();
    Ok((all.freeze(), code, text))
}

fn status(headers: &HeaderMap) -> Option<(Code, String)> {
    let status = tonic::Status::from_header_map(headers)?;
    Some((status.code(), status.message().to_owned()))
}

/// A prefix that announces `announced` bytes, and `sent` zeros.
pub fn framed(announced: u32, sent: usize) -> Bytes {
    let mut data = BytesMut::with_capacity(5 + sent);
    data.put_u8(0);
    data.put_u32(announced);
    data.put_bytes(0, sent);
    data.freeze()
}

/// A whole message of the evaluator.
pub fn evaluation(image: &str, size: usize) -> Bytes {
    let message = EvaluateFunctionRequest { image: image.to_owned(), resource_list: vec![b'x'; size].into() }
        .encode_to_vec();
    let mut data = BytesMut::new();
    data.put_u8(0);
    data.put_u32(u32::try_from(message.len()).unwrap());
    data.extend_from_slice(&message);
    data.freeze()
}
