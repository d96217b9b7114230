//! Registries on loopback that answer by a script.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loggia_testing::Authority;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::rows::Reply;
use crate::template::expand;

const NAMES: [&str; 3] = ["A", "B", "C"];
/// No request of ours is longer.
const HEAD: usize = 64 << 10;

/// Three hosts that run until this is dropped.
pub(crate) struct Hosts {
    ports: BTreeMap<&'static str, u16>,
    seen: Arc<Mutex<Vec<(String, String)>>>,
    _runtime: Runtime,
}

/// What a host says to which path.
struct Script {
    replies: Vec<(String, Reply)>,
    seen: Arc<Mutex<Vec<(String, String)>>>,
}

impl Hosts {
    /// Starts the hosts; with TLS, `ca.crt` in the folder is whom to trust.
    pub(crate) fn start(
        answers: &BTreeMap<String, Reply>,
        tls: bool,
        size: f64,
        folder: &Path,
    ) -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(text)?;
        let acceptor = tls.then(|| acceptor(folder)).transpose()?;
        let listeners: Vec<(&str, TcpListener)> = NAMES
            .into_iter()
            .map(|name| Ok((name, runtime.block_on(TcpListener::bind("127.0.0.1:0")).map_err(text)?)))
            .collect::<Result<_, String>>()?;
        let ports =
            listeners.iter().map(|(name, listener)| Ok((*name, listener.local_addr().map_err(text)?.port())));
        let ports: BTreeMap<&str, u16> = ports.collect::<Result<_, String>>()?;
        let hosts = Self { ports, seen: Arc::default(), _runtime: runtime };
        for (name, listener) in listeners {
            let mut replies = Vec::new();
            for (to, reply) in answers {
                let Some(path) = to.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')) else {
                    continue;
                };
                replies.push((path.to_owned(), hosts.filled(reply, size)?));
            }
            replies.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
            let script = Arc::new(Script { replies, seen: Arc::clone(&hosts.seen) });
            hosts._runtime.spawn(serve(name, listener, acceptor.clone(), script));
        }
        Ok(hosts)
    }

    /// A text with the addresses of the hosts.
    pub(crate) fn fill(&self, text: &str) -> String {
        self.ports.iter().fold(text.to_owned(), |text, (name, port)| {
            text.replace(&format!("{{{name}}}"), &format!("127.0.0.1:{port}"))
        })
    }

    /// Who was asked, and the head of the request.
    pub(crate) fn requests(&self) -> Vec<(String, String)> {
        self.seen.lock().expect("no thread panicked").clone()
    }

    fn filled(&self, reply: &Reply, size: f64) -> Result<Reply, String> {
        let mut reply = reply.clone();
        reply.body = self.fill(&expand(&reply.body, size)?);
        for value in reply.headers.values_mut() {
            *value = self.fill(&expand(value, size)?);
        }
        Ok(reply)
    }
}

fn acceptor(folder: &Path) -> Result<TlsAcceptor, String> {
    use rustls::pki_types::pem::PemObject as _;
    let authority = Authority::new("Hostile");
    fs::write(folder.join("ca.crt"), authority.pem()).map_err(|error| error.to_string())?;
    let (certificate, key) = authority.certificate_for(&["127.0.0.1", "localhost"]);
    let certificates: Result<Vec<_>, _> =
        rustls::pki_types::CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
    let certificates = certificates.map_err(|error| error.to_string())?;
    let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|error| error.to_string())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| error.to_string())?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn serve(name: &'static str, listener: TcpListener, tls: Option<TlsAcceptor>, script: Arc<Script>) {
    while let Ok((socket, _)) = listener.accept().await {
        let (tls, script) = (tls.clone(), Arc::clone(&script));
        tokio::spawn(async move {
            match tls {
                Some(tls) => {
                    if let Ok(stream) = tls.accept(socket).await {
                        script.converse(name, stream).await;
                    }
                }
                None => script.converse(name, socket).await,
            }
        });
    }
}

impl Script {
    async fn converse(&self, name: &str, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD {
            let mut piece = [0; 4096];
            match stream.read(&mut piece).await {
                Ok(count) if count > 0 => head.extend_from_slice(&piece[..count]),
                _ => return,
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        self.seen.lock().expect("no thread panicked").push((name.to_owned(), head));
        let reply = self.replies.iter().find(|(start, _)| path.starts_with(start.as_str()));
        let missing = Reply { status: 404, ..Reply::default() };
        let _ = send(&mut stream, reply.map_or(&missing, |(_, reply)| reply)).await;
        let _ = stream.shutdown().await;
    }
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), reply: &Reply) -> std::io::Result<()> {
    let mut body = reply.body.clone().into_bytes();
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    if reply.gzip {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&body)?;
        body = encoder.finish()?;
        head += "Content-Encoding: gzip\r\n";
    }
    if !reply.endless && !reply.headers.contains_key("Content-Length") {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    stream.write_all((head + "\r\n").as_bytes()).await?;
    if reply.slow {
        for byte in body {
            stream.write_all(&[byte]).await?;
            stream.flush().await?;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        return Ok(());
    }
    stream.write_all(&body).await?;
    // The other side stops reading, or the row's time is over.
    if reply.endless {
        loop {
            stream.write_all(&[b' '; 16 << 10]).await?;
        }
    }
    stream.flush().await
}
