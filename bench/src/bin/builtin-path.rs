//! What built-in functions cost in worker processes, beside a runner that runs them in its own process.
//!
//! Both servers get the same calls over gRPC. Rounds alternate, and the ratio is the median of those of neighbours, so that
//! a noisy machine is noisy for both. `OLD_RUNNER` names the other runner, an
//! earlier build, and `RUNNER` this one if it is elsewhere.

#![allow(clippy::disallowed_methods, reason = "it starts what it measures, and waits for it")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use bytes::Bytes;
use loggia_bench::{Group, Wanted};
use loggia_grpc::Client;

const ROUNDS: usize = 11;
const CALLERS: [usize; 3] = [1, 8, 64];
const RESOURCES: [usize; 3] = [1, 10, 100];

/// The least part of the other runner's throughput.
const ALLOWED: f64 = 0.8;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A function and the data of its config.
const FUNCTIONS: [(&str, &str); 3] =
    [("no-op", ""), ("set-labels", "    tier: db\n"), ("set-namespace", "    namespace: staging\n")];

#[allow(clippy::print_stdout)]
fn main() -> Outcome {
    let here = env::current_exe()?;
    let target = here.parent().and_then(Path::parent).ok_or("this program stands in a target folder")?;
    let runner = env::var_os("RUNNER").map_or_else(|| target.join("release/function-runner"), PathBuf::from);
    let Some(peer) = env::var_os("OLD_RUNNER").map(PathBuf::from).filter(|path| path.is_file()) else {
        println!("left out: there is no other runner (OLD_RUNNER=)");
        return Ok(());
    };
    let seconds = env::var("LOGGIA_BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0.3);
    let span = Duration::from_secs_f64(seconds);
    let mut group = Group::new("builtin-path", "Built-in functions in worker processes");
    println!("builtin path: {ROUNDS} rounds of {seconds} s each, this runner and the other in turn");
    println!(
        "{:<16}{:>10}{:>9}{:>12}{:>12}{:>8}   p50/p99, this and other (ms)",
        "function", "resources", "callers", "this/s", "other/s", "ratio"
    );
    let (ours, theirs) = (Service::start(&runner)?, Service::start(&peer)?);
    for (function, data) in FUNCTIONS {
        for resources in RESOURCES {
            let input = list(data, resources);
            for callers in CALLERS {
                let (mut these, mut those) = (Vec::new(), Vec::new());
                for _ in 0..ROUNDS {
                    these.push(ours.round(function, &input, callers, span)?);
                    those.push(theirs.round(function, &input, callers, span)?);
                }
                let ratio = ratio(&these, &those);
                let (this, other) = (median(these), median(those));
                println!(
                    "{function:<16}{resources:>10}{callers:>9}{:>12.0}{:>12.0}{ratio:>8.2}   {:.2}/{:.2} {:.2}/{:.2}",
                    this.rate(),
                    other.rate(),
                    this.percentile(50),
                    this.percentile(99),
                    other.percentile(50),
                    other.percentile(99),
                );
                let what = format!("{function}, {resources} resources, {callers} callers");
                let values = [("in workers", this.rate()), ("in the process", other.rate())];
                group.add(&what, "/s", &values, ratio, Wanted::AtLeast(ALLOWED));
            }
        }
    }
    Ok(group.finish()?)
}

/// A list of Deployments, with a config if the function takes one.
fn list(data: &str, resources: usize) -> Bytes {
    let config = match data {
        "" => String::new(),
        data => format!(
            "functionConfig:\n  apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: config\n  data:\n{data}"
        ),
    };
    let items: String = (0..resources)
        .map(|item| {
            format!(
                "- apiVersion: apps/v1\n  kind: Deployment\n  metadata:\n    name: app-{item}\n  spec:\n    replicas: 3\n    \
                 selector:\n      matchLabels:\n        app: app-{item}\n    template:\n      metadata:\n        labels:\n          \
                 app: app-{item}\n      spec:\n        containers:\n        - name: main\n          image: example.com/app:v1\n          \
                 ports:\n          - containerPort: 80\n"
            )
        })
        .collect();
    format!("apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n{config}items:\n{items}").into()
}

/// A running function-runner.
struct Service {
    process: Child,
    address: String,
    _folder: tempfile::TempDir,
}

/// The latencies of one round.
struct Round {
    elapsed: Duration,
    latencies: Vec<Duration>,
}

// === impl Service ===

impl Service {
    fn start(runner: &Path) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("functions"))?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let process = Command::new(runner)
            .args([&format!("--port={port}"), "--log-level=0", "--disable-runtimes=pod,exec"])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let service = Self { process, address: format!("127.0.0.1:{port}"), _folder: folder };
        let begin = Instant::now();
        while std::net::TcpStream::connect(&service.address).is_err() {
            if begin.elapsed() > Duration::from_secs(10) {
                return Err(format!("{} does not listen", runner.display()).into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(service)
    }

    fn round(&self, function: &'static str, input: &Bytes, callers: usize, span: Duration) -> Outcome<Round> {
        // One thread for all callers: the load should not take the cores from what is measured.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = {
            let _inside = runtime.enter();
            Client::new(&self.address, 6 << 20)?
        };
        let begin = Instant::now();
        let latencies = runtime.block_on(async {
            let callers: Vec<_> = (0..callers)
                .map(|_| {
                    let (client, input) = (client.clone(), input.clone());
                    tokio::spawn(async move {
                        let mut latencies = Vec::new();
                        while begin.elapsed() < span {
                            let begin = Instant::now();
                            client.evaluate(function, input.clone(), None).await.expect("the function runs");
                            latencies.push(begin.elapsed());
                        }
                        latencies
                    })
                })
                .collect();
            let mut latencies = Vec::new();
            for caller in callers {
                latencies.extend(caller.await.expect("no caller panics"));
            }
            latencies
        });
        Ok(Round::new(begin.elapsed(), latencies))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

// === impl Round ===

impl Round {
    fn new(elapsed: Duration, mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        Self { elapsed, latencies }
    }

    /// Calls a second.
    fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// Milliseconds that so many of a hundred stayed under.
    fn percentile(&self, percent: usize) -> f64 {
        let index = (self.latencies.len() * percent / 100).min(self.latencies.len() - 1);
        self.latencies[index].as_secs_f64() * 1e3
    }
}

/// The median of the ratios of neighbouring rounds.
fn ratio(these: &[Round], those: &[Round]) -> f64 {
    let mut ratios: Vec<_> =
        these.iter().zip(those).map(|(this, other)| this.rate() / other.rate()).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// The round in the middle.
fn median(mut rounds: Vec<Round>) -> Round {
    rounds.sort_by(|one, other| one.rate().total_cmp(&other.rate()));
    rounds.swap_remove(rounds.len() / 2)
}
