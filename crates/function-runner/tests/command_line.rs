//! The program as people and manifests start it: flags, environment, exit codes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

mod support;

use support::{Called as _, Functions, Server, evaluate, output, runner};

fn fails(command: &mut Command) -> (Option<i32>, String) {
    let (code, stdout, stderr) = output(command);
    assert_eq!(stdout, "", "standard output is for data");
    // The log comes first; the reason is the last line.
    (code, stderr.lines().last().unwrap_or_default().to_owned())
}

#[test]
fn help_lists_the_flags_and_is_no_failure() {
    for flag in ["-h", "-help", "--help"] {
        let (code, stdout, stderr) = output(runner().arg(flag));
        assert_eq!((code, stdout.as_str()), (Some(0), ""));
        assert!(stderr.starts_with("Usage of function-runner:\n"), "{stderr}");
        assert!(stderr.contains("  -max-request-body-size int\n"), "{stderr}");
    }
}

#[test]
fn a_wrong_command_line_is_one_line_and_exit_code_2() {
    for (arguments, reason) in [
        (&["--nope"][..], "flag provided but not defined: -nope"),
        (&["--port"], "flag needs an argument: -port"),
        (&["--port=x"], r#"invalid value "x" for flag -port: parse error"#),
        (&["--port=70000"], "--port: 70000 is not a number from 0 to 65535"),
        (
            &["--warm-up-pod-cache=maybe"],
            r#"invalid boolean value "maybe" for -warm-up-pod-cache: parse error"#,
        ),
        (
            &["--pod-ttl", "30"],
            r#"invalid value "30" for flag -pod-ttl: parse error (time: missing unit in duration "30"; write it as 30s, 5m or 1h15m)"#,
        ),
        (&["--max-request-body-size=0"], "--max-request-body-size: 0 is not a number from 1 to 4294967295"),
        (
            &["--disable-runtimes=exec,pods", "--log-level=0"],
            "--disable-runtimes: there is no runtime `pods`; there are builtin, exec and pod",
        ),
    ] {
        let (code, line) = fails(runner().args(arguments));
        assert_eq!(code, Some(2), "{arguments:?}");
        assert_eq!(line, format!("function-runner: {reason}; function-runner --help lists the flags"));
    }
    let (_, _, stderr) = output(runner().arg("--nope"));
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn an_unusable_config_file_is_one_line_and_exit_code_1() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    let shown = file.display();
    let config = format!("--config={shown}");
    let prefix = "unexpected error: failed to initialize executable evaluator: ";
    let refused = || {
        let (code, line) = fails(runner().args(["--port=0", &config]));
        assert_eq!(code, Some(1), "{line}");
        line.strip_prefix(prefix).unwrap_or_else(|| panic!("{line}")).to_owned()
    };
    let missing =
        format!("failed to read configuration file \"{shown}\": open {shown}: no such file or directory");
    assert_eq!(refused(), missing);
    for (text, reason) in [
        ("functions: [", "yaml: line 1: did not find expected node content"),
        ("- a", "line 1: a mapping with the key `functions` belongs here"),
        ("functions: x", "line 1: `functions` is a list"),
        ("functions:\n- x", "line 2: an entry of `functions` is a mapping with `function` and `images`"),
        (
            "functions:\n- images: [a]",
            "line 2: an entry without `function`: the name of a program in the folder belongs there",
        ),
        ("functions:\n- function: f\n  images: a", "line 3: `images` is a list"),
        ("functions:\n- function: f\n  images: [[a]]", "line 3: `images` is text"),
    ] {
        fs::write(&file, text).unwrap();
        assert_eq!(refused(), format!("failed to parse configuration file \"{shown}\": {reason}"));
    }
}

#[test]
fn a_config_file_may_have_more_in_it_and_twice() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    for text in
        ["", "# nothing\n", "functions:\n", "other: 1\nfunctions: []\nfunctions:\n- function: f\n  new: x\n"]
    {
        fs::write(&file, text).unwrap();
        Server::start(runner().arg("--port=0").arg(format!("--config={}", file.display())));
    }
}

