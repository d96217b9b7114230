//! The package service over the wire: flows, progress, failures, limits, and callers that go away.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use loggia_render::service::wire::package_service_client::PackageServiceClient;
use loggia_render::service::wire::render_event::Event;
use loggia_render::service::wire::render_outcome::Disposition;
use loggia_render::service::wire::{
    ApplyTaskRequest, Condition, Conditions, KptfilePatch, PackageConfig, PatchKptfileRequest,
    ReadinessGates, RenderEvent, RenderOutcome, RenderRequest, ReplaceResourcesRequest, Task,
};
use tokio_stream::StreamExt as _;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status, Streaming};

mod support;

use support::{Functions, PATIENCE, Server, children_of, eventually, is_running, noted, output, tool};

const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\n";
const CM: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm # short\ndata:\n  colour: blue\n";

type Resources = BTreeMap<String, Vec<u8>>;
type Answer = Result<Response<Streaming<RenderEvent>>, Status>;

fn client(server: &Server) -> PackageServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address())).unwrap();
    PackageServiceClient::new(endpoint.connect_lazy()).max_decoding_message_size(64 << 20)
}

fn package(images: &[&str]) -> Resources {
    let steps: String = images.iter().map(|image| format!("  - image: {image}\n")).collect();
    let pipeline = if steps.is_empty() { steps } else { format!("pipeline:\n  mutators:\n{steps}") };
    Resources::from([
        ("Kptfile".to_owned(), format!("{KPTFILE}{pipeline}").into_bytes()),
        ("cm.yaml".to_owned(), CM.as_bytes().to_vec()),
        ("logo.png".to_owned(), vec![0x89, b'P', 0xff, 0]),
    ])
}

fn render(resources: Resources) -> RenderRequest {
    RenderRequest { resources, push_on_render_failure: false }
}

/// All that a call says, and its outcome.
async fn events(answer: Answer) -> Result<(Vec<Event>, RenderOutcome), Status> {
    let read = async {
        let mut stream = answer?.into_inner();
        let mut events = Vec::new();
        while let Some(event) = stream.next().await {
            events.push(event?.event.unwrap());
        }
        match events.pop() {
            Some(Event::Outcome(outcome)) => Ok((events, outcome)),
            other => panic!("the last message is no outcome: {other:?}"),
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("the call ends")
}

async fn outcome(answer: Answer) -> Result<RenderOutcome, Status> {
    events(answer).await.map(|(_, outcome)| outcome)
}

fn text<'a>(outcome: &'a RenderOutcome, path: &str) -> &'a str {
    std::str::from_utf8(&outcome.resources[path]).unwrap()
}

