//! Running a function as a child process: the one place of the project that starts one.
//!
//! Every child leads a process group of its own, and its three pipes are pumped at once. A caller that
//! gives up, a deadline and a stop of the service are one case: what was started is dropped, and by that
//! goes to a task that ends it. The group gets SIGTERM, a moment later SIGKILL, and its leader is reaped;
//! it keeps its slot until then.

use std::ffi::OsString;
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
pub use loggia_go::errno_text;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use crate::context;

mod capture;
mod child;
#[cfg(feature = "exec")]
mod confine;
mod orphans;
#[cfg(test)]
mod tests;

pub use capture::Captured;
pub(crate) use capture::cut_middle;
use child::{Broken, Child, Conversation};
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
    /// Each child comes with a receiver, so the sender knows when the last is gone.
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
        Self { shared: Arc::new(Shared::new(limits)) }
    }

    /// The same, with children that are started inside a confinement.
    #[cfg(feature = "exec")]
    pub fn confined(limits: Limits, confinement: Confinement) -> Self {
        let shared = Shared { confinement: Some(confinement), ..Shared::new(limits) };
        Self { shared: Arc::new(shared) }
    }

    /// Runs a command on some input and waits for its end.
    ///
    /// Dropping the future ends what it started. At the deadline the answer comes at once, and the group
    /// is gone soon after; until then it keeps its slot.
    pub async fn run(
        &self,
        command: &Command,
        input: Bytes,
        deadline: Option<Instant>,
    ) -> Result<Finished, Error> {
        let begin = Instant::now();
        let slot = tokio::select! {
            biased;
            slot = Arc::clone(&self.shared.slots).acquire_owned() => slot.map_err(|_| Error::Stopped)?,
            () = passed(deadline) => return Err(Error::DeadlineExceeded),
        };
        if *self.shared.stop.borrow() {
            return Err(Error::Stopped);
        }
        let started = Instant::now();
        context::note(|noted| noted.queued = Some(started - begin));
        let child = self.start(command).await?;
        let mut running = Running { child: Some(child), slot: Some((slot, self.shared.alive.subscribe())) };
        let mut conversation = Conversation::new(input, self.shared.limits);
        let ended = tokio::select! {
            ended = running.converse(&mut conversation) => ended,
            () = told_to_stop(self.shared.stop.subscribe()) => return Err(Error::Stopped),
            () = passed(deadline) => return Err(Error::DeadlineExceeded),
        };
        context::note(|noted| noted.called = Some(started.elapsed()));
        match ended {
            Ok(()) => {
                let status = running.bury().map_err(Error::Pipes)?;
                context::note(|noted| noted.exit = Some(status));
                Ok(conversation.finish(status))
            }
            Err(error) => Err(error.explain(conversation)),
        }
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

// === impl Shared ===

impl Shared {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            slots: Arc::new(Semaphore::new(limits.concurrent.clamp(1, Semaphore::MAX_PERMITS))),
            stop: watch::Sender::new(false),
            alive: watch::Sender::new(()),
            #[cfg(feature = "exec")]
            confinement: None,
        }
    }
}

/// Returns when a deadline has passed, if there is one.
pub(crate) async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => pending().await,
    }
}

async fn told_to_stop(mut stop: watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // The handle is gone, and with it whoever could say stop.
        pending::<()>().await;
    }
}

/// What a child takes up: a slot, and a place among those that live.
type Slot = (OwnedSemaphorePermit, watch::Receiver<()>);

/// A child and its slot. Dropped before the child's burial, both go to a task that ends it.
struct Running {
    child: Option<Child>,
    slot: Option<Slot>,
}

// === impl Running ===

impl Running {
    async fn converse(&mut self, conversation: &mut Conversation) -> Result<(), Broken> {
        match &mut self.child {
            Some(child) => child.converse(conversation).await,
            None => Ok(()),
        }
    }

    /// Takes the exit status of a child that has exited. The slot is free before the answer is out: who
    /// has all its answers finds nothing left running.
    fn bury(mut self) -> io::Result<ExitStatus> {
        self.child.take().ok_or_else(|| io::Error::other("the child is buried already"))?.bury()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            let slot = self.slot.take();
            // Outside of a runtime nobody could wait: the child dies where it is dropped.
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(async move {
                    child.terminate(TERM_GRACE).await;
                    drop(slot);
                });
            }
        }
    }
}
