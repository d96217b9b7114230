//! The thread that watches over one call.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, mpsc};
use std::{fs, io, thread};

use landlock::RulesetCreated;
use libc::c_int;
use rustix::process::{Pid, Signal};
use tokio::sync::oneshot;

use super::orders::OrderQueue;
use super::rules::{self, Rules};
use super::watch::{self, OverLimit};
use super::{ConfinementError, Order, Shared, scratch, spawn};
use crate::child::{Child, Leader};
use crate::{Command, Environment, Error, Occupied, orphans};

/// The stack of a warden.
const STACK: usize = 128 * 1024;

/// A call's end of its warden. Dropped, it lets the warden clean up by itself.
#[derive(Debug)]
pub(crate) struct Warden {
    end: mpsc::Sender<End>,
    over_limit: Arc<OnceLock<OverLimit>>,
}

/// The call is over.
#[derive(Debug)]
struct End {
    /// What the call takes up until it is cleaned up.
    _occupied: Option<Occupied>,
}

/// What a child is confined to: rules, and the folder in them that is its own. Used for one call at a time.
#[derive(Debug)]
pub(super) struct Cell {
    folder: Option<PathBuf>,
    rules: Arc<Rules>,
    compiled: Option<RulesetCreated>,
}

/// Starts a warden, which enters its domain and carries out one order after another.
pub(super) fn start(shared: &Arc<Shared>, queue: &Arc<OrderQueue>) -> io::Result<()> {
    let (shared, queue) = (Arc::clone(shared), Arc::clone(queue));
    let life = move || {
        spawn::block_signals();
        let altered = spawn::altered_signals();
        let mut cell = shared.take_cell().and_then(|cell| cell.enter(&shared).map(|()| cell));
        while let Some(order) = queue.take() {
            cell = match cell {
                // A domain cannot be left for one of newer rules.
                Ok(cell) if !shared.is_current(&cell.rules) => {
                    shared.give_back(cell);
                    return queue.put_back(order);
                }
                Ok(cell) => {
                    serve(&shared, &cell, &altered, order);
                    // A folder that cannot be emptied is not used again.
                    if !cell.is_clean() && !cell.clean() {
                        return;
                    }
                    // Only where all in the domain was killed may another call follow in it.
                    if !shared.abi.scopes_signals() || !queue.come_back() {
                        return shared.give_back(cell);
                    }
                    Ok(cell)
                }
                Err(error) => {
                    let source = io::Error::other(format!("it cannot be confined: {error}"));
                    let program = order.command.program;
                    let _ = order.reply.send(Err(Error::NotStarted { program, source }));
                    return;
                }
            };
        }
        queue.left();
        if let Ok(cell) = cell {
            shared.give_back(cell);
        }
    };
    thread::Builder::new().name("warden".to_owned()).stack_size(STACK).spawn(life).map(drop)
}

/// Runs one child from its start until nothing of it is left.
fn serve(shared: &Shared, cell: &Cell, altered: &[c_int], order: Order) {
    let Order { command, reply } = order;
    if reply.is_closed() {
        return;
    }
    let command = cell.furnish(&command);
    let niceness = if shared.settings.filter { spawn::NICENESS } else { 0 };
    let limits = spawn::Start { rlimits: &shared.rlimits, niceness, altered };
    match orphans::while_starting(|| spawn::spawn(&command, &limits)) {
        Ok(spawn::Spawned { pid, pipes }) => guard(shared, cell, pid, pipes, reply),
        Err(source) => {
            let _ = reply.send(Err(Error::NotStarted { program: command.program, source }));
        }
    }
}

