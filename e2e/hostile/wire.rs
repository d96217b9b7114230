//! Connections that keep to HTTP/2 and abuse it, and connections that do not keep to it.

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::calls::{Answer, scaled};
use crate::rows::{Attempt, H2, Raw};
use crate::template::expand;

const EVALUATE: &str = "/evaluator.FunctionEvaluator/EvaluateFunction";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream that lives as long as the row says.
pub(crate) async fn h2(address: &str, attempt: &Attempt, row: &H2) -> Result<Answer, String> {
    let message = message(attempt, row)?;
    let until = Instant::now() + Duration::from_secs_f64(row.hold);
    let mut running = JoinSet::new();
    let mut refused = None;
    for _ in 0..row.connections {
        let connected = timeout(Duration::from_secs(5), connect(address, row.window)).await;
        let sender = match connected {
            Ok(Ok(sender)) => sender,
            Ok(Err(error)) => {
                refused = Some(error);
                continue;
            }
            Err(_) => {
                refused = Some("no connection in 5 s".to_owned());
                continue;
            }
        };
        for _ in 0..row.streams {
            let (sender, row, message) = (sender.clone(), row.clone(), message.clone());
            let metadata: Result<Vec<_>, String> = row
                .metadata
                .iter()
                .map(|(name, value)| Ok((expand(name, attempt.size)?, expand(value, attempt.size)?)))
                .collect();
            let metadata = metadata?;
            running.spawn(async move {
                match tokio::time::timeout_at(until, stream(sender, &row, metadata, message)).await {
                    Ok(answer) => answer,
                    Err(_) => Ok("held".to_owned()),
                }
            });
        }
    }
    let mut worst = refused.map_or_else(|| Ok(String::new()), Err);
    while let Some(ended) = running.join_next().await {
        if let Ok(Err(error)) = ended
            && worst.is_ok()
        {
            worst = Err(error);
        }
    }
    Ok(worst)
}

