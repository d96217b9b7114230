//! Walls around a child, and around each call by itself.
//!
//! A Landlock domain binds a thread and all that it starts, and cannot be left. So every call gets a thread to itself,
//! its *warden*: it is in a domain of its own, starts the child there, waits for the end of the call, and then kills
//! whatever is left in the domain, wherever it has hidden from its process group. Processes of other calls are in other
//! domains: they can neither signal nor trace this one, nor look into its `/proc`. Where the kernel cannot scope signals,
//! what is left over is found as an orphan instead (see `orphans`).
//!
//! A warden takes one call after another, as nothing of the last one runs any more. Wardens are started by one thread
//! that has given up privileges and installed a filter of system calls before, which all of them inherit. A few wait in
//! their domains ahead of time.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Signal;
use tokio::sync::oneshot;

use crate::child::{Child, Leader};
use crate::{Command, Error, orphans};

mod filter;
mod orders;
mod rules;
mod scratch;
mod spawn;
#[cfg(test)]
mod tests;
mod warden;
mod watch;

use filter::Filter;
use orders::{OrderQueue, OrderSender};
pub use rules::Abi;
use rules::{Rules, RulesError};
use scratch::Scratch;
use spawn::Rlimits;
use warden::Cell;
pub(crate) use warden::Warden;
pub use watch::OverLimit;

/// How long to wait when a thread cannot be started: a function may have taken all processes that there may be.
const RETRY: Duration = Duration::from_millis(50);

/// How often the rules are compared with the folders they were made from.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How children are confined.
#[derive(Clone, Debug)]
pub struct Settings {
    pub files: Files,
    /// Secrets: files and folders that children cannot open, by whatever name.
    pub hidden: Vec<PathBuf>,
    /// Children may use the network.
    pub network: bool,
    /// Children are kept from system calls that no function needs.
    pub filter: bool,
    pub limits: ResourceLimits,
}

/// What children may do with files.
#[derive(Clone, Debug)]
pub enum Files {
    /// What their user may do.
    AsTheyAre,
    /// They may read, and write in a private temporary folder and to these paths alone.
    ReadOnly {
        writable: Vec<PathBuf>,
        /// Where private folders are made.
        temporary: PathBuf,
    },
}

/// What one child may use up; what is left out is not bounded.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceLimits {
    /// Bytes of memory, for each of its processes.
    pub memory: Option<u64>,
    /// Files that each of its processes has open.
    pub open_files: Option<u64>,
    /// Bytes of any file that it writes.
    pub file_size: Option<u64>,
    /// Time on a processor, for each of its processes.
    pub cpu_time: Option<Duration>,
    /// Processes and threads at the same time.
    pub processes: Option<u64>,
    /// Bytes in its temporary folder.
    pub temporary: Option<u64>,
}

/// Starts confined children. Clones share the wardens.
#[derive(Clone, Debug)]
pub struct Confinement {
    orders: Arc<OrderSender>,
    abi: Abi,
}

/// A child to be started.
#[derive(Debug)]
struct Order {
    command: Command,
    reply: oneshot::Sender<Result<Child, Error>>,
}

