//! HTTP/2 frames and gRPC messages to a real server in this process, which still answers afterwards.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use loggia_function::{Chain, Runtime};
use loggia_grpc::server::{Routes, listen, serve};
use loggia_grpc::{Evaluations, Lifecycle};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const METHODS: [&str; 3] = [
    "/evaluator.FunctionEvaluator/EvaluateFunction",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
];
const PATIENCE: Duration = Duration::from_secs(5);

/// What a client may send.
#[derive(Arbitrary, Debug)]
enum Frame<'a> {
    Settings { id: u16, value: u32 },
    Headers { stream: u8, method: u8, timeout: Option<&'a str>, encoding: bool, end: bool },
    Message { stream: u8, compressed: u8, lie: i8, body: &'a [u8], end: bool },
    Window { stream: u8, by: u32 },
    Reset { stream: u8, code: u8 },
    Ping,
    GoAway,
    Raw { kind: u8, flags: u8, stream: u8, body: &'a [u8] },
}

pub(crate) fn run(bytes: &[u8]) {
    let Ok(frames) = Vec::<Frame<'_>>::arbitrary_take_rest(Unstructured::new(bytes)) else { return };
    let mut sent = PREFACE.to_vec();
    frame(&mut sent, 4, 0, 0, &[]);
    for part in frames.iter().take(64) {
        part.put(&mut sent);
    }
    let mut connection = connect();
    let _ = connection.write_all(&sent);
    let _ = connection.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = connection.take(64 << 10).read_to_end(&mut answer);
    alive();
}

impl Frame<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        let id = |stream: &u8| u32::from(stream % 8) * 2 + 1;
        match self {
            Self::Settings { id, value } => {
                let body = [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
                frame(out, 4, 0, 0, &body);
            }
            Self::Headers { stream, method, timeout, encoding, end } => {
                let mut block = Vec::new();
                let path = METHODS[usize::from(*method) % METHODS.len()];
                let pairs = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "a")];
                let more = [("content-type", "application/grpc"), ("te", "trailers")];
                pairs.iter().chain(&more).for_each(|(name, value)| header(&mut block, name, value));
                if let Some(timeout) = timeout {
                    header(&mut block, "grpc-timeout", timeout);
                }
                if *encoding {
                    header(&mut block, "grpc-encoding", "gzip");
                }
                frame(out, 1, 4 | u8::from(*end), id(stream), &block);
            }
            Self::Message { stream, compressed, lie, body, end } => {
                let length = u32::try_from(body.len()).unwrap_or(0).wrapping_add_signed(i32::from(*lie));
                let message = [&[*compressed][..], &length.to_be_bytes(), body].concat();
                frame(out, 0, u8::from(*end), id(stream), &message);
            }
            Self::Window { stream, by } => frame(out, 8, 0, u32::from(*stream), &by.to_be_bytes()),
            Self::Reset { stream, code } => frame(out, 3, 0, id(stream), &u32::from(*code).to_be_bytes()),
            Self::Ping => frame(out, 6, 0, 0, &[0; 8]),
            Self::GoAway => frame(out, 7, 0, 0, &[0; 8]),
            Self::Raw { kind, flags, stream, body } => frame(out, *kind, *flags, u32::from(*stream), body),
        }
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, body: &[u8]) {
    let length = u32::try_from(body.len()).unwrap_or(0).to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(body);
}

/// A literal header without indexing; what is too long for one byte of length is cut.
fn header(block: &mut Vec<u8>, name: &str, value: &str) {
    let value = &value.as_bytes()[..value.len().min(126)];
    block.extend_from_slice(&[0, u8::try_from(name.len()).unwrap_or(0)]);
    block.extend_from_slice(name.as_bytes());
    block.push(u8::try_from(value.len()).unwrap_or(0));
    block.extend_from_slice(value);
}

fn connect() -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port())).expect("the server accepts");
    let _ = stream.set_read_timeout(Some(PATIENCE));
    stream
}

/// A health check on a connection of its own is answered.
fn alive() {
    let mut sent = PREFACE.to_vec();
    frame(&mut sent, 4, 0, 0, &[]);
    Frame::Headers { stream: 0, method: 1, timeout: None, encoding: false, end: false }.put(&mut sent);
    Frame::Message { stream: 0, compressed: 0, lie: 0, body: &[], end: true }.put(&mut sent);
    let mut connection = connect();
    connection.write_all(&sent).expect("the server reads");
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    // A message with the status SERVING.
    while !answer.windows(2).any(|bytes| bytes == [0x08, 0x01]) {
        match connection.read(&mut piece) {
            Ok(count) if count > 0 => answer.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            ended => panic!("no answer to a health check: {ended:?}, {answer:?}"),
        }
    }
}

/// A server without functions, for as long as this process lives.
fn port() -> u16 {
    static PORT: OnceLock<u16> = OnceLock::new();
    *PORT.get_or_init(|| {
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
            runtime.block_on(async {
                let listener = listen(0).expect("a port is free");
                let _ = send.send(listener.local_addr().expect("it has an address").port());
                let lifecycle = Lifecycle::default();
                lifecycle.serve();
                let runtime: Arc<dyn Runtime> = Arc::new(Chain::new(Vec::new()));
                serve(listener, Routes::new(Evaluations::of(runtime), &lifecycle, 1 << 20)).await;
            });
        });
        receive.recv().expect("the server starts")
    })
}
