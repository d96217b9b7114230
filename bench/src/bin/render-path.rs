//! Rendering packages: time and peak memory, flat cost, and side by side with kpt where there is one.
//!
//! Packages are made up. `loggia fn render` runs on a fresh copy each turn, as a program of its own. With `KPT=`, or
//! the peer that `make peers` builds, kpt renders the same package with the original functions as programs.

#![allow(clippy::disallowed_methods, reason = "it starts what it measures, and waits for it")]

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use std::{env, fs};

use loggia_bench::{Group, Wanted};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const TURNS: usize = 5;

/// What one run cost.
#[derive(Clone, Copy, Debug)]
struct Cost {
    seconds: f64,
    peak_mib: f64,
}

#[allow(clippy::print_stdout)]
fn main() -> Outcome {
    let loggia = program("LOGGIA", env::current_exe()?.with_file_name("loggia"))
        .ok_or("target/release/loggia is not built")?;
    let folder = tempfile::tempdir()?;
    let validator = if has(&loggia, "kubeconform") { "kubeconform" } else { "no-op" };
    let builtin = Pipeline::images(&["set-namespace", "set-labels"], validator);
    let mut group = Group::new("render-path", "Rendering packages");

    println!("rendering with set-namespace, set-labels and {validator}, built in; median of {TURNS}");
    println!("what                                     seconds   peak MiB");
    let mut per_resource = Vec::new();
    for (resources, files) in [(100, 5), (1_000, 50), (10_000, 500)] {
        let package = folder.path().join(format!("flat-{resources}"));
        write_package(&package, resources, files, &builtin)?;
        let cost = median(&loggia, &package, &[])?;
        println!(
            "{resources:6} resources in {files:3} files             {:8.3}   {:8.1}",
            cost.seconds, cost.peak_mib
        );
        per_resource.push(cost.seconds / f64::from(resources));
    }
    let growth = per_resource[2] / per_resource[1];
    println!("cost of a resource, 10,000 over 1,000: {growth:.2} (wanted: at most 1.3)");
    let values = [("among 10,000", 1e3 * per_resource[2]), ("among 1,000", 1e3 * per_resource[1])];
    group.add("cost of a resource", "ms", &values, growth, Wanted::AtMost(1.3));

    let nested = folder.path().join("nested");
    write_package(&nested, 50, 5, &builtin)?;
    for subpackage in 0..20 {
        write_package(&nested.join(format!("sub-{subpackage:02}")), 50, 5, &builtin)?;
    }
    let cost = median(&loggia, &nested, &[])?;
    println!("20 subpackages, 1,050 resources          {:8.3}   {:8.1}", cost.seconds, cost.peak_mib);

    beside_kpt(&loggia, folder.path(), &mut group)?;
    Ok(group.finish()?)
}

/// Renders the same package with kpt and the original functions.
#[allow(clippy::print_stdout)]
fn beside_kpt(loggia: &Path, folder: &Path, group: &mut Group) -> Outcome {
    let cache = env::var_os("LOGGIA_CACHE").map_or_else(|| PathBuf::from("/nonexistent"), PathBuf::from);
    let originals = cache.join("oracle/functions");
    let Some(kpt) = program("KPT", cache.join("peers/kpt")) else {
        println!("left out: no kpt (KPT=, or make peers where Go is installed)");
        return Ok(());
    };
    let names = ["set-namespace-v0.4.1", "set-labels-sdk-v1.0.3", "no-op-sdk-v1.0.3"];
    let programs: Vec<String> = names.iter().map(|name| originals.join(name).display().to_string()).collect();
    if let Some(missing) = programs.iter().find(|program| !Path::new(program).exists()) {
        println!("left out: {missing} is not built");
        return Ok(());
    }
    let (ours, theirs) = (folder.join("ours"), folder.join("theirs"));
    write_package(&ours, 1_000, 50, &Pipeline::images(&["set-namespace", "set-labels"], "no-op"))?;
    write_package(&theirs, 1_000, 50, &Pipeline::programs(&programs[..2], &programs[2]))?;
    let (mut own, mut other) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        own.push(turn(loggia, &ours, &[])?);
        other.push(turn(&kpt, &theirs, &["--allow-exec"])?);
    }
    let (own, other) = (middle(own), middle(other));
    let (speed, memory) = (other.seconds / own.seconds, other.peak_mib / own.peak_mib);
    println!("1,000 resources in 50 files, set-namespace, set-labels, no-op:");
    println!("  loggia, built in                       {:8.3}   {:8.1}", own.seconds, own.peak_mib);
    println!("  kpt, the originals as programs         {:8.3}   {:8.1}", other.seconds, other.peak_mib);
    println!("  {speed:.1} times as fast (wanted: 20), {memory:.1} times less memory (wanted: 4)");
    let same = same_files(&last(&ours), &last(&theirs))?;
    println!(
        "  the rendered resources are {}",
        if same { "the same, byte for byte" } else { "NOT the same" }
    );
    let what = "1,000 resources, three functions";
    let values = [("Loggia", own.seconds), ("kpt", other.seconds)];
    group.add(what, "s", &values, speed, Wanted::AtLeast(20.0));
    let values = [("Loggia", own.peak_mib), ("kpt", other.peak_mib)];
    group.add(&format!("{what}, peak memory"), "MiB", &values, memory, Wanted::AtLeast(4.0));
    if same { Ok(()) } else { Err("kpt and Loggia rendered different files".into()) }
}

