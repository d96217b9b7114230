//! What stands between us and the registry, and makes trouble.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use super::http::{Reply, Request, Stub};

/// Passes requests on to a registry in the clear, except for those that it is told to spoil.
#[allow(missing_debug_implementations, reason = "it holds a closure")]
pub struct Proxy {
    pub stub: Stub,
    faults: Arc<Mutex<VecDeque<Reply>>>,
    spoil: Arc<Mutex<Option<Spoil>>>,
}

type Spoil = Box<dyn Fn(&Request, Reply) -> Reply + Send>;

impl Proxy {
    pub fn to(port: u16) -> Self {
        let faults = Arc::new(Mutex::new(VecDeque::new()));
        let spoil: Arc<Mutex<Option<Spoil>>> = Arc::default();
        let (next, change) = (Arc::clone(&faults), Arc::clone(&spoil));
        let stub = Stub::start(move |request| {
            if let Some(fault) = next.lock().unwrap().pop_front() {
                return fault;
            }
            let reply = pass_on(port, request);
            match &*change.lock().unwrap() {
                Some(spoil) => spoil(request, reply),
                None => reply,
            }
        });
        Self { stub, faults, spoil }
    }

    /// The next requests are answered like this.
    pub fn next(&self, faults: impl IntoIterator<Item = Reply>) {
        self.faults.lock().unwrap().extend(faults);
    }

    /// All answers are changed like this.
    pub fn spoil(&self, spoil: impl Fn(&Request, Reply) -> Reply + Send + 'static) {
        *self.spoil.lock().unwrap() = Some(Box::new(spoil));
    }

    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.stub.host())
    }

    /// Faults that nobody met.
    pub fn left(&self) -> usize {
        self.faults.lock().unwrap().len()
    }
}

fn pass_on(port: u16, request: &Request) -> Reply {
    let mut upstream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut head = format!("{} {} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n", request.method, request.path);
    for name in ["accept", "authorization"] {
        request.header(name).iter().for_each(|value| head += &format!("{name}: {value}\r\n"));
    }
    upstream.write_all((head + "\r\n").as_bytes()).unwrap();
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("an answer has a head");
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split_whitespace().nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let kept = ["content-type", "docker-content-digest", "www-authenticate"];
    let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let headers = headers.filter(|(name, _)| kept.contains(&name.to_ascii_lowercase().as_str()));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Reply::Answer { status, headers, body: answer[end + 4..].to_vec() }
}
