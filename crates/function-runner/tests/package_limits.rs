//! Packages that are up to no good, sent to the package service: each gets an answer that says what is wrong or is done
//! in time, and the service answers health checks all the while.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use loggia_packages::service::wire::package_service_client::PackageServiceClient;
use loggia_packages::service::wire::render_event::Event;
use loggia_packages::service::wire::{
    KptfilePatch, PatchKptfileRequest, RenderEvent, RenderRequest, ReplaceResourcesRequest, StringMap,
};
use tokio_stream::StreamExt as _;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

mod support;

use support::{Functions, Server, eventually};

const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\n";
const CM: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm\ndata:\n  colour: blue\n";

/// How long any of these may take on a busy machine, in a program that is not optimised.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long a health check may take on the same.
const HEALTHY: Duration = Duration::from_secs(2);

type Resources = BTreeMap<String, Vec<u8>>;
type Answer = Result<Response<Streaming<RenderEvent>>, Status>;

fn channel(server: &Server) -> Channel {
    Endpoint::from_shared(format!("http://{}", server.address())).unwrap().connect_lazy()
}

fn client(server: &Server) -> PackageServiceClient<Channel> {
    PackageServiceClient::new(channel(server)).max_decoding_message_size(64 << 20)
}

fn files<const N: usize>(files: [(&str, String); N]) -> Resources {
    files.into_iter().map(|(path, text)| (path.to_owned(), text.into_bytes())).collect()
}

fn pipeline(steps: &str) -> String {
    format!("{KPTFILE}pipeline:\n  mutators:\n{steps}")
}

/// What a call comes to, in one text: its status, the error in its outcome, or `done`.
async fn ended(answer: Answer) -> String {
    let read = async {
        let mut stream = answer?.into_inner();
        while let Some(event) = stream.next().await {
            if let Some(Event::Outcome(outcome)) = event?.event {
                return Ok(outcome.error);
            }
        }
        Err(Status::unknown("no outcome"))
    };
    match tokio::time::timeout(PATIENCE, read).await.expect("the call ends") {
        Ok(error) if error.is_empty() => "done".to_owned(),
        Ok(error) => error,
        Err(status) => format!("{:?}: {}", status.code(), status.message()),
    }
}

/// The longest that a health check took until it is dropped.
async fn watch_health(channel: Channel, until: tokio::sync::oneshot::Receiver<()>) -> Duration {
    let mut health = HealthClient::new(channel);
    let mut slowest = Duration::ZERO;
    let mut pauses = tokio::time::interval(Duration::from_millis(50));
    let checks = async {
        loop {
            pauses.tick().await;
            let begin = Instant::now();
            health.check(HealthCheckRequest::default()).await.unwrap();
            slowest = slowest.max(begin.elapsed());
        }
    };
    tokio::select! {
        () = checks => {}
        _ = until => {}
    }
    slowest
}

/// Packages to render, with a part of what comes of them.
fn packages() -> Vec<(&'static str, Resources, &'static str)> {
    let nested = |levels: usize| -> Resources {
        (0..levels).map(|level| (format!("{}Kptfile", "a/".repeat(level)), KPTFILE.into())).collect()
    };
    let labels: String = (0..40_000).map(|n| format!("    l{n}: v\n")).collect();
    let same_labels = "    l: v\n".repeat(40_000);
    let config = format!("{CM}  filler: {}\n", "x".repeat(20_000));
    let shared = "  - image: no-op\n    configPath: c.yaml\n".repeat(400);
    let doubling =
        "  - image: search-replace\n    configMap:\n      by-value-regex: ^(a+)$\n      put-value: ${1}${1}\n".repeat(60);
    let selectors = "    - kind: X\n".repeat(2000);
    let many_packages: Resources = (0..3000).map(|n| (format!("p{n}/Kptfile"), KPTFILE.into())).collect();
    let with_root = |mut resources: Resources| {
        resources.insert("Kptfile".into(), KPTFILE.into());
        resources
    };
    let ignore = format!("{}b\n", "*a".repeat(1000)).repeat(100);
    vec![
        ("500 nested packages", nested(500), "has more than 256 parts"),
        ("200 nested packages", nested(200), "packages nest more than 64 deep (--max-package-depth)"),
        (
            "40000 labels",
            files([(
                "Kptfile",
                KPTFILE.replace("  name: app\n", &format!("  name: app\n  labels:\n{labels}")),
            )]),
            "done",
        ),
        (
            "one label 40000 times",
            files([(
                "Kptfile",
                KPTFILE.replace("  name: app\n", &format!("  name: app\n  labels:\n{same_labels}")),
            )]),
            "there are more errors",
        ),
        ("400 steps with one config", files([("Kptfile", pipeline(&shared)), ("c.yaml", config)]), "done"),
        (
            "1001 steps",
            files([("Kptfile", pipeline(&"  - image: no-op\n".repeat(1001)))]),
            "(--max-pipeline-steps)",
        ),
        (
            "2000 selectors",
            files([
                ("Kptfile", pipeline(&format!("  - image: no-op\n    selectors:\n{selectors}"))),
                ("cm.yaml", CM.into()),
            ]),
            "has 2000 selectors",
        ),
        (
            "doubling",
            files([("Kptfile", pipeline(&doubling)), ("cm.yaml", CM.replace("blue", "aaaa"))]),
            "6291456",
        ),
        ("200000 comments", files([("Kptfile", "#\n".repeat(200_000) + KPTFILE)]), "done"),
        ("3000 packages side by side", with_root(many_packages.clone()), "done"),
        (
            "3000 packages without a root",
            many_packages,
            "there are 3000 packages and none of them holds the others",
        ),
        (
            "a long path",
            files([("Kptfile", KPTFILE.into()), (&"x".repeat(5000), String::new())]),
            "is longer than 4096 bytes",
        ),
        (
            "stars",
            with_root(files([(".krmignore", ignore), (&format!("{}.yaml", "a".repeat(4000)), CM.into())])),
            "done",
        ),
        (
            "a write to git",
            files([("Kptfile", pipeline(&planting(".git/x.yaml"))), ("cm.yaml", CM.into())]),
            "nothing is written into a `.git` folder",
        ),
        (
            "a write to CI",
            files([("Kptfile", pipeline(&planting(".github/workflows/x.yaml"))), ("cm.yaml", CM.into())]),
            "hidden",
        ),
        (
            "a write to Makefile",
            files([("Kptfile", pipeline(&planting("Makefile"))), ("Makefile", "all:\n".into())]),
            "is not a name that resources are read from",
        ),
    ]
}

