//! Processes that run functions of the catalog, one call after another.
//!
//! A function may loop, abort, overflow its stack or eat memory until its process dies. In a worker that costs the call
//! and the worker, and nothing else. A worker is this program again, started as `PROGRAM __worker …`, that does nothing
//! but compute: see [`crate::worker`]. A program that wants to use [`Workers`] calls [`enter`] first thing in `main`.
//!
//! Calls wait for slots in the order they came. There are two kinds: calls that are expected to be cheap cannot be held
//! up by those that run programs of users or have much input, and a call that turns out to be slow moves to the slots
//! of those as soon as one is free. A deadline, a caller that goes away and a stop of the service are one case: the
//! worker is killed, and its slot is free when it is gone.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use loggia_function::{Call, Exit, Guarded, Image, Outcome, Payload, RunError};
use loggia_functions::Function;
use loggia_process::passed;
use tokio::runtime::Handle;
use tokio::sync::{AcquireError, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

mod busy;
pub(crate) mod frame;
mod keeper;
mod link;
pub(crate) mod settings;

pub use crate::worker::enter;
use busy::{Busy, Worker, bury, told_to_stop};
use frame::{Confined, Death, Status};
use keeper::Keeper;
use link::{Answer, Link, Request};
pub use settings::{LimitFlags, Settings, TIMEOUT};

/// The input of a call that is not expected to be cheap.
const LARGE: usize = 256 << 10;

/// How long a call may run before it is taken for a slow one.
const CHEAP_TIME: Duration = Duration::from_millis(250);

/// How long a worker may take to be ready.
const START_TIME: Duration = Duration::from_secs(20);

/// How long a worker may idle; the last one stays.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// Starts workers and lends them to calls. Clones share them.
#[derive(Clone, Debug)]
pub struct Workers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    keeper: OnceLock<Keeper>,
    cheap: Arc<Semaphore>,
    other: Arc<Semaphore>,
    /// The last one was used last, so that those that are not needed grow old.
    idle: Mutex<Vec<Idle>>,
    /// A worker is started as soon as the last idle one is gone.
    spare: OnceLock<()>,
    /// True once no function may run any more.
    stop: watch::Sender<bool>,
    /// Each worker holds a receiver, so the sender knows when the last is gone.
    alive: watch::Sender<()>,
    warned: OnceLock<()>,
}

#[derive(Debug)]
struct Idle {
    worker: Worker,
    since: Instant,
}

/// What a call is expected to need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    Cheap,
    Other,
}

/// Why a worker was stopped, or stopped.
#[derive(Debug)]
enum Stopped {
    /// The caller's deadline.
    Deadline,
    OverTime,
    Service,
    Died(Exit),
    Garbage,
    Socket(std::io::Error),
}

// === impl Workers ===

