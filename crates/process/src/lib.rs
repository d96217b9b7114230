//! Running a child process: the one place of the project that starts one.
//!
//! Every child leads a process group of its own, and its three pipes are pumped at once. A caller that
//! gives up, a deadline and a stop of the service are one case: what was started is dropped, and by that
//! goes to a task that ends it. The group gets SIGTERM, a moment later SIGKILL, and its leader is reaped;
//! it keeps its slot until then.

#![allow(clippy::disallowed_methods, reason = "this is where children are started")]

use std::ffi::OsString;
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use loggia_go::errno_text;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

mod call;
mod capture;
mod child;
#[cfg(feature = "confine")]
mod confine;
pub mod memory;
mod orphans;
#[cfg(test)]
mod tests;
mod worker;

pub use capture::Captured;
use child::{Broken, Child, Conversation, Ended};
#[cfg(feature = "confine")]
pub use confine::{Abi, Confinement, ConfinementError, Files, OverLimit, ResourceLimits, Settings};
pub use orphans::adopt_orphans;
pub use worker::{WorkerProcess, slow_down};

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
    /// Each child holds a receiver, so the sender knows when the last is gone.
    alive: watch::Sender<()>,
    #[cfg(feature = "confine")]
    confinement: Option<Confinement>,
}

/// The right to run one child.
#[derive(Debug)]
pub struct Slot {
    shared: Arc<Shared>,
    permit: OwnedSemaphorePermit,
    waited: Duration,
}

/// What bounds the children.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Children at the same time; more wait for a slot in the order they came.
    pub concurrent: usize,
    /// Bytes of standard error that are kept, half from the beginning and half from the end.
    pub stderr: usize,
}

/// What bounds one child.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    /// Bytes of standard output; a child that writes more is killed.
    pub stdout: usize,
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
    #[cfg(feature = "confine")]
    #[error("{limit}, and was stopped")]
    OverLimit { limit: OverLimit, stderr: Captured },
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
    #[cfg(feature = "confine")]
    pub fn confined(limits: Limits, confinement: Confinement) -> Self {
        let shared = Shared { confinement: Some(confinement), ..Shared::new(limits) };
        Self { shared: Arc::new(shared) }
    }

    /// Waits for a slot, in the order in which callers came.
    pub async fn slot(&self, deadline: Option<Instant>) -> Result<Slot, Error> {
        let begin = Instant::now();
        let permit = tokio::select! {
            biased;
            permit = Arc::clone(&self.shared.slots).acquire_owned() => permit.map_err(|_| Error::Stopped)?,
            () = passed(deadline) => return Err(Error::DeadlineExceeded),
        };
        if *self.shared.stop.borrow() {
            return Err(Error::Stopped);
        }
        Ok(Slot { shared: Arc::clone(&self.shared), permit, waited: begin.elapsed() })
    }

    /// Waits for a slot, runs a command in it on some input and waits for its end; see [`Slot::run`].
    pub async fn run(&self, command: &Command, input: Bytes, bounds: Bounds) -> Result<Finished, Error> {
        self.slot(bounds.deadline).await?.run(command, input, bounds).await
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

// === impl Slot ===

impl Slot {
    /// How long the caller waited for it.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Runs a command on some input and waits for its end.
    ///
    /// Dropping the future ends what it started. At the deadline the answer comes at once, and the group
    /// is gone soon after; until then it keeps the slot.
    pub async fn run(self, command: &Command, input: Bytes, bounds: Bounds) -> Result<Finished, Error> {
        let Self { shared, permit, waited: _ } = self;
        let child = shared.start(command).await?;
        let occupied = (permit, shared.alive.subscribe());
        let mut running = Running { child: Some(child), occupied: Some(occupied) };
        let mut conversation = Conversation::new(input, bounds.stdout, shared.limits.stderr);
        let ended = tokio::select! {
            ended = running.converse(&mut conversation) => ended,
            () = told_to_stop(shared.stop.subscribe()) => return Err(Error::Stopped),
            () = passed(bounds.deadline) => return Err(Error::DeadlineExceeded),
        };
        match ended {
            Ok(()) => match running.reap() {
                Ok(status) => Ok(conversation.finish(status)),
                Err(ended) => Err(ended.explain(conversation)),
            },
            Err(error) => Err(error.explain(conversation)),
        }
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
            #[cfg(feature = "confine")]
            confinement: None,
        }
    }

    async fn start(&self, command: &Command) -> Result<Child, Error> {
        #[cfg(feature = "confine")]
        if let Some(confinement) = &self.confinement {
            return confinement.start(command.clone()).await;
        }
        Child::start(command)
    }
}

/// Keeps other processes of the same user from looking into this one: its memory, its variables, its open files. There
/// will be no core of it either.
pub fn close_to_others() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?)
}

/// Returns when a deadline has passed, if there is one.
pub async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => pending().await,
    }
}

async fn told_to_stop(mut stop: watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // The last handle is gone, so `stop` cannot be called any more.
        pending::<()>().await;
    }
}

/// What a child takes up until it is reaped: a permit of the slots, and one of the receivers that are counted.
type Occupied = (OwnedSemaphorePermit, watch::Receiver<()>);

/// A child and its slot. Dropped before the child was reaped, both go to a task that ends it.
struct Running {
    child: Option<Child>,
    occupied: Option<Occupied>,
}

// === impl Running ===

impl Running {
    async fn converse(&mut self, conversation: &mut Conversation) -> Result<(), Broken> {
        match &mut self.child {
            Some(child) => child.converse(conversation).await,
            None => Ok(()),
        }
    }

    /// Takes the exit status of a child that has exited. The slot is free before the answer is out, so a caller
    /// that has all its answers finds nothing left running.
    fn reap(mut self) -> Result<ExitStatus, Ended> {
        let reaped = || Ended::Lost(io::Error::other("the child was reaped already"));
        self.child.take().ok_or_else(reaped)?.reap(self.occupied.take())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            let occupied = self.occupied.take();
            // Outside of a runtime there is no task that could wait: the child is killed where it is dropped.
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(child.terminate(TERM_GRACE, occupied));
            }
        }
    }
}
