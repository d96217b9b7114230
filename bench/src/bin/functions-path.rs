//! Every built-in function on a list of 1,000 resources, side by side with its original as a process.
//!
//! The table below says how to configure a function and which original it has; a function without an
//! original on this machine is measured alone. Ours is measured twice: on the parsed list, which is what a call
//! costs within a render, and from bytes to bytes, which is what it costs a caller with text. The ratio that
//! counts is that of the call; an original cannot be had without its reading and writing.

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;
use std::{env, thread};

use loggia_functions::{CATALOG, find};
use loggia_krm::{ResourceList, StreamOptions};

const RESOURCES: usize = 1000;
const TURNS: usize = 5;
const TARGET: f64 = 10.0;

/// Function, original, config.
const CONFIGS: &[(&str, &str, &str)] = &[
    ("no-op", "sdk-v1.0.3", "{}"),
    (
        "set-annotations",
        "api-v0.11.0",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {owner: a}}",
    ),
    (
        "set-enforcement-action",
        "kyaml-v0.12.0",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {enforcementAction: deny}}",
    ),
    (
        "set-image",
        "api-v0.21.1",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {name: nginx, newTag: '2'}}",
    ),
    ("set-labels", "sdk-v1.0.3", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {tier: be}}"),
    (
        "set-namespace",
        "v0.4.1",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {namespace: staging}}",
    ),
];

#[allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut missed = Vec::new();
    println!("{:<24} {:>9} {:>9} {:>10} {:>8} {:>8}", "function", "call", "text", "original", "call", "text");
    for function in CATALOG {
        let Some((_, original, config)) = CONFIGS.iter().find(|(name, ..)| *name == function.name) else {
            println!("{:<24} no config in the table", function.name);
            continue;
        };
        let input = list(config);
        let (call, text) = ours(function.name, &input)?;
        let times = format!("{:<24} {:>7.2}ms {:>7.2}ms", function.name, call * 1e3, text * 1e3);
        let program = cache().join("oracle/functions").join(format!("{}-{original}", function.name));
        if !program.is_file() {
            println!("{times} left out: {original} is not built");
            continue;
        }
        let theirs = theirs(&program, &input)?;
        println!("{times} {:>8.1}ms {:>7.1}x {:>7.1}x", theirs * 1e3, theirs / call, theirs / text);
        if theirs / call < TARGET {
            missed.push(function.name);
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("below {TARGET}x: {}", missed.join(", ")).into()) }
}

fn list(config: &str) -> String {
    let mut list = String::from("apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n");
    for at in 0..RESOURCES {
        list += &format!(
            "- apiVersion: apps/v1\n  kind: Deployment\n  metadata:\n    name: web-{at} # the name\n    labels:\n      \
             app: web\n    annotations:\n      internal.config.kubernetes.io/path: 'f{at}.yaml'\n      \
             internal.config.kubernetes.io/index: '0'\n      config.kubernetes.io/path: 'f{at}.yaml'\n      \
             config.kubernetes.io/index: '0'\n  spec:\n    replicas: 3\n    selector:\n      matchLabels:\n        \
             app: web\n    template:\n      metadata:\n        labels:\n          app: web\n      spec:\n        \
             containers:\n        - name: web\n          image: nginx:1.0\n          env:\n          - name: A\n            \
             valueFrom:\n              configMapKeyRef:\n                name: cfg\n                key: a\n"
        );
    }
    list + "functionConfig: " + config + "\n"
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or_default()
}

/// Seconds on the parsed list, and from text to text.
fn ours(name: &str, input: &str) -> Result<(f64, f64), Box<dyn Error>> {
    let (_, version) = find(name).ok_or("is in the catalog")?;
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

fn theirs(program: &PathBuf, input: &str) -> Result<f64, Box<dyn Error>> {
    let turn = || {
        let start = Instant::now();
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut stdin = child.stdin.take().ok_or("is piped")?;
        let output = thread::scope(|scope| {
            // Dropping the pipe at the end tells the program that there is no more.
            scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
            child.wait_with_output()
        })?;
        let seconds = start.elapsed().as_secs_f64();
        if output.status.success() {
            Ok(seconds)
        } else {
            Err(format!("{} failed", program.display()).into())
        }
    };
    (0..TURNS).map(|_| turn()).collect::<Result<Vec<_>, Box<dyn Error>>>().map(median)
}

fn cache() -> PathBuf {
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache");
    let shared = || env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("loggia-e2e");
    env::var_os("LOGGIA_CACHE").map_or_else(shared, PathBuf::from)
}
