//! System calls that a function has no business with: a seccomp filter.
//!
//! Landlock keeps a function from files, signals and TCP. What is left are calls by which a process of the same user
//! could harm the service (limits and priorities of other processes), leave something behind after its end (shared
//! memory and queues of System V and POSIX, keys), reach the network without TCP, or reach parts of the kernel that
//! only ever serve attacks. Those fail with an error; nothing is killed.

#![allow(unsafe_code, reason = "a filter is handed to the kernel as a pointer")]

use std::io;

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, EACCES, ENOSYS, EPERM,
    c_long, sock_filter,
};

/// Where `struct seccomp_data` has the number of the call, the architecture, and the lower half of an argument.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;

/// Calls with this bit are those of x32, which have other numbers.
const X32: u32 = 0x4000_0000;

/// All kinds of namespaces: a new one opens parts of the kernel that are closed otherwise.
const NAMESPACES: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u32;

/// What fails as if there was no permission.
const FORBIDDEN: &[c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_perf_event_open,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_open_by_handle_at,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
];

/// What fails as if the kernel did not have it, so that programs do without.
const MISSING: &[c_long] = &[
    // Its flags are behind a pointer, where no filter can read them.
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_shmget,
    libc::SYS_semget,
    libc::SYS_msgget,
    libc::SYS_mq_open,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// What a process may do to itself only, and the argument that is 0 then.
const ONLY_ITSELF: &[(c_long, u32)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
];

/// What would reach all processes of the user, and the value of the first argument by which it does.
const WHOLE_USER: &[(c_long, u32)] = &[
    (libc::SYS_setpriority, libc::PRIO_USER),
    // IOPRIO_WHO_USER
    (libc::SYS_ioprio_set, 3),
];

/// Sockets within the machine; netlink only tells about interfaces, and programs ask for it when they look up names.
const LOCAL: &[u32] = &[libc::AF_UNIX as u32, libc::AF_NETLINK as u32];
const INTERNET: &[u32] = &[libc::AF_INET as u32, libc::AF_INET6 as u32];

/// A filter, ready to be installed.
#[derive(Clone, Debug)]
pub(crate) struct Filter(Vec<sock_filter>);

// === impl Filter ===

impl Filter {
    pub(crate) fn new(network: bool) -> Self {
        let mut filter = Self(Vec::new());
        filter.load(ARCHITECTURE);
        filter.unless(BPF_JEQ, NATIVE, ENOSYS);
        filter.load(NUMBER);
        if cfg!(target_arch = "x86_64") {
            filter.when(BPF_JGE, X32, ENOSYS);
        }
        for call in FORBIDDEN {
            filter.when(BPF_JEQ, *call as u32, EPERM);
        }
        for call in MISSING {
            filter.when(BPF_JEQ, *call as u32, ENOSYS);
        }
        for (call, index) in ONLY_ITSELF {
            filter.for_call(*call, *index, |filter| filter.unless(BPF_JEQ, 0, EPERM));
        }
        for (call, value) in WHOLE_USER {
            filter.for_call(*call, 0, |filter| filter.when(BPF_JEQ, *value, EPERM));
        }
        for call in [libc::SYS_clone, libc::SYS_unshare] {
            filter.for_call(call, 0, |filter| filter.when(BPF_JSET, NAMESPACES, EPERM));
        }
        let families: Vec<u32> = LOCAL.iter().chain(INTERNET.iter().filter(|_| network)).copied().collect();
        filter.for_call(libc::SYS_socket, 0, |filter| filter.unless_any(&families, EACCES));
        filter.answer(libc::SECCOMP_RET_ALLOW);
        filter
    }

    /// Binds this thread and all that it starts, for good.
    pub(crate) fn install(&self) -> io::Result<()> {
        let program = libc::sock_fprog {
            len: u16::try_from(self.0.len()).map_err(io::Error::other)?,
            filter: self.0.as_ptr().cast_mut(),
        };
        let none: c_long = 0;
        // SAFETY: the kernel copies the program, which lives until then, and does not write to it.
        let installed = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, none, &raw const program)
        };
        if installed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn load(&mut self, offset: u32) {
        self.statement(BPF_LD | BPF_W | BPF_ABS, offset);
    }

    fn answer(&mut self, value: u32) {
        self.statement(BPF_RET | BPF_K, value);
    }

    fn fail(&mut self, errno: i32) {
        self.answer(libc::SECCOMP_RET_ERRNO | errno.unsigned_abs());
    }

    fn when(&mut self, test: u32, value: u32, errno: i32) {
        self.jump(test, value, 0, 1);
        self.fail(errno);
    }

    fn unless(&mut self, test: u32, value: u32, errno: i32) {
        self.jump(test, value, 1, 0);
        self.fail(errno);
    }

    fn unless_any(&mut self, values: &[u32], errno: i32) {
        for (index, value) in values.iter().enumerate() {
            let rest = u8::try_from(values.len() - index).unwrap_or(u8::MAX);
            self.jump(BPF_JEQ, *value, rest, 0);
        }
        self.fail(errno);
    }

    /// Statements on an argument of one call. Behind them the number of the call is loaded again.
    fn for_call(&mut self, call: c_long, index: u32, statements: impl FnOnce(&mut Self)) {
        let mut inner = Self(Vec::new());
        inner.load(argument(index));
        statements(&mut inner);
        inner.load(NUMBER);
        let length = u8::try_from(inner.0.len()).unwrap_or(u8::MAX);
        self.jump(BPF_JEQ, call as u32, 0, length);
        self.0.extend(inner.0);
    }

    fn statement(&mut self, code: u32, value: u32) {
        self.0.push(sock_filter { code: code as u16, jt: 0, jf: 0, k: value });
    }

    fn jump(&mut self, test: u32, value: u32, when: u8, otherwise: u8) {
        self.0.push(sock_filter { code: (BPF_JMP | test | BPF_K) as u16, jt: when, jf: otherwise, k: value });
    }
}

/// Gives up for this thread and all that it starts: privileges of programs, and capabilities that lead past the walls
/// when this process is root. `all` gives up those, too, that no function needs.
pub(crate) fn give_up_privileges(all: bool) -> io::Result<()> {
    // Files of others and other users; all the rest is about the machine.
    const HARMLESS: [i32; 6] = [0, 1, 3, 4, 6, 7];
    // CAP_SYS_PTRACE, CAP_SYS_ADMIN and CAP_PERFMON read the memory of any process.
    const LEADING_OUT: [i32; 3] = [19, 21, 38];
    const PR_CAPBSET_DROP: i32 = 24;
    // SAFETY: plain system calls without pointers.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        for capability in 0..64 {
            let given_up = LEADING_OUT.contains(&capability) || all && !HARMLESS.contains(&capability);
            if given_up {
                // It fails without the right to do it, where there is nothing to give up, and beyond the last one.
                libc::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
            }
        }
    }
    Ok(())
}