#[test]
fn a_port_that_is_taken_is_told() {
    let taken = TcpListener::bind("[::]:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let (code, line) = fails(runner().args([&format!("--port={port}"), "--config="]));
    assert_eq!(code, Some(1));
    assert_eq!(
        line,
        format!(
            "unexpected error: failed to listen: listen tcp :{port}: Address already in use (os error 98)"
        )
    );
}

#[test]
fn words_that_end_the_flags_are_warned_of() {
    let server =
        Server::start(runner().args(["--config=", "--port=0", "--warm-up-pod-cache", "true", "--port", "1"]));
    server.wait_for_line("Ignoring true and all that follows: flags end at the first word");
}

#[test]
fn inside_a_cluster_the_pod_runtime_needs_its_image() {
    let in_cluster = || {
        let mut command = runner();
        command.args(["--port=0", "--config="]).env("KUBERNETES_SERVICE_HOST", "10.0.0.1");
        command
    };
    let (code, line) = fails(&mut in_cluster());
    assert_eq!(code, Some(1));
    assert_eq!(
        line,
        "unexpected error: environment variable WRAPPER_SERVER_IMAGE must be set to use pod function evaluator runtime"
    );
    Server::start(in_cluster().arg("--disable-runtimes=pod"));
    // Without a token there is no way into the cluster, and the program says so instead of pretending.
    let (code, line) = fails(in_cluster().env("WRAPPER_SERVER_IMAGE", "example.com/wrapper"));
    assert_eq!(code, Some(1));
    assert!(
        line.starts_with("unexpected error: failed to initialize pod evaluator: failed to get rest config: "),
        "{line}"
    );
}

/// The command lines of the manifests that three generations of Porch ship.
#[tokio::test]
async fn manifests_of_every_generation_start_the_service() {
    let functions = Functions::new().with("echo", &["echo"], "cat");
    let generations: [&[&str]; 3] = [
        &["--pod-namespace=porch-fn-system", "--max-request-body-size=6291456"],
        &[
            "--pod-namespace=porch-fn-system",
            "--max-request-body-size=6291456",
            "--max-parallel-pods-per-function=2",
            "--max-waitlist-length=1",
            "--warm-up-pod-cache=true",
            "--pod-cache-config=/pod-cache-config/pod-cache-config.yaml",
            "--function-pod-template=kpt-function-eval-pod-template",
            "--enable-private-registries=true",
            "--registry-auth-secret-path=/var/tmp/auth-secret/.dockerconfigjson",
            "--registry-auth-secret-name=auth-secret",
            "--enable-private-registries-tls=true",
            "--tls-secret-path=/var/tmp/tls-secret/",
        ],
        &[
            "-pod-namespace",
            "porch-fn-system",
            "-default-image-prefix",
            "ghcr.io/kptdev/krm-functions-catalog/",
            "-pod-ttl",
            "30m",
            "-scan-interval=1m",
            "-disable-runtimes=",
            "-log-level=2",
        ],
    ];
    // The API server is away, and that holds nobody up.
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(
        &kubeconfig,
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
         contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n",
    )
    .unwrap();
    for flags in generations {
        let mut command = functions.command(flags);
        command.env("KUBECONFIG", &kubeconfig).env("WRAPPER_SERVER_IMAGE", "example.com/wrapper:v1");
        let begin = Instant::now();
        let server = Server::start(&mut command);
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
        assert_eq!(evaluate(&server.client(), "echo", "x").await.unwrap().resource_list, "x");
    }
}

#[tokio::test]
async fn short_names_are_looked_up_as_written_and_then_below_the_default_prefix() {
    let functions = Functions::new().with("raw", &["set-labels:v1"], "echo raw").with(
        "resolved",
        &["r.io/fns/set-labels:v1", "r.io/fns/no-raw"],
        "echo resolved",
    );
    let server = Server::start(&mut functions.command(&["--default-image-prefix=r.io/fns/"]));
    let answer =
        async |image| evaluate(&server.client(), image, "x").await.map(|answer| answer.resource_list);
    assert_eq!(answer("set-labels:v1").await.unwrap(), "raw\n");
    assert_eq!(answer("no-raw").await.unwrap(), "resolved\n");
    let missing = answer("nobody").await.unwrap_err();
    assert_eq!(missing.message(), "function \"nobody\" not found");
    drop(server);

    let server = Server::start(&mut functions.command(&[]));
    let unresolved = evaluate(&server.client(), "no-raw", "x").await.unwrap_err();
    assert_eq!(unresolved.message(), "function \"no-raw\" not found");
}
