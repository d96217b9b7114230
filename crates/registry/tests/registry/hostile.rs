//! Registries, and hosts that are none, that want what is not theirs: credentials, other hosts, memory, time.

use std::path::Path;
use std::time::{Duration, Instant};

use loggia_function::Image as Name;
use loggia_registry::{Error, Images, Kind, PrivateRegistries, Settings, Timeouts};
use serde_json::json;

use crate::support::http::{Reply, Stub};
use crate::support::image::sha256;
use crate::support::settings;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn with_password(folder: &Path, host: &str) -> Settings {
    let file = folder.join("config.json");
    let entry = json!({"auths": {host: {"username": "robot", "password": "canary-S3cret"}}});
    std::fs::write(&file, entry.to_string()).unwrap();
    Settings { auth_file: Some(file), ..settings() }
}

async fn ask(settings: Settings, image: &str) -> Error {
    Images::new(settings).metadata(&Name::new(image)).await.unwrap_err()
}

fn unauthorized(stub: &Stub) -> bool {
    stub.requests().iter().all(|request| request.header("authorization").is_none() && request.body.is_empty())
}

fn challenge(realm: &str) -> Reply {
    Reply::status(401).with("WWW-Authenticate", &format!("Bearer realm=\"{realm}\",service=\"x\""))
}

#[tokio::test]
async fn a_host_that_the_registry_sends_us_to_gets_no_credential_whatever_it_asks_for() {
    let evil = Stub::start(|_| Reply::ok("application/json", r#"{"token": "t"}"#));
    let realm = format!("http://{}/token", evil.host());
    for asks in [challenge(&realm), Reply::status(401).with("WWW-Authenticate", "Basic realm=\"r\"")] {
        let bucket = Stub::start(move |_| asks.clone());
        let location = format!("http://{}/blob", bucket.host());
        let registry = Stub::start(move |_| Reply::status(307).with("Location", &location));
        let folder = tempfile::tempdir().unwrap();
        let plain_http = vec![bucket.host()];
        let settings = Settings { plain_http, ..with_password(folder.path(), &registry.host()) };
        let images = Images::new(settings);
        for tag in ["v1", "v2"] {
            let image = format!("{}/fn:{tag}", registry.host());
            let error = images.metadata(&Name::new(&image)).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Unauthorized, "{error}");
        }
        assert!(unauthorized(&bucket) && bucket.count("GET") == 2, "{:?}", bucket.requests());
        assert!(unauthorized(&registry), "{:?}", registry.requests());
        assert_eq!(evil.requests().len(), 0);
    }
}

#[tokio::test]
async fn a_redirect_that_comes_back_carries_no_credential() {
    let home = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let back = std::sync::Arc::clone(&home);
    let elsewhere = Stub::start(move |_| {
        Reply::status(302).with("Location", &format!("http://{}/x", back.lock().unwrap()))
    });
    let away = format!("http://{}/", elsewhere.host());
    let registry = Stub::start(move |request| match request.header("authorization") {
        None if request.path == "/x" => Reply::status(404),
        None => Reply::status(401).with("WWW-Authenticate", "Basic realm=\"r\""),
        Some(_) if request.path == "/x" => Reply::status(500),
        Some(_) => Reply::status(302).with("Location", &away),
    });
    *home.lock().unwrap() = registry.host();
    let folder = tempfile::tempdir().unwrap();
    let plain_http = vec![elsewhere.host(), registry.host()];
    let settings = Settings { plain_http, ..with_password(folder.path(), &registry.host()) };
    let error = ask(settings, &format!("{}/fn:v1", registry.host())).await;
    assert_eq!(error.kind(), Kind::NotFound, "{error}");
    assert!(unauthorized(&elsewhere));
}

#[tokio::test]
async fn a_token_service_of_another_owner_gets_a_credential_only_if_it_is_listed() {
    let registry = Stub::start(|_| challenge("https://evil.example:1/token"));
    let image = format!("{}/fn:v1", registry.host());
    let folder = tempfile::tempdir().unwrap();
    let error = ask(with_password(folder.path(), &registry.host()), &image).await;
    assert_eq!(error.kind(), Kind::NotAllowed);
    assert!(
        error.to_string().contains("a token service of another owner, `evil.example`: nothing was sent"),
        "{error}"
    );
    assert!(error.to_string().contains("--registry-realms"), "{error}");
    // Listed, it is asked: the name leads nowhere.
    let realms = vec!["evil.example".to_owned()];
    let listed = Settings { realms, ..with_password(folder.path(), &registry.host()) };
    assert_eq!(ask(listed, &image).await.kind(), Kind::Unreachable);
    for realm in ["ftp://x/", "/token", "http://10.0.0.1/token", "https://", "https://[", "", "data:,x"] {
        let registry = Stub::start(move |_| challenge(realm));
        let error =
            ask(with_password(folder.path(), &registry.host()), &format!("{}/fn:v1", registry.host())).await;
        assert_eq!(error.kind(), Kind::Malformed, "{realm}: {error}");
    }
}

#[tokio::test]
async fn nothing_in_a_private_network_is_asked_that_is_not_configured() {
    let inside = Stub::start(|_| Reply::ok("application/json", "{}"));
    let closed = || Settings { private: PrivateRegistries::default(), ..settings() };
    for host in
        [inside.host(), format!("localhost:{}", inside.port), format!("[::ffff:127.0.0.1]:{}", inside.port)]
    {
        let error = ask(closed(), &format!("{host}/fn:v1")).await;
        assert_eq!(error.kind(), Kind::NotAllowed, "{error}");
        assert!(error.to_string().contains("`--private-registries`"), "{error}");
    }
    // A proxy of this machine for all the world does not change that for addresses.
    assert_eq!(inside.requests().len(), 0);
    let begin = Instant::now();
    for host in
        ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]:80", "0.0.0.0:80", "100.100.100.200"]
    {
        let error = ask(settings(), &format!("{host}/fn:v1")).await;
        assert_eq!(error.kind(), Kind::NotAllowed, "{error}");
        assert!(error.to_string().contains("never asked"), "{error}");
    }
    assert!(begin.elapsed() < Duration::from_secs(20));

    // By name, by network, as a registry without TLS.
    let listed = |text: &str| Settings {
        private: PrivateRegistries::Listed(vec![text.parse().unwrap()]),
        ..settings()
    };
    let image = format!("{}/fn:v1", inside.host());
    for settings in [
        listed(&inside.host()),
        listed("127.0.0.1"),
        listed("127.0.0.0/8"),
        Settings { plain_http: vec![inside.host()], ..closed() },
    ] {
        assert_eq!(ask(settings, &image).await.kind(), Kind::Malformed);
    }
    // An entry in the file with credentials names it, for TLS.
    let folder = tempfile::tempdir().unwrap();
    let named =
        Settings { private: PrivateRegistries::default(), ..with_password(folder.path(), &inside.host()) };
    assert_eq!(ask(named, &image).await.kind(), Kind::Unreachable);
}