fn planting(path: &str) -> String {
    format!(
        "  - image: starlark\n    configMap:\n      source: |\n        ctx.resource_list['items'].append({{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {{'name': 'x', 'annotations': {{'internal.config.kubernetes.io/path': '{path}'}}}}}})\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_package_stops_the_service() {
    let functions = Functions::new();
    let server = functions.serve(&[]);
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let health = tokio::spawn(watch_health(channel(&server), stopped));
    for (name, resources, expected) in packages() {
        let begin = Instant::now();
        let request = RenderRequest { resources, push_on_render_failure: false };
        let text = ended(client(&server).render(request).await).await;
        println!("{name}: {:?}: {}", begin.elapsed(), text.chars().take(200).collect::<String>());
        assert!(text.contains(expected), "{name}: {}", text.chars().take(2000).collect::<String>());
    }

    let labels: BTreeMap<String, String> = (0..30_000).map(|n| (format!("m{n}"), "v".to_owned())).collect();
    let own: String = (0..30_000).map(|n| format!("    l{n}: v\n")).collect();
    let kptfile = KPTFILE.replace("  name: app\n", &format!("  name: app\n  labels:\n{own}"));
    let patch = KptfilePatch { labels: Some(StringMap { entries: labels }), ..KptfilePatch::default() };
    let request = PatchKptfileRequest {
        resources: files([("Kptfile", kptfile)]),
        patch: Some(patch),
        ..PatchKptfileRequest::default()
    };
    assert_eq!(ended(client(&server).patch_kptfile(request).await).await, "done");

    // Ten thousand old and new resources of one name.
    let side = |colour: &str, comment: &str| {
        let one = CM.replace("blue", colour).replace("name: cm", &format!("name: cm{comment}"));
        files([("Kptfile", KPTFILE.into()), ("a.yaml", vec![one; 10_000].join("---\n"))])
    };
    let request = ReplaceResourcesRequest {
        old_resources: side("blue", " # a comment"),
        resources: side("green", ""),
        ..ReplaceResourcesRequest::default()
    };
    assert_eq!(ended(client(&server).replace_resources(request).await).await, "done");

    stop.send(()).unwrap();
    let slowest = health.await.unwrap();
    println!("the slowest health check took {slowest:?}");
    assert!(slowest < HEALTHY, "{slowest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_away_ends_a_long_pipeline() {
    let functions = Functions::new().with(
        "counts",
        &["example.com/counts:v1"],
        "echo x >> \"$(dirname \"$0\")/../count\"; cat",
    );
    let server = functions.serve(&[]);
    let steps = "  - image: example.com/counts:v1\n".repeat(1000);
    let resources = files([("Kptfile", pipeline(&steps)), ("cm.yaml", CM.into())]);
    let stream =
        client(&server).render(RenderRequest { resources, push_on_render_failure: false }).await.unwrap();
    let count = || std::fs::read_to_string(functions.note("count")).unwrap_or_default().len();
    eventually("a few steps ran", || count() > 4).await;
    drop(stream);
    let mut before = count();
    let mut quiet = 0;
    let begin = Instant::now();
    let mut pauses = tokio::time::interval(Duration::from_millis(50));
    while quiet < 10 {
        pauses.tick().await;
        quiet = if count() == before { quiet + 1 } else { 0 };
        before = count();
        assert!(begin.elapsed() < PATIENCE);
    }
    assert!(before < 2000, "the pipeline ended early, after {} steps", before / 2);
}
