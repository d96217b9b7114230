//! A program that serves, started for one test.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use crate::wait_for;

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

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// The first line of the log with this in it, as soon as there is one.
    pub fn wait_for_line(&self, part: &str) -> String {
        let line = || self.log().into_iter().find(|line| line.contains(part));
        wait_for(line, || format!("no line with {part:?} in {:#?}", self.log()))
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
        let Self { process, log, .. } = self;
        wait_for(|| process.try_wait().unwrap(), || format!("the server goes on: {:#?}", log.lock().unwrap()))
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
