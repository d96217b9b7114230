//! A render that is killed leaves each file either old or new.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

mod support;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{CM, Package, kptfile};

const FILES: usize = 20;

/// Long contents, so that a write takes its time.
fn content(colour: &str) -> String {
    let filler: String =
        (0..300).map(|line| format!("  line-{line}: some text to make the file longer\n")).collect();
    format!("{}{filler}", CM.replace("blue", colour))
}

#[test]
fn each_file_is_old_or_new_whenever_the_render_is_killed() {
    let old = content("blue");
    let new = content("green");
    let package = Package::new(&[("Kptfile", &kptfile(&["sed s/[b]lue/green/"], &[]))]);
    let reset = || {
        for file in 0..FILES {
            package.write(&format!("f{file}.yaml"), &old.replace("name: cm", &format!("name: cm{file}")));
        }
    };
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loggia"));
        command.args(["fn", "render", "--allow-exec"]).current_dir(&package.path);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    reset();
    let begin = Instant::now();
    assert!(start().wait().unwrap().success());
    let whole = begin.elapsed();

    let rounds: u32 = 30;
    let (mut untouched, mut mixed, mut done) = (0, 0, 0);
    for round in 0..rounds {
        reset();
        let mut child = start();
        // Most of the moments lie where files are written: near the end.
        let part = whole * (rounds + round * 2) / (rounds * 3);
        std::thread::sleep(part.max(Duration::from_millis(1)));
        // SIGKILL; the process may be done already.
        let _ = child.kill();
        child.wait().unwrap();
        let mut renewed = 0;
        for file in 0..FILES {
            let text = package.read(&format!("f{file}.yaml"));
            let name = format!("name: cm{file}");
            let is_new = text == new.replace("name: cm", &name);
            assert!(is_new || text == old.replace("name: cm", &name), "f{file}.yaml is neither old nor new");
            renewed += usize::from(is_new);
        }
        match renewed {
            0 => untouched += 1,
            FILES => done += 1,
            _ => mixed += 1,
        }
        assert!(package.read("Kptfile").starts_with("apiVersion: kpt.dev/v1\n"));
    }
    println!(
        "killed {rounds} times in {whole:?}: {untouched} before, {mixed} amid, {done} after the writing"
    );
}
