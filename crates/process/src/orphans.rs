//! Ending processes without an owner.
//!
//! What a function leaves behind when it exits is handed to the nearest process that adopts orphans: process 1 of a
//! container does so anyway. Confined functions adopt the orphans of their own processes for as long as they run, so
//! whatever arrives here belongs to a call that is over. It is killed and its exit status collected; otherwise it
//! would read on, or stay as a zombie until the process table is full.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;
use std::{fs, io};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

/// How long an orphan may go on that no end of a call has found. A signal would tell of it at once, and of every
/// ordinary child as well, which costs more than it is worth.
const PAUSE: Duration = Duration::from_millis(500);

/// How often the children are looked at in a row: those of a killed orphan are the next orphans.
const ROUNDS: usize = 64;

/// Whether orphans come to this process at all. Without that its children are only those that it started itself.
static ADOPTING: AtomicBool = AtomicBool::new(false);

/// Children that have an owner who will ask for their status.
static OWNED: Mutex<Option<HashSet<Pid>>> = Mutex::new(None);

/// Held for reading while a child starts and is entered in [`OWNED`], for writing while orphans are
/// reaped: a child that ends at once must not be taken for one.
static STARTING: RwLock<()> = RwLock::new(());

/// Makes this process adopt the orphans of its children and end them, for as long as it lives.
pub fn adopt_orphans() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    ADOPTING.store(true, Ordering::Relaxed);
    tokio::spawn(async {
        loop {
            tokio::time::sleep(PAUSE).await;
            end_orphans();
        }
    });
    Ok(())
}

/// A child of this process, by its number.
pub(crate) trait Numbered {
    fn number(&self) -> Pid;
}

impl Numbered for std::process::Child {
    fn number(&self) -> Pid {
        Pid::from_child(self)
    }
}

impl Numbered for Pid {
    fn number(&self) -> Pid {
        *self
    }
}

/// Starts a child so that it is known as owned before anybody can reap it.
pub(crate) fn while_starting<T: Numbered>(start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let child = start()?;
    owned(|owned| owned.insert(child.number()));
    Ok(child)
}

/// To be called once an owned child was reaped.
pub(crate) fn reaped(child: &impl Numbered) {
    owned(|owned| owned.remove(&child.number()));
}

/// Ends every child that has no owner. The members of a group whose leader is owned have a little time left in which
/// they may write to its pipes.
pub(crate) fn end_orphans() {
    if !ADOPTING.load(Ordering::Relaxed) {
        return;
    }
    for _ in 0..ROUNDS {
        let _nothing_starts = STARTING.write().unwrap_or_else(PoisonError::into_inner);
        let orphans: Vec<_> = children().into_iter().filter(|child| !is_owned(*child)).collect();
        if orphans.is_empty() {
            return;
        }
        for orphan in orphans {
            // These fail if the orphan is gone already, and that is the aim.
            let _ = rustix::process::kill_process(orphan, Signal::KILL);
            let _ =
                rustix::process::waitid(WaitId::Pid(orphan), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}

fn is_owned(child: Pid) -> bool {
    let group = rustix::process::getpgid(Some(child)).unwrap_or(child);
    owned(|owned| owned.contains(&child) || owned.contains(&group))
}

/// The children of this process that orphans are among: the kernel gives them to the first thread. None where it does
/// not list them.
fn children() -> Vec<Pid> {
    let file = format!("/proc/self/task/{}/children", std::process::id());
    let list = fs::read_to_string(file).unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw)).collect()
}

fn owned<T>(look: impl FnOnce(&mut HashSet<Pid>) -> T) -> T {
    look(OWNED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}
