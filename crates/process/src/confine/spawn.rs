//! Starting a process with more preparation than `posix_spawn` offers, at its price.
//!
//! The child borrows the memory of this process until it executes its program, while the thread that started it waits
//! (`CLONE_VM | CLONE_VFORK`, as `posix_spawn` does inside). Nothing is copied, so a start costs the same however much
//! memory this process has. In return the code that runs in the child must not allocate, lock, panic or unwind: it
//! makes system calls on values that were prepared before, and nothing else.

#![allow(unsafe_code, reason = "clone and the calls between it and exec have no safe form")]

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::{c_char, c_int, c_void};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use crate::orphans::Numbered;
use crate::{Command, Environment};

/// The stack of the child until it executes its program.
const STACK: usize = 32 * 1024;

/// The highest of the signals that have names; handlers are installed for no others.
const LAST_SIGNAL: c_int = 31;

/// Bounds that the kernel keeps for each process; hard and soft alike.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rlimits(Vec<(u32, libc::rlimit)>);

/// How much less than this process a child gets of the processor when there is not enough for all. As little as there
/// is: a child that starts processes without end must not keep the thread from its work that is to stop it.
pub(crate) const NICENESS: c_int = 19;

/// How a child begins.
pub(crate) struct Start<'a> {
    pub(crate) rlimits: &'a Rlimits,
    pub(crate) niceness: c_int,
    /// The signals that this process handles or ignores.
    pub(crate) altered: &'a [c_int],
}

/// A child that runs its program, and this side of its pipes, which do not block.
#[derive(Debug)]
pub(crate) struct Spawned {
    pub(crate) pid: Pid,
    pub(crate) pipes: [OwnedFd; 3],
}

/// All that the child needs. The pointers lead into values that live until the child has executed its program.
struct Plan {
    program: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    stdio: [RawFd; 3],
    rlimits: *const (u32, libc::rlimit),
    rlimit_count: usize,
    niceness: c_int,
    altered: *const c_int,
    altered_count: usize,
    /// Why the program could not be executed.
    errno: AtomicI32,
}

impl Numbered for Spawned {
    fn number(&self) -> Pid {
        self.pid
    }
}

// === impl Rlimits ===

impl Rlimits {
    /// Adds a bound, no higher than the one that this process has already.
    pub(crate) fn with(mut self, resource: u32, limit: Option<u64>) -> Self {
        if let Some(limit) = limit {
            let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: `now` is a valid place for the answer.
            let hard = match unsafe { libc::getrlimit(resource, &raw mut now) } {
                0 => now.rlim_max,
                _ => libc::RLIM_INFINITY,
            };
            let limit = limit.min(hard);
            self.0.push((resource, libc::rlimit { rlim_cur: limit, rlim_max: limit }));
        }
        self
    }
}

/// Starts a command as the leader of a session, the adopter of its own orphans, and within limits. It dies with the
/// thread that calls this.
pub(crate) fn spawn(command: &Command, start: &Start<'_>) -> io::Result<Spawned> {
    let program = terminated(find(command)?.into_os_string())?;
    let words =
        std::iter::once(command.program.as_os_str()).chain(command.arguments.iter().map(AsRef::as_ref));
    let words = words.map(|word| terminated(word.to_owned())).collect::<io::Result<Vec<_>>>()?;
    let variables = variables(&command.environment)?;
    let (arguments, environment) = (pointers(&words), pointers(&variables));
    let (stdin, ours_in) = pipe_with(PipeFlags::CLOEXEC)?;
    let (ours_out, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (ours_err, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    for pipe in [&ours_in, &ours_out, &ours_err] {
        rustix::io::ioctl_fionbio(pipe, true)?;
    }
    let plan = Plan {
        program: program.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        stdio: [stdin.as_raw_fd(), stdout.as_raw_fd(), stderr.as_raw_fd()],
        rlimits: start.rlimits.0.as_ptr(),
        rlimit_count: start.rlimits.0.len(),
        niceness: start.niceness,
        altered: start.altered.as_ptr(),
        altered_count: start.altered.len(),
        errno: AtomicI32::new(0),
    };
    let pid = execute(&plan)?;
    Ok(Spawned { pid, pipes: [ours_in, ours_out, ours_err] })
}

/// Blocks all signals on this thread, which must be one that exists for a single child: a handler must not run in a
/// child that borrows our memory.
pub(crate) fn block_signals() {
    // SAFETY: the set is initialised by `sigfillset` before it is used.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut());
    }
}

/// The signals that this process does not leave to their default. A child must not run our handlers while it borrows
/// our memory, and what is ignored would stay so in its program.
pub(crate) fn altered_signals() -> Vec<c_int> {
    let is_altered = |signal: &c_int| {
        // SAFETY: with no new action the call only fills in `action`, for which all zeros are a valid value.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(*signal, ptr::null(), &raw mut action) == 0
                && action.sa_sigaction != libc::SIG_DFL
        }
    };
    (1..=LAST_SIGNAL).filter(is_altered).collect()
}