#[tokio::test]
async fn a_render_tells_what_happens_and_ends_with_the_package() {
    let functions =
        Functions::new().with("paint", &["example.com/paint:v1"], "sed s/blue/green/; echo a note >&2");
    let server = functions.serve(&[]);
    let request = render(package(&["no-op", "example.com/paint:v1"]));
    let (events, outcome) = events(client(&server).render(request).await).await.unwrap();

    let no_op = "ghcr.io/kptdev/krm-functions-catalog/no-op:latest";
    let told: Vec<String> = events
        .iter()
        .map(|event| match event {
            Event::PackageStarted(started) => format!("package {}", started.package),
            Event::FunctionStarted(started) => format!("started {} in {}", started.function, started.package),
            Event::FunctionEnded(ended) => {
                let run = ended.run.as_ref().unwrap();
                assert!(ended.took.is_some() && !ended.run_left_out);
                format!("ended {} {} {:?}", ended.function, ended.passed, run.stderr)
            }
            Event::Outcome(_) => unreachable!("taken off"),
        })
        .collect();
    let expected = [
        "package /".to_owned(),
        format!("started {no_op} in /"),
        format!("ended {no_op} true \"\""),
        "started example.com/paint:v1 in /".to_owned(),
        "ended example.com/paint:v1 true \"a note\"".to_owned(),
    ];
    assert_eq!(told, expected);

    assert_eq!((outcome.disposition(), outcome.error.as_str()), (Disposition::Push, ""));
    assert_eq!(text(&outcome, "cm.yaml"), CM.replace("blue", "green"));
    assert_eq!(outcome.resources["logo.png"], [0x89, b'P', 0xff, 0], "bytes pass through");
    assert_eq!(outcome.task.unwrap().r#type, "render");
    let status = outcome.render_status.unwrap();
    assert_eq!(status.error.as_deref(), Some(""));
    let result = status.result.unwrap();
    assert_eq!(
        (result.kind.as_str(), result.exit_code, result.items.len()),
        ("FunctionResultList", Some(0), 2)
    );
}

#[tokio::test]
async fn progress_comes_while_the_function_runs() {
    let wait = "while [ ! -e \"$(dirname \"$0\")/../go\" ]; do sleep 0.02; done; cat";
    let functions = Functions::new().with("waits", &["waits:v1"], wait);
    let server = functions.serve(&["--default-image-prefix="]);
    let mut stream = client(&server).render(render(package(&["waits:v1"]))).await.unwrap().into_inner();
    loop {
        match stream.next().await.unwrap().unwrap().event.unwrap() {
            Event::FunctionStarted(started) => break assert_eq!(started.function, "waits:v1"),
            Event::PackageStarted(_) => {}
            other => panic!("{other:?}"),
        }
    }
    // It cannot end before this.
    std::fs::write(functions.note("go"), "").unwrap();
    let rest: Vec<_> = stream.collect::<Vec<_>>().await;
    assert_eq!(rest.len(), 2);
    assert!(matches!(rest[1].as_ref().unwrap().event, Some(Event::Outcome(_))));
}

#[tokio::test]
async fn a_function_that_fails_is_told_with_its_results_exit_code_and_stderr() {
    let script = r#"cat; printf 'results:\n- message: too blue\n  severity: error\n  resourceRef: {apiVersion: v1, kind: ConfigMap, name: cm}\n  field: {path: data.colour, currentValue: blue, proposedValue: [red]}\n  tags: {k: v}\n'; echo why >&2; exit 3"#;
    let functions = Functions::new().with("fails", &["example.com/fails:v1"], script);
    let server = functions.serve(&[]);
    let request = ReplaceResourcesRequest {
        resources: package(&["example.com/fails:v1"]),
        ..ReplaceResourcesRequest::default()
    };
    let outcome = outcome(client(&server).replace_resources(request).await).await.unwrap();
    assert_eq!(outcome.disposition(), Disposition::Keep);
    assert_eq!(
        outcome.error,
        "error rendering package in kpt function pipeline. Package NOT pushed to remote. Fix locally (until 'kpt fn render' succeeds) and retry. Details: fn.render: pkg /:\n\tpkg.render:\n\tpipeline.run: func eval \"example.com/fails:v1\" failed: exit status 3 (why)"
    );
    assert_eq!(text(&outcome, "cm.yaml"), CM);
    let status = outcome.render_status.unwrap();
    let run = &status.result.unwrap().items[0];
    assert_eq!(
        (run.image.as_str(), run.exit_code, run.stderr.as_str()),
        ("example.com/fails:v1", Some(3), "why")
    );
    assert_eq!((run.results[0].message.as_str(), run.results[0].severity.as_str()), ("too blue", "error"));
    assert_eq!(run.results[0].resource_ref.as_ref().unwrap().name, "cm");
    let field = run.results[0].field.as_ref().unwrap();
    assert_eq!((field.current_value.as_str(), field.proposed_value.as_str()), ("blue", "[red]"));
    assert_eq!(run.results[0].tags["k"], "v");
}

#[tokio::test]
async fn an_error_among_the_results_fails_a_render_whatever_the_exit_code() {
    let script = r#"cat; printf 'results:\n- message: too blue\n  severity: error\n'"#;
    let functions = Functions::new().with("warns", &["example.com/warns:v1"], script);
    let server = functions.serve(&[]);
    let request =
        RenderRequest { push_on_render_failure: true, ..render(package(&["example.com/warns:v1"])) };
    let outcome = outcome(client(&server).render(request).await).await.unwrap();
    assert_eq!(outcome.disposition(), Disposition::Push);
    assert!(outcome.error.contains("Package pushed to remote despite render failure."), "{}", outcome.error);
    assert!(outcome.error.contains("reported 1 result(s) of severity error"), "{}", outcome.error);
}

#[tokio::test]
async fn a_function_that_nobody_has_and_a_command_are_refused_by_name() {
    let server = Functions::new().serve(&[]);
    let unknown =
        outcome(client(&server).render(render(package(&["example.com/none:v1"]))).await).await.unwrap();
    assert_eq!(unknown.disposition(), Disposition::Discard);
    assert!(unknown.resources.is_empty());
    assert!(unknown.error.contains("function \"example.com/none:v1\" not found"), "{}", unknown.error);

    let mut commands = package(&[]);
    commands
        .insert("Kptfile".into(), format!("{KPTFILE}pipeline:\n  mutators:\n  - exec: cat\n").into_bytes());
    let refused = outcome(client(&server).render(render(commands)).await).await.unwrap();
    assert!(refused.error.contains("must run with `--allow-exec` option"), "{}", refused.error);
}

#[tokio::test]
async fn a_clone_gets_its_context_and_a_draft_its_conditions() {
    let server = Functions::new().serve(&[]);
    let request = ApplyTaskRequest {
        resources: package(&[]),
        tasks: vec![Task { r#type: "clone".into() }],
        package: Some(PackageConfig {
            package_path: "base/app".into(),
            repository: "edge".into(),
            namespace: "default".into(),
            deployment: true,
        }),
        ..ApplyTaskRequest::default()
    };
    let cloned = outcome(client(&server).apply_task(request).await).await.unwrap();
    let context = text(&cloned, "package-context.yaml");
    assert!(context.contains("  deployment: \"true\"\n  name: app\n  namespace: default\n"), "{context}");
    assert_eq!(cloned.task.as_ref().unwrap().r#type, "clone");

    let conditions =
        vec![Condition { r#type: "ready".into(), status: "True".into(), ..Condition::default() }];
    let patch = KptfilePatch {
        readiness_gates: Some(ReadinessGates { condition_types: vec!["ready".into()] }),
        conditions: Some(Conditions { items: conditions }),
        ..KptfilePatch::default()
    };
    let request = PatchKptfileRequest {
        resources: cloned.resources,
        patch: Some(patch),
        lifecycle: "Draft".into(),
        push_on_render_failure: false,
    };
    let patched = outcome(client(&server).patch_kptfile(request.clone()).await).await.unwrap();
    let kptfile = text(&patched, "Kptfile");
    assert!(kptfile.contains("- conditionType: ready\n") && kptfile.contains("type: ready\n"), "{kptfile}");
    let published = PatchKptfileRequest { lifecycle: "Published".into(), ..request };
    let left = outcome(client(&server).patch_kptfile(published).await).await.unwrap();
    assert_eq!(left.disposition(), Disposition::Unchanged);
}

#[tokio::test]
async fn what_cannot_be_done_ends_the_call_and_nothing_is_given_back() {
    let server = Functions::new().serve(&[]);
    let mut broken = package(&[]);
    broken.insert("bad.yaml".into(), b"a: [".to_vec());
    let clone = ApplyTaskRequest {
        resources: broken,
        tasks: vec![Task { r#type: "clone".into() }],
        package: Some(PackageConfig { deployment: true, ..PackageConfig::default() }),
        ..ApplyTaskRequest::default()
    };
    let status = outcome(client(&server).apply_task(clone).await).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().starts_with("failed to generate deployment context: "), "{}", status.message());

    let request =
        ReplaceResourcesRequest { lifecycle: "Published".into(), ..ReplaceResourcesRequest::default() };
    let status = outcome(client(&server).replace_resources(request).await).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);

    let escaping = render(Resources::from([("../x".to_owned(), vec![])]));
    let status = outcome(client(&server).render(escaping).await).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("\"../x\""), "{}", status.message());
}

#[tokio::test]
async fn messages_have_a_limit_either_way() {
    let grow = "cat; i=0; printf 'results:\\n'; while [ $i -lt 400 ]; do printf -- '- message: %0100d\\n' $i; i=$((i+1)); done; \
                printf '%030000d' 0 >&2";
    let functions = Functions::new().with("grows", &["example.com/grows:v1"], grow);
    let server = functions.serve(&["--max-request-body-size=65536"]);
    let mut large = package(&[]);
    large.insert("large.bin".into(), vec![b'x'; 70_000]);
    let status = outcome(client(&server).render(render(large)).await).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().starts_with("grpc: received message larger than max ("), "{}", status.message());
    assert!(status.message().contains("--max-request-body-size"), "{}", status.message());

    // The package is small enough on the way in, and what its function says is too much on the way out.
    let mut stream =
        client(&server).render(render(package(&["example.com/grows:v1"]))).await.unwrap().into_inner();
    let (mut left_out, mut refused) = (false, None);
    while let Some(event) = stream.next().await {
        match event.map(|event| event.event.unwrap()) {
            Ok(Event::FunctionEnded(ended)) => {
                left_out = ended.passed && ended.run.is_none() && ended.run_left_out;
            }
            Ok(Event::Outcome(outcome)) => panic!("{} bytes fit", outcome.resources.len()),
            Ok(_) => {}
            Err(status) => refused = Some(status),
        }
    }
    assert!(left_out, "progress gives way");
    let status = refused.unwrap();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(
        status.message().starts_with("grpc: trying to send message larger than max ("),
        "{}",
        status.message()
    );
}

#[tokio::test]
async fn a_caller_that_goes_away_or_is_late_ends_the_function() {
    let hang = "echo $$ > \"$(dirname \"$0\")/../pid\"; sleep 60 & wait";
    let functions = Functions::new().with("hangs", &["example.com/hangs:v1"], hang);
    let server = functions.serve(&[]);
    let note = functions.note("pid");
    let request = || render(package(&["example.com/hangs:v1"]));

    let stream = client(&server).render(request()).await.unwrap();
    let pid = noted(&note).await;
    assert!(is_running(pid));
    drop(stream);
    eventually("the function is gone with its caller", || !is_running(pid)).await;

    std::fs::remove_file(&note).unwrap();
    let mut late = tonic::Request::new(request());
    late.set_timeout(Duration::from_millis(700));
    let status = outcome(client(&server).render(late).await).await.unwrap_err();
    // The client may be first to say so.
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status:?}");
    let pid = noted(&note).await;
    eventually("the function is gone with the deadline", || !is_running(pid)).await;
    eventually("no child is left", || children_of(server.pid()).is_empty()).await;
}

#[tokio::test]
async fn a_render_in_flight_ends_well_when_the_service_drains() {
    let slow = "touch \"$(dirname \"$0\")/../running\"; sleep 0.5; cat";
    let functions = Functions::new().with("slow", &["example.com/slow:v1"], slow);
    let mut server = functions.serve(&[]);
    let mut calls = client(&server);
    let stream = calls.render(render(package(&["example.com/slow:v1"]))).await;
    eventually("the function runs", || functions.note("running").exists()).await;
    server.terminate();
    assert_eq!(outcome(stream).await.unwrap().disposition(), Disposition::Push);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn grpcurl_does_what_the_manual_says() {
    let Some(grpcurl) = tool("grpcurl") else { return };
    let server = Functions::new().serve(&[]);
    let (code, services, _) = output(Command::new(&grpcurl).args(["-plaintext", &server.address(), "list"]));
    assert_eq!(code, Some(0));
    assert!(services.lines().any(|line| line == "loggia.v1.PackageService"), "{services}");

    let manual = include_str!("../../../docs/package-service.md");
    let block = |language: &str| {
        let (_, rest) = manual.split_once(&format!("```{language}\n")).unwrap();
        rest.split_once("```").unwrap().0
    };
    let folder = tempfile::tempdir().unwrap();
    let script = block("sh").replace("localhost:9445", &server.address());
    let path = format!("{}:{}", grpcurl.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let (code, stdout, stderr) =
        output(Command::new("sh").args(["-ec", &script]).env("PATH", path).current_dir(folder.path()));
    assert_eq!(code, Some(0), "{stderr}");
    // The manual leaves out some lines, and the program varies its spaces.
    let left_out = |line: &str| line.contains("\"took\":") || line.contains("\"Kptfile\":");
    let plain = |text: &str| -> String {
        let lines = text.lines().filter(|line| !left_out(line));
        lines.flat_map(str::split_whitespace).collect()
    };
    assert_eq!(plain(&stdout), plain(block("json")), "{stdout}");
}
