//! One process of the cluster, and ways to take it from the others.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};

#[derive(Debug, Clone)]
pub struct Part {
    name: &'static str,
}

/// A process that was stopped in its tracks: its connections stay open and nobody answers. It goes on when
/// this is dropped.
#[derive(Debug)]
pub struct Paused(Part);

/// A process that was ended. It is started again when this is dropped, if it was not before.
#[derive(Debug)]
pub struct Stopped(Part, bool);

// === impl Part ===

impl Part {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name }
    }

    pub fn pause(&self) -> anyhow::Result<Paused> {
        self.tell("pause")?;
        Ok(Paused(self.clone()))
    }

    pub fn stop(&self) -> anyhow::Result<Stopped> {
        self.tell("stop")?;
        Ok(Stopped(self.clone(), false))
    }

    /// Starts the process where it does not run, and returns when it answers.
    pub fn start(&self) -> anyhow::Result<()> {
        self.tell("start").map(drop)
    }

    /// Starts a process that was away for a while. Those that watch the API server try again ever more rarely while it
    /// is away, up to a minute apart; they are started anew, since no test is about their patience.
    fn start_again(&self) -> anyhow::Result<()> {
        self.start()?;
        if self.name == "kube-apiserver" {
            for part in ["kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "coredns"]
                .map(Self::new)
            {
                part.tell("stop")?;
                part.start_soon()?;
            }
        }
        Ok(())
    }

    /// The port of a process that has just ended may be taken a moment longer.
    fn start_soon(&self) -> anyhow::Result<()> {
        for _ in 0..10 {
            if self.start().is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        self.start()
    }

    /// The pid, as it is inside the sandbox.
    pub fn pid(&self) -> anyhow::Result<u32> {
        Ok(self.tell("pid")?.trim().parse()?)
    }

    fn tell(&self, action: &str) -> anyhow::Result<String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster/part");
        let output = Command::new(&script).args([action, self.name]).output();
        let output = output.with_context(|| script.display().to_string())?;
        if !output.status.success() {
            bail!("{action} {}: {}", self.name, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Paused {
    pub fn resume(self) {
        drop(self);
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        // Where this fails the cluster is gone, and the next call to it says so.
        let _ = self.0.tell("resume");
    }
}

impl Stopped {
    /// Starts the process and returns when it answers.
    pub fn start(mut self) -> anyhow::Result<()> {
        self.1 = true;
        self.0.start_again()
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if !self.1 {
            let _ = self.0.start_again();
        }
    }
}