// === packages ===

/// The functions of a made-up package.
struct Pipeline {
    text: String,
}

impl Pipeline {
    fn images(mutators: &[&str], validator: &str) -> Self {
        let steps: Vec<String> = mutators.iter().map(|name| format!("image: {name}:latest")).collect();
        Self::new(&steps, &format!("image: {validator}:latest"))
    }

    fn programs(mutators: &[String], validator: &str) -> Self {
        let steps: Vec<String> = mutators.iter().map(|path| format!("exec: {path}")).collect();
        Self::new(&steps, &format!("exec: {validator}"))
    }

    fn new(mutators: &[String], validator: &str) -> Self {
        let configs = ["namespace: staging", "tier: backend"];
        let mut text = "pipeline:\n  mutators:\n".to_owned();
        for (step, config) in mutators.iter().zip(configs) {
            let _ = write!(text, "    - {step}\n      configMap:\n        {config}\n");
        }
        let _ = write!(text, "  validators:\n    - {validator}\n");
        Self { text }
    }
}

fn write_package(folder: &Path, resources: u32, files: u32, pipeline: &Pipeline) -> Outcome {
    fs::create_dir_all(folder)?;
    let kptfile =
        format!("apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: bench\n{}", pipeline.text);
    fs::write(folder.join("Kptfile"), kptfile)?;
    for file in 0..files {
        let mut text = String::new();
        for at in (file..resources).step_by(files as usize) {
            if !text.is_empty() {
                text.push_str("---\n");
            }
            let _ = write!(text, "{}", resource(at));
        }
        fs::write(folder.join(format!("resources-{file:03}.yaml")), text)?;
    }
    Ok(())
}

fn resource(at: u32) -> String {
    match at % 3 {
        0 => format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web-{at}\n  labels:\n    app: web-{at}\nspec:\n  replicas: 3 # enough\n  selector:\n    matchLabels:\n      app: web-{at}\n  template:\n    metadata:\n      labels:\n        app: web-{at}\n    spec:\n      containers:\n      - name: main\n        image: example.com/web:1.{at}\n        ports:\n        - containerPort: 8080\n        env:\n        - name: LEVEL\n          value: info\n        resources:\n          limits:\n            memory: 128Mi\n"
        ),
        1 => format!(
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: web-{at}\nspec:\n  selector:\n    app: web-{at}\n  ports:\n  - name: http\n    port: 80\n    targetPort: 8080\n"
        ),
        _ => format!(
            "# settings of web-{at}\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings-{at}\ndata:\n  colour: blue\n  text: |\n    one\n    two\n"
        ),
    }
}

// === runs ===

fn median(program: &Path, package: &Path, flags: &[&str]) -> Outcome<Cost> {
    let costs = (0..TURNS).map(|_| turn(program, package, flags)).collect::<Outcome<Vec<Cost>>>()?;
    Ok(middle(costs))
}

fn middle(mut costs: Vec<Cost>) -> Cost {
    costs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    costs[costs.len() / 2]
}

/// Where the copy of the last turn lies.
fn last(package: &Path) -> PathBuf {
    package.with_extension("rendered")
}

/// Renders a fresh copy.
fn turn(program: &Path, package: &Path, flags: &[&str]) -> Outcome<Cost> {
    let copy = last(package);
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    copy_folder(package, &copy)?;
    let mut command = Command::new(program);
    command.args(["fn", "render"]).arg(&copy).args(flags);
    let start = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let (succeeded, peak_mib, said) = wait(child)?;
    let seconds = start.elapsed().as_secs_f64();
    if !succeeded {
        return Err(format!("{} failed: {said}", program.display()).into());
    }
    Ok(Cost { seconds, peak_mib })
}

/// Waits for a child: whether it went well, and the most memory it or a child of its own had.
#[allow(unsafe_code, reason = "the standard library does not tell what a child used")]
fn wait(mut child: std::process::Child) -> Outcome<(bool, f64, String)> {
    use std::io::Read as _;
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut said)?;
    }
    let mut status = 0;
    // SAFETY: a usage of all zeros is a valid value, and the pid is that of a child nobody has waited for.
    let (waited, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(child.id().cast_signed(), &raw mut status, 0, &raw mut usage), usage)
    };
    if waited < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok((status == 0, usage.ru_maxrss as f64 / 1024.0, said))
}

fn program(variable: &str, fallback: PathBuf) -> Option<PathBuf> {
    let given = env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    Some(given.unwrap_or(fallback)).filter(|path| path.exists())
}

fn has(loggia: &Path, function: &str) -> bool {
    let listed = Command::new(loggia).args(["fn", "list"]).output();
    listed.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(function))
}

fn copy_folder(from: &Path, to: &Path) -> Outcome {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Compares all files but the Kptfiles, which name different functions.
fn same_files(ours: &Path, theirs: &Path) -> Outcome<bool> {
    for entry in fs::read_dir(ours)? {
        let name = entry?.file_name();
        if name != "Kptfile" && fs::read(ours.join(&name))? != fs::read(theirs.join(&name))? {
            return Ok(false);
        }
    }
    Ok(true)
}
