//! What the exec path costs beyond starting a process and beside Porch's function runner, and what wrapper-server
//! weighs.
//!
//! The bare loop starts the same function, writes the same input to its pipe, reads its output and waits
//! for it: the least that anybody must do. Rounds alternate, and the ratio is the median of those of neighbours,
//! so that a noisy machine is noisy for all. `PEER_RUNNER` names another server that speaks the protocol.

#![allow(clippy::disallowed_methods, reason = "it starts what it measures, and waits for it")]

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use bytes::Bytes;
use loggia_bench::{Group, Wanted};
use loggia_grpc::Client;

const INPUT: usize = 64 * 1024;
const ROUNDS: usize = 21;
const IMAGE: &str = "bench.example/echo:v1";

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The programs under measurement.
struct Programs {
    runner: PathBuf,
    wrapper: PathBuf,
    function: PathBuf,
    /// Porch's runner, or another, where there is one.
    peer: Option<PathBuf>,
}

/// The latencies of one round.
#[derive(Clone)]
struct Round {
    elapsed: Duration,
    latencies: Vec<Duration>,
}

#[allow(clippy::print_stdout)]
fn main() -> Outcome {
    let programs = Programs::find()?;
    let seconds = env::var("LOGGIA_BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0.5);
    let span = Duration::from_secs_f64(seconds);
    println!(
        "exec path: {INPUT} bytes of input, {ROUNDS} rounds of {seconds} s each, bare and served in turn"
    );
    println!(
        "concurrency      bare/s    served/s   time ratio   bare p50/p99     served p50/p99     allowed"
    );
    let mut group = Group::new("exec-path", "Evaluations by local programs");
    if programs.peer.is_none() {
        println!("left out: there is no other runner (PEER_RUNNER=, or make peers where Go is installed)");
    }
    for (concurrency, allowed) in [(1, 1.5), (8, 1.3), (64, 1.3)] {
        measure(&programs, concurrency, allowed, span, &mut group)?;
    }
    let size = fs::metadata(&programs.wrapper)?.len() as f64 / f64::from(1 << 20);
    let (start, resident) = wrapper_figures(&programs)?;
    let (start, resident) = (start.as_secs_f64() * 1e3, resident as f64 / 1024.0);
    println!(
        "wrapper-server: {size:.2} MiB (at most 4.5), serving {start:.2} ms after its start (at most 5), {resident:.2} MiB resident (at most 4.5)",
    );
    group.add("size of wrapper-server", "MiB", &[("Loggia", size)], size, Wanted::AtMost(4.5));
    group.add("start of wrapper-server", "ms", &[("Loggia", start)], start, Wanted::AtMost(5.0));
    group.add("wrapper-server, resident", "MiB", &[("Loggia", resident)], resident, Wanted::AtMost(4.0));
    Ok(group.finish()?)
}

/// Rounds with so many callers, bare, served and served by the peer.
#[allow(clippy::print_stdout)]
fn measure(
    programs: &Programs,
    concurrency: usize,
    allowed: f64,
    span: Duration,
    group: &mut Group,
) -> Outcome {
    let service = Service::start(&programs.runner, &programs.function)?;
    let other = programs.peer.as_ref().map(|peer| Service::start(peer, &programs.function)).transpose()?;
    let (mut bare, mut served, mut peer) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(bare_round(&programs.function, concurrency, span));
        served.push(service.round(concurrency, span)?);
        if let Some(other) = &other {
            peer.push(other.round(concurrency, span)?);
        }
    }
    let over = over(&served, &bare);
    let faster = over_or_none(&peer, &served);
    let (bare, served) = (median(bare), median(served));
    println!(
        "{concurrency:>11} {:>11.0} {:>11.0} {over:>11.2}x {:>8.2}/{:<6.2}ms {:>9.2}/{:<6.2}ms {allowed:>8.1}x",
        bare.rate(),
        served.rate(),
        bare.percentile(50),
        bare.percentile(99),
        served.percentile(50),
        served.percentile(99),
    );
    let what = format!("time beyond a bare process, {concurrency} at once");
    let values = [("Loggia", 1e3 * served.time_each()), ("bare", 1e3 * bare.time_each())];
    group.add(&what, "ms", &values, over, Wanted::AtMost(allowed));
    let (Some(faster), Some(other)) = (faster, &other) else { return Ok(()) };
    let peer = median(peer);
    println!(
        "            the other runner: {:.0}/s, {faster:.2} times as long, p50/p99 {:.2}/{:.2} ms",
        peer.rate(),
        peer.percentile(50),
        peer.percentile(99)
    );
    let what = format!("evaluations, {concurrency} at once");
    let values = [("Loggia", served.rate()), ("Porch", peer.rate())];
    group.add(&what, "/s", &values, faster, Wanted::AtLeast(1.5));
    let (ours, theirs) = (service.resident_mib()?, other.resident_mib()?);
    let what = format!("resident memory after {concurrency} at once");
    group.add(&what, "MiB", &[("Loggia", ours), ("Porch", theirs)], ours / theirs, Wanted::AtMost(0.25));
    println!("            resident: {ours:.1} MiB, the other {theirs:.1} MiB");
    Ok(())
}

