//! Commands that are stopped: by a signal, by `--timeout`, by `--memory`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::{CM, Package};

/// A package whose one function computes for minutes: in this process, or in a worker.
fn endless(image: &str) -> Package {
    let kptfile = |step: &str| {
        format!(
            "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\npipeline:\n  mutators:\n    - image: {image}\n      \
             {step}\n"
        )
    };
    if image == "starlark" {
        let step = kptfile("configMap: {source: 'while True: pass'}");
        return Package::new(&[("Kptfile", &step), ("cm.yaml", CM)]);
    }
    // Every replacement looks at every resource.
    let resources: String =
        (0..15_000).map(|at| format!("---\n{}", CM.replace("name: cm", &format!("name: cm{at}")))).collect();
    let replacement = "- source: {kind: ConfigMap, name: cm0, fieldPath: data.colour}\n  \
                       targets: [{select: {name: 'cm.*x'}, fieldPaths: [data.colour]}]\n";
    let config = format!(
        "apiVersion: fn.kpt.dev/v1alpha1\nkind: ApplyReplacements\nmetadata:\n  name: c\nreplacements:\n{}",
        replacement.repeat(15_000)
    );
    let step = kptfile("configPath: fn.yaml");
    Package::new(&[("Kptfile", &step), ("cm.yaml", &resources), ("fn.yaml", &config)])
}

fn start(package: &Package, flags: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loggia"));
    command.args(["fn", "render"]).args(flags).current_dir(&package.path);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until the function runs.
fn running(child: &mut Child) -> BufReader<ChildStderr> {
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("[RUNNING]") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "it ended");
    }
    said
}

#[test]
fn a_signal_ends_a_render_at_once_whatever_runs() {
    for image in ["apply-replacements", "starlark"] {
        for (signal, code, text) in [
            (Signal::INT, 130, "error: interrupted; nothing was written\n"),
            (Signal::TERM, 143, "error: told to stop; nothing was written\n"),
        ] {
            let package = endless(image);
            let before = package.read("cm.yaml");
            let mut child = start(&package, &[]);
            let mut said = running(&mut child);
            let begin = Instant::now();
            kill_process(Pid::from_child(&child), signal).unwrap();
            let mut stderr = String::new();
            said.read_to_string(&mut stderr).unwrap();
            let status = child.wait().unwrap();
            assert!(begin.elapsed() < Duration::from_secs(2), "{image}: {:?}", begin.elapsed());
            assert_eq!(status.code(), Some(code), "{image}: {stderr}");
            assert!(stderr.ends_with(text), "{image}: {stderr}");
            assert_eq!(package.read("cm.yaml"), before);
        }
    }
}

#[test]
fn a_function_in_this_process_is_stopped_at_the_timeout() {
    let package = endless("apply-replacements");
    let begin = Instant::now();
    let ran = package.render(&["--timeout", "1s"]);
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("ran for longer than 1s and was stopped; --timeout allows more"), "{ran:?}");
}

#[test]
fn a_package_that_needs_more_memory_than_allowed_says_so() {
    let kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\npipeline:\n  mutators:\n    - image: no-op\n";
    let package = Package::new(&[("Kptfile", kptfile)]);
    let value = "v".repeat(3 << 20);
    for file in 0..24 {
        package.write(
            &format!("f{file}.yaml"),
            &CM.replace("name: cm", &format!("name: cm{file}")).replace("blue", &value),
        );
    }
    let ran = package.render(&["--memory", "64"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let expected =
        "error: more than 64 MiB of memory were needed, and the command was stopped; --memory allows more\n";
    assert!(ran.stderr.ends_with(expected) && !ran.stderr.contains("allocation"), "{ran:?}");
    let ran = package.render(&["--memory", "1"]);
    assert!(ran.stderr.contains("--memory: must be at least 64"), "{ran:?}");
}