impl Workers {
    /// No worker runs yet; the first call starts one.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let slots = |count: usize| Arc::new(Semaphore::new(count.clamp(1, Semaphore::MAX_PERMITS)));
        let shared = Shared {
            keeper: OnceLock::new(),
            cheap: slots(settings.cheap_slots),
            other: slots(settings.slots),
            idle: Mutex::default(),
            spare: OnceLock::new(),
            stop: watch::Sender::new(false),
            alive: watch::Sender::new(()),
            warned: OnceLock::new(),
            settings,
        };
        Self { shared: Arc::new(shared) }
    }

    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Keeps at least one worker ready from now on, and ends those that idle. To be called inside of a runtime.
    pub fn keep_ready(&self) {
        if self.shared.spare.set(()).is_ok() {
            Shared::start_spare(&self.shared);
            tokio::spawn(tidy(Arc::downgrade(&self.shared)));
        }
    }

    /// Runs a function of the catalog.
    pub(crate) async fn run(
        &self,
        image: &Image,
        function: &Function,
        call: &Call,
    ) -> Result<Outcome, RunError> {
        let input = call.input.to_bytes();
        let settings = &self.shared.settings;
        let output = call.budget.output.min(settings.output);
        let request = |memory| Request { function: image.written(), input: &input, output, memory };
        if !function.guarded && input.len() <= LARGE {
            let ended = self.attempt(Weight::Cheap, &request(settings.cheap_memory), call).await;
            let needs_more =
                matches!(&ended, Err(Stopped::Died(exit)) if Death::of(*exit) == Some(Death::Memory));
            if !needs_more || settings.memory <= settings.cheap_memory {
                return self.explain(ended, output);
            }
        }
        let ended = self.attempt(Weight::Other, &request(settings.memory), call).await;
        self.explain(ended, output)
    }

    /// Runs a function in a slot. Functions have no effects, so one whose worker was killed from outside runs again.
    async fn attempt(&self, weight: Weight, request: &Request<'_>, call: &Call) -> Result<Answer, Stopped> {
        let ended = self.shared.attempt(weight, request, call).await;
        match ended {
            Err(Stopped::Died(Exit::Signal { number: 9, .. })) => {
                // Whoever killed this one may have killed them all.
                self.shared.bury_idle();
                self.shared.attempt(weight, request, call).await
            }
            ended => ended,
        }
    }

    fn explain(&self, ended: Result<Answer, Stopped>, limit: usize) -> Result<Outcome, RunError> {
        let Answer { head, stdout, stderr } =
            ended.map_err(|stopped| self.shared.settings.explain(stopped))?;
        match head.status {
            Status::Done => Ok(Outcome {
                output: Payload::Bytes(stdout),
                stderr,
                exit: Exit::Code(head.exit),
                remote: None,
            }),
            Status::TooMuchOutput => Err(RunError::TooMuchOutput { limit, stderr }),
            Status::Panicked => Err(RunError::Panicked),
            Status::NotFound => Err(RunError::not_found()),
            Status::Ready => Err(self.shared.settings.explain(Stopped::Garbage)),
        }
    }

    /// Ends every worker and starts no more; returns when none is left.
    pub async fn stop(&self) {
        self.shared.stop.send_replace(true);
        self.shared.cheap.close();
        self.shared.other.close();
        self.shared.bury_idle();
        self.shared.alive.closed().await;
    }

    /// How many workers there are, idle ones included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.alive.receiver_count()
    }
}

// === impl Settings ===

impl Settings {
    /// What a call without an answer means for its caller.
    fn explain(&self, stopped: Stopped) -> RunError {
        RunError::Guarded(match stopped {
            Stopped::Deadline => return RunError::TimedOut,
            Stopped::Service => {
                return RunError::Interrupted(
                    "the function evaluator stopped before the function ended; try again",
                );
            }
            Stopped::OverTime => Guarded::OverTime { limit: self.timeout, flag: self.flags.timeout },
            Stopped::Died(exit) => match Death::of(exit) {
                Some(Death::Memory) => Guarded::OverMemory { limit: self.memory, flag: self.flags.memory },
                Some(Death::Stack) => Guarded::TooDeep,
                Some(Death::Start) => Guarded::NotRun("its worker process could not limit itself".to_owned()),
                Some(Death::Abort | Death::Fault) => Guarded::Crashed,
                None => Guarded::Ended { exit: exit.to_string() },
            },
            Stopped::Garbage => {
                Guarded::NotRun("its worker process sent something other than an answer".to_owned())
            }
            Stopped::Socket(error) => Guarded::NotRun(format!("its worker process: {error}")),
        })
    }
}

// === impl Shared ===

impl Shared {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the workers that have nothing to do.
    fn bury_idle(&self) {
        let idle = std::mem::take(&mut *self.idle());
        idle.into_iter().for_each(|idle| bury(idle.worker, None));
    }

    async fn attempt(
        self: &Arc<Self>,
        weight: Weight,
        request: &Request<'_>,
        call: &Call,
    ) -> Result<Answer, Stopped> {
        let begin = Instant::now();
        let mut busy = self.occupy(weight, call.budget.deadline).await?;
        let queued = begin.elapsed();
        call.record.note(|recorded| recorded.queued = Some(recorded.queued.unwrap_or_default() + queued));
        let begin = Instant::now();
        let ended = busy.run(weight, request, call.budget.deadline).await;
        if ended.is_ok() {
            call.record.note(|recorded| recorded.ran = Some(begin.elapsed()));
        }
        ended
    }

