//! Everything that can go wrong between us and a registry ends in the right answer or the right words, in time.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use loggia_function::Image as Name;
use loggia_registry::{Images, Kind, Settings, Timeouts};
use serde_json::json;

use crate::support::http::{Reply, Stub};
use crate::support::image::Image;
use crate::support::proxy::Proxy;
use crate::support::server::Registry;
use crate::support::{images, installed, settings};

fn impatient() -> Images {
    let timeouts = Timeouts {
        connect: Duration::from_millis(500),
        read: Duration::from_millis(700),
        total: Duration::from_secs(8),
        ..Timeouts::default()
    };
    Images::new(Settings { timeouts, ..settings() })
}

#[tokio::test]
async fn trouble_that_passes_is_not_noticed() {
    if !installed() {
        return;
    }
    let registry = Registry::open();
    registry.push(&Image::named("fn"), "fn:v1");
    let storm = |status| vec![Reply::status(status), Reply::status(status), Reply::status(status)];
    let half = || Reply::Truncated { headers: vec![], body: vec![b'{'; 500] };
    for (what, faults) in [
        ("drops", vec![Reply::Drop, Reply::Drop, Reply::Drop]),
        ("500", storm(500)),
        ("502", storm(502)),
        ("503", storm(503)),
        ("504", storm(504)),
        ("408", storm(408)),
        ("429", storm(429)),
        ("half an answer", vec![half(), half()]),
        ("a hang", vec![Reply::Hang(Duration::from_secs(5))]),
    ] {
        let proxy = Proxy::to(registry.port);
        let images = impatient();
        // Let it learn that there is no TLS, so that each fault meets a request.
        assert!(images.metadata(&Name::new(&proxy.image("fn:none"))).await.is_err());
        proxy.next(faults);
        let begin = Instant::now();
        let found = images.metadata(&Name::new(&proxy.image("fn:v1"))).await;
        assert_eq!(found.unwrap_or_else(|error| panic!("{what}: {error}")).entrypoint, ["/fn", "fn"]);
        assert_eq!(proxy.left(), 0, "{what}");
        assert!(begin.elapsed() < Duration::from_secs(8), "{what}: {:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn a_registry_is_left_alone_for_as_long_as_it_asks() {
    if !installed() {
        return;
    }
    let registry = Registry::open();
    registry.push(&Image::named("fn"), "fn:v1");
    let proxy = Proxy::to(registry.port);
    let images = images();
    assert!(images.metadata(&Name::new(&proxy.image("fn:none"))).await.is_err());
    proxy.next([Reply::status(429).with("Retry-After", "1")]);
    let begin = Instant::now();
    assert!(images.metadata(&Name::new(&proxy.image("fn:v1"))).await.is_ok());
    assert!(begin.elapsed() >= Duration::from_secs(1));

    // Longer than anybody waits: it is said at once.
    proxy.next([Reply::status(429).with("Retry-After", "3600")]);
    let begin = Instant::now();
    let error = images.metadata(&Name::new(&proxy.image("fn:v2"))).await.unwrap_err();
    assert_eq!(error.kind(), Kind::RateLimited);
    assert!(error.to_string().contains("HTTP 429; try again in 3600 s; use credentials"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn trouble_that_stays_is_told_in_time() {
    let ever = |reply: Reply| Stub::start(move |_| reply.clone());
    let kind = async |reply: Reply| {
        let stub = ever(reply);
        let begin = Instant::now();
        let error = impatient().metadata(&Name::new(&format!("{}/fn:v1", stub.host()))).await.unwrap_err();
        assert!(begin.elapsed() < Duration::from_secs(10), "{error}: {:?}", begin.elapsed());
        let place = format!("image `{0}/fn:v1`: registry `{0}`: reading the manifest: ", stub.host());
        assert!(error.to_string().starts_with(&place), "{error}");
        (error.kind(), stub.count("GET"))
    };
    assert_eq!(kind(Reply::status(500)).await, (Kind::RegistryFailed, 4));
    assert_eq!(kind(Reply::status(429)).await, (Kind::RateLimited, 4));
    assert_eq!(kind(Reply::status(403)).await, (Kind::Forbidden, 1));
    assert_eq!(kind(Reply::status(404)).await, (Kind::NotFound, 1));
    assert_eq!(kind(Reply::status(401)).await, (Kind::Unauthorized, 1));
    assert_eq!(kind(Reply::status(418)).await, (Kind::Malformed, 1));
    assert_eq!(kind(Reply::ok("text/html", "<html>")).await, (Kind::Malformed, 1));
    assert_eq!(kind(Reply::Endless { length: Some(1 << 30) }).await, (Kind::TooLarge, 1));
    assert_eq!(kind(Reply::Endless { length: None }).await, (Kind::TooLarge, 1));
    let hang = kind(Reply::Hang(Duration::from_secs(30))).await;
    assert_eq!(hang.0, Kind::TimedOut);
    assert_eq!(kind(Reply::Drop).await.0, Kind::Unreachable);
}

#[tokio::test]
async fn nobody_listening_is_told() {
    let port = crate::support::free_port();
    let error = images().metadata(&Name::new(&format!("127.0.0.1:{port}/fn:v1"))).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable);
    assert!(
        error.to_string().contains("no connection: connection refused; check the registry's name and port"),
        "{error}"
    );
}

#[tokio::test]
async fn bytes_that_are_not_what_was_asked_for_are_refused() {
    if !installed() {
        return;
    }
    let registry = Registry::open();
    registry.push(&Image::named("fn"), "fn:v1");
    let proxy = Proxy::to(registry.port);
    let digest = images().metadata(&Name::new(&proxy.image("fn:v1"))).await.unwrap().digest.clone();
    for (part, image) in [
        ("/manifests/", proxy.image("fn:v1")),
        ("/manifests/", proxy.image(&format!("fn@{digest}"))),
        ("/blobs/", proxy.image("fn:v1")),
    ] {
        proxy.spoil(move |request, reply| match reply {
            Reply::Answer { status, headers, body } if request.path.contains(part) => {
                // The same meaning, another digest.
                Reply::Answer { status, headers, body: [body, b" ".to_vec()].concat() }
            }
            other => other,
        });
        let error = images().metadata(&Name::new(&image)).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Malformed, "{error}");
        assert!(error.to_string().contains("the answer has the digest sha256:"), "{error}");
    }
}

#[tokio::test]
async fn a_credential_stays_behind_when_the_way_leads_to_another_host() {
    if !installed() {
        return;
    }
    let registry = Registry::open();
    registry.push(&Image::named("fn"), "fn:v1");
    // Storage elsewhere, which takes who shows a credential for an attacker.
    let upstream = Proxy::to(registry.port);
    let elsewhere = upstream.stub.port;
    let proxy = Proxy::to(registry.port);
    proxy.spoil(move |request, reply| match request.header("authorization") {
        None => Reply::status(401).with("WWW-Authenticate", "Basic realm=\"r\""),
        Some(_) if request.path.contains("/blobs/") => {
            let location = format!("http://127.0.0.1:{elsewhere}{}?signature=canary-signature", request.path);
            Reply::status(307).with("Location", &location)
        }
        Some(_) => reply,
    });
    let folder = tempfile::tempdir().unwrap();
    let auth_file = folder.path().join("config.json");
    let entry = json!({"auths": {proxy.stub.host(): {"username": "alice", "password": "canary"}}});
    std::fs::write(&auth_file, entry.to_string()).unwrap();
    // Without TLS the way leads to another host only if that is configured, too.
    let plain_http = vec![upstream.stub.host()];
    let images = Images::new(Settings { auth_file: Some(auth_file), plain_http, ..settings() });
    assert_eq!(images.metadata(&Name::new(&proxy.image("fn:v1"))).await.unwrap().entrypoint, ["/fn", "fn"]);
    let followed = upstream.stub.requests();
    assert_eq!(followed.len(), 1);
    assert!(followed.iter().all(|request| request.header("authorization").is_none()), "{followed:?}");
    assert!(followed[0].path.ends_with("?signature=canary-signature"));
    assert!(proxy.stub.requests().iter().any(|request| request.header("authorization").is_some()));
}

#[tokio::test]
async fn a_circle_of_redirects_ends() {
    let port = Mutex::new(None);
    let stub = Stub::start(move |request| {
        let host = request.header("host").unwrap_or_default().to_owned();
        *port.lock().unwrap() = Some(host.clone());
        Reply::status(302).with("Location", &format!("http://{host}/again"))
    });
    let error = images().metadata(&Name::new(&format!("{}/fn:v1", stub.host()))).await.unwrap_err();
    assert!(error.to_string().contains("sends us on more than 5 times"), "{error}");
}

#[tokio::test]
async fn credentials_are_not_sent_in_the_clear() {
    // A private address in the clear may be asked, but is told nothing. Its own network namespace would be
    // needed to answer there; that the token service on such an address is refused shows the same rule.
    let stub = Stub::start(|_| {
        Reply::status(401)
            .with("WWW-Authenticate", "Bearer realm=\"http://10.255.255.1:9/token\",service=\"x\"")
    });
    let folder = tempfile::tempdir().unwrap();
    let auth_file = folder.path().join("config.json");
    let entry = json!({"auths": {stub.host(): {"username": "alice", "password": "canary"}}});
    std::fs::write(&auth_file, entry.to_string()).unwrap();
    let images = Images::new(Settings { auth_file: Some(auth_file), ..settings() });
    let error = images.metadata(&Name::new(&format!("{}/fn:v1", stub.host()))).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Malformed);
    let expected =
        "asking for a token: the registry names a token service without TLS: http://10.255.255.1:9/token";
    assert!(error.to_string().contains(expected), "{error}");
}
