//! What an operator sees: metrics and the status page over HTTP, logs, and that none of it shows a package.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

use std::process::{Command, Stdio};

use loggia_evaluator::connection::Connection;
use loggia_evaluator::wire::{EvaluateFunctionRequest, FunctionEvaluatorClient};
use serde_json::Value;
use tonic::Code;

mod support;

use support::{Called as _, Functions, Server, evaluate, eventually, left_out, output, program, runner};

/// An answer of the metrics port: status line and headers, and the body.
fn request(address: &str, method: &str, path: &str) -> (String, String) {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(support::PATIENCE)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}

fn get(address: &str, path: &str) -> String {
    let (head, body) = request(address, "GET", path);
    assert!(head.starts_with("http/1.1 200"), "{head}");
    body
}

fn status(address: &str) -> Value {
    serde_json::from_str(&get(address, "/status.json")).unwrap()
}

/// Where a server that was asked to says its metrics are.
fn metrics_address(server: &Server) -> String {
    let line = server.wait_for_line("status page are at http://");
    line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned()
}

const METRICS: &str = "--metrics-address=127.0.0.1:0";

#[tokio::test]
async fn evaluations_are_counted_by_image_evaluator_and_outcome() {
    let functions = Functions::new().with("echo", &["echo"], "cat").with("fails", &["fails"], "exit 3");
    let server = functions.serve(&[METRICS]);
    let metrics = metrics_address(&server);
    let client = server.client();
    for _ in 0..3 {
        evaluate(&client, "echo", "x").await.unwrap();
    }
    evaluate(&client, "fails", "x").await.unwrap_err();
    evaluate(&client, "no-op", "kind: ResourceList\n").await.unwrap();
    evaluate(&client, "nobody-has-this:v1", "x").await.unwrap_err();
    client.is_serving().await.unwrap();

    let text = get(&metrics, "/metrics");
    for line in [
        r#"loggia_evaluations_total{image="echo",evaluator="exec",outcome="OK"} 3"#,
        r#"loggia_evaluations_total{image="fails",evaluator="exec",outcome="Internal"} 1"#,
        r#"loggia_evaluations_total{image="no-op",evaluator="builtin",outcome="OK"} 1"#,
        r#"loggia_evaluations_total{image="other",evaluator="none",outcome="NotFound"} 1"#,
        r#"loggia_process_exits_total{result="success"} 3"#,
        r#"loggia_process_exits_total{result="failure"} 1"#,
        r#"loggia_evaluation_queue_duration_seconds_count{evaluator="exec"} 4"#,
        r#"loggia_evaluation_call_duration_seconds_count{evaluator="exec"} 4"#,
        r#"rpc_server_duration_milliseconds_count{rpc_system="grpc",rpc_service="evaluator.FunctionEvaluator",rpc_method="EvaluateFunction",rpc_grpc_status_code="0"} 4"#,
        r#"rpc_server_duration_milliseconds_count{rpc_system="grpc",rpc_service="grpc.health.v1.Health",rpc_method="Check",rpc_grpc_status_code="0"} 1"#,
        "loggia_calls_in_flight 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
    let resident: f64 = text
        .lines()
        .find_map(|line| line.strip_prefix("process_resident_memory_bytes "))
        .unwrap()
        .parse()
        .unwrap();
    assert!((resident / 1024.0 - server.memory("VmRSS") as f64).abs() < 20_000.0, "{resident}");
}

#[tokio::test]
async fn a_call_that_is_given_up_is_counted_and_running_ones_show() {
    let functions = Functions::new().with("slow", &["slow"], "sleep 20");
    let server = functions.serve(&[METRICS]);
    let metrics = metrics_address(&server);
    let client = server.client();
    let call = tokio::spawn(async move { evaluate(&client, "slow", "x").await });
    eventually("the call runs", || get(&metrics, "/metrics").contains("loggia_processes 1")).await;
    assert!(get(&metrics, "/metrics").contains("loggia_calls_in_flight 1"));
    assert_eq!(status(&metrics)["inFlight"], 1);
    call.abort();
    let line = r#"loggia_evaluations_total{image="slow",evaluator="exec",outcome="Canceled"} 1"#;
    eventually("it is counted", || get(&metrics, "/metrics").contains(line)).await;
    let line = server.wait_for_line("code=Canceled");
    assert!(line.contains("image=slow") && line.contains(" call="), "{line}");
    // The server's own deadline, without a client that goes away at the same time.
    let connection = Connection::new(&server.address()).unwrap();
    let mut client = FunctionEvaluatorClient::with_origin(connection.clone(), connection.origin());
    let mut request =
        tonic::Request::new(EvaluateFunctionRequest { image: "slow".into(), resource_list: "x".into() });
    request.metadata_mut().insert("grpc-timeout", "100m".parse().unwrap());
    let late = client.evaluate_function(request).await;
    assert_eq!(late.unwrap_err().code(), Code::DeadlineExceeded);
    let line = r#"loggia_evaluations_total{image="slow",evaluator="exec",outcome="DeadlineExceeded"} 1"#;
    eventually("it is counted", || get(&metrics, "/metrics").contains(line)).await;
}

#[tokio::test]
async fn the_status_page_shows_functions_evaluations_and_errors() {
    let functions = Functions::new().with("fails", &["<b>fails</b>:v1", "fails"], "cat >&2; exit 3");
    let server = functions.serve(&[METRICS]);
    let metrics = metrics_address(&server);
    evaluate(&server.client(), "fails", "0123456789").await.unwrap_err();
    evaluate(&server.client(), "no-op", "kind: ResourceList\n").await.unwrap();

    let status = status(&metrics);
    assert_eq!(status["phase"], "serving");
    assert_eq!(status["evaluators"], serde_json::json!(["builtin", "exec"]));
    assert!(status["pool"].is_null(), "there are no pods");
    let images: Vec<_> =
        status["functions"].as_array().unwrap().iter().map(|function| function["image"].clone()).collect();
    assert_eq!(images, ["fails", "no-op"]);
    let (last, error) = (&status["evaluations"][0], &status["errors"][0]);
    assert_eq!((&last["image"], &last["outcome"]), (&"no-op".into(), &"OK".into()));
    assert_eq!((&error["outcome"], &error["inputBytes"]), (&"Internal".into(), &10.into()));
    assert_eq!(error["cause"], "exit status 3, 0 results, 10 bytes on standard error");
    let call = error["call"].as_str().unwrap();
    server.wait_for_line(&format!("call={call}"));

    let (head, page) = request(&metrics, "GET", "/");
    assert!(head.contains("content-type: text/html"), "{head}");
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    for outside in ["http://", "https://", "innerHTML", "<link rel=\"stylesheet\"", "src="] {
        let found = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(outside), "the page needs {outside}");
    }
}