    /// Waits for a slot and gets a worker for it.
    async fn occupy(
        self: &Arc<Self>,
        weight: Weight,
        deadline: Option<Instant>,
    ) -> Result<Busy<'_>, Stopped> {
        let stopped = |_: AcquireError| Stopped::Service;
        let permit = tokio::select! {
            biased;
            permit = Arc::clone(self.slots(weight)).acquire_owned() => permit.map_err(stopped)?,
            () = passed(deadline) => return Err(Stopped::Deadline),
        };
        let mut busy = Busy { shared: self, worker: None, permit: Some(permit) };
        let mut stop = self.stop.subscribe();
        let worker = match self.take_idle() {
            Some(worker) => worker,
            None => tokio::select! {
                biased;
                worker = self.start_worker() => worker?,
                () = passed(deadline) => return Err(Stopped::Deadline),
                () = told_to_stop(&mut stop) => return Err(Stopped::Service),
            },
        };
        busy.worker = Some(worker);
        Ok(busy)
    }

    fn slots(&self, weight: Weight) -> &Arc<Semaphore> {
        match weight {
            Weight::Cheap => &self.cheap,
            Weight::Other => &self.other,
        }
    }

    /// An idle worker that lives, as far as is known, and may read the folders with schemas as they are now.
    fn take_idle(self: &Arc<Self>) -> Option<Worker> {
        let schemas = self.settings.schemas.real();
        loop {
            let Idle { worker, .. } = self.idle().pop()?;
            if worker.link.usable() && worker.schemas == schemas {
                return Some(worker);
            }
            bury(worker, None);
        }
    }

    /// Puts a worker that can be asked again back.
    fn put_idle(&self, worker: Worker) {
        self.idle().push(Idle { worker, since: Instant::now() });
        // After this was set no worker is taken out again; see `stop`.
        if *self.stop.borrow() {
            self.idle().drain(..).for_each(|idle| bury(idle.worker, None));
        }
    }

    async fn start_worker(&self) -> Result<Worker, Stopped> {
        let keeper = match self.keeper.get() {
            Some(keeper) => keeper,
            None => {
                let fresh = Keeper::start().map_err(Stopped::Socket)?;
                self.keeper.get_or_init(|| fresh)
            }
        };
        let settings = &self.settings;
        let schemas = settings.schemas.real();
        let mut arguments: Vec<OsString> =
            vec![crate::worker::ENTRY.into(), settings.most_memory().to_string().into()];
        arguments.extend(settings.schemas.paths().iter().map(|path| path.clone().into_os_string()));
        let started = keeper.worker(settings.program.clone(), arguments).await;
        let (process, socket) = started.map_err(Stopped::Socket)?;
        let link = Link::new(socket).map_err(Stopped::Socket)?;
        let (stop, alive) = (self.stop.subscribe(), self.alive.subscribe());
        let worker = Worker { link, process, schemas, stop, _alive: alive };
        match timeout(START_TIME, worker.link.ready()).await {
            Ok(Ok(head)) => {
                self.warn_once(Confined::decode(head.exit));
                Ok(worker)
            }
            Ok(Err(broken)) => Err(worker.death(broken).await),
            Err(_) => {
                bury(worker, None);
                Err(Stopped::Socket(std::io::ErrorKind::TimedOut.into()))
            }
        }
    }

    fn warn_once(&self, confined: Confined) {
        let missing = match (confined.landlock, confined.seccomp) {
            (true, true) => return,
            (false, true) => "Landlock",
            (true, false) => "seccomp",
            (false, false) => "Landlock and seccomp",
        };
        if self.warned.set(()).is_ok() {
            warn!("Built-in functions are confined less than they could be: this kernel has no {missing}");
        }
    }

    /// Starts a worker for the next call, if there is none.
    fn start_spare(shared: &Arc<Self>) {
        if shared.spare.get().is_none() || *shared.stop.borrow() || !shared.idle().is_empty() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let shared = Arc::downgrade(shared);
        runtime.spawn(async move {
            let Some(shared) = shared.upgrade() else { return };
            // If that fails, the next call says why.
            if let Ok(worker) = shared.start_worker().await {
                shared.put_idle(worker);
            }
        });
    }
}

/// Ends workers that idle for long, and replaces the last one if it died.
async fn tidy(shared: Weak<Shared>) {
    loop {
        sleep(IDLE_TIME / 4).await;
        let Some(shared) = shared.upgrade() else { return };
        if *shared.stop.borrow() {
            return;
        }
        let old: Vec<Idle> = {
            let mut idle = shared.idle();
            let spare = idle.len().saturating_sub(1);
            let old = idle.iter().take(spare).take_while(|idle| idle.since.elapsed() > IDLE_TIME).count();
            let mut ended: Vec<Idle> = idle.drain(..old).collect();
            ended.extend(idle.extract_if(.., |idle| !idle.worker.link.usable()));
            ended
        };
        old.into_iter().for_each(|idle| bury(idle.worker, None));
        Shared::start_spare(&shared);
    }
}
