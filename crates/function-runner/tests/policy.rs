//! Images that may not run do not, whatever would run them and however they are spelled.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::collections::BTreeMap;

use loggia_grpc::wire::details::evaluation_error::Kind;
use loggia_packages::service::wire::RenderRequest;
use loggia_packages::service::wire::package_service_client::PackageServiceClient;
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic::transport::Endpoint;

mod support;

use support::{Called as _, Functions, details, evaluate, output};

const LIST: &str = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: []\n";

#[tokio::test]
async fn a_refused_image_reaches_no_runtime() {
    let functions = Functions::new();
    let mark = functions.note("ran");
    let bad = format!("cat; touch {}", mark.display());
    let functions = functions.with("good", &["example.com/team/good:v1"], "cat").with(
        "bad",
        &["example.com/evil/bad:v1", "docker.io/library/short:v1"],
        &bad,
    );
    let server = functions.serve(&[
        "--allowed-images=example.com/team/*,ghcr.io/kptdev/krm-functions-catalog/*",
        "--allowed-images=docker.io/library/*",
        "--denied-images=*/library/short*,ghcr.io/*/set-labels",
    ]);
    let client = server.client();
    assert!(evaluate(&client, "example.com/team/good:v1", LIST).await.is_ok());
    assert!(evaluate(&client, "ghcr.io/kptdev/krm-functions-catalog/no-op", LIST).await.is_ok());
    let digest = format!("sha256:{}", "0".repeat(64));
    for (image, rule) in [
        ("example.com/evil/bad:v1", "--allowed-images"),
        ("EXAMPLE.com:443/evil/bad:v1", "--allowed-images"),
        ("short:v1", "--denied-images"),
        ("docker.io/short:v1", "--denied-images"),
        ("index.docker.io/library/short:v1", "--denied-images"),
        ("registry-1.docker.io/library/short:v1", "--denied-images"),
        (&format!("short:v1@{digest}"), "--denied-images"),
        ("ghcr.io/kptdev/krm-functions-catalog/set-labels:v0.2", "--denied-images"),
        ("ghcr.io/kptdev/krm-functions-catalog/set-labels", "--denied-images"),
    ] {
        let status = evaluate(&client, image, LIST).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{image}: {status}");
        assert!(status.message().contains(&format!("is refused by {rule}: ")), "{status}");
        assert_eq!(details(&status).kind(), Kind::Refused);
    }
    let status = evaluate(&client, "example.com/team/../evil/bad:v1", LIST).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(!mark.exists(), "a refused function ran");
    // Without the policy the same function does run.
    let open = functions.serve(&[]);
    assert!(evaluate(&open.client(), "docker.io/library/short:v1", LIST).await.is_ok() && mark.exists());
}

#[tokio::test]
async fn a_package_runs_no_refused_image() {
    let server = Functions::new().serve(&["--denied-images=ghcr.io/*/set-labels"]);
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address())).unwrap();
    let mut client = PackageServiceClient::new(endpoint.connect_lazy());
    let kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\npipeline:\n  mutators:\n  \
                   - image: set-labels:v0.2\n    configMap:\n      a: b\n";
    let resources = BTreeMap::from([("Kptfile".to_owned(), kptfile.as_bytes().to_vec())]);
    let request = RenderRequest { resources: resources.into_iter().collect(), push_on_render_failure: false };
    let text = match client.render(request).await {
        Err(status) => status.to_string(),
        Ok(stream) => {
            let events: Vec<_> = stream.into_inner().collect().await;
            format!("{events:?}")
        }
    };
    assert!(text.contains("is refused by --denied-images: "), "{text}");
}

#[tokio::test]
async fn a_digest_can_be_required() {
    let server = Functions::new().with("echo", &["example.com/echo:v1"], "cat").serve(&["--require-digest"]);
    for image in ["example.com/echo:v1", "ghcr.io/kptdev/krm-functions-catalog/no-op"] {
        let status = evaluate(&server.client(), image, LIST).await.unwrap_err();
        assert!(status.message().contains("is refused by --require-digest: "), "{status}");
    }
}

#[test]
fn a_policy_that_cannot_be_used_is_a_mistake_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, "default: deny\nrules:\n- images: [x.io]\n  keyz: [a.pub]\n").unwrap();
    for (flag, expected) in [
        ("--allowed-images=a b".to_owned(), "--allowed-images: `a b` is not a pattern of images"),
        ("--denied-images=x.io/../y".to_owned(), "--denied-images: "),
        (format!("--verify-images={}", file.display()), "keyz"),
        ("--verify-images=/nowhere".to_owned(), "open /nowhere: no such file or directory"),
    ] {
        let (code, _, text) = output(support::runner().args(["--port=0", &flag]));
        assert!(code != Some(0) && text.contains(expected), "{flag}: {text}");
    }
}
