//! Real servers and real functions for tests.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use loggia_evaluator::wire::details::EvaluationError;
use loggia_evaluator::{Answer, Client};
use tonic::Status;

/// More than any test needs.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A running server; dropped, it is killed.
#[derive(Debug)]
pub struct Server {
    process: Child,
    pub port: u16,
    log: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a program that says where it listens, and waits until it does.
    pub fn start(command: &mut Command) -> Self {
        let mut server = Self::launch(command);
        server.port = server
            .wait_for_line("Listening on :")
            .rsplit(':')
            .next()
            // A line of JSON goes on behind it.
            .and_then(|port| port.trim_end_matches(['"', '}']).parse().ok())
            .expect("a port stands at the end of the line");
        server
    }

    /// Starts a program that will listen on a port of its own choice.
    pub fn launch(command: &mut Command) -> Self {
        let mut process =
            command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let log = Arc::new(Mutex::new(Vec::new()));
        let (stderr, lines) = (process.stderr.take().unwrap(), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        Self { process, port: 0, log }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn client(&self) -> Client {
        Client::new(&self.address(), 6 << 20).unwrap()
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// The first line of the log with this in it, as soon as there is one.
    pub fn wait_for_line(&self, part: &str) -> String {
        let begin = Instant::now();
        loop {
            if let Some(line) = self.log().iter().find(|line| line.contains(part)) {
                return line.clone();
            }
            assert!(begin.elapsed() < PATIENCE, "no line with {part:?} in {:#?}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Waits for the end of the process.
    pub fn wait(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "the server goes on: {:#?}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// A figure of the process in KiB, such as `VmRSS`.
    pub fn memory(&self, figure: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(figure)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// How many descriptors the process has open.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Processes whose parent is this one: their numbers and states.
pub fn children_of(parent: u32) -> Vec<(u32, char)> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let (_, rest) = stat.rsplit_once(") ")?;
            let mut fields = rest.split(' ');
            let state = fields.next()?.chars().next()?;
            (fields.next()?.parse() == Ok(parent)).then_some((pid, state))
        })
        .collect()
}

/// Whether a process is there and not merely waiting for its burial.
pub fn is_running(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

/// Waits until something holds, and says for how long.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what} never came true");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    begin.elapsed()
}

/// A folder with functions and the file that names them.
#[derive(Debug)]
pub struct Functions {
    folder: tempfile::TempDir,
    config: String,
}

impl Functions {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("functions")).unwrap();
        let functions = Self { folder, config: "functions:\n".to_owned() };
        fs::write(functions.config_file(), &functions.config).unwrap();
        functions
    }

    /// Adds a shell script under some images.
    #[must_use]
    pub fn with(self, name: &str, images: &[&str], script: &str) -> Self {
        self.write(name, script);
        self.with_entry(name, images)
    }

    /// Adds an entry without a program.
    #[must_use]
    pub fn with_entry(mut self, name: &str, images: &[&str]) -> Self {
        self.config.push_str(&format!("- function: {name}\n  images:\n"));
        for image in images {
            self.config.push_str(&format!("  - {image}\n"));
        }
        fs::write(self.config_file(), &self.config).unwrap();
        self
    }

    pub fn write(&self, name: &str, script: &str) {
        // Written beside and moved, since a program that runs cannot be written to.
        let path = self.path(name);
        let fresh = path.with_extension("new");
        fs::write(&fresh, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(fresh, path).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("functions").join(name)
    }

    pub fn config_file(&self) -> PathBuf {
        self.folder.path().join("config.yaml")
    }

    /// A file for a function to leave a note in.
    pub fn note(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Serves the functions.
    pub fn serve(&self, flags: &[&str]) -> Server {
        Server::start(&mut self.command(flags))
    }

    pub fn command(&self, flags: &[&str]) -> Command {
        let mut command = runner();
        command
            .arg("--port=0")
            .arg(format!("--config={}", self.config_file().display()))
            .arg(format!("--functions={}", self.folder.path().join("functions").display()))
            .args(flags);
        command
    }
}

/// The function runner under test, outside of any cluster.
pub fn runner() -> Command {
    let mut command = Command::new(program("function-runner"));
    for name in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "WRAPPER_SERVER_IMAGE"] {
        command.env_remove(name);
    }
    command
}

/// The wrapper server under test, for a function.
pub fn wrapper(flags: &[&str], function: &[&str]) -> Command {
    let mut command = Command::new(program("wrapper-server"));
    command.arg("--port=0").args(flags).arg("--").args(function);
    command
}

/// A program of this workspace, which is built with the tests of its own crate.
pub fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().and_then(Path::parent).unwrap().join(name)
}

/// The number that a function wrote into a file, as soon as it is there.
pub async fn noted(path: &Path) -> u32 {
    let read = || fs::read_to_string(path).ok()?.trim().parse().ok();
    eventually(&format!("a number in {}", path.display()), || read().is_some()).await;
    read().unwrap()
}

/// Evaluates within the patience of a test.
pub async fn evaluate(client: &Client, image: &str, input: impl Into<Bytes>) -> Result<Answer, Status> {
    client.evaluate(image, input.into(), Some(PATIENCE)).await
}

pub fn details(status: &Status) -> EvaluationError {
    EvaluationError::of(status).unwrap_or_else(|| panic!("no details in {status:?}"))
}

/// A program of the Go toolbox, if it was installed: beside the tests, or on the path.
pub fn tool(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("LOGGIA_TOOLS").into_iter().chain(std::env::var_os("PATH"));
    let found = folders
        .flat_map(|paths| std::env::split_paths(&paths).collect::<Vec<_>>())
        .map(|folder| folder.join(name))
        .find(|path| path.is_file());
    if found.is_none() {
        println!("left out: {name} is not installed (make tools)");
    }
    found
}

/// Runs a program to its end: exit code, standard output, standard error.
pub fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}