#[tokio::test]
async fn a_redirect_does_not_lead_into_a_private_network() {
    let inside = Stub::start(|_| Reply::ok("application/json", "{}"));
    for location in [
        format!("http://{}/admin", inside.host()),
        format!("https://{}/admin", inside.host()),
        format!("https://localhost:{}/admin", inside.port),
        "https://169.254.169.254/latest/meta-data".to_owned(),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "https://[fe80::1]/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "//169.254.169.254/x".to_owned(),
    ] {
        let to = location.clone();
        let registry = Stub::start(move |_| Reply::status(302).with("Location", &to));
        let private = PrivateRegistries::Listed(vec![registry.host().parse().unwrap()]);
        let error = ask(Settings { private, ..settings() }, &format!("{}/fn:v1", registry.host())).await;
        assert!(matches!(error.kind(), Kind::NotAllowed | Kind::Malformed), "{location}: {error}");
    }
    assert_eq!(inside.requests().len(), 0);
}

#[tokio::test]
async fn what_is_not_a_registry_is_not_quoted() {
    for status in [400, 401, 403, 404, 418, 500] {
        for body in [
            r#"{"details": "INTERNAL SERVICE SAYS"}"#,
            r#"{"errors": [{"code": "E17", "message": "INTERNAL SERVICE SAYS"}]}"#,
            r#"{"error_description": "INTERNAL SERVICE SAYS"}"#,
            "INTERNAL SERVICE SAYS",
        ] {
            let inside = Stub::start(move |_| Reply::Answer { status, headers: vec![], body: body.into() });
            let timeouts = Timeouts { total: Duration::from_secs(2), ..Timeouts::default() };
            let error = ask(Settings { timeouts, ..settings() }, &format!("{}/fn:v1", inside.host())).await;
            assert!(!error.to_string().contains("INTERNAL"), "{error}");
            assert!(inside.requests().len() <= 4);
        }
    }
    let registry = Stub::start(|_| Reply::Answer {
        status: 403,
        headers: vec![("Docker-Distribution-Api-Version".into(), "registry/2.0".into())],
        body: br#"{"errors": [{"code": "E17", "message": "no \u001b[31m way"}]}"#.into(),
    });
    let error = ask(settings(), &format!("{}/fn:v1", registry.host())).await;
    assert!(error.to_string().contains("HTTP 403: E17: no  [31m way"), "{error}");
}

