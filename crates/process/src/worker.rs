//! A child that answers over a socket: started once, asked many times.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, setpriority_process};

use crate::orphans;

/// How nice a worker is that computes for long.
const NICE: i32 = 10;

/// A worker process. Dropped before it was reaped it is killed, and reaped.
///
/// A worker that asks to be killed when its parent dies is bound to the *thread* that started it, so that thread has to
/// live as long as the worker.
#[derive(Debug)]
pub struct WorkerProcess {
    process: std::process::Child,
    reaped: bool,
}

// === impl WorkerProcess ===

impl WorkerProcess {
    /// Starts a program with nothing but one end of a socket as its standard input, and returns the other end. That
    /// end does not block.
    pub fn start(program: &Path, arguments: &[OsString]) -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut builder = std::process::Command::new(program);
        builder
            .arg0("worker")
            .args(arguments)
            .env_clear()
            .process_group(0)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = orphans::while_starting(|| builder.spawn())?;
        Ok((Self { process, reaped: false }, ours))
    }

    /// The number of the process, which is its own until it is reaped.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Sends SIGKILL. Harmless if the worker has ended.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
    }

    /// Kills the worker, waits for its end and returns how it ended: by itself, if it had begun to exit before.
    pub fn end(mut self) -> io::Result<ExitStatus> {
        self.kill_and_wait()
    }

    fn kill_and_wait(&mut self) -> io::Result<ExitStatus> {
        self.kill();
        let status = self.process.wait();
        self.reaped = true;
        orphans::reaped(&self.process);
        status
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.kill_and_wait();
        }
    }
}

/// Lets other processes go first. There is no way back without privileges.
pub fn slow_down(worker: Pid) {
    // A worker that has ended needs no priority.
    let _ = setpriority_process(Some(worker), NICE);
}