/// Kills every process that this thread may signal: those of its Landlock domain. A thread outside of a domain that
/// scopes signals must not call it.
pub(crate) fn kill_all_in_reach() {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Starts a process that only waits to be killed.
pub(crate) fn bystander() -> io::Result<Pid> {
    // SAFETY: the child has memory of its own and makes system calls only.
    let pid = unsafe {
        match libc::fork() {
            0 => {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
                loop {
                    libc::pause();
                }
            }
            pid => pid,
        }
    };
    Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(io::Error::last_os_error)
}

fn execute(plan: &Plan) -> io::Result<Pid> {
    let mut stack = vec![0_u128; STACK / size_of::<u128>()];
    let top = stack.as_mut_ptr_range().end.cast::<c_void>();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: `CLONE_VFORK` keeps this thread, and by that `plan` and `stack`, where they are until the child has
    // executed its program or ended. The stack is aligned for every type and used by the child alone. Signals are
    // blocked (see `block_signals`), and `prepare_and_execute` keeps to what the module's comment demands.
    let pid = unsafe { libc::clone(prepare_and_execute, top, flags, ptr::from_ref(plan).cast_mut().cast()) };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("clone gave no process"))?;
    match plan.errno.load(Ordering::Acquire) {
        0 => Ok(pid),
        errno => {
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
            Err(io::Error::from_raw_os_error(errno))
        }
    }
}

/// What the child does before it is the program.
extern "C" fn prepare_and_execute(plan: *mut c_void) -> c_int {
    // SAFETY: `execute` passes a plan that outlives this function, and only shared access is made to it.
    let plan = unsafe { &*plan.cast_const().cast::<Plan>() };
    // SAFETY: plain system calls with pointers of the plan, which are valid as `Plan` says.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        for (to, from) in plan.stdio.iter().enumerate() {
            if libc::dup2(*from, to as c_int) < 0 {
                return fail(plan);
            }
        }
        // Also what this process inherited itself; kernels without the call have only our own, closed on exec anyway.
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
        if plan.niceness != 0 {
            libc::setpriority(libc::PRIO_PROCESS, 0, plan.niceness);
        }
        for index in 0..plan.rlimit_count {
            let (resource, limit) = &*plan.rlimits.add(index);
            if libc::setrlimit(*resource, limit) != 0 {
                return fail(plan);
            }
        }
        for index in 0..plan.altered_count {
            libc::signal(*plan.altered.add(index), libc::SIG_DFL);
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        libc::execve(plan.program, plan.arguments, plan.environment);
    }
    fail(plan)
}

/// Leaves the reason where the parent finds it.
fn fail(plan: &Plan) -> c_int {
    // SAFETY: this thread's own `errno`; the child shares the place with its parent, which waits.
    let errno = unsafe { *libc::__errno_location() };
    plan.errno.store(if errno == 0 { libc::EIO } else { errno }, Ordering::Release);
    // SAFETY: ends the child alone, without running anything of this process.
    unsafe { libc::_exit(127) }
}

/// The file to execute: a name without a slash is looked up in the search path that the child will have.
fn find(command: &Command) -> io::Result<PathBuf> {
    if command.program.as_os_str().as_bytes().contains(&b'/') {
        return Ok(command.program.clone());
    }
    let search_path = match &command.environment {
        Environment::Inherited => std::env::var_os("PATH"),
        Environment::Only(variables) => {
            variables.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone())
        }
    };
    let search_path = search_path.unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    let executable = |path: &PathBuf| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let mut candidates = std::env::split_paths(&search_path).map(|folder| folder.join(&command.program));
    candidates.find(executable).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
}

fn variables(environment: &Environment) -> io::Result<Vec<CString>> {
    let pair = |(name, value): (OsString, OsString)| {
        let mut text = name;
        text.push("=");
        text.push(value);
        terminated(text)
    };
    match environment {
        Environment::Inherited => std::env::vars_os().map(pair).collect(),
        Environment::Only(variables) => variables.iter().cloned().map(pair).collect(),
    }
}

fn terminated(text: OsString) -> io::Result<CString> {
    CString::new(text.into_vec()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Pointers to texts, with the null at the end that `execve` wants.
fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// Lets a process be the first to go when memory runs out, and with it what it starts.
pub(crate) fn prefer_to_end(pid: Pid) {
    let file = format!("/proc/{}/oom_score_adj", pid.as_raw_nonzero());
    // It may be gone already.
    let _ = std::fs::write(Path::new(&file), "1000");
}
