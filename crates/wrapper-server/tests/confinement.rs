//! Functions in a pod that try to stay after their call, or to look into another one.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

use std::fs;
use std::time::Duration;

use loggia_grpc::connection::Connection;

mod support;

use support::{Called as _, Server, children_of, evaluate, eventually, is_running, noted, wrapper};

const LIST: &str = "kind: ResourceList\nitems: []\n";

#[tokio::test]
async fn what_a_function_leaves_behind_goes_with_its_call() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("pid");
    let shown = note.display();
    for leave in [
        format!("setsid sh -c 'echo $$ >{shown}; sleep 60; true' >/dev/null 2>&1 &"),
        format!("setsid sh -c 'echo $$ >{shown}; sleep 60; true' &"),
        format!(
            "(setsid sh -c 'trap \"\" TERM HUP; (sh -c \"echo \\$\\$ >{shown}; sleep 60; true\") & wait' &) >/dev/null 2>&1;"
        ),
    ] {
        let _ = fs::remove_file(&note);
        let script = format!("{leave} while [ ! -s {shown} ]; do sleep 0.01; done; cat");
        let server = Server::start(&mut wrapper(&[], &["sh", "-c", &script]));
        assert_eq!(evaluate(&server.client(), "fn", LIST).await.unwrap().resource_list, LIST);
        let pid = noted(&note).await;
        let gone = eventually("the escapee is gone", || !is_running(pid)).await;
        assert!(gone < Duration::from_secs(1), "{gone:?}");
        eventually("no child is left", || children_of(server.pid()).is_empty()).await;
    }
}

#[tokio::test]
async fn calls_cannot_look_into_each_other_nor_into_the_server() {
    if loggia_process::Abi::here().lacks().is_some() {
        return support::left_out("this kernel's Landlock does not confine in full");
    }
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("pid");
    let shown = note.display();
    // The first call is the victim, which waits until the other one has had its time.
    let script = format!(
        "if mkdir {0}/first 2>/dev/null; then echo $$ >{shown}; sleep 1; cat; else \
         cat >/dev/null; pid=$(cat {shown}); \
         {{ head -c 20 /proc/$pid/fd/0; cat /proc/$pid/environ /proc/$PPID/environ; cat /proc/$PPID/fd/*; kill -9 $pid $PPID; }} >{0}/seen 2>{0}/errors; printf 'kind: ResourceList\\n'; fi",
        folder.path().display()
    );
    let server = Server::start(&mut wrapper(&[], &["sh", "-c", &script]));
    let client = server.client();
    let secret = "kind: ResourceList\nitems: []\n# TENANT-B-SECRET\n";
    let victim = evaluate(&client, "fn", secret);
    let attack = async {
        noted(&note).await;
        evaluate(&client, "fn", LIST).await
    };
    let (victim, attack) = tokio::join!(victim, attack);
    assert_eq!(victim.unwrap().resource_list, secret);
    attack.unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("seen")).unwrap(), "");
    let errors = fs::read_to_string(folder.path().join("errors")).unwrap();
    assert!(errors.matches("ermission denied").count() >= 4, "{errors}");
    assert!(errors.contains("Operation not permitted"), "{errors}");
}

#[tokio::test]
async fn the_server_is_closed_to_other_processes_of_its_user() {
    // As the same user, without any capability.
    let looks = || {
        let command =
            "setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all";
        let mut words = command.split(' ');
        let mut look = std::process::Command::new(words.next().unwrap());
        look.args(words);
        look
    };
    if !rustix::process::geteuid().is_root() {
        return support::left_out("only root can start the server as another user");
    }
    let wrapped = wrapper(&[], &["cat"]);
    let server = Server::start(looks().arg(wrapped.get_program()).args(wrapped.get_args()));
    let environ = format!("/proc/{}/environ", server.pid());
    let (code, stdout, stderr) = support::output(looks().args(["cat", &environ]));
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
    assert!(stderr.contains("ermission denied"), "{stderr}");
}

#[tokio::test]
async fn the_key_of_the_server_is_hidden_from_the_function() {
    if loggia_process::Abi::here() == loggia_process::Abi::NONE {
        return support::left_out("this kernel has no Landlock");
    }
    let authority = support::Authority::new("test");
    let (cert, key) = authority.server();
    let out = tempfile::tempdir().unwrap();
    let script = format!(
        "cat {0} /proc/$PPID/root{0} >{1}/seen 2>&1; cat {2} >{1}/public; cat",
        key.display(),
        out.path().display(),
        cert.display()
    );
    let flags = [format!("--tls-cert={}", cert.display()), format!("--tls-key={}", key.display())];
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let server = Server::start(&mut wrapper(&flags, &["sh", "-c", &script]));
    let files = loggia_grpc::tls::ClientFiles { ca: authority.file("ca.crt"), identity: None };
    let trust = loggia_grpc::tls::ClientTls::new(files).unwrap();
    let connection = Connection::new(&server.address()).unwrap().secured("localhost", trust).unwrap();
    let client = loggia_grpc::Client::over(connection, 6 << 20);
    assert_eq!(evaluate(&client, "fn", LIST).await.unwrap().resource_list, LIST);
    let seen = fs::read_to_string(out.path().join("seen")).unwrap();
    assert!(!seen.contains("PRIVATE KEY") && seen.matches("ermission denied").count() == 2, "{seen}");
    assert!(fs::read_to_string(out.path().join("public")).unwrap().contains("CERTIFICATE"));
}
