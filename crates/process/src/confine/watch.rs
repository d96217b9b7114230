//! Limits that the kernel keeps for nobody: how many processes a call has, and how much is in its folder.
//!
//! They are looked at from time to time. A call that is over by then costs nothing, and one that is not can do little
//! harm in between.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::ResourceLimits;
use super::scratch::{self, Usage};

/// How often a call is looked at.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);

/// The most files in a temporary folder.
const MOST_FILES: u64 = 100_000;

/// Which limit a child went over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverLimit {
    #[error("started more than {limit} processes and threads (`--exec-processes`)")]
    Processes { limit: u64 },
    #[error("wrote more than {limit} bytes to its temporary directory (`--exec-temporary-size`)")]
    Temporary { limit: u64 },
    #[error("made more than {MOST_FILES} files in its temporary directory")]
    Files,
}

/// The limit that a call has gone over, if any.
pub(super) fn exceeded(leader: Pid, folder: Option<&Path>, limits: &ResourceLimits) -> Option<OverLimit> {
    if let Some(limit) = limits.processes
        && tasks(leader, limit) > limit
    {
        return Some(OverLimit::Processes { limit });
    }
    let most = Usage { bytes: limits.temporary.unwrap_or(u64::MAX), entries: MOST_FILES };
    let usage = scratch::usage(folder?, most);
    if usage.bytes > most.bytes {
        return Some(OverLimit::Temporary { limit: most.bytes });
    }
    (usage.entries > most.entries).then_some(OverLimit::Files)
}

/// Kills a process and all that it has started, whatever group or session that is in.
pub(super) fn kill_tree(leader: Pid) {
    // Those that are stopped start no more.
    let mut stopped = HashSet::new();
    loop {
        let mut fresh = 0;
        walk(leader, |pid, _| {
            if stopped.insert(pid) {
                fresh += 1;
                let _ = rustix::process::kill_process(pid, Signal::STOP);
            }
            true
        });
        if fresh == 0 {
            break;
        }
    }
    for pid in stopped {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// How many threads a process and its descendants have, counted until there are more than a limit.
fn tasks(leader: Pid, limit: u64) -> u64 {
    let mut count = 0;
    walk(leader, |_, threads| {
        count += threads;
        count <= limit
    });
    count
}

/// Visits a process and its descendants with the number of their threads, for as long as the visitor wants. A function
/// adopts the orphans of its own processes, so none of them is missed.
fn walk(leader: Pid, mut visit: impl FnMut(Pid, u64) -> bool) {
    let mut left = vec![leader];
    while let Some(pid) = left.pop() {
        let folder = format!("/proc/{}/task", pid.as_raw_nonzero());
        let threads: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
        if !threads.is_empty() && !visit(pid, threads.len() as u64) {
            return;
        }
        for thread in threads {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            left.extend(children.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
        }
    }
}
