//! The server in a function pod over TLS: who is served, certificates that change, and the probe that asks it.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use loggia_grpc::Client;
use loggia_grpc::connection::Connection;
use loggia_grpc::tls::{ClientFiles, ClientTls};
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use tonic::Code;

mod support;

use support::{Authority, Called as _, PATIENCE, Server, evaluate, output, until, wrapper};

const LIST: &str = "kind: ResourceList\nitems: []\n";

/// The name that certificates of pods are for, and that of one pod.
const PODS: &str = "*.fns.svc.cluster.local";
const POD: &str = "set-labels-v1-1-12345678.fns.svc.cluster.local";

/// A Secret as pods have it mounted.
struct Secret(Authority);

impl Secret {
    fn new(name: &str) -> Self {
        let authority = Authority::new(name);
        authority.sign("tls", &[PODS], &[ServerAuth, ClientAuth], 2100);
        Self(authority)
    }

    fn file(&self, name: &str) -> String {
        self.0.file(name).display().to_string()
    }

    fn serve(&self, mutual: bool) -> Server {
        Server::start(&mut wrapper(&self.flags(mutual).each_ref().map(String::as_str), &["cat"]))
    }

    fn flags(&self, mutual: bool) -> [String; 3] {
        let client_ca = if mutual { self.file("ca.crt") } else { String::new() };
        [
            format!("--tls-cert={}", self.file("tls.crt")),
            format!("--tls-key={}", self.file("tls.key")),
            format!("--client-ca={client_ca}"),
        ]
    }
}

/// A caller that reaches the server by its address and knows it by its name.
fn caller(server: &Server, name: &str, ca: &Path, identity: Option<(PathBuf, PathBuf)>) -> Client {
    let trust = ClientTls::new(ClientFiles { ca: ca.to_owned(), identity }).unwrap();
    Client::over(Connection::new(&server.address()).unwrap().secured(name, trust).unwrap(), 6 << 20)
}

#[tokio::test]
async fn a_caller_that_knows_the_pod_is_served_and_nothing_is_said_in_the_clear() {
    let (ours, other) = (Secret::new("ours"), Secret::new("other"));
    let server = ours.serve(false);
    let ca = ours.0.file("ca.crt");
    let answer = evaluate(&caller(&server, POD, &ca, None), "fn", LIST).await.unwrap();
    assert_eq!(answer.resource_list, LIST);
    let plain = evaluate(&server.client(), "fn", LIST).await.unwrap_err();
    assert_eq!(plain.code(), Code::Unavailable, "{plain}");
    for (name, ca, expected) in [
        (POD, other.0.file("ca.crt"), "UnknownIssuer"),
        ("set-labels.elsewhere.svc.cluster.local", ca, "certificate not valid for name"),
    ] {
        let refused = evaluate(&caller(&server, name, &ca, None), "fn", LIST).await.unwrap_err();
        assert!(refused.message().contains(expected), "{refused}");
    }
}

#[tokio::test]
async fn with_an_authority_of_callers_nobody_is_served_without_a_certificate_and_is_told_why() {
    let (ours, other) = (Secret::new("ours"), Secret::new("other"));
    let server = ours.serve(true);
    let ca = ours.0.file("ca.crt");
    let known = caller(&server, POD, &ca, Some(ours.0.client()));
    assert_eq!(evaluate(&known, "fn", LIST).await.unwrap().resource_list, LIST);
    // Again and again, since what the server says could be lost when it leaves.
    for _ in 0..20 {
        for (identity, alert) in [(None, "CertificateRequired"), (Some(other.0.client()), "UnknownCA")] {
            let refused = evaluate(&caller(&server, POD, &ca, identity), "fn", LIST).await.unwrap_err();
            assert_eq!(refused.code(), Code::Unavailable, "{refused}");
            assert!(refused.message().contains(&format!("received fatal alert: {alert}")), "{refused}");
        }
    }
}

#[tokio::test]
async fn a_new_certificate_is_used_without_a_restart_by_the_server_and_by_its_caller() {
    let (old, new) = (Secret::new("old"), Secret::new("new"));
    let server = old.serve(false);
    let trust = ClientTls::new(ClientFiles { ca: old.0.file("ca.crt"), identity: None }).unwrap();
    tokio::spawn(trust.clone().follow_changes());
    let client = || {
        Client::over(
            Connection::new(&server.address()).unwrap().secured(POD, trust.clone()).unwrap(),
            6 << 20,
        )
    };
    let before = client();
    evaluate(&before, "fn", LIST).await.unwrap();
    for file in ["tls.key", "tls.crt"] {
        fs::copy(new.0.file(file), old.0.file(file)).unwrap();
    }
    server.wait_for_line("The certificate changed");
    let stranger = evaluate(&client(), "fn", LIST).await.unwrap_err();
    assert!(stranger.message().contains("UnknownIssuer"), "{stranger}");
    evaluate(&before, "fn", LIST).await.unwrap();
    fs::copy(new.0.file("ca.crt"), old.0.file("ca.crt")).unwrap();
    let known = async || evaluate(&client(), "fn", LIST).await.is_ok();
    until("the new authority is trusted", PATIENCE, known).await;
}

