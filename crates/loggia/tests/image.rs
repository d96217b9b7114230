//! `loggia image inspect` as a program, against a real registry.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use loggia_testing::Authority;
use loggia_testing::registry::http::{Reply, Stub};
use loggia_testing::registry::image::Image;
use loggia_testing::registry::installed;
use loggia_testing::registry::server::{PASSWORD, Registry, Setup, USER};

/// Exit code, standard output and standard error.
fn inspect(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_loggia"))
        .args(["image", "inspect"])
        .args(arguments)
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", std::env::var_os("PATH").unwrap())
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A registry with TLS and one image.
struct Secured {
    registry: Registry,
    image: String,
    /// A folder with the certificate of the registry's authority, for as long as this is there.
    place: PathBuf,
    /// The flag that names it.
    ca: String,
    _folder: TempDir,
}

impl Secured {
    fn start(password: bool) -> Self {
        let authority = Authority::new("Test authority");
        let registry = Registry::start(&Setup { tls: Some(&authority), password, ..Setup::default() });
        let image = registry.push(&Image::named("fn"), "fn:v1");
        let (folder, place) = authority.folder("ca.crt");
        let ca = format!("--ca={}", place.display());
        Self { registry, image, place, ca, _folder: folder }
    }
}

#[test]
fn an_image_is_shown_for_people_and_for_programs() {
    if !installed() {
        return;
    }
    let registry = Registry::open();
    let run = json!({"Entrypoint": ["/fn", "a b"], "Cmd": ["-c"], "Env": ["A=b", "C=d e"], "User": "65532"});
    let multi = Image { platforms: vec!["amd64", "arm64"], index: true, ..Image::running(run) };
    let image = registry.push(&multi, "team/fn:v1");

    let (code, json, errors) = inspect(&[&image, "--platform=linux/arm64", "--output=json"], &[]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["entrypoint"], json!(["/fn", "a b", "-c"]));
    assert_eq!((&json["platform"], &json["user"]), (&json!("linux/arm64"), &json!("65532")));
    let (digest, index) = (json["digest"].as_str().unwrap(), json["indexDigest"].as_str().unwrap());

    let (code, text, errors) = inspect(&[&image, "--platform", "linux/arm64"], &[]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(
        text,
        format!(
            "Image:       {image}\nDigest:      {digest}\nIndex:       {index}\nPlatform:    linux/arm64\n\
             Runs:        /fn 'a b' -c\nIn folder:   /\nAs user:     65532\nVariables:   A=b\n             'C=d e'\n"
        )
    );

    let (code, text, errors) = inspect(&[&image, "--platform=linux/s390x"], &[]);
    assert_eq!((code, text.as_str()), (Some(1), ""));
    assert!(
        errors.starts_with(&format!("Error: image `{image}`: registry `{}`: ", registry.host())),
        "{errors}"
    );
    let (code, _, errors) = inspect(&["UPPER"], &[]);
    assert_eq!(code, Some(1));
    assert!(errors.starts_with("Error: could not parse reference: UPPER: "), "{errors}");
    assert_eq!(inspect(&[&image, "--platform=x"], &[]).0, Some(1));

    let prefix = format!("--default-image-prefix={}/team/", registry.host());
    assert_eq!(inspect(&["fn:v1", &prefix], &[]).0, Some(0));
    let (_, _, steps) = inspect(&[&image, "-v"], &[]);
    assert!(steps.contains("does not speak TLS: it is asked in the clear"), "{steps}");
    assert!(steps.contains("Following the index"), "{steps}");
    assert_eq!(inspect(&[&image, "--plain-http"], &[]).0, Some(0));
}

#[test]
fn credentials_and_certificates_are_those_of_the_flags_or_of_the_user() {
    if !installed() {
        return;
    }
    let Secured { registry, image, place, ca, _folder } = Secured::start(true);
    let file = place.join("config.json");
    let entry = json!({"auths": {registry.host(): {"username": USER, "password": PASSWORD}}});
    fs::write(&file, entry.to_string()).unwrap();

    let auth = format!("--registry-auth={}", file.display());
    assert_eq!(inspect(&[&image, &ca, &auth], &[]).0, Some(0));
    assert_eq!(inspect(&[&image, &ca], &[("DOCKER_CONFIG", place.to_str().unwrap())]).0, Some(0));
    assert_eq!(inspect(&[&image, &ca], &[("REGISTRY_AUTH_FILE", file.to_str().unwrap())]).0, Some(0));
    let (code, _, errors) = inspect(&[&image, &ca], &[]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("HTTP 401: UNAUTHORIZED"), "{errors}");
    assert!(inspect(&[&image, &auth], &[]).2.contains("signed by an unknown authority"));
    // The system's pool is as good as any.
    let pool = place.join("ca.crt");
    assert_eq!(inspect(&[&image, &auth], &[("SSL_CERT_FILE", pool.to_str().unwrap())]).0, Some(0));
    let (code, _, log) = inspect(&[&image, &ca, &auth, "-v"], &[]);
    assert_eq!(code, Some(0));
    assert!(log.contains("Found credentials") && !log.contains(PASSWORD), "{log}");
}

/// A folder with a helper `docker-credential-test`, and a `PATH` with it.
fn helper(folder: &Path, script: &str) -> String {
    let program = folder.join("docker-credential-test");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

#[test]
fn helpers_are_asked_and_do_not_hold_us_up() {
    if !installed() {
        return;
    }
    let Secured { registry, image, place, ca, _folder } = Secured::start(true);
    let config = |config: Value| fs::write(place.join("config.json"), config.to_string()).unwrap();
    let ask = |script: &str, more: &[&str]| {
        let path = helper(&place, script);
        let variables = [("DOCKER_CONFIG", place.to_str().unwrap()), ("PATH", path.as_str())];
        inspect(&[&[image.as_str(), &ca], more].concat(), &variables)
    };
    let host = registry.host();
    let right = format!(
        "[ \"$1 $(cat)\" = 'get {host}' ] && echo '{{\"ServerURL\": \"x\", \"Username\": \"{USER}\", \"Secret\": \"{PASSWORD}\"}}'"
    );

    config(json!({"credHelpers": {&host: "test"}}));
    let (code, _, errors) = ask(&right, &[]);
    assert_eq!(code, Some(0), "{errors}");
    config(json!({"credsStore": "test"}));
    assert_eq!(ask(&right, &[]).0, Some(0));
    // One that knows nothing leaves the entries of the file, and then nobody in particular.
    let unknown = "echo 'credentials not found in native keychain'; exit 1";
    assert!(ask(unknown, &[]).2.contains("there are no credentials for the registry"));
    config(json!({"credsStore": "test", "auths": {&host: {"username": USER, "password": PASSWORD}}}));
    assert_eq!(ask(unknown, &[]).0, Some(0));

    let (code, _, errors) = ask("echo canary-secret; echo canary-secret >&2; exit 3", &["-v"]);
    assert_eq!(code, Some(1));
    assert!(
        errors
            .contains("looking for credentials: `docker-credential-test` failed: exit status: 3; run `echo"),
        "{errors}"
    );
    assert!(!errors.contains("canary"), "{errors}");
    assert!(ask("echo nonsense", &[]).2.contains("`docker-credential-test` wrote no credentials"));
    let begin = Instant::now();
    let (_, _, errors) = ask("sleep 60", &["--timeout=2s"]);
    assert!(errors.contains("looking for credentials: no answer in 2s"), "{errors}");
    assert!(begin.elapsed() < Duration::from_secs(30));
}

/// A proxy that knows the way to `registry.test`, and writes down what it is asked for.
fn proxy(port: u16) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://proxyuser:canary-proxy@{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<_> =
                lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            log.lock().unwrap().push(head.first().cloned().unwrap_or_default());
            let upstream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").unwrap();
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
    (address, asked)
}

#[test]
fn registries_are_reached_by_the_proxy_of_the_environment() {
    if !installed() {
        return;
    }
    let Secured { registry, image: local, place: _, ca, _folder } = Secured::start(false);
    let (address, asked) = proxy(registry.port);
    let image = "registry.test:5000/fn:v1";

    let (code, _, errors) = inspect(&[image, &ca, "-v"], &[("HTTPS_PROXY", &address)]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(!errors.contains("canary-proxy"), "{errors}");
    assert!(asked.lock().unwrap()[0].starts_with("CONNECT registry.test:5000 "));

    let before = asked.lock().unwrap().len();
    let without = [("HTTPS_PROXY", address.as_str()), ("NO_PROXY", "registry.test")];
    let (code, _, errors) = inspect(&[image, &ca, "--timeout=5s"], &without);
    assert_eq!(code, Some(1));
    assert!(errors.contains("no connection: "), "{errors}");
    // No proxy knows the way to this machine.
    assert_eq!(inspect(&[&local, &ca], &[("HTTPS_PROXY", &address)]).0, Some(0));
    assert_eq!(asked.lock().unwrap().len(), before);
}

#[test]
fn a_registry_without_tls_that_is_elsewhere_must_be_asked_for() {
    let stub = Stub::start(|_| Reply::status(404));
    let proxy = format!("http://127.0.0.1:{}", stub.port);
    let variables = [("HTTP_PROXY", proxy.as_str()), ("http_proxy", proxy.as_str())];
    let (_, _, errors) = inspect(&["registry.test:5000/fn:v1", "--timeout=3s"], &variables);
    assert!(errors.contains("no connection"), "{errors}");
    assert_eq!(stub.requests().len(), 0);
    let (_, _, errors) = inspect(&["registry.test:5000/fn:v1", "--plain-http"], &variables);
    assert!(errors.contains("HTTP 404"), "{errors}");
    assert_eq!(stub.requests().len(), 1);
}
