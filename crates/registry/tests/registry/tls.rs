//! Registries over TLS: who is trusted, and that nothing falls back.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loggia_function::Image as Name;
use loggia_registry::{Error, Images, Kind, Settings};

use crate::support::certificates::{Authority, rotate, self_signed};
use crate::support::image::Image;
use crate::support::server::{Registry, Setup};
use crate::support::{images, installed, settings};

fn trusting(authorities: &[PathBuf]) -> Images {
    Images::new(Settings { authorities: authorities.to_vec(), ..settings() })
}

#[tokio::test]
async fn a_registry_is_trusted_by_the_authority_of_the_installation_only() {
    if !installed() {
        return;
    }
    let authority = Authority::new("Test authority");
    let registry = Registry::start(&Setup { tls: Some(&authority), ..Setup::default() });
    let image = registry.push(&Image::named("tls"), "fn:v1");
    let ask = async |place: PathBuf| trusting(&[place]).metadata(&Name::new(&image)).await;

    for name in ["ca.crt", "ca.pem"] {
        let (_folder, place) = authority.folder(name);
        assert_eq!(ask(place.clone()).await.unwrap().entrypoint, ["/fn", "tls"]);
        assert_eq!(ask(place.join(name)).await.unwrap().entrypoint, ["/fn", "tls"]);
    }

    // The registry stands on this machine, where HTTP may be tried; but not where TLS is and is not trusted.
    let unknown =
        "the registry's certificate is not trusted: it is signed by an unknown authority; nothing was sent";
    let error = images().metadata(&Name::new(&image)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Untrusted);
    assert!(error.to_string().contains(unknown), "{error}");
    let (_folder, place) = Authority::new("Test authority").folder("ca.crt");
    let error = ask(place).await.unwrap_err();
    assert!(error.to_string().contains(unknown), "{error}");

    // An answer of the registry is the answer, whoever is trusted.
    let (_folder, place) = authority.folder("ca.crt");
    let error = trusting(&[place]).metadata(&Name::new(&registry.image("fn:v2"))).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
}

#[tokio::test]
async fn unusable_certificates_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let ask = async |place: PathBuf| -> Error {
        trusting(&[place]).metadata(&Name::new("localhost:1/fn:v1")).await.unwrap_err()
    };
    let neither = ask(place.to_owned()).await;
    let (crt, pem) = (place.join("ca.crt"), place.join("ca.pem"));
    let expected = format!(
        "image `localhost:1/fn:v1`: registry `localhost:1`: reading the certificates to trust: ca.crt not found: open {}: \
         no such file or directory, and ca.pem also not found: open {}: no such file or directory; check \
         `--tls-secret-path`, or `--ca` of `loggia image inspect`",
        crt.display(),
        pem.display()
    );
    assert_eq!((neither.kind(), neither.to_string()), (Kind::Configuration, expected));

    for garbage in ["garbage", "", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        fs::write(&crt, garbage).unwrap();
        let error = ask(place.to_owned()).await;
        assert!(error.to_string().contains("failed to append certificates from PEM"), "{error}");
    }
    let error = ask(place.join("nowhere")).await;
    assert!(error.to_string().contains("nowhere: no such file or directory"), "{error}");
}

#[tokio::test]
async fn a_rotated_authority_is_used_without_a_restart() {
    if !installed() {
        return;
    }
    let authority = Authority::new("Test authority");
    let registry = Registry::start(&Setup { tls: Some(&authority), ..Setup::default() });
    let image = registry.push(&Image::named("rotated"), "fn:v1");
    let (_folder, place) = Authority::new("Test authority").folder("ca.crt");
    let images = trusting(std::slice::from_ref(&place));
    tokio::spawn(images.clone().follow_changes());
    assert_eq!(images.metadata(&Name::new(&image)).await.unwrap_err().kind(), Kind::Untrusted);
    assert_eq!(images.metadata(&Name::new(&image)).await.unwrap_err().kind(), Kind::Untrusted);
    rotate(&place.join("ca.crt"), &authority.pem());
    // Longer than the files are left alone.
    crate::clock::pass(std::time::Duration::from_secs(2)).await;
    assert!(images.metadata(&Name::new(&image)).await.is_ok());
}