/// Hands the child over and waits for the end of its call.
fn guard(
    shared: &Shared,
    cell: &Cell,
    pid: Pid,
    pipes: [OwnedFd; 3],
    reply: oneshot::Sender<Result<Child, Error>>,
) {
    let (end, ended) = mpsc::channel();
    let over_limit = Arc::new(OnceLock::new());
    let warden = Warden { end, over_limit: Arc::clone(&over_limit) };
    let child = Child::confined(Leader::of(pid), pipes, warden);
    // Where the caller is gone, the child comes back and is killed by being dropped.
    let _ = reply.send(Ok(child));
    let end = loop {
        match ended.recv_timeout(watch::INTERVAL) {
            Ok(end) => break Some(end),
            Err(mpsc::RecvTimeoutError::Disconnected) => break None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                spawn::prefer_to_end(pid);
                if let Some(limit) = watch::exceeded(pid, cell.folder.as_deref(), &shared.settings.limits) {
                    let _ = over_limit.set(limit);
                    kill(shared, Some(pid));
                }
            }
        }
    };
    kill(shared, None);
    // The caller has its answer; the next one waits for its place until all is clean.
    if !cell.is_clean() {
        cell.clean();
    }
    drop(end);
}

/// Kills all that is left of the call of this thread.
fn kill(shared: &Shared, leader: Option<Pid>) {
    if shared.abi.scopes_signals() {
        spawn::kill_all_in_reach();
    } else {
        if let Some(leader) = leader {
            watch::kill_tree(leader);
            let _ = rustix::process::kill_process_group(leader, Signal::KILL);
        }
        orphans::end_orphans();
    }
}

// === impl Warden ===

impl Warden {
    /// Has all that is left of the call killed, and tells which limit it was stopped at, if it was.
    pub(crate) fn clean_up(self, occupied: Option<Occupied>) -> Result<(), OverLimit> {
        let _ = self.end.send(End { _occupied: occupied });
        match self.over_limit.get() {
            Some(limit) => Err(*limit),
            None => Ok(()),
        }
    }
}

// === impl Cell ===

impl Cell {
    pub(super) fn new(shared: &Shared) -> Result<Self, ConfinementError> {
        let folder = match &shared.scratch {
            None => None,
            Some(scratch) => Some(
                scratch
                    .make()
                    .map_err(|error| ConfinementError::Temporary("a private folder".into(), error))?,
            ),
        };
        Self::with(folder, shared)
    }

    fn with(folder: Option<PathBuf>, shared: &Shared) -> Result<Self, ConfinementError> {
        let rules = shared.rules();
        let compiled = match shared.abi.exists() {
            true => Some(rules.compile(folder.as_deref())?),
            false => None,
        };
        Ok(Self { folder, rules, compiled })
    }

    /// The same cell with the rules of now.
    pub(super) fn renewed(self, shared: &Shared) -> Result<Self, ConfinementError> {
        match Arc::ptr_eq(&self.rules, &shared.rules()) {
            true => Ok(self),
            false => Self::with(self.folder, shared),
        }
    }

    /// Locks this thread in.
    pub(super) fn enter(&self, shared: &Shared) -> Result<(), ConfinementError> {
        match &self.compiled {
            Some(compiled) => Ok(rules::restrict_this_thread(compiled)?),
            None => {
                debug_assert!(!shared.abi.exists());
                Ok(())
            }
        }
    }

    /// The command with the cell's folder as the one for temporary files.
    fn furnish(&self, command: &Command) -> Command {
        let Some(folder) = &self.folder else { return command.clone() };
        let mut variables = match &command.environment {
            Environment::Inherited => std::env::vars_os().collect(),
            Environment::Only(variables) => variables.clone(),
        };
        variables.retain(|(name, _)| name != "TMPDIR");
        variables.push((OsString::from("TMPDIR"), folder.clone().into_os_string()));
        Command { environment: Environment::Only(variables), ..command.clone() }
    }

    fn is_clean(&self) -> bool {
        let Some(folder) = &self.folder else { return true };
        fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
    }

    fn clean(&self) -> bool {
        self.folder.as_deref().is_none_or(|folder| scratch::empty(folder).is_ok())
    }
}
