//! Hostile programs in Starlark and Rego sent to a real service: it answers, and goes on as before.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test may")]

use std::time::{Duration, Instant};

use tonic::Code;

mod support;

use support::{Called as _, Functions, children_of, evaluate, eventually};

const ITEM: &str = "- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n";

fn starlark(source: &str) -> String {
    let source: String = source.lines().map(|line| format!("      {line}\n")).collect();
    format!(
        "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nfunctionConfig:\n  apiVersion: v1\n  kind: ConfigMap\n  \
         metadata: {{name: c}}\n  data:\n    source: |\n{source}items:\n{ITEM}"
    )
}

fn rego(body: &str) -> String {
    format!(
        "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n\
         - apiVersion: templates.gatekeeper.sh/v1beta1\n  kind: ConstraintTemplate\n  metadata: {{name: hostile}}\n  spec:\n    \
         crd: {{spec: {{names: {{kind: Hostile}}}}}}\n    targets:\n    - target: admission.k8s.gatekeeper.sh\n      \
         rego: |\n        package hostile\n        violation[{{\"msg\": \"x\"}}] {{ {body} }}\n\
         - {{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Hostile, metadata: {{name: c}}, spec: {{}}}}\n{ITEM}"
    )
}

#[tokio::test]
async fn hostile_programs_end_in_an_error_and_leave_the_service_as_it_was() {
    let functions = Functions::new();
    let server = functions.serve(&[]);
    let client = server.client();

    let endless = "some a, b, c; numbers.range(1, 9000)[a]; numbers.range(1, 9000)[b]; numbers.range(1, 9000)[c]; a + b + c < 0";
    for (image, list) in [("starlark", starlark("while True: pass")), ("gatekeeper", rego(endless))] {
        let begin = Instant::now();
        let deadline = Some(Duration::from_secs(2));
        let status = client.evaluate(image, list.into(), deadline).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{image}: {status:?}");
        assert!(begin.elapsed() < Duration::from_secs(3), "{image}: {:?}", begin.elapsed());
    }
    eventually("no child is left", || children_of(server.pid()).is_empty()).await;

    let deep = starlark("def f(n): return f(n + 1)\nf(0)");
    let status = evaluate(&client, "starlark", deep).await.unwrap_err();
    assert!(format!("{status:?}").contains("called itself too deeply"), "{status:?}");

    let large = starlark(&format!("x = {}1{}", "[".repeat(200_000), "]".repeat(200_000)));
    let status = evaluate(&client, "starlark", large).await.unwrap_err();
    assert!(status.message().contains("an expression is nested more than 4000 deep"), "{status:?}");

    let greedy = starlark("x = 'a' * (1 << 40)");
    let status = evaluate(&client, "starlark", greedy).await.unwrap_err();
    assert_ne!(status.code(), Code::Unavailable, "{status:?}");

    let harmless = starlark("for r in ctx.resource_list['items']: r['metadata']['name'] = 'b'");
    let answer = evaluate(&client, "starlark", harmless).await.unwrap();
    assert!(String::from_utf8_lossy(&answer.resource_list).contains("name: b"), "{answer:?}");
    eventually("no child is left", || children_of(server.pid()).is_empty()).await;
    assert!(server.memory("VmHWM") < 80 * 1024, "{} KiB", server.memory("VmHWM"));
}
