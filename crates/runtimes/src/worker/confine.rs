//! What a worker gives up before its first call. It needs memory and its socket, and nothing else.

use std::io;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, set_dumpable_behavior, set_parent_process_death_signal,
    setrlimit,
};
use rustix::thread::set_no_new_privs;

use crate::SchemaFolders;

/// The newest interface of Landlock that is used; an older kernel enforces what it knows.
const NEWEST: ABI = ABI::V6;

/// Address space of the stacks of this thread and those that functions start.
const STACKS: u64 = if cfg!(debug_assertions) { 768 << 20 } else { 256 << 20 };

/// Descriptors: the socket, two that lead nowhere, and those of schemas while they are read.
const FILES: u64 = 32;

/// Keeps the process from outliving its parent and from being looked into, and has it keep little memory to itself.
pub(super) fn shrink() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    set_no_new_privs(true)?;
    close_inherited();
    // Where memory is short, the kernel should end this process before the service. It may be forbidden.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    use_one_arena();
    Ok(())
}

/// Closes what the parent did not mean to pass on.
#[allow(unsafe_code)]
fn close_inherited() {
    // SAFETY: this is the first thing that the process does, so nothing in it owns a descriptor but the first three.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
    }
}

/// One heap for both threads, of which only one works; what calls of usual size need stays with the process.
fn use_one_arena() {
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code)]
    // SAFETY: `mallopt` takes two numbers, and no other thread runs yet that could allocate meanwhile.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 4 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 16 << 20);
    }
}

/// Limits the process to so many bytes of memory that it writes to, and to nothing of all else. New processes are a
/// matter of the filter of system calls: the limit on them is that of a user, and counts threads.
pub(super) fn limit(memory: u64) -> io::Result<()> {
    // The allocator keeps to the memory of a call; this is for what goes past it, and for what it wastes. Stacks count
    // in full, and the size of the program does not.
    set_limit(Resource::Data, memory.saturating_add(STACKS))?;
    set_limit(Resource::Core, 0)?;
    set_limit(Resource::Fsize, 0)?;
    set_limit(Resource::Nofile, FILES)
}

fn set_limit(resource: Resource, limit: u64) -> io::Result<()> {
    Ok(setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?)
}

/// The most memory that was in use so far, in KiB.
#[allow(unsafe_code)]
pub(super) fn peak() -> u64 {
    // SAFETY: all of `rusage` is numbers, and `getrusage` fills in the one that it gets.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    u64::try_from(usage.ru_maxrss).unwrap_or(0)
}

/// Gives up all files but those with schemas, the network and signals to others. Whether the kernel enforces that.
pub(super) fn hide_files(schemas: &SchemaFolders) -> bool {
    matches!(restrict(schemas), Ok(status) if status != RulesetStatus::NotEnforced)
}

fn restrict(schemas: &SchemaFolders) -> Result<RulesetStatus, RulesetError> {
    let reading = AccessFs::from_read(ABI::V1) & !BitFlags::from(AccessFs::Execute);
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    for folder in schemas.paths() {
        // A folder that is missing now may be read by workers that start later.
        if let Ok(folder) = PathFd::new(folder) {
            rules = rules.add_rule(PathBeneath::new(folder, reading))?;
        }
    }
    Ok(rules.restrict_self()?.ruleset)
}