/// What `openssl req -x509` makes is an authority and a server at once, and Go takes it.
#[tokio::test]
async fn a_registry_with_a_certificate_that_signed_itself_is_trusted_if_that_one_is() {
    let (pem, key) = self_signed("localhost");
    let (address, served) = serve_tls(&pem, &key);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ca.crt"), &pem).unwrap();
    let error = trusting(&[folder.path().to_owned()])
        .metadata(&Name::new(&format!("localhost:{address}/fn:v1")))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound, "{error}");
    assert_eq!(served.load(Ordering::SeqCst), 1);

    // The same certificate under another name is refused.
    let error = trusting(&[folder.path().to_owned()])
        .metadata(&Name::new(&format!("127.0.0.1:{address}/fn:v1")))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Untrusted, "{error}");
    // One like it that is not the one to trust is refused.
    let (other, _) = self_signed("localhost");
    fs::write(folder.path().join("ca.crt"), &other).unwrap();
    let error = trusting(&[folder.path().to_owned()])
        .metadata(&Name::new(&format!("localhost:{address}/fn:v1")))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Untrusted, "{error}");
    assert_eq!(served.load(Ordering::SeqCst), 1);
}

/// Answers 404 over TLS, and counts.
fn serve_tls(pem: &str, key: &str) -> (u16, Arc<AtomicUsize>) {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = Arc::new(AtomicUsize::new(0));
    let (count, config) = (Arc::clone(&served), Arc::new(config));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut tls = rustls::Stream::new(&mut connection, &mut stream);
            if tls.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
                count.fetch_add(1, Ordering::SeqCst);
                let _ = tls.write_all(b"HTTP/1.1 404 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
                connection.send_close_notify();
                let _ = connection.complete_io(&mut stream);
            }
        }
    });
    (port, served)
}

#[tokio::test]
async fn a_registry_elsewhere_is_never_asked_in_the_clear() {
    // The name leads nowhere, so an attempt in the clear could not succeed; that none is made is in the words.
    let error = images().metadata(&Name::new("registry.invalid:5000/fn:v1")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    assert!(error.to_string().contains("reading the manifest: no connection: "), "{error}");
}

#[tokio::test]
async fn a_registry_that_was_heard_over_tls_is_not_asked_in_the_clear_later() {
    let (pem, key) = self_signed("localhost");
    let (port, over) = serve_tls_until_told(&pem, &key);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ca.crt"), &pem).unwrap();
    let images = trusting(&[folder.path().to_owned()]);
    let ask = async |tag: &str| {
        images.metadata(&Name::new(&format!("localhost:{port}/fn:{tag}"))).await.unwrap_err()
    };
    assert_eq!(ask("v1").await.kind(), Kind::NotFound);
    // From now on somebody hangs up on TLS and answers everything in the clear.
    over.store(1, Ordering::SeqCst);
    let error = ask("v2").await;
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    assert_eq!(over.load(Ordering::SeqCst), 1, "it was asked in the clear");
}

/// Answers 404 over TLS as long as the number is 0; later hangs up on TLS, answers 404 in the clear, and counts
/// that.
fn serve_tls_until_told(pem: &str, key: &str) -> (u16, Arc<AtomicUsize>) {
    let (tls, _) = serve_tls(pem, key);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let over = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&over);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            if told.load(Ordering::SeqCst) > 0 {
                let mut first = [0];
                if stream.peek(&mut first).is_ok() && first[0] == b'G' {
                    told.fetch_add(1, Ordering::SeqCst);
                    let _ =
                        stream.write_all(b"HTTP/1.1 404 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
                }
                continue;
            }
            let upstream = std::net::TcpStream::connect(("127.0.0.1", tls)).unwrap();
            for (mut from, mut to) in
                [(stream.try_clone().unwrap(), upstream.try_clone().unwrap()), (upstream, stream)]
            {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    (port, over)
}
