//! The system calls that a worker may make: those that computing takes. All others fail as if the kernel did
//! not have them, and the C library then does without where it can.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter_all_threads,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Built<T> = Result<T, seccompiler::Error>;

/// Calls without conditions: memory, the socket, locks, time, signals to oneself, the end.
const PLAIN: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_read,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rseq,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Calls that reading folders takes beside `openat`. Landlock says which folders those are.
const FILES: &[c_long] = &[
    libc::SYS_fstat,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_readlinkat,
    libc::SYS_statx,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
];

/// Restricts all threads to these calls for good. Whether the kernel and this machine can do that.
pub(super) fn allow_computing(files: bool) -> bool {
    let applied = program(files).map(|program| apply_filter_all_threads(&program));
    matches!(applied, Ok(Ok(())))
}

fn program(files: bool) -> Built<BpfProgram> {
    let mut rules: Rules = PLAIN.iter().map(|call| (*call, Vec::new())).collect();
    // Memory that can be executed would be a way to run code.
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![when(2, without(libc::PROT_EXEC), 0)?]);
    }
    // An abort is a signal to oneself.
    rules.insert(libc::SYS_tgkill, vec![when(0, SeccompCmpOp::Eq, std::process::id().into())?]);
    // The memory of a call.
    let own = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, 0)?;
    let data = u64::from(libc::RLIMIT_DATA);
    let data = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, data)?;
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![own, data])?]);
    // Some functions need a thread with a larger stack. A new process is something else.
    let thread = SeccompCmpOp::MaskedEq(u64::from((libc::CLONE_THREAD | libc::CLONE_VM).unsigned_abs()));
    rules.insert(
        libc::SYS_clone,
        vec![when(0, thread, u64::from((libc::CLONE_THREAD | libc::CLONE_VM).unsigned_abs()))?],
    );
    let name = u64::from(libc::PR_SET_NAME.unsigned_abs());
    rules.insert(libc::SYS_prctl, vec![when(0, SeccompCmpOp::Eq, name)?]);
    let question = u64::try_from(libc::F_GETFD).unwrap_or(1);
    rules.insert(libc::SYS_fcntl, vec![when(1, SeccompCmpOp::Eq, question)?]);
    if files {
        rules.extend(FILES.iter().map(|call| (*call, Vec::new())));
        let writing = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;
        rules.insert(libc::SYS_openat, vec![when(2, without(writing), 0)?]);
    }
    let refuse = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, refuse, SeccompAction::Allow, machine)?.try_into()?)
}

/// An argument that has none of these bits.
fn without(bits: libc::c_int) -> SeccompCmpOp {
    SeccompCmpOp::MaskedEq(u64::from(bits.unsigned_abs()))
}

fn when(argument: u8, operation: SeccompCmpOp, value: u64) -> Built<SeccompRule> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operation, value)?;
    Ok(SeccompRule::new(vec![condition])?)
}
