//! `--access-config`: which caller may run what.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use loggia_grpc::Client;
use loggia_grpc::connection::Connection;
use loggia_grpc::tls::ClientFiles;
use loggia_packages::service::wire::RenderRequest;
use loggia_packages::service::wire::package_service_client::PackageServiceClient;
use loggia_packages::service::wire::render_event::Event;
use tokio_stream::StreamExt as _;
use tonic::{Code, Status};

mod support;

use support::{Authority, Called as _, Functions, Server, children_of, evaluate, eventually, output, runner};

const LIST: &str = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n";
const CATALOG: &str = "ghcr.io/kptdev/krm-functions-catalog";

const RULES: &str = "
rules:
- name: porch
  callers: [spiffe://cluster.local/ns/porch-system/sa/porch-server]
- name: ci
  callers: [dns:ci.example.com, spiffe://cluster.local/ns/ci/*]
  images: [ghcr.io/kptdev/*]
  deniedImages: [ghcr.io/kptdev/krm-functions-catalog/set-labels]
  packageService: false
";

/// A service with rules, and the authority of its callers.
struct Guarded {
    authority: Authority,
    rules: tempfile::NamedTempFile,
    server: Server,
}

impl Guarded {
    fn new(rules: &str) -> Self {
        let authority = Authority::new("ours");
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), rules).unwrap();
        let (cert, key) = authority.server();
        let flag = |name: &str, file: PathBuf| format!("--{name}={}", file.display());
        let server = Server::start(runner().args(["--port=0", "--config="]).args([
            flag("tls-cert", cert),
            flag("tls-key", key),
            flag("client-ca", authority.file("ca.crt")),
            flag("access-config", file.path().to_owned()),
        ]));
        Self { authority, rules: file, server }
    }

    fn connection(&self, names: &[&str]) -> Connection {
        let identity = Some(self.authority.caller("caller", names));
        let files = ClientFiles { ca: self.authority.file("ca.crt"), identity };
        Connection::over_tls(&format!("localhost:{}", self.server.port), &files).unwrap()
    }

    fn client(&self, names: &[&str]) -> Client {
        Client::over(self.connection(names), 6 << 20)
    }
}

fn denied(answer: Result<impl std::fmt::Debug, Status>, text: &str) {
    let status = answer.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");
    assert!(status.message().contains(text), "{status}");
}

/// Renders a package with one function, and gives back why that failed; nothing if it did not.
async fn render(connection: Connection, image: &str) -> Result<String, Status> {
    let kptfile = format!(
        "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\npipeline:\n  mutators:\n  - image: {image}\n"
    );
    let resources = BTreeMap::from([("Kptfile".to_owned(), kptfile.into_bytes())]);
    let mut client = PackageServiceClient::with_origin(connection.clone(), connection.origin());
    let request = RenderRequest { resources, push_on_render_failure: false };
    let mut events = client.render(request).await?.into_inner();
    let mut failure = String::new();
    while let Some(event) = events.next().await {
        if let Some(Event::Outcome(outcome)) = event?.event {
            failure = outcome.error;
        }
    }
    Ok(failure)
}

#[tokio::test]
async fn a_caller_may_do_what_the_first_rule_with_its_name_allows() {
    let guarded = Guarded::new(RULES);
    let porch = guarded.client(&["spiffe://cluster.local/ns/porch-system/sa/porch-server"]);
    evaluate(&porch, "no-op", LIST).await.unwrap();
    evaluate(&porch, &format!("{CATALOG}/no-op:latest"), LIST).await.unwrap();

    for names in [&["ci.example.com"][..], &["spiffe://cluster.local/ns/ci/sa/default"]] {
        let ci = guarded.client(names);
        evaluate(&ci, &format!("{CATALOG}/no-op:latest"), LIST).await.unwrap();
        for image in ["example.com/no-op:latest", "no-op", &format!("{CATALOG}/set-labels:latest")] {
            denied(evaluate(&ci, image, LIST).await, "rule \"ci\" of the access config");
        }
        let packages = render(guarded.connection(names), "no-op").await;
        denied(packages, "rule \"ci\" of the access config does not let");
    }
    let line = guarded.server.wait_for_line("PermissionDenied");
    assert!(line.contains("ci"), "{line}");
}

#[tokio::test]
async fn a_caller_in_no_rule_is_refused_and_health_is_not() {
    let guarded = Guarded::new(RULES);
    let stranger = guarded.client(&["spiffe://cluster.local/ns/porch-system/sa/other", "x.example.com"]);
    let text = "caller spiffe://cluster.local/ns/porch-system/sa/other is in no rule of the access config";
    denied(evaluate(&stranger, "no-op", LIST).await, text);
    assert!(stranger.is_serving().await.unwrap());
}

#[tokio::test]
async fn the_images_of_a_package_are_checked_too() {
    let rules = "rules: [{name: all, callers: [anyone], images: ['ghcr.io/kptdev/*'], \
                 deniedImages: ['ghcr.io/*/set-labels']}]";
    let guarded = Guarded::new(rules);
    assert_eq!(render(guarded.connection(&["a"]), "no-op").await.unwrap(), "");
    let failure = render(guarded.connection(&["a"]), "set-labels").await.unwrap();
    assert!(failure.contains("is refused by rule \"all\" of the access config"), "{failure}");
}

#[tokio::test]
async fn new_rules_count_without_a_restart_and_broken_ones_do_not() {
    let guarded = Guarded::new(RULES);
    let caller = guarded.client(&["a.example.com"]);
    denied(evaluate(&caller, "no-op", LIST).await, "in no rule");
    support::certificates::rotate(guarded.rules.path(), "rules: [{name: a, callers: ['dns:a.example.com']}]");
    guarded.server.wait_for_line("Reloaded the access rules");
    evaluate(&caller, "no-op", LIST).await.unwrap();
    support::certificates::rotate(guarded.rules.path(), "rules: [{nam: a}]");
    guarded.server.wait_for_line("the access rules stay as they were");
    evaluate(&caller, "no-op", LIST).await.unwrap();
}

#[tokio::test]
async fn calls_and_bytes_of_a_rule_are_bounded_and_wait_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    let limits = "rules: [{name: few, callers: [anyone], maxConcurrentCalls: 1, maxBytes: 1Mi}]";
    fs::write(&rules, limits).unwrap();
    let functions = Functions::new().with("hang", &["hang"], "sleep 60").with("quick", &["quick"], "cat");
    let server = functions.serve(&[&format!("--access-config={}", rules.display())]);
    let client = server.client();

    let too_long = evaluate(&client, "quick", vec![b'x'; (1 << 20) + 1]).await.unwrap_err();
    assert_eq!(too_long.code(), Code::ResourceExhausted, "{too_long}");
    assert!(too_long.message().contains("rule \"few\" of the access config (maxBytes)"), "{too_long}");

    let hanging = client.clone();
    let hanging = tokio::spawn(async move { evaluate(&hanging, "hang", "").await });
    eventually("the first call runs", || !children_of(server.pid()).is_empty()).await;
    let second = client.evaluate("quick", "x".into(), Some(Duration::from_millis(300))).await.unwrap_err();
    assert_eq!(second.code(), Code::ResourceExhausted, "{second}");
    assert!(second.message().contains("1 calls at once (maxConcurrentCalls)"), "{second}");
    let third = client.clone();
    let third = tokio::spawn(async move { evaluate(&third, "quick", "x").await });
    hanging.abort();
    assert_eq!(third.await.unwrap().unwrap().resource_list, "x");
}

#[test]
fn a_file_that_cannot_be_used_ends_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    let start = || {
        let (code, _, stderr) = output(
            runner().args(["--port=0", "--config="]).arg(format!("--access-config={}", rules.display())),
        );
        assert_eq!(code, Some(1), "{stderr}");
        stderr
    };
    assert!(start().contains("--access-config: open "));
    fs::write(&rules, "rules: []").unwrap();
    assert!(start().contains("the file contains no rules"));
    fs::write(&rules, "rules: [{name: a, callers: ['dns:a']}]").unwrap();
    let text = start();
    assert!(text.contains("--access-config: callers are known by their certificates"), "{text}");
}
