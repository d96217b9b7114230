//! `--schema-folder`: schemas of the operator, for built-in functions that are called over the wire.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::collections::BTreeMap;
use std::fs;

use loggia_packages::service::wire::RenderRequest;
use loggia_packages::service::wire::package_service_client::PackageServiceClient;
use loggia_packages::service::wire::render_event::Event;
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic::transport::Endpoint;

mod support;

use support::{Called as _, Functions, Server, details, evaluate, output, runner};

const SCHEMA: &str = r#"{"type":"object","properties":{"spec":{"type":"object","required":["wheels"]}}}"#;

const CART: &str = "apiVersion: example.com/v1\nkind: Cart\nmetadata:\n  name: small\nspec: {}\n";

/// Folders `a` and `b`, of which `a` has the schema, and a server that may read `a`.
fn serve() -> (Functions, Server, String) {
    let functions = Functions::new();
    let root = functions.folder().canonicalize().unwrap();
    for folder in ["a/master-standalone", "b"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::write(root.join("a/master-standalone/cart-example-v1.json"), SCHEMA).unwrap();
    let root = root.display().to_string();
    let server = functions.serve(&[&format!("--schema-folder={root}/a")]);
    (functions, server, root)
}

fn list(location: &str) -> String {
    let item = CART.replace('\n', "\n  ");
    format!(
        "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n- {}\nfunctionConfig:\n  data:\n    \
         schema_location: '{location}'\n",
        item.trim_end()
    )
}

#[tokio::test]
async fn a_call_may_name_the_folder_and_no_other() {
    let (_functions, server, root) = serve();
    let client = server.client();
    for (image, message) in [("kubeconform", "missing property 'wheels'"), ("kubeval", "wheels is required")]
    {
        let status = evaluate(&client, image, list(&format!("file://{root}/a"))).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal);
        let results = details(&status).results;
        assert_eq!(results.iter().map(|result| result.message.as_str()).collect::<Vec<_>>(), [message]);

        for location in
            [format!("{root}/b"), format!("{root}/a/../b"), "/proc/self".to_owned(), "/nowhere".to_owned()]
        {
            let status = evaluate(&client, image, list(&location)).await.unwrap_err();
            let expected = format!(
                "schema location `{location}`: it is outside of the folders that may be read; another `--schema-folder \
                 DIR` allows more"
            );
            assert!(status.message().contains(&expected), "{}", status.message());
        }
    }
}

#[tokio::test]
async fn a_schema_that_changes_is_read_anew() {
    let (_functions, server, root) = serve();
    fs::write(format!("{root}/a/master-standalone/cart-example-v1.json"), "{}").unwrap();
    evaluate(&server.client(), "kubeconform", list(&format!("{root}/a"))).await.unwrap();
    fs::write(format!("{root}/a/master-standalone/cart-example-v1.json"), SCHEMA).unwrap();
    evaluate(&server.client(), "kubeconform", list(&format!("{root}/a"))).await.unwrap_err();
}

#[tokio::test]
async fn a_package_that_is_rendered_may_name_the_folder_too() {
    let (_functions, server, root) = serve();
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address())).unwrap();
    let mut client = PackageServiceClient::new(endpoint.connect_lazy());
    for (folder, message) in [("a", "missing property 'wheels'"), ("b", "`--schema-folder DIR` allows more")]
    {
        let kptfile = format!(
            "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\npipeline:\n  validators:\n  - image: \
             kubeconform\n    configMap:\n      schema_location: {root}/{folder}\n"
        );
        let resources = BTreeMap::from([
            ("Kptfile".to_owned(), kptfile.into_bytes()),
            ("cart.yaml".to_owned(), CART.as_bytes().to_vec()),
        ]);
        let request = RenderRequest { resources, push_on_render_failure: false };
        let mut stream = client.render(request).await.unwrap().into_inner();
        let mut outcome = None;
        while let Some(event) = stream.next().await {
            if let Some(Event::Outcome(last)) = event.unwrap().event {
                outcome = Some(last);
            }
        }
        let outcome = format!("{:?}", outcome.unwrap());
        assert!(outcome.contains(message), "{outcome}");
    }
}

#[tokio::test]
async fn without_the_flag_nothing_is_read() {
    let functions = Functions::new();
    let server = functions.serve(&[]);
    let status = evaluate(&server.client(), "kubeconform", list("/etc")).await.unwrap_err();
    let expected =
        "schema location `/etc`: no folder with schemas may be read; `--schema-folder DIR` allows one";
    assert!(status.message().contains(expected), "{}", status.message());
}

#[test]
fn a_folder_that_is_not_there_keeps_the_service_from_starting() {
    let (code, _, stderr) = output(runner().args(["--port=0", "--schema-folder=/does/not/exist"]));
    assert_eq!(code, Some(1));
    let expected =
        "unexpected error: --schema-folder: `/does/not/exist`: No such file or directory (os error 2)";
    assert_eq!(stderr.lines().last(), Some(expected));
}
