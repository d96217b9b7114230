//! A function runner as a process on the node, with a service account's rights and nothing more.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use loggia_image::{Config, Entries, Image};
use rustix::process::{Pid, Signal, kill_process};

use crate::{Cluster, Namespace, Runner};

/// A program that `make e2e` built without shared libraries.
pub fn static_program(name: &str) -> PathBuf {
    let folder = std::env::var_os("LOGGIA_STATIC").unwrap_or_default();
    PathBuf::from(folder).join(name)
}

/// Is killed when it is dropped; its pods stay.
#[derive(Debug)]
pub struct Service {
    child: Child,
    /// `HOST:PORT`.
    pub address: String,
    log: Arc<Mutex<Vec<String>>>,
    /// From the start of the process to the line that says that it listens.
    pub up_after: Duration,
}

// === impl Service ===

impl Service {
    /// Starts `function-runner` for the pods of a namespace and returns when it listens.
    pub fn start(namespace: &Namespace, runner: &Runner, flags: &[&str]) -> anyhow::Result<Self> {
        let program = std::env::var_os("LOGGIA_RUNNER").context("make e2e sets LOGGIA_RUNNER")?;
        let address = format!("--pod-address={}", if names_work() { "dns" } else { "service-ip" });
        let own = ["--port=0", "--disable-runtimes=exec,builtin", &address];
        Self::run(&PathBuf::from(program), namespace, runner, &[&own, flags].concat())
    }

    /// Starts the program that `function-runner` takes the place of, where it was built.
    pub fn start_original(
        namespace: &Namespace,
        runner: &Runner,
        flags: &[&str],
    ) -> anyhow::Result<Option<Self>> {
        let cache = PathBuf::from(std::env::var_os("LOGGIA_CACHE").unwrap_or_default());
        let program = cache.join("peers/porch/server");
        if !program.exists() {
            return Ok(None);
        }
        // It says the number that it was given, so it has to be given one.
        let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let port = format!("--port={free}");
        let own = [port.as_str(), "--disable-runtimes=exec"];
        Self::run(&program, namespace, runner, &[&own, flags].concat()).map(Some)
    }

    fn run(program: &Path, namespace: &Namespace, runner: &Runner, flags: &[&str]) -> anyhow::Result<Self> {
        let wrapper = wrapper_image(&namespace.cluster)?;
        let begin = Instant::now();
        let mut child = Command::new(program)
            .args(["--config=", "--pod-cache-config="])
            .arg(format!("--pod-namespace={}", namespace.name))
            .arg(format!("--kubeconfig={}", runner.kubeconfig.display()))
            .args(flags)
            .env("WRAPPER_SERVER_IMAGE", wrapper)
            .envs([("OTEL_METRICS_EXPORTER", "none"), ("OTEL_TRACES_EXPORTER", "none")])
            .env_remove("KUBECONFIG")
            .stderr(Stdio::piped())
            .spawn()
            .context("function-runner")?;
        let log = Arc::new(Mutex::new(Vec::new()));
        let stderr = child.stderr.take().context("function-runner has no log")?;
        let lines = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        let mut service = Self { child, address: String::new(), log, up_after: Duration::ZERO };
        let line = service.wait_for_line("Listening on :", Duration::from_secs(20))?;
        service.up_after = begin.elapsed();
        let port = line.rsplit(':').next().unwrap_or_default();
        service.address = format!("127.0.0.1:{port}");
        Ok(service)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a line of the log that has this text.
    pub fn wait_for_line(&mut self, text: &str, patience: Duration) -> anyhow::Result<String> {
        let begin = Instant::now();
        loop {
            if let Some(line) = self.log().into_iter().find(|line| line.contains(text)) {
                return Ok(line);
            }
            if begin.elapsed() > patience || self.child.try_wait()?.is_some() {
                bail!("function-runner did not say `{text}`: {}", self.log().join("\n"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks it to stop and returns its exit code.
    pub fn stop(mut self) -> anyhow::Result<Option<i32>> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("no pid")?;
        kill_process(pid, Signal::TERM)?;
        Ok(self.child.wait()?.code())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the names of Services are known on the node.
pub fn names_work() -> bool {
    use std::net::ToSocketAddrs as _;
    "kubernetes.default.svc.cluster.local.:443".to_socket_addrs().is_ok()
}

/// Pushes the image with the wrapper server, in the places where templates look for it.
pub fn wrapper_image(cluster: &Cluster) -> anyhow::Result<String> {
    // Two pushes of one image at a time confuse the registry.
    static PUSHED: Mutex<Option<String>> = Mutex::new(None);
    let mut pushed = PUSHED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pushed) = &*pushed {
        return Ok(pushed.clone());
    }
    let program = static_program("wrapper-server");
    let mut entries = Entries::default();
    let home = "/home/nonroot/wrapper-server";
    entries.file(format!("{home}/wrapper-server"), &program, Some(0o555))?;
    for link in [format!("{home}/grpc-health-probe").as_str(), "/bin/cp", "/usr/bin/cp"] {
        entries.link(link, format!("{home}/wrapper-server"))?;
    }
    let config = Config {
        entrypoint: vec![format!("{home}/wrapper-server")],
        env: vec!["PATH=/usr/bin:/bin".to_owned()],
        user: Some("10001:10001".to_owned()),
        ..Config::default()
    };
    let name =
        cluster.registry().push(&Image { entries, config, ..Image::default() }, "wrapper-server:e2e")?;
    Ok(pushed.insert(name).clone())
}

/// An image with one static program as its function, and nothing else: no shell, no libraries.
pub fn function_image(program: &str) -> anyhow::Result<Image> {
    let mut entries = Entries::default();
    entries.file("/function", &static_program(program), Some(0o555))?;
    let config = Config { entrypoint: vec!["/function".to_owned()], ..Config::default() };
    Ok(Image { entries, config, ..Image::default() })
}
