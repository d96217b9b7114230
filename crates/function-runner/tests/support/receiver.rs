//! A collector that is spoken to over HTTP.

use std::io::{Read, Write};
use std::net::TcpListener;

/// A request to it, in small letters but for the body.
pub struct Received {
    pub head: String,
    pub body: Vec<u8>,
}

/// Answers every request at this listener with the status that is returned, and says where it is.
pub fn over_http(
    listener: TcpListener,
    mut take: impl FnMut(Received) -> &'static str + Send + 'static,
) -> String {
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            answer(&mut stream, &mut take);
        }
    });
    address
}

/// Answers one request of a connection.
pub fn answer(stream: &mut (impl Read + Write), mut take: impl FnMut(Received) -> &'static str) {
    let Some(request) = receive(stream) else { return };
    let status = take(request);
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(answer.as_bytes());
}

/// Nothing if the peer leaves before it is done.
fn receive(stream: &mut impl Read) -> Option<Received> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    let mut more = |bytes: &mut Vec<u8>| {
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
        Some(())
    };
    let end = loop {
        match bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            Some(end) => break end,
            None => more(&mut bytes)?,
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let length: usize = length.parse().unwrap();
    while bytes.len() < end + 4 + length {
        more(&mut bytes)?;
    }
    Some(Received { head, body: bytes.split_off(end + 4) })
}
