//! The smallest HTTP server that can also misbehave.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What was asked.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    /// With its query.
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

/// What is done about it.
#[derive(Clone, Debug)]
pub enum Reply {
    Answer {
        status: u16,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    },
    /// The connection is closed.
    Drop,
    /// Nothing comes for so long.
    Hang(Duration),
    /// An answer of which one byte comes after each pause, for ever.
    Drip(Duration),
    /// An answer that ends before its time.
    Truncated {
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    },
    /// An answer of so many bytes, of which the length is told or not.
    Endless {
        length: Option<u64>,
    },
}

/// A server on loopback that ends when it is dropped.
#[derive(Debug)]
pub struct Stub {
    pub port: u16,
    pub seen: Arc<Mutex<Vec<Request>>>,
    over: Arc<AtomicBool>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self::Answer { status, headers: vec![], body: vec![] }
    }

    pub fn ok(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::Answer {
            status: 200,
            headers: vec![("Content-Type".into(), content_type.into())],
            body: body.into(),
        }
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        if let Self::Answer { headers, .. } | Self::Truncated { headers, .. } = &mut self {
            headers.push((name.into(), value.into()));
        }
        self
    }
}

impl Stub {
    pub fn start(handle: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let handle = Arc::new(handle);
        let (log, ended) = (Arc::clone(&seen), Arc::clone(&over));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let (handle, log, ended) = (Arc::clone(&handle), Arc::clone(&log), Arc::clone(&ended));
                std::thread::spawn(move || {
                    let Ok(mut stream) = stream else { return };
                    let Some(request) = read(&stream) else { return };
                    log.lock().unwrap().push(request.clone());
                    let _ = answer(&mut stream, &request, handle(&request), &ended);
                });
            }
        });
        Self { port, seen, over }
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn count(&self, part: &str) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|request| format!("{} {}", request.method, request.path).contains(part)).count()
    }

    pub fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Reads one request; what is none, for instance the greeting of TLS, is nothing.
pub fn read(stream: &TcpStream) -> Option<Request> {
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    reader.by_ref().take(64 << 10).read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8(line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    words.next().filter(|version| version.starts_with("HTTP/1"))?;
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.trim().to_owned()),
            None => break,
        };
    }
    let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, headers, body })
}

fn answer(stream: &mut TcpStream, request: &Request, reply: Reply, over: &AtomicBool) -> std::io::Result<()> {
    let head = |status: u16, headers: &[(String, String)], length: Option<u64>| {
        let mut head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\n");
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        length.iter().for_each(|length| head += &format!("Content-Length: {length}\r\n"));
        head + "\r\n"
    };
    match reply {
        Reply::Drop => Ok(()),
        Reply::Hang(span) => {
            let begin = Instant::now();
            while begin.elapsed() < span && !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        }
        Reply::Drip(pause) => {
            stream.write_all(head(200, &[], Some(1 << 20)).as_bytes())?;
            while !over.load(Ordering::Relaxed) {
                stream.write_all(b" ")?;
                std::thread::sleep(pause);
            }
            Ok(())
        }
        Reply::Answer { status, headers, body } => {
            stream.write_all(head(status, &headers, Some(body.len() as u64)).as_bytes())?;
            if request.method != "HEAD" {
                stream.write_all(&body)?;
            }
            Ok(())
        }
        Reply::Truncated { headers, body } => {
            stream.write_all(head(200, &headers, Some(body.len() as u64)).as_bytes())?;
            stream.write_all(&body[..body.len() / 2])
        }
        Reply::Endless { length } => {
            stream.write_all(head(200, &[], length).as_bytes())?;
            let piece = vec![b' '; 64 << 10];
            for _ in 0..length.unwrap_or(1 << 30) / (64 << 10) {
                stream.write_all(&piece)?;
            }
            Ok(())
        }
    }
}