async fn connect(address: &str, window: Option<u32>) -> Result<SendRequest<Bytes>, String> {
    let socket = TcpStream::connect(address).await.map_err(|error| format!("connect: {error}"))?;
    let mut builder = h2::client::Builder::new();
    if let Some(window) = window {
        builder.initial_window_size(window);
    }
    let (sender, connection) =
        builder.handshake(socket).await.map_err(|error| format!("handshake: {error}"))?;
    // Ends with the last sender.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

/// One call, and the status that it gets.
async fn stream(
    sender: SendRequest<Bytes>,
    row: &H2,
    metadata: Vec<(String, String)>,
    message: Bytes,
) -> Answer {
    let text = |error: h2::Error| format!("h2: {error}");
    let path = row.path.as_deref().unwrap_or(EVALUATE);
    let mut request = http::Request::post(format!("http://localhost{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if row.gzip {
        request = request.header("grpc-encoding", "gzip");
    }
    for (name, value) in metadata {
        request = request.header(name, value);
    }
    let request = request.body(()).map_err(|error| format!("request: {error}"))?;
    let mut sender = sender.ready().await.map_err(text)?;
    let (response, mut body) = sender.send_request(request, false).map_err(text)?;
    let sending = async {
        let mut rest = message;
        while !rest.is_empty() {
            let piece = rest.split_to(row.trickle.unwrap_or(16 << 10).min(rest.len()));
            body.reserve_capacity(piece.len());
            while body.capacity() < piece.len() {
                match std::future::poll_fn(|context| body.poll_capacity(context)).await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(text(error)),
                    None => return Err("h2: the stream is closed".to_owned()),
                }
            }
            body.send_data(piece, false).map_err(text)?;
            if row.trickle.is_some() {
                sleep(Duration::from_millis(50)).await;
            }
        }
        if row.ends {
            body.send_data(Bytes::new(), true).map_err(text)?;
        }
        if row.reset {
            body.send_reset(h2::Reason::CANCEL);
        }
        Ok(())
    };
    let receiving = async {
        let response = response.await.map_err(text)?;
        let status = |headers: &http::HeaderMap| {
            let get =
                |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
            get("grpc-status").map(|code| (code, get("grpc-message").unwrap_or_default()))
        };
        let (head, mut answer) = response.into_parts();
        let ended = match status(&head.headers) {
            Some(ended) => Some(ended),
            // A window of zero is never widened: the answer cannot come.
            None if row.window == Some(0) => std::future::pending().await,
            None => {
                while let Some(piece) = answer.data().await {
                    let piece = piece.map_err(text)?;
                    let _ = answer.flow_control().release_capacity(piece.len());
                }
                answer.trailers().await.map_err(text)?.as_ref().and_then(status)
            }
        };
        match ended {
            Some((code, _)) if code == "0" => Ok(String::new()),
            Some((code, message)) => {
                let code: i32 = code.parse().unwrap_or(2);
                Err(format!("{:?}: {}", tonic::Code::from_i32(code), decoded(&message)))
            }
            None => Err(format!("HTTP status {}", head.status)),
        }
    };
    // An answer may come before all was sent, and then the rest need not be.
    tokio::pin!(receiving);
    tokio::select! {
        answer = &mut receiving => answer,
        sent = sending => match sent {
            Ok(()) => receiving.await,
            Err(error) => receiving.await.and(Err(error)),
        },
    }
}

/// A message of a status as it was before it became a header.
fn decoded(message: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = message.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = escaped.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether the port for operators answers `/healthz` while others hold its connections.
pub(crate) async fn operators_are_served(address: &str) -> Answer {
    // The others come first.
    sleep(Duration::from_millis(500)).await;
    let asked = async {
        let mut socket = TcpStream::connect(address).await?;
        socket.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await?;
        let mut answer = vec![0; 64];
        let count = socket.read(&mut answer).await?;
        answer.truncate(count);
        std::io::Result::Ok(answer)
    };
    match timeout(Duration::from_secs(1), asked).await {
        Ok(Ok(answer)) if answer.starts_with(b"HTTP/1.1 200") => Ok(String::new()),
        Ok(Ok(answer)) => Err(format!("/healthz answered {:?}", String::from_utf8_lossy(&answer))),
        Ok(Err(error)) => Err(format!("/healthz: {error}")),
        Err(_) => Err("/healthz did not answer in 1 s".to_owned()),
    }
}

fn message(attempt: &Attempt, row: &H2) -> Result<Bytes, String> {
    let mut body = match (&row.list, row.bytes) {
        (Some(list), _) => request("no-op", expand(list, attempt.size)?.as_bytes()),
        (None, Some(count)) => vec![0; scaled(count, attempt.size)],
        (None, None) => request("no-op", b"kind: ResourceList\nitems: []\n"),
    };
    if row.gzip {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&body).map_err(|error| error.to_string())?;
        body = encoder.finish().map_err(|error| error.to_string())?;
    }
    let length = row.announce.unwrap_or(u32::try_from(body.len()).unwrap_or(u32::MAX));
    Ok([&[u8::from(row.gzip)][..], &length.to_be_bytes(), &body].concat().into())
}

/// An `EvaluateFunctionRequest`.
fn request(image: &str, list: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, field) in [(1_u8, list), (2, image.as_bytes())] {
        bytes.push(number << 3 | 2);
        let mut length = field.len();
        while length >= 0x80 {
            bytes.push(u8::try_from(length & 0x7f).unwrap_or(0) | 0x80);
            length >>= 7;
        }
        bytes.push(u8::try_from(length).unwrap_or(0));
        bytes.extend_from_slice(field);
    }
    bytes
}

/// Sends steps on connections and holds them. A step is a word, its arguments, and how often (`*N`, grows with the size):
/// `preface`, `settings`, `ping`, `headers`, `open` (headers without an end), `continuation BYTES`, `data BYTES`, `reset`, `resets` (open
/// and reset), `window N`, `setting ID VALUE`, `text TEXT`, `wait MILLISECONDS`.
pub(crate) async fn raw(address: &str, attempt: &Attempt, row: &Raw) -> Result<Answer, String> {
    let mut running = JoinSet::new();
    for _ in 0..scaled(row.connections, attempt.size) {
        let (address, steps, size, hold) = (address.to_owned(), row.send.clone(), attempt.size, row.hold);
        running.spawn(async move {
            let until = Instant::now() + Duration::from_secs_f64(hold);
            let mut socket =
                TcpStream::connect(&address).await.map_err(|error| format!("connect: {error}"))?;
            let work = async {
                let mut stream = 1;
                for step in &steps {
                    perform(&mut socket, step, size, &mut stream).await?;
                }
                // What the other side says is read, so that it is never stopped by us.
                let mut buffer = [0; 16 << 10];
                while socket.read(&mut buffer).await.map_err(|error| format!("read: {error}"))? > 0 {}
                Err::<String, String>("closed by the service".to_owned())
            };
            tokio::time::timeout_at(until, work).await.unwrap_or_else(|_| Ok("held".to_owned()))
        });
    }
    let mut worst: Answer = Ok(String::new());
    while let Some(ended) = running.join_next().await {
        if let Ok(Err(error)) = ended {
            worst = Err(error);
        }
    }
    Ok(worst)
}