/// The page as a browser has drawn it, where there is one.
fn drawn(address: &str) -> Option<String> {
    let profile = tempfile::tempdir().unwrap();
    let mut chromium = Command::new("chromium");
    chromium
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{address}/"));
    match chromium.stdin(Stdio::null()).output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(_) => {
            left_out("chromium is not installed");
            None
        }
    }
}

#[tokio::test]
async fn a_browser_draws_the_page_and_takes_no_name_for_markup() {
    let functions = Functions::new().with("fails", &["example.com/fails:v1"], "exit 3");
    let server = functions.serve(&[METRICS]);
    let metrics = metrics_address(&server);
    evaluate(&server.client(), "example.com/fails:v1", "x").await.unwrap_err();
    evaluate(&server.client(), "<img src=x onerror=alert(1)>", "x").await.unwrap_err();
    let Some(page) = drawn(&metrics) else { return };
    for part in [
        ">serving</span>",
        ">live</span>",
        "<i>example.com/</i>",
        ">fails:v1</span>",
        "exit status 3, 0 results, 0 bytes on standard error",
        "&lt;img src=x onerror=alert(1)&gt;",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains("<img"), "{page}");
}

#[tokio::test]
async fn the_port_is_read_only() {
    let server = Server::start(runner().args(["--port=0", "--config=", METRICS]));
    let metrics = metrics_address(&server);
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let (head, _) = request(&metrics, method, "/status.json");
        assert!(head.starts_with("http/1.1 405") && head.contains("allow: get, head"), "{head}");
    }
    assert!(request(&metrics, "GET", "/etc/passwd").0.starts_with("http/1.1 404"));
    assert_eq!(request(&metrics, "HEAD", "/metrics").1, "");
    assert_eq!(get(&metrics, "/healthz"), "alive\n");
    assert_eq!(get(&metrics, "/readyz"), "serving\n");
}

