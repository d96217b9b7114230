//! Every built-in function that has an original, on a list of 1,000 resources, side by side with it as a process.
//!
//! The table below says which version is held against which original, on what and with which config. Ours is measured
//! twice: on the parsed list, which is what a call costs within a render, and from bytes to bytes, which is what it
//! costs a caller with text. The ratio that counts is that of the call; an original cannot be had without its reading
//! and writing. A function that runs its user's program has no call in this process: there the guarded child counts.

#![allow(clippy::disallowed_methods, reason = "it starts what it measures, and waits for it")]

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use std::{env, thread};

use loggia_bench::{Group, Wanted};
use loggia_function::{Budget, Call, Image, Runtime as _};
use loggia_functions::{CATALOG, find};
use loggia_krm::{ResourceList, StreamOptions};
use loggia_runtimes::Builtin;
use loggia_runtimes::workers::{self, Settings, Workers};

type Outcome<T> = Result<T, Box<dyn Error>>;

const RESOURCES: usize = 1000;
const TURNS: usize = 5;
const TARGET: f64 = 10.0;

/// What is measured.
struct Row {
    function: &'static str,
    /// Ours.
    tag: &'static str,
    original: &'static str,
    items: Items,
    config: &'static str,
}

/// What the list is of.
#[derive(Clone, Copy)]
enum Items {
    Deployments,
    /// Policies of Gatekeeper.
    Constraints,
    /// Deployments, and a policy that is about all of them.
    Reviewed,
}

const fn row(function: &'static str, tag: &'static str, original: &'static str, config: &'static str) -> Row {
    Row { function, tag, original, items: Items::Deployments, config }
}

const ROWS: &[Row] = &[
    row(
        "apply-replacements",
        "v0.1.1",
        "v0.1.1",
        "{apiVersion: fn.kpt.dev/v1alpha1, kind: ApplyReplacements, metadata: {name: c}, replacements: [{source: {kind: \
         Deployment, name: web-0}, targets: [{select: {kind: Deployment}, fieldPaths: [spec.template.metadata.labels.app]}]}]}",
    ),
    row(
        "apply-setters",
        "v0.2.0",
        "v0.2.0",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {tag: '2'}}",
    ),
    row("drop-comments", "latest", "kyaml-v0.21.1", "{}"),
    row("format", "latest", "kyaml-v0.19.0", "{}"),
    Row { items: Items::Reviewed, ..row("gatekeeper", "latest", "gator-v3.23.1", "{}") },
    row("kubeconform", "latest", "v0.7.0", "{}"),
    row("list-setters", "v0.1.0", "v0.1.0", "{}"),
    row("no-op", "latest", "sdk-v1.0.3", "{}"),
    row(
        "set-annotations",
        "latest",
        "api-v0.11.0",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {owner: a}}",
    ),
    Row {
        items: Items::Constraints,
        ..row(
            "set-enforcement-action",
            "latest",
            "kyaml-v0.12.0",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {enforcementAction: deny}}",
        )
    },
    row(
        "set-image",
        "latest",
        "api-v0.21.1",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {name: nginx, newTag: '2'}}",
    ),
    row(
        "set-labels",
        "latest",
        "sdk-v1.0.3",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {tier: be}}",
    ),
    row(
        "set-labels",
        "v0.1.5",
        "api-v0.8.11",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {tier: be}}",
    ),
    row(
        "set-namespace",
        "v0.4.1",
        "v0.4.1",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {namespace: staging}}",
    ),
    row(
        "set-namespace",
        "v0.2.0",
        "api-v0.8.11",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {namespace: staging}}",
    ),
    row(
        "starlark",
        "latest",
        "sdk-v1.0.3",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {source: \"for r in \
         ctx.resource_list['items']: r['metadata']['namespace'] = 'staging'\"}}",
    ),
];

fn main() -> ExitCode {
    if let Some(code) = workers::enter() {
        return code;
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "functions-path: {error}");
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]
fn measure() -> Outcome<()> {
    let mut group = Group::new("functions-path", "Functions on 1,000 resources");
    println!("{:<30} {:>9} {:>9} {:>10} {:>8} {:>8}", "function", "call", "text", "original", "call", "text");
    for row in ROWS {
        let image = format!("{}:{}", row.function, row.tag);
        let input = row.input();
        let (call, text) = ours(&image, &input).map_err(|error| format!("{image}: {error}"))?;
        let times = format!("{image:<30} {:>7.2}ms {:>7.2}ms", call * 1e3, text * 1e3);
        let program = cache().join("oracle/functions").join(format!("{}-{}", row.function, row.original));
        if !program.is_file() {
            println!("{times} left out: {} is not built", row.original);
            continue;
        }
        let theirs = theirs(&program, &input)?;
        let ratio = theirs / call;
        println!("{times} {:>8.1}ms {ratio:>7.1}x {:>7.1}x", theirs * 1e3, theirs / text);
        let values = [("Loggia", call * 1e3), ("original", theirs * 1e3)];
        group.add(&image, "ms", &values, ratio, Wanted::AtLeast(TARGET));
    }
    let is_measured = |name: &str| ROWS.iter().any(|row| row.function == name);
    let alone: Vec<&str> =
        CATALOG.iter().map(|function| function.name).filter(|name| !is_measured(name)).collect();
    println!("without an original: {}", alone.join(", "));
    Ok(group.finish()?)
}