/// The median of the ratios of neighbouring rounds, by the time for each evaluation.
fn over(these: &[Round], those: &[Round]) -> f64 {
    let mut ratios: Vec<_> =
        these.iter().zip(those).map(|(these, those)| these.time_each() / those.time_each()).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

fn over_or_none(these: &[Round], those: &[Round]) -> Option<f64> {
    (!these.is_empty()).then(|| over(these, those))
}

/// The round in the middle by the time it took for each evaluation.
fn median(mut rounds: Vec<Round>) -> Round {
    rounds.sort_by(|one, other| one.time_each().total_cmp(&other.time_each()));
    rounds.swap_remove(rounds.len() / 2)
}

fn bare_round(function: &Path, concurrency: usize, span: Duration) -> Round {
    let over = AtomicBool::new(false);
    let begin = Instant::now();
    let latencies = thread::scope(|scope| {
        let workers: Vec<_> = (0..concurrency)
            .map(|_| {
                scope.spawn(|| {
                    let (input, mut latencies) = (vec![b'x'; INPUT], Vec::new());
                    while !over.load(Ordering::Relaxed) {
                        let begin = Instant::now();
                        let output = bare_run(function, &input).expect("the function runs");
                        assert_eq!(output.len(), INPUT);
                        latencies.push(begin.elapsed());
                    }
                    latencies
                })
            })
            .collect();
        thread::sleep(span);
        over.store(true, Ordering::Relaxed);
        workers.into_iter().flat_map(|worker| worker.join().expect("no worker panics")).collect()
    });
    Round::new(begin.elapsed(), latencies)
}

fn bare_run(function: &Path, input: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut child =
        Command::new(function).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // The input fits into the pipe, so that one thread can do all of it.
    child.stdin.take().expect("piped").write_all(input)?;
    let mut output = Vec::with_capacity(input.len() + 1);
    child.stdout.take().expect("piped").read_to_end(&mut output)?;
    child.stderr.take().expect("piped").read_to_end(&mut Vec::new())?;
    child.wait()?;
    Ok(output)
}

/// A running function-runner.
struct Service {
    process: Child,
    address: String,
    _folder: tempfile::TempDir,
}

// === impl Service ===

impl Service {
    fn start(runner: &Path, function: &Path) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("functions"))?;
        fs::copy(function, folder.path().join("functions/echo"))?;
        fs::write(
            folder.path().join("config.yaml"),
            format!("functions:\n- function: echo\n  images: [\"{IMAGE}\"]\n"),
        )?;
        let port = free_port()?;
        let process = Command::new(runner)
            .args([
                &format!("--port={port}"),
                "--log-level=0",
                "--disable-runtimes=pod",
                "--config=config.yaml",
                "--functions=functions",
            ])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let service = Self { process, address: format!("127.0.0.1:{port}"), _folder: folder };
        wait_for_port(&service.address)?;
        Ok(service)
    }

    fn resident_mib(&self) -> Outcome<f64> {
        Ok(resident_kib(self.process.id())? as f64 / 1024.0)
    }

    fn round(&self, concurrency: usize, span: Duration) -> Outcome<Round> {
        // One thread for all callers: the load should not take the cores from what is measured.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = {
            let _inside = runtime.enter();
            Client::new(&self.address, 6 << 20)?
        };
        let begin = Instant::now();
        let latencies = runtime.block_on(async {
            let workers: Vec<_> = (0..concurrency)
                .map(|_| {
                    let client = client.clone();
                    tokio::spawn(async move {
                        let (input, mut latencies) = (Bytes::from(vec![b'x'; INPUT]), Vec::new());
                        while begin.elapsed() < span {
                            let begin = Instant::now();
                            let answer =
                                client.evaluate(IMAGE, input.clone(), None).await.expect("the function runs");
                            assert_eq!(answer.resource_list.len(), INPUT);
                            latencies.push(begin.elapsed());
                        }
                        latencies
                    })
                })
                .collect();
            let mut latencies = Vec::new();
            for worker in workers {
                latencies.extend(worker.await.expect("no worker panics"));
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

    /// Evaluations a second.
    fn rate(&self) -> f64 {
        1.0 / self.time_each()
    }

    /// Seconds for each evaluation.
    fn time_each(&self) -> f64 {
        self.elapsed.as_secs_f64() / self.latencies.len() as f64
    }

    /// Milliseconds that so many of a hundred stayed under.
    fn percentile(&self, percent: usize) -> f64 {
        let index = (self.latencies.len() * percent / 100).min(self.latencies.len() - 1);
        self.latencies[index].as_secs_f64() * 1e3
    }
}

/// The median time from start to a health check that says SERVING, and resident memory when idle, in KiB.
fn wrapper_figures(programs: &Programs) -> Outcome<(Duration, u64)> {
    let mut starts = Vec::new();
    let mut resident = 0;
    for _ in 0..21 {
        let port = free_port()?;
        let begin = Instant::now();
        let mut process = Command::new(&programs.wrapper)
            .args(["--port", &port.to_string(), "--verbosity=0", "--", "cat"])
            .stderr(Stdio::null())
            .spawn()?;
        let serving = serving_since(port, begin);
        let memory = resident_kib(process.id());
        process.kill()?;
        process.wait()?;
        starts.push(serving?);
        resident = resident.max(memory?);
    }
    starts.sort_unstable();
    Ok((starts[starts.len() / 2], resident))
}

fn resident_kib(pid: u32) -> Outcome<u64> {
    let memory = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = memory.lines().find(|line| line.starts_with("VmRSS")).ok_or("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).ok_or("no figure")?.parse()?)
}

/// Speaks just enough HTTP/2 to send one health check, over and over until it is answered: a full client
/// would cost more than what it measures.
fn serving_since(port: u16, begin: Instant) -> Outcome<Duration> {
    // `:method POST`, `:scheme http`, then path, authority, te and content-type as new literals.
    let mut headers = vec![0x83, 0x86];
    for (name, value) in [
        (":path", "/grpc.health.v1.Health/Check"),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ] {
        headers.push(0x00);
        for text in [name, value] {
            headers.push(u8::try_from(text.len())?);
            headers.extend_from_slice(text.as_bytes());
        }
    }
    let mut request = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    request.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]); // SETTINGS
    request.extend_from_slice(&[0, 0, u8::try_from(headers.len())?, 1, 4, 0, 0, 0, 1]); // HEADERS
    request.extend_from_slice(&headers);
    request.extend_from_slice(&[0, 0, 5, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0]); // DATA: an empty message
    while begin.elapsed() < Duration::from_secs(5) {
        let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else {
            thread::sleep(Duration::from_micros(50));
            continue;
        };
        stream.write_all(&request)?;
        let mut received = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            let count = stream.read(&mut chunk)?;
            received.extend_from_slice(&chunk[..count]);
            // The message `status: SERVING` in its frame.
            if received.windows(7).any(|bytes| bytes == [0, 0, 0, 0, 2, 8, 1]) {
                return Ok(begin.elapsed());
            }
            if count == 0 {
                return Err("the health check was not answered".into());
            }
        }
    }
    Err("wrapper-server does not start".into())
}

fn free_port() -> Outcome<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn wait_for_port(address: &str) -> Outcome {
    let begin = Instant::now();
    while std::net::TcpStream::connect(address).is_err() {
        if begin.elapsed() > Duration::from_secs(10) {
            return Err(format!("nobody listens on {address}").into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

// === impl Programs ===

impl Programs {
    /// The release build beside this program, and the static ones.
    fn find() -> Outcome<Self> {
        let here = env::current_exe()?;
        let target = here.parent().and_then(Path::parent).ok_or("this program stands in a target folder")?;
        let fixed = target.join("x86_64-unknown-linux-gnu/wrapper");
        let programs = Self {
            runner: env::var_os("RUNNER")
                .map_or_else(|| target.join("release/function-runner"), PathBuf::from),
            wrapper: fixed.join("wrapper-server"),
            function: fixed.join("echo-function"),
            peer: env::var_os("PEER_RUNNER").map(PathBuf::from).filter(|path| path.is_file()),
        };
        for program in [&programs.runner, &programs.wrapper, &programs.function] {
            if !program.is_file() {
                return Err(format!("{} is not built; use `make bench`", program.display()).into());
            }
        }
        Ok(programs)
    }
}
