//! Reading and writing YAML, side by side with kyaml.
//!
//! Manifests are made up, and then this program, called again as a worker, and the Go peer in
//! `bench/peers/kyaml` take turns: at reading a stream into a tree and writing it out, and at reading a
//! package of many files and writing it back unchanged. Each runs in a process of its own, so that peak
//! memory is its own too.

#![allow(clippy::disallowed_methods, reason = "it starts what it measures, and waits for it")]

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{env, fs};

use loggia_bench::{Group, Wanted};
use loggia_krm::Package;
use loggia_krm::package::{ReadOptions, WriteOptions};

const TURNS: usize = 3;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// What one process measured.
#[derive(Clone, Copy)]
struct Figures {
    /// The median time of one pass.
    seconds: f64,
    peak_bytes: f64,
}

#[allow(clippy::print_stdout)]
fn main() -> Outcome {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if let [mode, dash, passes, path] = arguments.as_slice()
        && dash == "-n"
    {
        return worker(mode, Path::new(path), passes.parse()?);
    }
    let folder = tempfile::tempdir()?;
    let peer = peer();
    if peer.is_none() {
        println!("left out: the Go peer is not built (make bench builds it where Go is installed)");
    }
    println!("YAML: read and write what people keep, {TURNS} turns each");
    println!(
        "what                    ours s     kyaml s    speed    ours peak   kyaml peak   memory   wanted"
    );
    let mut group = Group::new("yaml-path", "Reading and writing YAML");
    let mut per_byte = Vec::new();
    for (megabytes, passes) in [(5, 5), (50, 1)] {
        let file = folder.path().join(format!("{megabytes}.yaml"));
        let text = manifests(megabytes << 20);
        fs::write(&file, &text)?;
        let ours = compare(
            &format!("a stream of {megabytes} MiB"),
            "nodes",
            passes,
            &file,
            peer.as_deref(),
            &mut group,
        )?;
        per_byte.push(ours.seconds / text.len() as f64);
    }
    println!("time for each byte, 50 MiB over 5 MiB: {:.2} (1 is linear)", per_byte[1] / per_byte[0]);
    let package = folder.path().join("package");
    write_package(&package)?;
    compare("1,000 files, unchanged", "package", 5, &package, peer.as_deref(), &mut group)?;
    Ok(group.finish()?)
}

/// Lets both take turns at something, and tells of it.
#[allow(clippy::print_stdout)]
fn compare(
    what: &str,
    mode: &str,
    passes: usize,
    path: &Path,
    peer: Option<&Path>,
    group: &mut Group,
) -> Outcome<Figures> {
    let here = env::current_exe()?;
    let turn = |program: &Path| run(Command::new(program).args([mode, "-n", &passes.to_string()]).arg(path));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        ours.push(turn(&here)?);
        if let Some(peer) = peer {
            theirs.push(turn(peer)?);
        }
    }
    let ours = median(ours);
    let megabyte = f64::from(1 << 20);
    if theirs.is_empty() {
        println!("{what:<22} {:>7.3} {:>32.0} MiB", ours.seconds, ours.peak_bytes / megabyte);
        return Ok(ours);
    }
    let theirs = median(theirs);
    let (faster, memory) = (theirs.seconds / ours.seconds, ours.peak_bytes / theirs.peak_bytes);
    println!(
        "{what:<22} {:>7.3} {:>11.3} {faster:>7.1}x {:>8.0} MiB {:>8.0} MiB {memory:>8.2}   4x, 0.5",
        ours.seconds,
        theirs.seconds,
        ours.peak_bytes / megabyte,
        theirs.peak_bytes / megabyte,
    );
    let values = [("Loggia", ours.seconds), ("kyaml", theirs.seconds)];
    group.add(what, "s", &values, faster, Wanted::AtLeast(4.0));
    let values = [("Loggia", ours.peak_bytes / megabyte), ("kyaml", theirs.peak_bytes / megabyte)];
    group.add(&format!("{what}, peak memory"), "MiB", &values, memory, Wanted::AtMost(0.5));
    Ok(ours)
}

/// A package in the form that both leave it in, so that nothing in it needs to change.
fn write_package(folder: &Path) -> Outcome {
    fs::create_dir(folder)?;
    fs::write(folder.join("Kptfile"), "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: bench\n")?;
    for number in 0..1000 {
        let mut text = String::new();
        let _ = manifest(&mut text, number);
        fs::write(folder.join(format!("app-{number}.yaml")), text)?;
    }
    // Both write the same form; the first time settles it.
    package_pass(folder)
}