#[tokio::test]
async fn readiness_ends_with_the_drain() {
    let functions = Functions::new().with("slow", &["slow"], "sleep 1; cat");
    let mut server = functions.serve(&[METRICS]);
    let metrics = metrics_address(&server);
    let client = server.client();
    let call = tokio::spawn(async move { evaluate(&client, "slow", "x").await });
    eventually("the call runs", || status(&metrics)["inFlight"] == 1).await;
    server.terminate();
    eventually("it drains", || request(&metrics, "GET", "/readyz").0.starts_with("http/1.1 503")).await;
    assert_eq!(status(&metrics)["phase"], "draining");
    call.await.unwrap().unwrap();
    assert_eq!(server.wait().code(), Some(0));
}

#[tokio::test]
async fn the_environment_of_porchs_manifests_is_honoured() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let start = |command: &mut Command| {
        Server::start(
            command
                .env("OTEL_METRICS_EXPORTER", "prometheus")
                .env("OTEL_EXPORTER_PROMETHEUS_HOST", "127.0.0.1")
                .env("OTEL_EXPORTER_PROMETHEUS_PORT", port.to_string())
                .env("OTEL_TRACES_EXPORTER", "none")
                .env("OTEL_SERVICE_NAME", "porch-function-runner"),
        )
    };
    let server = start(runner().args(["--port=0", "--config="]));
    evaluate(&server.client(), "no-op", "kind: ResourceList\n").await.unwrap();
    let text = get(&format!("127.0.0.1:{port}"), "/metrics");
    // As Porch's own test looks for `go_*` and `rpc_server_*`.
    assert!(text.contains("go_") && text.contains("rpc_server_"), "{text}");
    // A port that is taken is no reason not to serve.
    let second = start(runner().args(["--port=0", "--config="]));
    second.wait_for_line("No metrics: listen tcp 127.0.0.1");
    evaluate(&second.client(), "no-op", "kind: ResourceList\n").await.unwrap();
    drop((server, second));
    let wrapper = start(&mut support::wrapper(&[], &["/bin/cat"]));
    evaluate(&wrapper.client(), "cat", "kind: ResourceList\n").await.unwrap();
    let text = get(&format!("127.0.0.1:{port}"), "/metrics");
    assert!(text.contains("go_") && text.contains("rpc_server_"), "{text}");
}

#[test]
fn without_variables_or_flags_nothing_is_exported() {
    let server = Server::start(runner().args(["--port=0", "--config="]));
    assert!(!server.log().iter().any(|line| line.contains("etrics")), "{:#?}", server.log());
    let (code, _, stderr) =
        output(runner().args(["--port=0"]).env("OTEL_METRICS_EXPORTER", "carrier-pigeon"));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("OTEL_METRICS_EXPORTER: there is no exporter `carrier-pigeon`"), "{stderr}");
}

