//! A service under test in its cage, and what is watched while something hostile happens to it.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loggia_grpc::Client;
use loggia_testing::Server;

use crate::cage::{Cage, pause};

/// Health must answer in this time, always.
const HEALTHY: Duration = Duration::from_secs(1);
/// An honest caller waits at most this long.
const HONEST: Duration = Duration::from_secs(10);
/// How long the service may take to be as before, once the hostile input is gone.
const SETTLED: Duration = Duration::from_secs(15);
/// How long a service may take to come up.
const STARTED: Duration = Duration::from_secs(20);
/// The work of a call that is over ends in this time.
const STOPPED: Duration = Duration::from_secs(3);

const HONEST_LIST: &str = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nfunctionConfig: {apiVersion: v1, kind: \
  ConfigMap, metadata: {name: c}, data: {team: honest}}\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n";

/// A running service.
pub(crate) struct Service {
    server: Server,
    pub(crate) cage: Arc<Cage>,
    pub(crate) flags: Vec<String>,
    program: PathBuf,
    metrics: Option<u16>,
    honest: bool,
    before: Counts,
}

/// How a service is run.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// It runs any function, so an honest caller can be served beside the hostile one.
    pub(crate) honest: bool,
    /// In a pid namespace of its own.
    pub(crate) alone: bool,
}

/// What a process has open.
#[derive(Clone, Copy, Debug)]
struct Counts {
    descriptors: usize,
    threads: usize,
}

/// What was seen while something hostile happened.
pub(crate) struct Watched {
    pub(crate) problems: Vec<String>,
    pub(crate) slowest_health: Duration,
    pub(crate) memory: u64,
}

/// Watches until it is asked what it saw.
pub(crate) struct Watcher {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    problems: Arc<Mutex<Vec<String>>>,
    slowest: Arc<AtomicU64>,
    memory: Arc<AtomicU64>,
}

impl Service {
    /// Starts a program with these arguments in a cage.
    ///
    /// # Errors
    /// If it does not come up.
    pub(crate) fn start(
        program: PathBuf,
        arguments: &[String],
        flags: &[String],
        limit: u64,
        manner: Manner,
    ) -> Result<Self, String> {
        let Manner { honest, alone } = manner;
        let cage = Arc::new(Cage::new(limit));
        let mut command = if alone { cage.alone(&program) } else { cage.command(&program) };
        command.args(arguments);
        for name in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "WRAPPER_SERVER_IMAGE"] {
            command.env_remove(name);
        }
        let mut server = Server::launch(&mut command);
        cage.entered_by(server.pid());
        let came_up =
            within(STARTED, || port(&server).is_some() || !loggia_testing::is_running(server.pid()));
        server.port = port(&server)
            .filter(|_| came_up)
            .ok_or_else(|| format!("the service does not start: {}", short(&server.log().join(" / "))))?;
        let metrics = server.log().iter().find_map(|line| {
            let (_, rest) = line.split_once("etrics")?;
            rest.rsplit(':').next()?.trim_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()
        });
        let before = Counts { descriptors: 0, threads: 0 };
        let mut service = Self { server, cage, flags: flags.to_vec(), program, metrics, honest, before };
        service.before = service.counts();
        Ok(service)
    }

    pub(crate) fn address(&self) -> String {
        self.server.address()
    }

    pub(crate) fn metrics_address(&self) -> Option<String> {
        self.metrics.map(|port| format!("127.0.0.1:{port}"))
    }

    pub(crate) fn is_alive(&self) -> bool {
        loggia_testing::is_running(self.server.pid())
    }

    /// The end of the log, for a report of a service that died.
    pub(crate) fn last_words(&self) -> String {
        let log = self.server.log();
        log[log.len().saturating_sub(3)..].join(" / ").chars().take(400).collect()
    }

    /// The process that is the service itself: the first one of its program.
    fn pid(&self) -> u32 {
        let own = fs::canonicalize(&self.program).unwrap_or_default();
        let is_own =
            |pid: &u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program == own);
        self.cage.processes().into_iter().filter(is_own).min().unwrap_or_else(|| self.server.pid())
    }

    fn counts(&self) -> Counts {
        let count =
            |what: &str| fs::read_dir(format!("/proc/{}/{what}", self.pid())).map_or(0, Iterator::count);
        Counts { descriptors: count("fd"), threads: count("task") }
    }

    /// Watches the service from now on.
    pub(crate) fn watch(&self, honest: bool) -> Watcher {
        let watcher = Watcher {
            over: Arc::default(),
            threads: Vec::new(),
            problems: Arc::default(),
            slowest: Arc::default(),
            memory: Arc::default(),
        };
        watcher.with(self, honest && self.honest)
    }

    /// Whether the service is as it was before: what is not is said.
    pub(crate) fn settled(&self) -> Vec<String> {
        if !self.is_alive() {
            return vec![format!("the service is dead: {}", self.last_words())];
        }
        let mut problems = Vec::new();
        if !within(STOPPED, || self.is_quiet()) {
            problems.push(format!("it still works {} s after the call was over", STOPPED.as_secs()));
        }
        if !within(SETTLED, || self.leftovers().is_empty()) {
            problems.extend(self.leftovers());
        }
        if self.cage.kills() > 0 {
            problems.push("the kernel killed a process for lack of memory".to_owned());
        }
        problems
    }

    /// By states of threads and not by time used, since other programs may use the processors too.
    fn is_quiet(&self) -> bool {
        (0..6).any(|_| {
            pause(Duration::from_millis(20));
            !self.cage.is_busy()
        })
    }

    fn leftovers(&self) -> Vec<String> {
        let mut left = Vec::new();
        let now = self.counts();
        // A pool of idle workers may have grown: each has a few pipes.
        if now.descriptors > self.before.descriptors + 64 {
            left.push(format!(
                "{} descriptors are open, before {}",
                now.descriptors, self.before.descriptors
            ));
        }
        if now.threads > self.before.threads + 64 {
            left.push(format!("{} threads are there, before {}", now.threads, self.before.threads));
        }
        let processes = self.cage.processes();
        if processes.len() > 33 {
            left.push(format!("{} processes are left", processes.len()));
        }
        let own = fs::canonicalize(&self.program).unwrap_or_default();
        let others = processes.into_iter().filter(|pid| *pid != self.server.pid()).filter_map(|pid| {
            let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
            (program != own).then(|| format!("process {pid} ({}) is left", program.display()))
        });
        left.extend(others.take(8));
        left
    }
}

