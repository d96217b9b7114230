//! The one file that is the whole image: its other names, its figures, and life in an empty image.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

mod support;

use support::{Called as _, Server, evaluate, output, wrapper};

/// The program under another name.
fn called(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    symlink(support::program("wrapper-server"), &path).unwrap();
    (folder, path)
}

/// A statically linked program, which `make test` builds first.
fn fixed(name: &str) -> Option<PathBuf> {
    let found = std::env::var_os("LOGGIA_STATIC").map(|folder| PathBuf::from(folder).join(name));
    let found = found.filter(|path| path.is_file());
    if found.is_none() {
        support::missing("tools", &format!("the static {name} is not built (make static)"));
    }
    found
}

#[test]
fn as_grpc_health_probe_it_asks_and_exits_as_that_does() {
    let (_folder, probe) = called("grpc-health-probe");
    let ask = |arguments: &[&str]| {
        let (code, _, stderr) = output(Command::new(&probe).args(arguments));
        (code.unwrap(), stderr)
    };
    let server = Server::start(&mut wrapper(&[], &["cat"]));
    let port = server.port;
    for address in [
        format!("localhost:{port}"),
        format!("127.0.0.1:{port}"),
        format!(":{port}"),
        format!("[::1]:{port}"),
    ] {
        assert_eq!(ask(&["-addr", &address]), (0, "status: SERVING\n".to_owned()));
    }
    let address = server.address();
    assert_eq!(ask(&["--addr", &address, "-service=x", "-connect-timeout=250ms", "-rpc-timeout", "2s"]).0, 0);
    for bad in [
        &[][..],
        &["-addr", "nowhere"],
        &["-addr", "name.example:1"],
        &["-nope"],
        &["-addr", &address, "-rpc-timeout=0s"],
    ] {
        assert_eq!(ask(bad).0, 1, "{bad:?}");
    }
    drop(server);
    let (code, text) = ask(&["-addr", &address]);
    assert_eq!(code, 2);
    assert!(text.starts_with(&format!("error: failed to connect service at \"{address}\": ")), "{text}");

    // Somebody listens who does not speak.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = mute.local_addr().unwrap().to_string();
    let (code, text) = ask(&["-addr", &address, "-rpc-timeout=200ms"]);
    assert_eq!((code, text.as_str()), (3, "timeout: health rpc did not complete within 200ms\n"));
}

#[tokio::test]
async fn as_grpc_health_probe_it_tells_a_server_that_drains() {
    let (_folder, probe) = called("grpc-health-probe");
    let server = Server::start(&mut wrapper(&[], &["sh", "-c", "sleep 2; cat"]));
    let client = server.client();
    let call = tokio::spawn(async move { evaluate(&client, "fn", "kind: ResourceList\n").await });
    support::eventually("the call runs", || !support::children_of(server.pid()).is_empty()).await;
    server.terminate();
    server.wait_for_line("Shutting down server...");
    let (code, _, stderr) = output(Command::new(&probe).args(["-addr", &server.address()]));
    assert_eq!((code, stderr.as_str()), (Some(4), "service unhealthy (responded with \"NOT_SERVING\")\n"));
    assert!(call.await.unwrap().is_ok());
}

#[test]
fn as_cp_it_copies_as_pod_templates_ask() {
    let (folder, cp) = called("cp");
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&to).unwrap();
    fs::write(from.join("wrapper-server"), "x").unwrap();
    let (code, stdout, stderr) = output(Command::new(&cp).arg("-a").arg(from.join(".")).arg(&to));
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "", ""));
    assert_eq!(fs::read_to_string(to.join("wrapper-server")).unwrap(), "x");
    let (code, _, stderr) = output(Command::new(&cp).arg("-a").arg(folder.path().join("none")).arg(&to));
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with("cp: ") && stderr.contains("none: No such file"), "{stderr}");
}

#[tokio::test]
async fn it_serves_in_an_image_with_nothing_else_in_it() {
    let (Some(server), Some(function)) = (fixed("wrapper-server"), fixed("echo-function")) else { return };
    if !rustix::process::geteuid().is_root() {
        return support::missing("tools", "only root may change the root folder");
    }
    let root = tempfile::tempdir().unwrap();
    fs::copy(server, root.path().join("wrapper-server")).unwrap();
    fs::copy(function, root.path().join("function")).unwrap();
    // No `/dev`, no `/proc`, no `/tmp`, no libraries, and a user without a name.
    let mut command = Command::new("chroot");
    command.args(["--userspec=65532:65532"]).arg(root.path());
    command.args(["/wrapper-server", "--port=0", "--", "/function"]);
    let server = Server::start(&mut command);
    let list = "kind: ResourceList\nitems: []\n";
    for _ in 0..20 {
        assert_eq!(evaluate(&server.client(), "fn", list).await.unwrap().resource_list, list);
    }
    let status = evaluate(&server.client(), "fn", "no list").await.unwrap_err();
    assert!(status.message().starts_with("failed to parse the output of function"), "{}", status.message());
}

#[test]
fn it_is_small_and_static() {
    let Some(server) = fixed("wrapper-server") else { return };
    let size = fs::metadata(&server).unwrap().len();
    assert!(size <= 9 << 19, "{size} bytes");
    let bytes = fs::read(&server).unwrap();
    let interpreter = b"/lib64/ld-linux";
    assert!(!bytes.windows(interpreter.len()).any(|window| window == interpreter), "it asks for a loader");
}

#[test]
fn idle_it_takes_little_memory() {
    let Some(program) = fixed("wrapper-server") else { return };
    let server = Server::start(Command::new(program).args(["--port=0", "--", "cat"]));
    let resident = server.memory("VmRSS");
    assert!(resident <= 4608, "{resident} KiB");
}