#[tokio::test]
async fn every_line_of_a_call_has_its_id_also_in_json() {
    let functions = Functions::new().with("echo", &["echo"], "cat").with("fails", &["fails"], "exit 3");
    let server = functions.serve(&["--log-level=5", "--log-format=json"]);
    for image in ["echo", "fails"] {
        let _ = evaluate(&server.client(), image, "x").await;
    }
    server.wait_for_line(r#""code":"Internal""#);
    let lines: Vec<Value> = server
        .log()
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    let of = |image: &str| -> Vec<&Value> {
        let call = lines.iter().find(|line| line["image"] == image).unwrap()["call"].clone();
        assert_eq!(call.as_str().unwrap().len(), 16);
        lines.iter().filter(|line| line["call"] == call).collect()
    };
    for image in ["echo", "fails"] {
        let messages: Vec<_> = of(image).iter().map(|line| line["msg"].as_str().unwrap()).collect();
        assert!(messages.len() >= 3 && messages.ends_with(&["Evaluated"]), "{messages:?}");
        assert!(lines.iter().all(|line| line["image"] != image || !line["call"].is_null()));
    }
    assert_ne!(of("echo")[0]["call"], of("fails")[0]["call"]);
    for line in &lines {
        assert!(line["ts"].as_str().unwrap().ends_with('Z') && line["level"].is_string(), "{line}");
    }
}

#[tokio::test]
async fn the_server_in_a_pod_logs_the_same_id() {
    let server = Server::start(&mut support::wrapper(&["--verbosity=3"], &["/bin/cat"]));
    let mut client = FunctionEvaluatorClient::new(
        tonic::transport::Endpoint::from_shared(format!("http://{}", server.address()))
            .unwrap()
            .connect_lazy(),
    );
    let message = EvaluateFunctionRequest { image: "x".into(), resource_list: "kind: ResourceList\n".into() };
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("loggia-call", "00c0ffee00c0ffee".parse().unwrap());
    client.evaluate_function(request).await.unwrap();
    server.wait_for_line("call=00c0ffee00c0ffee");
}

/// A word that stands for what must not be shown.
const CANARY: &str = "canary-7f3a9c";

#[tokio::test]
async fn no_level_shows_anything_of_a_package() {
    let results = format!(
        "kind: ResourceList\nresults:\n- message: {CANARY}-result\n  severity: error\n  field: {{path: a, currentValue: {CANARY}}}\n"
    );
    let functions = Functions::new()
        .with("echo", &["echo"], "cat; echo canary-7f3a9c-log >&2")
        .with("fails", &["fails"], "cat >&2; exit 3")
        .with(
            "results",
            &["results"],
            &format!("cat >/dev/null; printf '{}'; exit 1", results.replace('\n', "\\n")),
        )
        .with("garbage", &["garbage"], "cat; cat >&2; exit 1");
    let input =
        format!("kind: ResourceList\nfunctionConfig: {{data: {{password: {CANARY}}}}}\nitems: [{CANARY}\n");
    for (level, format) in [("0", "text"), ("2", "json"), ("4", "text"), ("5", "json")] {
        let flags = [format!("--log-level={level}"), format!("--log-format={format}")];
        let server = functions.serve(&[METRICS, &flags[0], &flags[1]]);
        let metrics = metrics_address(&server);
        let client = server.client();
        let images =
            ["echo", "fails", "results", "garbage", "no-op", "set-labels:v0.2", "starlark", "gatekeeper"];
        for image in images {
            let _ = evaluate(&client, image, input.clone()).await;
        }
        for flags in [&["--verbosity=5"][..], &["--verbosity=2"]] {
            for script in ["cat >&2; exit 1", "cat", "cat; exit 2"] {
                let wrapper = Server::start(&mut support::wrapper(flags, &["/bin/sh", "-c", script]));
                let _ = evaluate(&wrapper.client(), "x", input.clone()).await;
                let _ = evaluate(&wrapper.client(), "x", results.clone()).await;
                assert!(!wrapper.log().join("\n").contains(CANARY), "{:#?}", wrapper.log());
            }
        }
        let shown = [get(&metrics, "/metrics"), get(&metrics, "/status.json"), server.log().join("\n")];
        for text in shown {
            assert!(!text.contains(CANARY), "level {level}: {text}");
        }
    }
}

/// The flags that a page of the documentation has in its table.
fn documented_flags() -> Vec<String> {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("Flags\n")).unwrap().to_owned();
    let cells =
        section.lines().filter(|line| line.starts_with("| `--")).filter_map(|line| line.split('|').nth(1));
    let mut flags: Vec<_> = cells
        .flat_map(|cell| cell.split(','))
        .map(|flag| flag.trim().trim_matches('`').trim_start_matches("--").to_owned())
        .collect();
    flags.sort();
    flags
}

#[test]
fn every_flag_is_documented_and_every_documented_flag_exists() {
    let (_, _, help) = output(Command::new(program("function-runner")).arg("--help"));
    let listed = help.lines().filter_map(|line| line.strip_prefix("  -"));
    let mut listed: Vec<_> = listed.map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    listed.sort();
    assert_eq!(listed, documented_flags());
}
