//! A function runner as a process on the node, with a service account's rights and nothing more.

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use loggia_image::{Config, Entries, Image};
use rustix::process::{Pid, Signal, kill_process};

use crate::{Cluster, Namespace, Runner, content_tag};

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
    begin: Instant,
    /// From the start of the process to the line that says that it listens.
    pub up_after: Duration,
}

// === impl Service ===

impl Service {
    /// Starts `function-runner` for the pods of a namespace and returns when it listens.
    pub fn start(namespace: &Namespace, runner: &Runner, flags: &[&str]) -> anyhow::Result<Self> {
        let program = std::env::var_os("LOGGIA_RUNNER").context("make e2e sets LOGGIA_RUNNER")?;
        let wrapper = wrapper_image(&namespace.cluster)?;
        let address = format!("--pod-address={}", if names_work() { "dns" } else { "service-ip" });
        let ours = ["--port=0", "--config=", "--disable-runtimes=exec,builtin", &address];
        let mut command = command(program.as_ref(), &wrapper, namespace, runner);
        let mut service = Self::spawn(command.args(ours).args(flags))?;
        let line = service.wait_for_line("Listening on :", Duration::from_secs(20))?;
        service.up_after = service.begin.elapsed();
        let port = line.rsplit(':').next().unwrap_or_default();
        service.address = format!("127.0.0.1:{port}");
        Ok(service)
    }

    /// Starts another runner that knows Porch's flags and speaks its protocol.
    pub fn start_other(
        program: &Path,
        wrapper: &str,
        namespace: &Namespace,
        runner: &Runner,
    ) -> anyhow::Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let flags = [&format!("--port={port}"), "--disable-runtimes=exec", "--log-level=0"];
        let mut service = Self::spawn(command(program, wrapper, namespace, runner).args(flags))?;
        service.address = format!("127.0.0.1:{port}");
        while TcpStream::connect(&service.address).is_err() {
            if service.begin.elapsed() > Duration::from_secs(30) || service.child.try_wait()?.is_some() {
                bail!("{} does not listen: {}", program.display(), service.log().join("\n"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        service.up_after = service.begin.elapsed();
        Ok(service)
    }

    fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        let begin = Instant::now();
        let mut child = command.stderr(Stdio::piped()).spawn().context("function-runner")?;
        let log = Arc::new(Mutex::new(Vec::new()));
        let stderr = child.stderr.take().context("function-runner has no log")?;
        let lines = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        Ok(Self { child, address: String::new(), log, begin, up_after: Duration::ZERO })
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

/// A runner with what any of them must be told.
fn command(program: &Path, wrapper: &str, namespace: &Namespace, runner: &Runner) -> Command {
    let mut command = Command::new(program);
    command
        .arg("--pod-cache-config=")
        .arg(format!("--pod-namespace={}", namespace.name))
        .arg("--private-registries=registry.localhost,registry.test,localhost")
        .arg(format!("--kubeconfig={}", runner.kubeconfig.display()))
        .env("WRAPPER_SERVER_IMAGE", wrapper)
        .env_remove("KUBECONFIG");
    command
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
    let name = push_wrapper(cluster, &program, &format!("wrapper-server:{}", content_tag(&program)?))?;
    Ok(pushed.insert(name).clone())
}

/// Pushes an image with any wrapper server. The tools beside it are ours.
pub fn push_wrapper(cluster: &Cluster, program: &Path, name: &str) -> anyhow::Result<String> {
    let mut entries = Entries::default();
    let home = "/home/nonroot/wrapper-server";
    entries.file(format!("{home}/wrapper-server"), program, Some(0o555))?;
    let own = static_program("wrapper-server");
    let tools = if program == own { format!("{home}/wrapper-server") } else { "/tools".to_owned() };
    if program != own {
        entries.file(&tools, &own, Some(0o555))?;
    }
    for link in [format!("{home}/grpc-health-probe").as_str(), "/bin/cp", "/usr/bin/cp"] {
        entries.link(link, &tools)?;
    }
    let config = Config {
        entrypoint: vec![format!("{home}/wrapper-server")],
        env: vec!["PATH=/usr/bin:/bin".to_owned()],
        user: Some("10001:10001".to_owned()),
        ..Config::default()
    };
    cluster.registry().push(&Image { entries, config, ..Image::default() }, name)
}

/// An image with one static program as its function, and nothing else: no shell, no libraries.
pub fn function_image(program: &str) -> anyhow::Result<Image> {
    let mut entries = Entries::default();
    entries.file("/function", &static_program(program), Some(0o555))?;
    let config = Config { entrypoint: vec!["/function".to_owned()], ..Config::default() };
    Ok(Image { entries, config, ..Image::default() })
}
