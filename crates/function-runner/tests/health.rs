//! Probes: the health service and reflection, asked by our client and by the tools people use.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

use std::process::Command;
use std::time::{Duration, Instant};

use tokio_stream::StreamExt as _;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

mod support;

use support::{Called as _, Functions, Server, evaluate, output, runner, tool};

fn health(server: &Server) -> HealthClient<Channel> {
    HealthClient::new(Endpoint::from_shared(format!("http://{}", server.address())).unwrap().connect_lazy())
}

async fn check(client: &mut HealthClient<Channel>, service: &str) -> ServingStatus {
    let request = HealthCheckRequest { service: service.to_owned() };
    client.check(request).await.unwrap().into_inner().status()
}

#[tokio::test]
async fn the_service_is_serving_within_a_second_under_every_name() {
    let begin = Instant::now();
    let server = Server::start(runner().args(["--port=0", "--config="]));
    let mut client = health(&server);
    for service in ["", "evaluator.FunctionEvaluator", "whatever"] {
        assert_eq!(check(&mut client, service).await, ServingStatus::Serving, "{service:?}");
    }
    assert!(begin.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn a_watch_tells_of_the_drain_and_ends_with_it() {
    let functions =
        Functions::new().with("slow", &["slow"], "touch \"$(dirname \"$0\")/../running\"; sleep 0.5; cat");
    let mut server = functions.serve(&[]);
    let mut watch =
        health(&server).watch(HealthCheckRequest { service: String::new() }).await.unwrap().into_inner();
    assert_eq!(watch.next().await.unwrap().unwrap().status(), ServingStatus::Serving);

    let client = server.client();
    let call = tokio::spawn(async move { evaluate(&client, "slow", "x").await });
    support::eventually("the call runs", || functions.note("running").exists()).await;
    server.terminate();
    assert_eq!(watch.next().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    // A probe that connects only now is answered as well.
    assert_eq!(check(&mut health(&server), "").await, ServingStatus::NotServing);
    assert_eq!(call.await.unwrap().unwrap().resource_list, "x");
    assert!(watch.next().await.is_none(), "the stream ends in order");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn the_library_that_kubernetes_probes_with_is_satisfied() {
    let Some(probe) = tool("health-probe") else { return };
    let server = Server::start(runner().args(["--port=0", "--config="]));
    for service in ["", "evaluator.FunctionEvaluator"] {
        let (code, stdout, stderr) = output(Command::new(&probe).args([&server.address(), service]));
        assert_eq!((code, stdout.as_str()), (Some(0), "SERVING\n"), "{stderr}");
    }
}

#[test]
fn grpcurl_finds_its_way_by_reflection() {
    let Some(grpcurl) = tool("grpcurl") else { return };
    let functions = Functions::new().with("fails", &["fails"], "cat; echo why >&2; exit 3");
    let server = functions.serve(&[]);
    let run = |arguments: &[&str]| output(Command::new(&grpcurl).arg("-plaintext").args(arguments));
    let (code, services, _) = run(&[&server.address(), "list"]);
    assert_eq!(code, Some(0));
    for service in ["evaluator.FunctionEvaluator", "grpc.health.v1.Health"] {
        assert!(services.lines().any(|line| line == service), "{services}");
    }
    // An empty list in base 64.
    let list = "YXBpVmVyc2lvbjogY29uZmlnLmt1YmVybmV0ZXMuaW8vdjEKa2luZDogUmVzb3VyY2VMaXN0Cg==";
    let call =
        |data: &str| run(&["-d", data, &server.address(), "evaluator.FunctionEvaluator/EvaluateFunction"]);
    let (code, stdout, stderr) = call(&format!(r#"{{"resource_list": "{list}", "image": "no-op"}}"#));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains(&format!("\"resourceList\": \"{list}\"")), "{stdout}");
    let (code, _, stderr) = call(r#"{"image": "fails"}"#);
    assert_ne!(code, Some(0));
    assert!(stderr.contains("Code: Internal"), "{stderr}");
    assert!(stderr.contains("exit status 3 (why"), "{stderr}");
    assert!(
        stderr.contains("\"exitCode\": 3") && stderr.contains("FUNCTION_FAILED"),
        "details are readable: {stderr}"
    );
}
