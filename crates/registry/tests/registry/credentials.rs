//! Who asks: passwords, tokens, helpers, and files that change.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use loggia_function::Image as Name;
use loggia_registry::{Error, Images, Keychain, Kind, Settings};
use serde_json::{Value, json};

use crate::support::certificates::{Authority, rotate};
use crate::support::http::{Reply, Stub};
use crate::support::image::Image;
use crate::support::issuer::{IDENTITY_TOKEN, Issuer};
use crate::support::server::{NEW_PASSWORD, PASSWORD, Registry, Setup, USER};
use crate::support::{installed, settings};

fn auth(password: &str) -> String {
    BASE64_STANDARD.encode(format!("{USER}:{password}"))
}

fn file(folder: &Path, entries: &Value) -> PathBuf {
    let file = folder.join("config.json");
    rotate(&file, &json!({"auths": entries}).to_string());
    file
}

#[tokio::test]
async fn a_registry_with_passwords_is_asked_with_the_right_one() {
    if !installed() {
        return;
    }
    let authority = Authority::new("Test authority");
    let mut registry = Registry::start(&Setup { tls: Some(&authority), password: true, ..Setup::default() });
    let image = registry.push(&Image::named("basic"), "team/fn:v1");
    let (_authority, place) = authority.folder("ca.crt");
    let folder = tempfile::tempdir().unwrap();
    let with = |entries: Value| {
        let auth_file = Some(file(folder.path(), &entries));
        Images::new(Settings { auth_file, authorities: vec![place.clone()], ..settings() })
    };
    let host = registry.host();

    for key in [
        host.clone(),
        format!("https://{host}"),
        format!("https://{host}/v1/"),
        format!("{host}/v2/"),
        format!("{host}/team"),
        format!("{host}/team/fn"),
    ] {
        let found = with(json!({&key: {"auth": auth(PASSWORD)}})).metadata(&Name::new(&image)).await;
        assert_eq!(found.unwrap().entrypoint, ["/fn", "basic"], "{key}");
    }
    let pair = with(json!({&host: {"username": USER, "password": PASSWORD}}));
    assert!(pair.metadata(&Name::new(&image)).await.is_ok());
    let unpadded = auth(PASSWORD).trim_end_matches('=').to_owned();
    assert!(
        with(json!({&host: {"auth": unpadded}, "bad.io": {"auth": "%"}}))
            .metadata(&Name::new(&image))
            .await
            .is_ok()
    );

    let error = with(json!({&host: {"auth": auth("wrong")}})).metadata(&Name::new(&image)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unauthorized);
    let expected = format!("the entry `{host}` of {}", folder.path().join("config.json").display());
    assert!(error.to_string().contains(&expected), "{error}");
    assert!(error.to_string().contains("reading the manifest: HTTP 401: UNAUTHORIZED"), "{error}");
    let error =
        with(json!({"other.io": {"auth": auth(PASSWORD)}})).metadata(&Name::new(&image)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unauthorized);
    assert!(
        error.to_string().contains("there are no credentials for the registry: check the key"),
        "{error}"
    );
    let error = with(json!({&host: {"auth": "%"}})).metadata(&Name::new(&image)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Configuration);
    assert!(error.to_string().contains("`auth` is not the base64 of `user:password`"), "{error}");

    // A file that is not there leaves the keychain of the user.
    let keychain = Keychain { files: vec![file(folder.path(), &json!({&host: {"auth": auth(PASSWORD)}}))] };
    let auth_file = Some(folder.path().join("nowhere"));
    let settings = Settings { auth_file, keychain, authorities: vec![place.clone()], ..settings() };
    assert!(Images::new(settings).metadata(&Name::new(&image)).await.is_ok());

    // The password changes on both sides, and the next image is fetched with the new one.
    let images = with(json!({&host: {"auth": auth(PASSWORD)}}));
    assert!(images.metadata(&Name::new(&image)).await.is_ok());
    registry.change_password();
    let other = format!("{image}@{}", images.known(&Name::new(&image)).unwrap().digest);
    assert_eq!(images.metadata(&Name::new(&other)).await.unwrap_err().kind(), Kind::Unauthorized);
    file(folder.path(), &json!({&host: {"auth": auth(NEW_PASSWORD)}}));
    let third = other.replace(":v1@", "@");
    assert!(images.metadata(&Name::new(&third)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_file_is_sent_to_receivers() {
    let folder = tempfile::tempdir().unwrap();
    let auth_file = file(folder.path(), &json!({"r.io": {"auth": auth("one")}}));
    let images = Images::new(Settings { auth_file: Some(auth_file.clone()), ..settings() });
    let mut secret = images.pull_secret();
    let first = secret.borrow_and_update().clone().unwrap();
    assert_eq!(first.docker_config(), &fs::read(&auth_file).unwrap());
    assert!(
        images.needs_pull_secret(&Name::new("r.io/fn"))
            && !images.needs_pull_secret(&Name::new("gcr.io/kpt-fn/set-labels:v1"))
    );
    tokio::spawn(images.clone().follow_changes());

    // What cannot be used changes nothing.
    rotate(&auth_file, "{");
    assert!(images.read_pull_secret().unwrap_err().to_string().contains("config.json:1:1: the file"));
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert!(!secret.has_changed().unwrap());
    fs::remove_file(&auth_file).unwrap();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert!(!secret.has_changed().unwrap());

    file(folder.path(), &json!({"r.io": {"auth": auth("two")}}));
    tokio::time::timeout(Duration::from_secs(20), secret.changed()).await.unwrap().unwrap();
    assert_ne!(secret.borrow().clone().unwrap(), first);
}

#[tokio::test]
async fn a_registry_with_tokens_gets_one_for_each_who_asks() {
    if !installed() {
        return;
    }
    let issuer = Issuer::start();
    let registry = Registry::start(&Setup { tokens: Some(&issuer), ..Setup::default() });
    let private = registry.push(&Image::named("private"), "team/fn:v1");
    let public = registry.push(&Image::named("public"), "public/fn:v1");
    let folder = tempfile::tempdir().unwrap();
    let host = registry.host();
    let with = |entry: Value| {
        let auth_file = Some(file(folder.path(), &json!({&host: entry})));
        Images::new(Settings { auth_file, ..settings() })
    };

    let images = with(json!({"auth": auth(PASSWORD)}));
    let before = issuer.stub.count("GET /token");
    assert_eq!(images.metadata(&Name::new(&private)).await.unwrap().entrypoint, ["/fn", "private"]);
    // One token serves the manifest, the config, and what is asked later.
    let digest = images.known(&Name::new(&private)).unwrap().digest.clone();
    assert!(images.metadata(&Name::new(&registry.image(&format!("team/fn@{digest}")))).await.is_ok());
    assert_eq!(issuer.stub.count("GET /token"), before + 1);

    assert_eq!(with(json!({})).metadata(&Name::new(&public)).await.unwrap().entrypoint, ["/fn", "public"]);
    let error = with(json!({})).metadata(&Name::new(&private)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unauthorized);
    assert!(
        error
            .to_string()
            .contains("asking for a token: HTTP 401: incorrect username or password; the image is private"),
        "{error}"
    );
    let error = with(json!({"auth": auth("wrong")})).metadata(&Name::new(&private)).await.unwrap_err();
    assert!(error.to_string().contains("was refused: check that it is right and has not expired"), "{error}");

    let posts = issuer.stub.count("POST /token");
    let identity = with(json!({"auth": auth("unused"), "identitytoken": IDENTITY_TOKEN}));
    assert!(identity.metadata(&Name::new(&private)).await.is_ok());
    assert_eq!(issuer.stub.count("POST /token"), posts + 1);
    assert_eq!(
        with(json!({"identitytoken": "old"})).metadata(&Name::new(&private)).await.unwrap_err().kind(),
        Kind::Unauthorized
    );

    let token = issuer.issued.lock().unwrap().last().unwrap().clone();
    assert!(with(json!({"registrytoken": token})).metadata(&Name::new(&private)).await.is_ok());
}

#[tokio::test]
async fn a_token_that_is_refused_is_renewed_once() {
    if !installed() {
        return;
    }
    let issuer = Issuer::start();
    let registry = Registry::start(&Setup { tokens: Some(&issuer), ..Setup::default() });
    let image = registry.push(&Image::named("private"), "team/fn:v1");
    let other = registry.push(&Image::named("private"), "team/fn:v2");
    let folder = tempfile::tempdir().unwrap();
    let auth_file = Some(file(folder.path(), &json!({registry.host(): {"auth": auth(PASSWORD)}})));
    let images = Images::new(Settings { auth_file, ..settings() });
    // The service says that its token holds for long, and it does not: what the registry says counts.
    issuer.stale.store(1, Ordering::Relaxed);
    assert_eq!(images.metadata(&Name::new(&image)).await.unwrap_err().kind(), Kind::Unauthorized);
    let before = issuer.stub.count("GET /token");
    assert_eq!(images.metadata(&Name::new(&other)).await.unwrap().entrypoint, ["/fn", "private"]);
    assert_eq!(issuer.stub.count("GET /token"), before + 1);

    // A registry that refuses every token is asked twice and no more.
    let realm = issuer.realm();
    let stub = Stub::start(move |_| {
        Reply::status(401)
            .with("WWW-Authenticate", &format!("Bearer realm=\"{realm}\",service=\"test-registry\""))
    });
    let error = images.metadata(&Name::new(&format!("{}/public/fn:v1", stub.host()))).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unauthorized);
    assert_eq!(stub.count("GET"), 2);
    // The same registry later: with the token at hand, and once more with a new one.
    let error = images.metadata(&Name::new(&format!("{}/public/fn:v2", stub.host()))).await.unwrap_err();
    assert_eq!((error.kind(), stub.count("GET")), (Kind::Unauthorized, 4));
}

/// Helpers run as programs of their own; `PATH` cannot be changed inside a test, so they are found by the `PATH`
/// of a second process: see `loggia image inspect`. Here is what needs none.
#[tokio::test]
async fn a_helper_that_is_not_there_is_named() {
    let stub = Stub::start(|_| Reply::status(401).with("WWW-Authenticate", "Basic realm=\"r\""));
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.json");
    fs::write(&config, json!({"credHelpers": {stub.host(): "loggia-missing"}}).to_string()).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
    let images = Images::new(Settings { auth_file: Some(config), ..settings() });
    let error: Error = images.metadata(&Name::new(&format!("{}/fn:v1", stub.host()))).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Configuration);
    let expected = "`docker-credential-loggia-missing` cannot be started: \
                    fork/exec docker-credential-loggia-missing: no such file or directory (named in ";
    assert!(error.to_string().contains(expected), "{error}");
}

#[tokio::test]
async fn a_registry_that_hides_what_is_private_is_shown_who_asks() {
    let manifest = r#"{"config": {"digest": "x"}}"#;
    let stub = Stub::start(move |request| match request.header("authorization") {
        Some(_) => Reply::ok("application/json", manifest),
        None => Reply::status(404),
    });
    let folder = tempfile::tempdir().unwrap();
    let auth_file = Some(file(folder.path(), &json!({stub.host(): {"auth": auth("x")}})));
    let begin = Instant::now();
    let error = Images::new(Settings { auth_file, ..settings() })
        .metadata(&Name::new(&format!("{}/fn:v1", stub.host())))
        .await;
    assert!(error.unwrap_err().to_string().contains("points to `x`, which is no SHA-256 digest"));
    assert_eq!(stub.count("GET"), 2);
    assert!(begin.elapsed() < Duration::from_secs(10));
}