impl Watcher {
    fn with(mut self, service: &Service, honest: bool) -> Self {
        let address = service.address();
        let (over, problems, slowest) =
            (Arc::clone(&self.over), Arc::clone(&self.problems), Arc::clone(&self.slowest));
        let prober = {
            let address = address.clone();
            move || {
                on_a_runtime(async {
                    let mut rounds = 0_u32;
                    let mut client = client(&address);
                    while !over.load(Ordering::Relaxed) {
                        // Now and then as a new caller, since accepting is work too.
                        rounds += 1;
                        if rounds.is_multiple_of(10) {
                            client = crate::service::client(&address);
                        }
                        let begin = Instant::now();
                        let answer = tokio::time::timeout(Duration::from_secs(8), client.is_serving()).await;
                        let took = begin.elapsed();
                        slowest.fetch_max(
                            u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                            Ordering::Relaxed,
                        );
                        let wrong = match answer {
                            Ok(Ok(true)) if took > HEALTHY => {
                                Some(format!("health took {} ms", took.as_millis()))
                            }
                            Ok(Ok(true)) => None,
                            Ok(Ok(false)) => Some("health says it is not serving".to_owned()),
                            Ok(Err(status)) => Some(format!("health failed: {}", status.message())),
                            Err(_) => Some("health did not answer in 8 s".to_owned()),
                        };
                        note(&problems, wrong);
                        rest(Duration::from_millis(100), &over).await;
                    }
                });
            }
        };
        self.threads.push(std::thread::spawn(prober));
        if honest {
            let (over, problems) = (Arc::clone(&self.over), Arc::clone(&self.problems));
            self.threads.push(std::thread::spawn(move || {
                on_a_runtime(async {
                    let client = client(&address);
                    while !over.load(Ordering::Relaxed) {
                        let answer = client.evaluate("set-labels", HONEST_LIST.into(), Some(HONEST)).await;
                        let wrong = match answer {
                            Ok(answer)
                                if String::from_utf8_lossy(&answer.resource_list)
                                    .contains("team: honest") =>
                            {
                                None
                            }
                            Ok(_) => Some("an honest caller got a wrong answer".to_owned()),
                            Err(status) => Some(format!(
                                "an honest call failed: {:?} {}",
                                status.code(),
                                short(status.message())
                            )),
                        };
                        note(&problems, wrong);
                        rest(Duration::from_millis(200), &over).await;
                    }
                });
            }));
        }
        let (over, memory, cage) =
            (Arc::clone(&self.over), Arc::clone(&self.memory), Arc::clone(&service.cage));
        self.threads.push(std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                memory.fetch_max(cage.memory(), Ordering::Relaxed);
                pause(Duration::from_millis(25));
            }
        }));
        self
    }

    pub(crate) fn end(self, limit: u64) -> Watched {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
        let mut problems = std::mem::take(&mut *self.problems.lock().expect("no thread panicked"));
        let memory = self.memory.load(Ordering::Relaxed);
        if memory > limit / 100 * 95 {
            problems.push(format!("{} MiB of memory, and the limit is {}", memory >> 20, limit >> 20));
        }
        Watched {
            problems,
            slowest_health: Duration::from_millis(self.slowest.load(Ordering::Relaxed)),
            memory,
        }
    }
}

/// The port that the service says it listens on.
fn port(server: &Server) -> Option<u16> {
    let line = server.log().into_iter().find(|line| line.contains("Listening on "))?;
    line.rsplit(':').next()?.trim_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()
}

pub(crate) fn client(address: &str) -> Client {
    Client::new(address, 64 << 20).expect("it is an address")
}

/// The beginning of a text.
pub(crate) fn short(text: &str) -> String {
    let mut start: String = text.chars().take(300).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    start
}

/// Waits, but not longer than there is something to watch.
async fn rest(span: Duration, over: &AtomicBool) {
    let begin = Instant::now();
    while begin.elapsed() < span && !over.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn note(problems: &Mutex<Vec<String>>, wrong: Option<String>) {
    let mut problems = problems.lock().expect("no thread panicked");
    // Each kind once: a service that is dead fails every time.
    if let Some(wrong) = wrong
        && problems.len() < 4
    {
        problems.push(wrong);
    }
}

fn on_a_runtime(work: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(work);
}

pub(crate) fn within(patience: Duration, condition: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !condition() {
        if begin.elapsed() > patience {
            return false;
        }
        pause(Duration::from_millis(50));
    }
    true
}
