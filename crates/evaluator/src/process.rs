//! Running a function as a child process: the one place of the project that starts one.
//!
//! Every child leads a process group of its own. A task owns it from start to burial, pumps its three
//! pipes at once and keeps its slot until nothing of the group is left; the caller merely waits for
//! that task's answer. So a caller that gives up, a deadline and a stop of the service are one case:
//! the group gets SIGTERM, a moment later SIGKILL, and its leader is reaped.

use std::ffi::OsString;
use std::future::{Future, pending};
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::Instant;

mod capture;
mod child;
#[cfg(feature = "exec")]
mod confine;
mod orphans;
#[cfg(test)]
mod tests;

pub use capture::Captured;
pub(crate) use capture::cut_middle;
use child::{Child, Conversation};
#[cfg(feature = "exec")]
pub use confine::Confinement;
pub use orphans::adopt_orphans;

/// How long a group that was told to end may take before it is killed.
const TERM_GRACE: Duration = Duration::from_millis(300);

/// Starts children, no more than so many at once, and answers for their end. Clones share the slots.
#[derive(Clone, Debug)]
pub struct Processes {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limits: Limits,
    slots: Arc<Semaphore>,
    /// True once all children must end.
    stop: watch::Sender<bool>,
    /// Each child's task holds a receiver, so the sender knows when the last is gone.
    alive: watch::Sender<()>,
    #[cfg(feature = "exec")]
    confinement: Option<Confinement>,
}

/// What bounds the children.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Children at the same time; more wait for a slot in the order they came.
    pub concurrent: usize,
    /// Bytes of standard output; a child that writes more is killed.
    pub stdout: usize,
    /// Bytes of standard error that are kept, half from the beginning and half from the end.
    pub stderr: usize,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Command {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub environment: Environment,
}

/// The variables that a child sees.
#[derive(Clone, Debug)]
pub enum Environment {
    /// Those of this process.
    Inherited,
    /// These and no others.
    Only(Vec<(OsString, OsString)>),
}

/// What a child that ended by itself leaves.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: Bytes,
    pub stderr: Captured,
}

/// Why a child has nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("fork/exec {}: {}", .program.display(), errno_text(.source))]
    NotStarted { program: PathBuf, source: io::Error },
    #[error("the pipes to the process failed: {0}")]
    Pipes(io::Error),
    #[error("wrote more than {limit} bytes on standard output and was stopped")]
    TooMuchOutput { limit: usize, stderr: Captured },
    #[error("context deadline exceeded")]
    DeadlineExceeded,
    #[error("the service is stopping")]
    Stopped,
}

// === impl Processes ===

impl Processes {
    /// No child runs yet.
    pub fn new(limits: Limits) -> Self {
        let shared = Shared {
            limits,
            slots: Arc::new(Semaphore::new(limits.concurrent.clamp(1, Semaphore::MAX_PERMITS))),
            stop: watch::Sender::new(false),
            alive: watch::Sender::new(()),
            #[cfg(feature = "exec")]
            confinement: None,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Starts children inside a confinement; to be called before the first one.
    #[cfg(feature = "exec")]
    #[must_use]
    pub fn confined(self, confinement: Confinement) -> Self {
        let shared = Shared {
            limits: self.shared.limits,
            slots: Arc::clone(&self.shared.slots),
            stop: watch::Sender::new(false),
            alive: watch::Sender::new(()),
            confinement: Some(confinement),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Runs a command on some input and waits for its end.
    ///
    /// Dropping the future kills what it started. At the deadline the answer comes at once, and the
    /// group is gone soon after; until then it keeps its slot.
    pub async fn run(
        &self,
        command: &Command,
        input: Bytes,
        deadline: Option<Instant>,
    ) -> Result<Finished, Error> {
        let slot = until(deadline, Arc::clone(&self.shared.slots).acquire_owned())
            .await?
            .map_err(|_| Error::Stopped)?;
        if *self.shared.stop.borrow() {
            return Err(Error::Stopped);
        }
        let child = self.start(command).await?;
        let (reply, answer) = oneshot::channel();
        let watcher = Watcher {
            slot,
            limits: self.shared.limits,
            stop: self.shared.stop.subscribe(),
            alive: self.shared.alive.subscribe(),
        };
        tokio::spawn(watcher.watch_over(child, input, reply));
        until(deadline, answer).await?.unwrap_or(Err(Error::Stopped))
    }

    async fn start(&self, command: &Command) -> Result<Child, Error> {
        #[cfg(feature = "exec")]
        if let Some(confinement) = &self.shared.confinement {
            return confinement.start(command.clone()).await;
        }
        Child::start(command)
    }

    /// Ends every child and starts no more; returns when none is left.
    pub async fn stop(&self) {
        self.shared.stop.send_replace(true);
        self.shared.slots.close();
        self.shared.alive.closed().await;
    }

    /// How many children run now.
    pub fn running(&self) -> usize {
        self.shared.alive.receiver_count()
    }
}

/// Waits until a deadline, if there is one.
async fn until<T>(deadline: Option<Instant>, future: impl Future<Output = T>) -> Result<T, Error> {
    match deadline {
        Some(deadline) => {
            tokio::time::timeout_at(deadline, future).await.map_err(|_| Error::DeadlineExceeded)
        }
        None => Ok(future.await),
    }
}

/// What the task of one child holds while anything of that child is left.
struct Watcher {
    slot: OwnedSemaphorePermit,
    limits: Limits,
    stop: watch::Receiver<bool>,
    alive: watch::Receiver<()>,
}

// === impl Watcher ===

impl Watcher {
    async fn watch_over(
        mut self,
        mut child: Child,
        input: Bytes,
        mut reply: oneshot::Sender<Result<Finished, Error>>,
    ) {
        let mut conversation = Conversation::new(input, self.limits);
        let ended = tokio::select! {
            ended = child.converse(&mut conversation) => Some(ended),
            () = reply.closed() => None,
            () = told_to_stop(&mut self.stop) => None,
        };
        // The slot is free only when the group is gone, and the answer goes out only when the slot is
        // free: who has all its answers finds nothing left running.
        let answer = match ended {
            Some(Ok(())) => child.bury().map(|status| conversation.finish(status)).map_err(Error::Pipes),
            Some(Err(error)) => {
                child.kill().await;
                Err(error.explain(conversation))
            }
            None => {
                child.terminate(TERM_GRACE).await;
                Err(Error::Stopped)
            }
        };
        drop(self.slot);
        drop(self.alive);
        // Nobody may be waiting any more.
        let _ = reply.send(answer);
    }
}

async fn told_to_stop(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // The handle is gone, and with it whoever could say stop.
        pending::<()>().await;
    }
}

/// The words that Go has for an error of the operating system.
pub(crate) fn errno_text(error: &io::Error) -> String {
    let text = match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory",
        io::ErrorKind::PermissionDenied => "permission denied",
        _ => {
            let text = error.to_string();
            let end = text.find(" (os error").unwrap_or(text.len());
            return text[..end].to_lowercase();
        }
    };
    text.to_owned()
}