/// Why children cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfinementError {
    #[error(transparent)]
    Rules(#[from] RulesError),
    #[error("the filter for system calls was refused")]
    Filter(#[source] io::Error),
    #[error("the Landlock domain does not keep signals in, although the kernel says so")]
    NotScoped,
    #[error("temporary folders cannot be made in {}", .0.display())]
    Temporary(PathBuf, #[source] io::Error),
    #[error("the thread for confined children did not start")]
    Thread(#[source] io::Error),
}

/// How long the chief thread waits for wardens to exit at shutdown.
const LEAVE_TIME: Duration = Duration::from_secs(10);

/// What wardens share.
#[derive(Debug)]
struct Shared {
    settings: Settings,
    abi: Abi,
    rlimits: Rlimits,
    scratch: Option<Scratch>,
    /// The rules, and when they were last found to be up to date.
    rules: Mutex<(Arc<Rules>, Instant)>,
    /// Cells that no warden uses.
    free: Mutex<Vec<Cell>>,
}

// === impl Confinement ===

impl Confinement {
    /// Makes the rules and the first wardens. Kernels without Landlock confine what they can; see [`Abi::lacks`].
    pub fn new(settings: Settings) -> Result<Self, ConfinementError> {
        Self::with_abi(settings, Abi::here())
    }

    /// The same for a kernel that is known to have only so much.
    fn with_abi(settings: Settings, abi: Abi) -> Result<Self, ConfinementError> {
        let shared = Arc::new(Shared::new(settings, abi)?);
        let queue = Arc::new(OrderQueue::default());
        let orders = Arc::new(OrderSender::new(Arc::clone(&queue)));
        let (ready, outcome) = mpsc::channel();
        let chief = move || {
            let prepared = shared.prepare_this_thread();
            let usable = prepared.is_ok();
            if ready.send(prepared).is_ok() && usable {
                shared.keep_wardens(&queue);
            }
        };
        thread::Builder::new().name("confined".to_owned()).spawn(chief).map_err(ConfinementError::Thread)?;
        outcome.recv().map_err(|error| ConfinementError::Thread(io::Error::other(error)))??;
        Ok(Self { orders, abi })
    }

    /// What the kernel's Landlock offers.
    pub fn abi(&self) -> Abi {
        self.abi
    }

    pub(crate) async fn start(&self, command: Command) -> Result<Child, Error> {
        let (reply, started) = oneshot::channel();
        self.orders.give(Order { command, reply });
        started.await.map_err(|_| Error::Stopped)?
    }
}

// === impl Shared ===

impl Shared {
    fn new(settings: Settings, abi: Abi) -> Result<Self, ConfinementError> {
        let ResourceLimits { memory, open_files, file_size, cpu_time, processes: _, temporary: _ } =
            settings.limits;
        let rlimits = Rlimits::default()
            .with(libc::RLIMIT_DATA, memory)
            .with(libc::RLIMIT_NOFILE, open_files)
            .with(libc::RLIMIT_FSIZE, file_size)
            .with(libc::RLIMIT_CPU, cpu_time.map(|time| time.as_secs().max(1)))
            // A core would hold a package, and outlive the call.
            .with(libc::RLIMIT_CORE, Some(0));
        let scratch = match &settings.files {
            Files::AsTheyAre => None,
            Files::ReadOnly { temporary, .. } => Some(
                Scratch::new(temporary)
                    .map_err(|error| ConfinementError::Temporary(temporary.clone(), error))?,
            ),
        };
        let rules = Mutex::new((Arc::new(settings.rules()?), Instant::now()));
        Ok(Self { settings, abi, rlimits, scratch, rules, free: Mutex::new(Vec::new()) })
    }

    /// Gives up what no warden and no child needs, and tries out a domain.
    fn prepare_this_thread(self: &Arc<Self>) -> Result<(), ConfinementError> {
        filter::give_up_privileges(self.settings.filter).map_err(ConfinementError::Filter)?;
        if self.settings.filter {
            Filter::new(self.settings.network).install().map_err(ConfinementError::Filter)?;
        }
        // Killing all in reach is right only where this one is not.
        let bystander = orphans::while_starting(spawn::bystander).map_err(ConfinementError::Thread)?;
        let bystander = Leader::of(bystander);
        let (shared, outside) = (Arc::clone(self), bystander.pid());
        let trial = thread::Builder::new().spawn(move || {
            let cell = Cell::new(&shared)?;
            cell.enter(&shared)?;
            let reached = rustix::process::test_kill_process(outside) != Err(Errno::PERM);
            if shared.abi.scopes_signals() && reached {
                return Err(ConfinementError::NotScoped);
            }
            shared.give_back(cell);
            Ok(())
        });
        let trial = trial.map(thread::JoinHandle::join);
        // It leads no group.
        let _ = rustix::process::kill_process(outside, Signal::KILL);
        drop(bystander);
        trial
            .map_err(ConfinementError::Thread)?
            .unwrap_or_else(|_| Err(ConfinementError::Thread(io::Error::other("it panicked"))))
    }

    /// Sees to it that some wardens wait, until there are no more orders.
    fn keep_wardens(self: &Arc<Self>, queue: &Arc<OrderQueue>) {
        while queue.needs_another() {
            if warden::start(self, queue).is_err() {
                queue.left();
                // The kernel does not report when it has room for a thread again.
                thread::sleep(RETRY);
            }
        }
        // The last one to leave removes the temporary folder, and a warden cannot: its domain keeps it out.
        let begin = Instant::now();
        while Arc::strong_count(self) > 1 && begin.elapsed() < LEAVE_TIME {
            // Wardens are detached threads, so their exit shows only in the count.
            thread::sleep(LEAVE_TIME / 1000);
        }
    }

    /// The rules, made again if they no longer fit the folders they are about.
    fn rules(&self) -> Arc<Rules> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let (current, looked) = &mut *rules;
        if looked.elapsed() > LOOK_INTERVAL {
            *looked = Instant::now();
            // Rules that cannot be made again stay as they are: they allow too little, never too much.
            if let (true, Ok(fresh)) = (current.outdated(), self.settings.rules()) {
                *current = Arc::new(fresh);
            }
        }
        Arc::clone(current)
    }

    /// Whether these rules still fit. It may be asked from inside of a domain, where rules cannot be made.
    fn is_current(&self, rules: &Arc<Rules>) -> bool {
        let mut known = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let (current, looked) = &mut *known;
        if !Arc::ptr_eq(current, rules) {
            return false;
        }
        if looked.elapsed() > LOOK_INTERVAL {
            if current.outdated() {
                return false;
            }
            *looked = Instant::now();
        }
        true
    }

    fn take_cell(self: &Arc<Self>) -> Result<Cell, ConfinementError> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match free {
            Some(cell) => cell.renewed(self),
            None => Cell::new(self),
        }
    }

    fn give_back(&self, cell: Cell) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(cell);
    }
}

// === impl Settings ===

impl Settings {
    /// For a container that has nothing but the function in it: each call is kept from the others and from these
    /// secrets, and from nothing else.
    pub fn in_own_container(hidden: Vec<PathBuf>) -> Self {
        Self {
            files: Files::AsTheyAre,
            hidden,
            network: true,
            filter: false,
            limits: ResourceLimits::default(),
        }
    }

    fn rules(&self) -> Result<Rules, RulesError> {
        Rules::new(&self.files, &self.hidden, self.network)
    }
}
