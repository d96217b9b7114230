//! The service over TLS: who is served, and certificates that change while it runs.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

use std::fs;
use std::path::{Path, PathBuf};

use loggia_evaluator::Client;
use loggia_evaluator::connection::Connection;
use loggia_evaluator::tls::ClientFiles;
use tonic::Code;

mod support;

use support::{Authority, Called as _, Server, evaluate, eventually, missing, output, program, runner};

fn serve(authority: &Authority, more: &[String]) -> Server {
    let (cert, key) = authority.server();
    let flags = [format!("--tls-cert={}", cert.display()), format!("--tls-key={}", key.display())];
    Server::start(runner().args(["--port=0", "--config="]).args(flags).args(more))
}

fn client(server: &Server, ca: &Path, identity: Option<(PathBuf, PathBuf)>) -> Client {
    let files = ClientFiles { ca: ca.to_owned(), identity };
    Client::over(Connection::over_tls(&format!("localhost:{}", server.port), &files).unwrap(), 6 << 20)
}

const LIST: &str = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n";

#[tokio::test]
async fn a_caller_that_trusts_the_authority_is_served_and_others_are_not() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let server = serve(&ours, &[]);
    let answer = evaluate(&client(&server, &ours.file("ca.crt"), None), "no-op", LIST).await.unwrap();
    assert_eq!(answer.resource_list, LIST);
    let stranger = evaluate(&client(&server, &other.file("ca.crt"), None), "no-op", LIST).await.unwrap_err();
    assert_eq!(stranger.code(), Code::Unavailable);
    assert!(stranger.message().contains("no TLS: invalid peer certificate: UnknownIssuer"), "{stranger}");
    let plain = evaluate(&server.client(), "no-op", LIST).await.unwrap_err();
    assert_eq!(plain.code(), Code::Unavailable, "{plain}");
}

#[tokio::test]
async fn with_an_authority_of_callers_only_those_with_a_certificate_are_served() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let ca = ours.file("ca.crt");
    let server = serve(&ours, &[format!("--client-ca={}", ca.display())]);
    let known = client(&server, &ca, Some(ours.client()));
    assert_eq!(evaluate(&known, "no-op", LIST).await.unwrap().resource_list, LIST);
    for identity in [None, Some(other.client())] {
        let refused = evaluate(&client(&server, &ca, identity), "no-op", LIST).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    }
}

#[tokio::test]
async fn a_new_certificate_is_used_without_a_restart_and_old_connections_stay() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let server = serve(&old, &[]);
    let before = client(&server, &old.file("ca.crt"), None);
    evaluate(&before, "no-op", LIST).await.unwrap();
    let (cert, key) = new.server();
    // The key comes first, and for a moment the two do not match.
    fs::copy(&key, old.file("server.key")).unwrap();
    server.wait_for_line("the certificate stays as it was");
    evaluate(&client(&server, &old.file("ca.crt"), None), "no-op", LIST).await.unwrap();
    fs::copy(&cert, old.file("server.crt")).unwrap();
    server.wait_for_line("The certificate changed");
    evaluate(&client(&server, &new.file("ca.crt"), None), "no-op", LIST).await.unwrap();
    evaluate(&client(&server, &old.file("ca.crt"), None), "no-op", LIST).await.unwrap_err();
    evaluate(&before, "no-op", LIST).await.unwrap();
}

#[tokio::test]
async fn calls_over_tls_are_answered_during_the_drain() {
    let ours = Authority::new("ours");
    let functions = support::Functions::new().with("slow", &["slow"], "sleep 0.5; cat");
    let (cert, key) = ours.server();
    let flags = [format!("--tls-cert={}", cert.display()), format!("--tls-key={}", key.display())];
    let mut server = functions.serve(&[&flags[0], &flags[1]]);
    let caller = client(&server, &ours.file("ca.crt"), None);
    let call = tokio::spawn(async move { evaluate(&caller, "slow", "x").await });
    eventually("the call runs", || !support::children_of(server.pid()).is_empty()).await;
    server.terminate();
    assert_eq!(call.await.unwrap().unwrap().resource_list, "x");
    assert_eq!(server.wait().code(), Some(0));
}

#[tokio::test]
async fn a_peer_that_never_speaks_tls_does_not_hold_up_the_end() {
    let ours = Authority::new("ours");
    let mut server = serve(&ours, &[]);
    let before = server.descriptors();
    let _silent = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    eventually("the server has the connection", || server.descriptors() > before).await;
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn files_that_cannot_be_used_end_the_start_with_their_name() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let (cert, key) = ours.server();
    let (_, foreign) = other.server();
    let (cert, key, foreign) =
        (cert.display().to_string(), key.display().to_string(), foreign.display().to_string());
    for (cert, key, expected) in [
        ("/nowhere.crt", key.as_str(), "open /nowhere.crt: no such file or directory"),
        (&key, &key, "there is no certificate in it"),
        (&cert, &cert, "there is no private key in it"),
        (&cert, &foreign, "keys may not be consistent"),
    ] {
        let flags = [format!("--tls-cert={cert}"), format!("--tls-key={key}")];
        let (code, _, stderr) = output(runner().args(["--port=0", "--config="]).args(flags));
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn the_command_line_reaches_a_runner_over_tls() {
    let ours = Authority::new("ours");
    let ca = ours.file("ca.crt").display().to_string();
    let server = serve(&ours, &[format!("--client-ca={ca}")]);
    let (cert, key) = ours.client();
    let (cert, key) = (cert.display().to_string(), key.display().to_string());
    let address = format!("localhost:{}", server.port);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n")
        .unwrap();
    let Some(loggia) = Some(program("loggia")).filter(|program| program.exists()) else {
        return missing("tools", "loggia is not built (cargo test --workspace builds it)");
    };
    let eval = |more: &[&str]| {
        let mut command = std::process::Command::new(&loggia);
        command.args(["fn", "eval", "--image", "no-op", "--runtimes", "grpc", "--runner", &address]);
        output(command.args(more).arg(folder.path()))
    };
    let (code, _, stderr) = eval(&["--runner-ca", &ca, "--runner-cert", &cert, "--runner-key", &key]);
    assert_eq!(code, Some(0), "{stderr}");
    let (code, _, stderr) = eval(&["--runner-ca", &ca]);
    assert_ne!(code, Some(0), "{stderr}");
    let (code, _, stderr) = eval(&["--runner-ca", "/nowhere"]);
    assert_ne!(code, Some(0), "{stderr}");
    assert!(stderr.contains("--runner-ca, --runner-cert, --runner-key: open /nowhere"), "{stderr}");
}
