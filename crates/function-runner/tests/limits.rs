//! Callers that take too much from the real program: it stays within its memory, answers health, and says what it
//! refused and which flag is about it.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use loggia_grpc::connection::Connection;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

mod support;

use support::{Called as _, Functions, Server, evaluate, eventually};

const METRICS: &str = "--metrics-address=127.0.0.1:0";

fn metrics_address(server: &Server) -> String {
    let line = server.wait_for_line("status page are at http://");
    let address = line.split("http://").nth(1).unwrap();
    address.split(['/', ' ', '"']).next().unwrap().to_owned()
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The prefix of a message of 6 MiB, and all of it but the end.
fn half_sent() -> Bytes {
    let length = 6 << 20;
    let mut data = vec![0; 5 + length - 2048];
    data[1..5].copy_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
    data.into()
}

#[tokio::test]
async fn half_sent_requests_stay_within_the_memory_budget() {
    let server = Functions::new().serve(&["--memory-budget=256Mi", "--request-timeout=5s", METRICS]);
    server.wait_for_line("Memory budget: 256Mi, of which 64Mi for messages and 128Mi for built-in functions");
    let metrics = metrics_address(&server);
    let mut connections = Vec::new();
    for _ in 0..4 {
        let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let mut calls = Vec::new();
        for _ in 0..80 {
            let mut ready = requests.clone().ready().await.unwrap();
            let request = http::Request::post("http://x/evaluator.FunctionEvaluator/EvaluateFunction")
                .header("content-type", "application/grpc");
            let (response, mut body) = ready.send_request(request.body(()).unwrap(), false).unwrap();
            body.send_data(half_sent(), false).unwrap();
            calls.push((response, body));
        }
        connections.push((requests, calls));
    }
    eventually("calls wait", || !get(&metrics, "/metrics").contains("loggia_message_memory_waiters 0")).await;
    for _ in 0..20 {
        let begin = Instant::now();
        assert!(server.client().is_serving().await.unwrap());
        assert!(begin.elapsed() < Duration::from_secs(1), "health took {:?}", begin.elapsed());
    }
    assert!(server.memory("VmHWM") < 160 * 1024, "{} KiB", server.memory("VmHWM"));
    assert!(get(&metrics, "/status.json").contains(r#""limitBytes":67108864"#));
    // The first of them got memory and ran out of time; the last waited in vain.
    let mut codes = Vec::new();
    for (_, calls) in connections {
        for (response, _body) in calls {
            let response = response.await.unwrap();
            let code = response.headers()["grpc-status"].to_str().unwrap().to_owned();
            let text = response.headers()["grpc-message"].to_str().unwrap().to_owned();
            assert!(text.contains("--request-timeout") || text.contains("--memory-budget"), "{text}");
            codes.push(code);
        }
    }
    let count = |code: Code| codes.iter().filter(|found| **found == (code as i32).to_string()).count();
    let (late, refused) = (count(Code::DeadlineExceeded), count(Code::ResourceExhausted));
    assert!(late > 0 && refused > 0 && late + refused == codes.len(), "{late} late, {refused} refused");
    evaluate(&server.client(), "no-op", "apiVersion: v1\nkind: ResourceList\nitems: []\n").await.unwrap();
    eventually("all comes back", || get(&metrics, "/metrics").contains("loggia_message_memory_bytes 0"))
        .await;
}

#[tokio::test]
async fn slow_readers_of_the_metrics_port_do_not_starve_probes() {
    let server = Functions::new().serve(&[METRICS]);
    let metrics = metrics_address(&server);
    let mut slow = Vec::new();
    for number in 0..200 {
        let mut stream = TcpStream::connect(&metrics).unwrap();
        if number % 2 == 0 {
            stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n").unwrap();
        }
        slow.push(stream);
    }
    let begin = Instant::now();
    assert!(get(&metrics, "/healthz").contains("alive"));
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn what_a_server_offers_can_be_switched_off() {
    let off = ["--enable-reflection=false", "--enable-package-service=false", "--address=127.0.0.1"];
    let server = Functions::new().serve(&off);
    let connection = Connection::new(&server.address()).unwrap();
    let mut health = HealthClient::with_origin(connection.clone(), connection.origin());
    health.check(HealthCheckRequest::default()).await.unwrap();
    let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let (requests, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    for service in
        ["loggia.v1.PackageService/Render", "grpc.reflection.v1.ServerReflection/ServerReflectionInfo"]
    {
        let mut ready = requests.clone().ready().await.unwrap();
        let request =
            http::Request::post(format!("http://x/{service}")).header("content-type", "application/grpc");
        let (response, _body) = ready.send_request(request.body(()).unwrap(), false).unwrap();
        assert_eq!(response.await.unwrap().headers()["grpc-status"], "12", "{service}");
    }
    // Only on the address that was named.
    let other = std::net::SocketAddr::from(([127, 0, 0, 2], server.port));
    assert!(TcpStream::connect_timeout(&other, Duration::from_secs(1)).is_err());
}

#[test]
fn a_budget_that_makes_no_sense_is_a_mistake_on_the_command_line() {
    for (flag, expected) in [
        ("--memory-budget=16Mi", "16Mi is too little"),
        ("--memory-budget=much", "`much` is not a size"),
        ("--request-timeout=0", "is not a time above zero"),
        ("--address=nowhere", "`nowhere` is not an IP address"),
    ] {
        let output = Functions::new().command(&[flag]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), text.contains(expected)), (Some(2), true), "{text}");
    }
}