async fn perform(socket: &mut TcpStream, step: &str, size: f64, stream: &mut u32) -> Result<(), String> {
    let (step, times) = match step.rsplit_once(" *") {
        Some((step, times)) => {
            (step, scaled(times.parse().map_err(|_| format!("`{step}`: not a count"))?, size))
        }
        None => (step, 1),
    };
    let (verb, argument) = step.split_once(' ').unwrap_or((step, ""));
    let number = |text: &str| text.parse::<u32>().map_err(|_| format!("`{step}`: not a number"));
    let mut out = Vec::new();
    for _ in 0..times {
        match verb {
            "preface" => out.extend_from_slice(PREFACE),
            "settings" => frame(&mut out, 4, 0, 0, &[]),
            "setting" => {
                let (id, value) = argument.split_once(' ').ok_or("`setting` needs an id and a value")?;
                let id = u16::try_from(number(id)?).map_err(|error| error.to_string())?;
                frame(&mut out, 4, 0, 0, &[&id.to_be_bytes()[..], &number(value)?.to_be_bytes()].concat());
            }
            "ping" => frame(&mut out, 6, 0, 0, &[0; 8]),
            "headers" | "open" | "begin" => {
                let ends = u8::from(verb == "headers") | if verb == "begin" { 0 } else { 4 };
                frame(&mut out, 1, ends, *stream, &head());
                *stream += if verb == "begin" { 0 } else { 2 };
            }
            "resets" => {
                frame(&mut out, 1, 4, *stream, &head());
                frame(&mut out, 3, 0, *stream, &8_u32.to_be_bytes());
                *stream += 2;
            }
            "continuation" => frame(&mut out, 9, 0, *stream, &filler(number(argument)?)),
            "data" => frame(&mut out, 0, 0, stream.saturating_sub(2), &vec![0; number(argument)? as usize]),
            "reset" => frame(&mut out, 3, 0, stream.saturating_sub(2), &8_u32.to_be_bytes()),
            "window" => frame(&mut out, 8, 0, 0, &number(argument)?.to_be_bytes()),
            "text" => out.extend_from_slice(expand(argument, size)?.replace("\\r\\n", "\r\n").as_bytes()),
            "wait" => {
                flush(socket, &mut out).await?;
                sleep(Duration::from_millis(u64::from(number(argument)?))).await;
            }
            _ => return Err(format!("unknown step `{step}`")),
        }
        if out.len() > 64 << 10 {
            flush(socket, &mut out).await?;
        }
    }
    flush(socket, &mut out).await
}

async fn flush(socket: &mut TcpStream, out: &mut Vec<u8>) -> Result<(), String> {
    let sent = socket.write_all(out).await.map_err(|_| "closed by the service".to_owned());
    out.clear();
    sent
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, body: &[u8]) {
    let length = u32::try_from(body.len()).unwrap_or(0).to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(body);
}

fn head() -> Vec<u8> {
    let pairs = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", EVALUATE),
        (":authority", "a"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let mut block = Vec::new();
    for (name, value) in pairs {
        literal(&mut block, name, value);
    }
    block
}

/// Headers that fill so many bytes.
fn filler(bytes: u32) -> Vec<u8> {
    let mut block = Vec::new();
    while block.len() < bytes as usize {
        literal(&mut block, "x-filler", &"f".repeat(100));
    }
    block
}

/// A header that the other side does not remember; names and values are short.
fn literal(block: &mut Vec<u8>, name: &str, value: &str) {
    for (index, text) in [name, value].into_iter().enumerate() {
        if index == 0 {
            block.push(0);
        }
        block.push(u8::try_from(text.len()).unwrap_or(0));
        block.extend_from_slice(text.as_bytes());
    }
}