#[tokio::test]
async fn an_answer_that_drips_ends_in_time() {
    let registry = Stub::start(|_| Reply::Drip(Duration::from_millis(20)));
    let timeouts = Timeouts { total: Duration::from_millis(900), ..Timeouts::default() };
    let begin = Instant::now();
    let error = ask(Settings { timeouts, ..settings() }, &format!("{}/fn:v1", registry.host())).await;
    assert_eq!(error.kind(), Kind::TimedOut);
    assert!(error.to_string().contains("--registry-timeout"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn indexes_that_lead_to_indexes_and_bombs_are_refused() {
    // Each index names the one before; the innermost names itself by a digest that it cannot have.
    let kind = "application/vnd.oci.image.index.v1+json";
    let mut bodies: Vec<(String, String)> = Vec::new();
    let mut inner = format!("sha256:{}", "0".repeat(64));
    for _ in 0..6 {
        let body = json!({"mediaType": kind, "manifests": [{"mediaType": kind, "digest": inner,
                          "platform": {"os": "linux", "architecture": "amd64"}}]})
        .to_string();
        inner = sha256(body.as_bytes());
        bodies.push((inner.clone(), body));
    }
    let top = bodies.last().unwrap().1.clone();
    let registry = Stub::start(move |request| {
        let found = bodies.iter().find(|(digest, _)| request.path.ends_with(digest));
        Reply::ok(kind, found.map_or(top.clone(), |(_, body)| body.clone()))
    });
    let error = ask(settings(), &format!("{}/fn:v1", registry.host())).await;
    assert!(error.to_string().contains("an index leads to an index, over and over"), "{error}");
    assert!(registry.requests().len() <= 4);

    // Compressed answers are not unpacked: their bytes are not a manifest.
    let gzip =
        Stub::start(|_| Reply::ok(MANIFEST, vec![0x1f, 0x8b, 8, 0, 0, 0]).with("Content-Encoding", "gzip"));
    assert_eq!(ask(settings(), &format!("{}/fn:v1", gzip.host())).await.kind(), Kind::Malformed);
    let deep = Stub::start(|_| Reply::ok(MANIFEST, "[".repeat(3 << 20)));
    assert_eq!(ask(settings(), &format!("{}/fn:v1", deep.host())).await.kind(), Kind::Malformed);
    let liar = Stub::start(|_| {
        Reply::ok(MANIFEST, "{}").with("Docker-Content-Digest", &format!("sha256:{}", "x".repeat(9000)))
    });
    assert!(ask(settings(), &format!("{}/fn:v1", liar.host())).await.to_string().len() < 1000);
}

#[tokio::test]
async fn a_file_with_credentials_that_is_none_is_refused_at_once() {
    let registry = Stub::start(|_| Reply::status(401).with("WWW-Authenticate", "Basic realm=\"r\""));
    let folder = tempfile::tempdir().unwrap();
    let (deep, many, wide) =
        (folder.path().join("deep"), folder.path().join("many"), folder.path().join("wide"));
    std::fs::write(&deep, format!("{{\"auths\": {}", "{\"a\":".repeat(500_000))).unwrap();
    std::fs::write(&many, "x".repeat(5 << 20)).unwrap();
    let entries: Vec<_> = (0..60_000).map(|n| format!("\"r{n}.io\": {{\"auth\": \"%\"}}")).collect();
    std::fs::write(&wide, format!("{{\"auths\": {{{}}}}}", entries.join(","))).unwrap();
    for (file, expected) in [
        (deep, Some("deep:1:")),
        (many, Some("has more than 4194304 bytes")),
        (folder.path().to_owned(), Some("is not a regular file")),
        ("/dev/zero".into(), Some("is not a regular file")),
        (wide, None),
    ] {
        let begin = Instant::now();
        let error =
            ask(Settings { auth_file: Some(file), ..settings() }, &format!("{}/fn:v1", registry.host()))
                .await;
        match expected {
            Some(text) => {
                assert!(error.kind() == Kind::Configuration && error.to_string().contains(text), "{error}");
            }
            None => assert_eq!(error.kind(), Kind::Unauthorized, "{error}"),
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{error}");
    }
}
