//! Reaping processes without an owner.
//!
//! What a function leaves behind when it exits is handed to the nearest process that adopts orphans:
//! process 1 of a container does so anyway. Unless their exit status is collected they stay as zombies
//! until the process table is full.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;
use std::{fs, io};

use rustix::process::{Pid, WaitId, WaitIdOptions};

/// How long an ended orphan may wait. A signal would tell of it at once, and of every ordinary child as
/// well, which costs more than it is worth.
const PAUSE: Duration = Duration::from_secs(1);

/// Children that have an owner who will ask for their status.
static OWNED: Mutex<Option<HashSet<Pid>>> = Mutex::new(None);

/// Held for reading while a child starts and is entered in [`OWNED`], for writing while orphans are
/// reaped: a child that ends at once must not be taken for one.
static STARTING: RwLock<()> = RwLock::new(());

/// Makes this process adopt the orphans of its children and reap them, for as long as it lives.
pub fn adopt_orphans() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    tokio::spawn(async {
        loop {
            tokio::time::sleep(PAUSE).await;
            reap_orphans();
        }
    });
    Ok(())
}

/// Starts a child so that it is known as owned before anybody can reap it.
pub(crate) fn while_starting(
    start: impl FnOnce() -> io::Result<std::process::Child>,
) -> io::Result<std::process::Child> {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let child = start()?;
    owned(|owned| owned.insert(Pid::from_child(&child)));
    Ok(child)
}

/// To be called once an owned child was reaped.
pub(crate) fn reaped(child: &std::process::Child) {
    owned(|owned| owned.remove(&Pid::from_child(child)));
}

/// Reaps every child that has ended and has no owner.
fn reap_orphans() {
    let _nobody_starts = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if !matches!(rustix::process::waitid(WaitId::All, look), Ok(Some(_))) {
        return;
    }
    for child in children() {
        if !owned(|owned| owned.contains(&child)) {
            let take = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            // It fails if the child is gone already, and that is the aim.
            let _ = rustix::process::waitid(WaitId::Pid(child), take);
        }
    }
}

/// The children of all threads of this process; none where the kernel does not list them.
fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_ascii_whitespace()
                .filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn owned<T>(look: impl FnOnce(&mut HashSet<Pid>) -> T) -> T {
    look(OWNED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}
