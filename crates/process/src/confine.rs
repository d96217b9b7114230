//! Keeping children away from files that are none of their business.
//!
//! Landlock binds a thread and all that it starts, so one thread gives up its access for good and then
//! starts the children. Nothing has to run between fork and exec, which would cost the fast way of
//! starting a process.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::{fs, io, thread};

use landlock::{
    ABI, Access as _, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetStatus,
};
use tokio::sync::oneshot;

use crate::child::{Child, Leader};
use crate::{Command, Error};

/// Starts children that cannot open some files.
#[derive(Debug)]
pub struct Confinement {
    orders: mpsc::Sender<Order>,
}

#[derive(Debug)]
struct Order {
    command: Command,
    reply: oneshot::Sender<Result<Leader, Error>>,
}

/// Why files cannot be hidden.
#[derive(Debug, thiserror::Error)]
pub enum ConfinementError {
    #[error("this kernel has no Landlock")]
    Unsupported,
    #[error("the Landlock rules were refused")]
    Refused(#[source] landlock::RulesetError),
    #[error("the thread for confined children did not start")]
    Thread(#[source] io::Error),
}

// === impl Confinement ===

impl Confinement {
    /// Children see neither the folder `hidden` nor anything in it. What is not there when this is
    /// called, beside the path to the folder, may stay out of their reach too.
    pub fn hiding(hidden: &Path) -> Result<Self, ConfinementError> {
        let hidden = fs::canonicalize(hidden).unwrap_or_else(|_| hidden.to_owned());
        let (orders, inbox) = mpsc::channel::<Order>();
        let (ready, outcome) = mpsc::channel();
        let worker = move || {
            let restricted = restrict_this_thread(&hidden);
            let usable = restricted.is_ok();
            if ready.send(restricted).is_err() || !usable {
                return;
            }
            while let Ok(Order { command, reply }) = inbox.recv() {
                // A caller who is gone by now gets no child, or sees to its end by dropping it.
                if !reply.is_closed() {
                    let _ = reply.send(Leader::start(&command));
                }
            }
        };
        thread::Builder::new().name("confined".to_owned()).spawn(worker).map_err(ConfinementError::Thread)?;
        outcome.recv().unwrap_or(Err(ConfinementError::Unsupported))?;
        Ok(Self { orders })
    }

    pub(crate) async fn start(&self, command: Command) -> Result<Child, Error> {
        let (reply, started) = oneshot::channel();
        self.orders.send(Order { command, reply }).map_err(|_| Error::Stopped)?;
        started.await.map_err(|_| Error::Stopped)??.attach()
    }
}

fn restrict_this_thread(hidden: &Path) -> Result<(), ConfinementError> {
    let all = AccessFs::from_all(ABI::V1);
    let mut rules =
        Ruleset::default().handle_access(all).and_then(Ruleset::create).map_err(ConfinementError::Refused)?;
    for path in everything_beside(hidden) {
        // What cannot be opened cannot be allowed, and need not be.
        let Ok(handle) = PathFd::new(&path) else { continue };
        let access = if path.is_dir() { all } else { AccessFs::from_file(ABI::V1) };
        rules = rules.add_rule(PathBeneath::new(handle, access)).map_err(ConfinementError::Refused)?;
    }
    let status = rules.restrict_self().map_err(ConfinementError::Refused)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(ConfinementError::Unsupported),
        _ => Ok(()),
    }
}

/// Landlock can only allow, and allows whole trees: so all that stands beside the way to `hidden`.
fn everything_beside(hidden: &Path) -> BTreeSet<PathBuf> {
    hidden
        .ancestors()
        .skip(1)
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| !hidden.starts_with(path))
        .collect()
}