fn package_pass(folder: &Path) -> Outcome {
    let options = ReadOptions { subpackages: true, json: false, ..ReadOptions::default() };
    Package::from_folder(folder, &options)?.write(&WriteOptions::default())?;
    Ok(())
}

fn stream_pass(text: &str) -> Outcome {
    let documents = loggia_yaml::parse_all(text)?;
    let written = loggia_yaml::to_string(&documents);
    if written.len() < text.len() / 2 { Err("something was lost".into()) } else { Ok(()) }
}

/// Does the work, and prints what a peer prints.
#[allow(clippy::print_stdout)]
fn worker(mode: &str, path: &Path, passes: usize) -> Outcome {
    let text = if mode == "nodes" { fs::read_to_string(path)? } else { String::new() };
    let mut seconds = Vec::new();
    for _ in 0..passes {
        let begin = Instant::now();
        match mode {
            "nodes" => stream_pass(&text)?,
            _ => package_pass(path)?,
        }
        seconds.push(begin.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let kibibytes: u64 = peak.split_whitespace().next().ok_or("no figure")?.parse()?;
    println!("{{\"median_seconds\":{},\"peak_rss_bytes\":{}}}", seconds[passes / 2], kibibytes * 1024);
    Ok(())
}

fn run(command: &mut Command) -> Outcome<Figures> {
    let output = command.output()?;
    let text = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let figure = |key: &str| -> Outcome<f64> {
        let (_, rest) =
            text.split_once(&format!("\"{key}\":")).ok_or_else(|| format!("no {key} in {text}"))?;
        Ok(rest.split([',', '}']).next().unwrap_or(rest).trim().parse()?)
    };
    Ok(Figures { seconds: figure("median_seconds")?, peak_bytes: figure("peak_rss_bytes")? })
}

fn median(mut figures: Vec<Figures>) -> Figures {
    figures.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    figures[figures.len() / 2]
}

/// The Go program, where it was built.
fn peer() -> Option<PathBuf> {
    let cache = env::var_os("LOGGIA_CACHE").map(PathBuf::from).or_else(|| {
        let home = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        Some(home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?.join("loggia-e2e"))
    })?;
    Some(cache.join("peers/kyaml-bench")).filter(|path| path.is_file())
}

/// Deployments, Services and ConfigMaps as people write them, with comments, about so many bytes in all.
fn manifests(size: usize) -> String {
    let mut text = String::with_capacity(size + 8192);
    let mut number = 0;
    while text.len() < size {
        if number > 0 {
            text.push_str("---\n");
        }
        // Writing to a `String` cannot fail.
        let _ = manifest(&mut text, number);
        number += 1;
    }
    text
}

fn manifest(text: &mut String, number: usize) -> std::fmt::Result {
    write!(
        text,
        "# Application {number}, kept by team-{team}.\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: app-{number}\n  \
         namespace: team-{team} # one each\n  labels: {{app: app-{number}, tier: \"backend\"}}\n  annotations:\n    \
         example.com/owner: 'team-{team}'\n    example.com/description: |\n      Serves requests of customers.\n\n      \
         Restart it with care.\nspec:\n  replicas: {replicas} # kpt-set: ${{replicas}}\n  selector:\n    matchLabels:\n      \
         app: app-{number}\n  template:\n    metadata:\n      labels:\n        app: app-{number}\n    spec:\n      containers:\n",
        team = number % 17,
        replicas = number % 5 + 1,
    )?;
    for container in 0..3 {
        write!(
            text,
            "      # container {container}\n      - name: part-{container}\n        image: registry.example.com/team/app:v1.{number}\n        \
             args: [\"--listen=:8080\", --verbose, \"{number}\"]\n        ports:\n        - containerPort: {port}\n          protocol: TCP\n        \
             env:\n",
            port = 8000 + container,
        )?;
        for variable in 0..8 {
            write!(
                text,
                "        - name: SETTING_{variable}\n          value: \"a value of {number} and {variable}: with # in it\"\n"
            )?;
        }
        text.push_str(
            "        resources:\n          requests: {cpu: 100m, memory: 128Mi}\n          limits:\n            memory: 256Mi\n        \
             readinessProbe:\n          httpGet:\n            path: /healthz\n            port: 8080\n          periodSeconds: 5\n",
        );
    }
    write!(
        text,
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings-{number}\n  namespace: team-{}\ndata:\n",
        number % 17
    )?;
    for key in 0..20 {
        writeln!(text, "  key-{key}: value {key} of {number}, neither short nor very long")?;
    }
    text.push_str(
        "  script.sh: |-\n    #!/bin/sh\n    set -e\n    for i in 1 2 3; do\n      echo \"$i\"\n    done\n",
    );
    Ok(())
}
