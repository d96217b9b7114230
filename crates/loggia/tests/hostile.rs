//! Programs that users bring along, in Starlark and in Rego, when they are up to no good.
//!
//! Each runs in a guarded child of the real program: by way of a render, or started by the guard with a smaller limit,
//! so that a bomb does not fill the memory of whoever runs the tests.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::time::{Duration, Instant};

use loggia_function::{Budget, Call, Image, RunError, Runtime as _};
use loggia_runtimes::workers::Settings;
use loggia_runtimes::{Builtin, Workers};
use support::{CM, Package, Ran};

/// More than any limit in these tests, by far.
const PATIENCE: Duration = Duration::from_secs(40);

/// Renders a package with a program of Starlark.
fn starlark(source: &str) -> (Package, Ran) {
    let source: String = source.lines().map(|line| format!("          {line}\n")).collect();
    let kptfile = format!(
        "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\npipeline:\n  mutators:\n    \
         - image: starlark\n      configMap:\n        source: |\n{source}"
    );
    let package = Package::new(&[("Kptfile", &kptfile), ("cm.yaml", CM)]);
    let ran = render(&package);
    (package, ran)
}

/// A template whose rule has this in its body, and a constraint that uses it.
fn policy(body: &str) -> String {
    let body: String = body.lines().map(|line| format!("        {line}\n")).collect();
    format!(
        "apiVersion: templates.gatekeeper.sh/v1beta1\nkind: ConstraintTemplate\nmetadata:\n  name: hostile\nspec:\n  \
         crd: {{spec: {{names: {{kind: Hostile}}}}}}\n  targets:\n  - target: admission.k8s.gatekeeper.sh\n    \
         rego: |\n      package hostile\n      violation[{{\"msg\": \"x\"}}] {{\n{body}      }}\n---\n\
         apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Hostile\nmetadata:\n  name: c\nspec: {{}}\n"
    )
}

/// Renders a package with a policy.
fn rego(body: &str) -> (Package, Ran) {
    let kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\npipeline:\n  validators:\n    \
                   - image: gatekeeper\n";
    let package = Package::new(&[("Kptfile", kptfile), ("cm.yaml", CM), ("policy.yaml", &policy(body))]);
    let ran = render(&package);
    (package, ran)
}

fn render(package: &Package) -> Ran {
    let begin = Instant::now();
    let ran = package.render(&["--timeout", "3s", "--memory", "512"]);
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
    ran
}

/// The render failed, said why, and left the resource alone.
fn assert_refused((package, ran): &(Package, Ran), reason: &str) {
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains(reason), "{reason}\n{}", ran.stderr);
    assert_eq!(package.read("cm.yaml"), CM);
}

/// What the guard says of a list with a program, with this many bytes to live on.
fn guarded(image: &str, resource_list: String, memory: u64) -> String {
    let settings = Settings {
        program: env!("CARGO_BIN_EXE_loggia").into(),
        memory,
        timeout: Duration::from_secs(20),
        ..Settings::one_by_one()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let begin = Instant::now();
    let call = Call::of_image(Image::new(image), resource_list.into(), Budget::UNBOUNDED);
    let outcome = runtime.block_on(Builtin::new(Workers::new(settings)).run(&call));
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
    match outcome {
        Ok(outcome) => {
            assert!(!outcome.exit.success(), "{outcome:?}");
            String::from_utf8_lossy(&outcome.output.to_bytes()).into_owned() + &outcome.stderr.text()
        }
        Err(RunError::Guarded(guarded)) => format!("function {image:?} {guarded}"),
        Err(error) => panic!("{error:?}"),
    }
}

fn list(items: &str, config: &str) -> String {
    format!("apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n{config}items:\n{items}")
}

fn starlark_list(source: &str) -> String {
    let source: String = source.lines().map(|line| format!("      {line}\n")).collect();
    let config = format!(
        "functionConfig:\n  apiVersion: v1\n  kind: ConfigMap\n  metadata: {{name: c}}\n  data:\n    source: |\n{source}"
    );
    list("- {apiVersion: v1, kind: ConfigMap, metadata: {name: cm}}\n", &config)
}

fn rego_list(body: &str) -> String {
    let item = |document: &str| {
        let lines: String = document.lines().map(|line| format!("  {line}\n")).collect();
        format!("-{}", lines.get(1..).unwrap_or_default())
    };
    let policy: String = policy(body).split("---\n").map(item).collect();
    list(&format!("{policy}- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: cm}}}}\n"), "")
}

const LOOP: &str = "some a, b, c, d, e\nnumbers.range(1, 1000)[a]\nnumbers.range(1, 1000)[b]\n\
                    numbers.range(1, 1000)[c]\nnumbers.range(1, 1000)[d]\na + b + c + d < 0";

#[test]
fn an_endless_starlark_program_is_stopped_at_the_timeout() {
    assert_refused(&starlark("while True: pass"), "ran for longer than 3s and was stopped");
}

#[test]
fn an_endless_rego_program_is_stopped_at_the_timeout() {
    assert_refused(&rego(LOOP), "ran for longer than 3s and was stopped");
}

#[test]
fn rego_that_takes_too_long_over_one_resource_is_told_so_before_the_guard_steps_in() {
    let said = guarded("gatekeeper", rego_list(LOOP), 1 << 30);
    assert!(said.contains("Rego: execution exceeded time limit"), "{said}");
}

#[test]
fn a_starlark_program_that_calls_itself_for_ever_is_refused() {
    let ran = starlark("def f(n): return f(n + 1)\nf(0)");
    assert_refused(&ran, "Starlark program called itself too deeply");
}

#[test]
fn a_rego_function_that_calls_itself_is_refused() {
    let ran = rego("f(1)\n}\nf(x) {\n  f(x)");
    assert_refused(&ran, "rego_recursion_error: function f is recursive");
}

#[test]
fn a_starlark_program_nested_beyond_the_stack_is_refused() {
    let nested = format!("x = {}1{}", "[".repeat(200_000), "]".repeat(200_000));
    let said = guarded("starlark", starlark_list(&nested), 2 << 30);
    assert!(said.contains("an expression is nested more than 4000 deep"), "{said:.300}");
}

#[test]
fn a_rego_program_that_the_parser_would_never_finish_is_refused() {
    let nested = format!("x = {}1{}", "[".repeat(1_000), "]".repeat(1_000));
    assert_refused(&rego(&nested), "brackets are nested more than 100 deep");
}

#[test]
fn a_starlark_program_that_asks_for_much_at_once_is_refused() {
    let ran = starlark("x = 'a' * 2000000000");
    assert_refused(&ran, "needed more than 512 MiB of memory and was stopped; --memory allows more");
}

#[test]
fn a_starlark_program_that_grows_is_stopped_at_the_limit() {
    let said = guarded("starlark", starlark_list("x = ['a']\nwhile True: x = x + x"), 1 << 30);
    assert!(said.contains("Starlark program needs more memory than it may have"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn a_rego_program_that_grows_is_stopped_at_the_limit() {
    let said = guarded("gatekeeper", rego_list("count(numbers.range(1, 10000000000)) > 0"), 512 << 20);
    assert!(said.contains("needed more than 512 MiB of memory and was stopped"), "{said}");
}