#[test]
fn files_that_are_missing_or_do_not_fit_end_the_start_with_their_name() {
    let secret = Secret::new("ours");
    let [cert, key, _] = secret.flags(false);
    for (flags, code, expected) in [
        (vec![cert.as_str()], 2, "--tls-cert and --tls-key belong together"),
        (vec!["--client-ca=x"], 2, "callers show certificates only over TLS"),
        (vec![cert.as_str(), "--tls-key=/nowhere"], 1, "open /nowhere: no such file or directory"),
        (vec![cert.as_str(), key.as_str(), "--client-ca=/no"], 1, "open /no: no such file or directory"),
    ] {
        let (found, _, stderr) = output(&mut wrapper(&flags, &["cat"]));
        assert_eq!(found, Some(code), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
}

/// Asks as the probe of a pod does, with a program.
fn probe(program: &Path, server: &Server, flags: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("grpc-health-probe");
    symlink(program, &link).unwrap();
    let (code, _, stderr) =
        output(Command::new(&link).args(["-addr", &format!("localhost:{}", server.port)]).args(flags));
    (code.unwrap(), stderr)
}

#[test]
fn the_probe_asks_over_tls_with_the_flags_of_the_original() {
    let program = support::program("wrapper-server");
    let (ours, other) = (Secret::new("ours"), Secret::new("other"));
    let (ca, cert, key) = (ours.file("ca.crt"), ours.file("tls.crt"), ours.file("tls.key"));
    let one_way = ["-tls", "-tls-ca-cert", &ca, "-tls-server-name", POD];
    let mut mutual = one_way.to_vec();
    mutual.extend(["-tls-client-cert", &cert, "-tls-client-key", &key]);
    let server = ours.serve(false);
    assert_eq!(probe(&program, &server, &one_way), (0, "status: SERVING\n".to_owned()));
    assert_eq!(probe(&program, &server, &mutual).0, 0, "a certificate that nobody asked for does no harm");
    // Without a name it is that of the address, which this certificate is not for.
    let (code, text) = probe(&program, &server, &["-tls", "-tls-ca-cert", &ca]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("certificate not valid for name \"localhost\""), "{text}");
    let (code, text) =
        probe(&program, &server, &["-tls", "-tls-ca-cert", &other.file("ca.crt"), "-tls-server-name", POD]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("UnknownIssuer"), "{text}");
    let (code, text) = probe(&program, &server, &[]);
    assert_ne!(code, 0, "{text}");

    let server = ours.serve(true);
    assert_eq!(probe(&program, &server, &mutual), (0, "status: SERVING\n".to_owned()));
    let (code, text) = probe(&program, &server, &one_way);
    assert_eq!(code, 3, "{text}");
    for (flags, expected) in [
        (&["-tls"][..], "specified -tls without -tls-ca-cert"),
        (&["-tls-ca-cert", &ca], "specified -tls-ca-cert without specifying -tls"),
        (&["-tls", "-tls-ca-cert", &ca, "-tls-client-cert", &cert], "without specifying -tls-client-key"),
        (&["-tls", "-tls-ca-cert", "/nowhere"], "open /nowhere: no such file or directory"),
    ] {
        let (code, text) = probe(&program, &server, flags);
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn the_program_that_ships_speaks_tls_and_is_small() {
    let Some(folder) = std::env::var_os("LOGGIA_STATIC").map(PathBuf::from) else {
        return support::missing("tools", "the static programs are not built (make static)");
    };
    let program = folder.join("wrapper-server");
    let secret = Secret::new("ours");
    let flags = secret.flags(true);
    let server = Server::start(Command::new(&program).arg("--port=0").args(&flags).args(["--", "cat"]));
    let ca = secret.0.file("ca.crt");
    let known = caller(&server, POD, &ca, Some(secret.0.client()));
    assert_eq!(evaluate(&known, "fn", LIST).await.unwrap().resource_list, LIST);
    let (cert, key) = (secret.file("tls.crt"), secret.file("tls.key"));
    let ca = ca.display().to_string();
    let asked = [
        "-tls",
        "-tls-ca-cert",
        &ca,
        "-tls-server-name",
        POD,
        "-tls-client-cert",
        &cert,
        "-tls-client-key",
        &key,
    ];
    assert_eq!(probe(&program, &server, &asked), (0, "status: SERVING\n".to_owned()));
    let (resident, size) = (server.memory("VmRSS"), fs::metadata(&program).unwrap().len());
    assert!(resident <= 4608, "{resident} KiB");
    assert!(size <= 9 << 19, "{size} bytes");
}