// === impl Row ===

impl Row {
    fn input(&self) -> String {
        let mut list = String::from("apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n");
        for at in 0..RESOURCES {
            list += &match self.items {
                Items::Deployments | Items::Reviewed => deployment(at),
                Items::Constraints => constraint(at),
            };
        }
        if matches!(self.items, Items::Reviewed) {
            list += POLICY;
        }
        list + "functionConfig: " + self.config + "\n"
    }
}

fn metadata(name: &str) -> String {
    format!(
        "  metadata:\n    name: {name} # the name\n    labels:\n      app: web\n    annotations:\n      \
         internal.config.kubernetes.io/path: '{name}.yaml'\n      internal.config.kubernetes.io/index: '0'\n      \
         config.kubernetes.io/path: '{name}.yaml'\n      config.kubernetes.io/index: '0'\n"
    )
}

fn deployment(at: usize) -> String {
    let metadata = metadata(&format!("web-{at}"));
    format!(
        "- apiVersion: apps/v1\n  kind: Deployment\n{metadata}  spec:\n    replicas: 3\n    selector:\n      matchLabels:\n        \
         app: web\n    template:\n      metadata:\n        labels:\n          app: web\n      spec:\n        containers:\n        \
         - name: web\n          image: nginx:1.0 # kpt-set: nginx:${{tag}}\n          env:\n          - name: A\n            \
         valueFrom:\n              configMapKeyRef:\n                name: cfg\n                key: a\n"
    )
}

fn constraint(at: usize) -> String {
    let metadata = metadata(&format!("policy-{at}"));
    format!(
        "- apiVersion: constraints.gatekeeper.sh/v1beta1\n  kind: K8sNoRoot\n{metadata}  spec:\n    match:\n      kinds:\n      \
         - apiGroups: ['']\n        kinds: [Pod]\n"
    )
}

const POLICY: &str = "- apiVersion: templates.gatekeeper.sh/v1beta1
  kind: ConstraintTemplate
  metadata:
    name: k8snolatest
  spec:
    crd: {spec: {names: {kind: K8sNoLatest}}}
    targets:
    - target: admission.k8s.gatekeeper.sh
      rego: |
        package nolatest
        violation[{\"msg\": msg}] {
          container := input.review.object.spec.template.spec.containers[_]
          endswith(container.image, \":latest\")
          msg := sprintf(\"%v is not pinned\", [container.image])
        }
- apiVersion: constraints.gatekeeper.sh/v1beta1
  kind: K8sNoLatest
  metadata:
    name: pinned
  spec:
    match: {kinds: [{apiGroups: [apps], kinds: [Deployment]}]}
";

// === measuring ===

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or_default()
}

/// Seconds of a call, and from text to text; the same where a child makes the call.
fn ours(image: &str, input: &str) -> Outcome<(f64, f64)> {
    let (function, version) = find(image).ok_or("is not in the catalog")?;
    if function.guarded {
        let child = guarded(image, input)?;
        return Ok((child, child));
    }
    let parsed = ResourceList::parse(input.as_bytes(), StreamOptions::default())?;
    let (mut calls, mut texts) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let mut list = parsed.clone();
        let start = Instant::now();
        version.run(&mut list).map_err(|failure| failure.stderr)?;
        calls.push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        let output = version.filter(input.as_bytes());
        texts.push(start.elapsed().as_secs_f64());
        if output.exit_code != 0 {
            return Err(output.stderr.into());
        }
    }
    Ok((median(calls), median(texts)))
}

fn guarded(image: &str, input: &str) -> Outcome<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let builtin = Builtin::new(Workers::new(Settings::one_by_one()));
    let turn = || {
        let call = Call::of_image(Image::new(image), input.to_owned().into(), Budget::UNBOUNDED);
        let start = Instant::now();
        let outcome = runtime.block_on(builtin.run(&call)).map_err(|error| error.describe(image))?;
        if outcome.exit.success() {
            Ok(start.elapsed().as_secs_f64())
        } else {
            Err(outcome.stderr.text().into())
        }
    };
    (0..TURNS).map(|_| turn()).collect::<Outcome<Vec<_>>>().map(median)
}

fn theirs(program: &Path, input: &str) -> Outcome<f64> {
    let turn = || {
        let start = Instant::now();
        let mut child = Command::new(program)
            .env("KUBERNETES_OPENAPI", cache().join("oracle/kubernetes-openapi.json"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stdin = child.stdin.take().ok_or("is piped")?;
        let output = thread::scope(|scope| {
            // Dropping the pipe at the end tells the program that there is no more.
            scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
            child.wait_with_output()
        })?;
        let seconds = start.elapsed().as_secs_f64();
        if output.status.success() {
            return Ok(seconds);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{} failed: {}", program.display(), said.trim()).into())
    };
    (0..TURNS).map(|_| turn()).collect::<Outcome<Vec<_>>>().map(median)
}

fn cache() -> PathBuf {
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache");
    let shared = || env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("loggia-e2e");
    env::var_os("LOGGIA_CACHE").map_or_else(shared, PathBuf::from)
}
