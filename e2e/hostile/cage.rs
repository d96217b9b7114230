//! A real limit on memory around a program and all that it starts.
//!
//! A cgroup where one may be made (version 1 or 2), which also knows what ran in it and whether the kernel killed; else
//! a limit on the address space of each process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Where a program is kept.
#[derive(Debug)]
pub(crate) struct Cage {
    kind: Kind,
    /// In bytes.
    pub(crate) limit: u64,
}

#[derive(Debug)]
enum Kind {
    CgroupV1(PathBuf),
    CgroupV2(PathBuf),
    /// The first process, once it has started.
    AddressSpace(AtomicU32),
}

impl Cage {
    pub(crate) fn new(limit: u64) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("hostile-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let kind = v1(&name, limit).or_else(|| v2(&name, limit));
        Self { kind: kind.unwrap_or_else(|| Kind::AddressSpace(AtomicU32::new(0))), limit }
    }

    /// What limits memory here.
    pub(crate) fn describe(&self) -> &'static str {
        match self.kind {
            Kind::CgroupV1(_) => "cgroup v1",
            Kind::CgroupV2(_) => "cgroup v2",
            Kind::AddressSpace(_) => "address space",
        }
    }

    /// A command that enters the cage and becomes the program.
    pub(crate) fn command(&self, program: &Path) -> Command {
        self.entering(program, "")
    }

    /// A command that enters the cage and runs the program as the first process of a pid namespace, for programs that
    /// run hostile ones: a signal to "all processes" is then one to those of the namespace.
    pub(crate) fn alone(&self, program: &Path) -> Command {
        let user = if rustix::process::geteuid().is_root() { "" } else { "--user --map-root-user " };
        self.entering(program, &format!("unshare {user}--pid --fork --mount-proc --kill-child "))
    }

    #[allow(clippy::disallowed_methods, reason = "this starts programs under test, and ends them by id")]
    fn entering(&self, program: &Path, by: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        let enter = match &self.kind {
            Kind::CgroupV1(folder) | Kind::CgroupV2(folder) => {
                format!("echo $$ > {}/cgroup.procs", folder.display())
            }
            // Address space is reserved far beyond what is used, by thread stacks and arenas.
            Kind::AddressSpace(_) => format!("ulimit -v {}", self.limit / 1024 * 4),
        };
        command.arg("-c").arg(format!("{enter} && exec {by}\"$0\" \"$@\"")).arg(program);
        command
    }

    /// The process that was started, for a cage that cannot list what is in it.
    pub(crate) fn entered_by(&self, pid: u32) {
        if let Kind::AddressSpace(first) = &self.kind {
            first.store(pid, Ordering::Relaxed);
        }
    }

    /// The bytes that all processes in it use together, page cache left out.
    pub(crate) fn memory(&self) -> u64 {
        match &self.kind {
            Kind::CgroupV1(folder) => figure(&folder.join("memory.stat"), "total_rss "),
            Kind::CgroupV2(folder) => figure(&folder.join("memory.stat"), "anon "),
            Kind::AddressSpace(_) => self.processes().iter().map(|pid| resident(*pid)).sum(),
        }
    }

    /// How often the kernel killed for lack of memory.
    pub(crate) fn kills(&self) -> u64 {
        match &self.kind {
            Kind::CgroupV1(folder) => figure(&folder.join("memory.oom_control"), "oom_kill "),
            Kind::CgroupV2(folder) => figure(&folder.join("memory.events"), "oom_kill "),
            Kind::AddressSpace(_) => 0,
        }
    }

    /// Every process in it that is not a zombie.
    pub(crate) fn processes(&self) -> Vec<u32> {
        match &self.kind {
            Kind::CgroupV1(folder) | Kind::CgroupV2(folder) => {
                let listed = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
                listed.lines().filter_map(|line| line.parse().ok()).filter(|pid| is_alive(*pid)).collect()
            }
            Kind::AddressSpace(first) => descendants(first.load(Ordering::Relaxed)),
        }
    }

    /// Whether a thread of any process in it runs, or would if there were a processor for it.
    pub(crate) fn is_busy(&self) -> bool {
        self.processes().iter().any(|pid| {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            tasks
                .filter_map(|task| fs::read_to_string(task.path().join("stat")).ok())
                .any(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R')))
        })
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        for _ in 0..100 {
            let left = self.processes();
            for pid in &left {
                if let Some(pid) = i32::try_from(*pid).ok().and_then(Pid::from_raw) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            let gone = match &self.kind {
                Kind::CgroupV1(folder) | Kind::CgroupV2(folder) => fs::remove_dir(folder).is_ok(),
                Kind::AddressSpace(_) => left.is_empty(),
            };
            if gone {
                return;
            }
            pause(Duration::from_millis(20));
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the harness has threads of its own")]
pub(crate) fn pause(span: Duration) {
    std::thread::sleep(span);
}

fn v1(name: &str, limit: u64) -> Option<Kind> {
    let folder = own_cgroup("/sys/fs/cgroup/memory", "memory")?.join(name);
    fs::create_dir(&folder).ok()?;
    let kind = Kind::CgroupV1(folder.clone());
    if fs::write(folder.join("memory.limit_in_bytes"), limit.to_string()).is_err() {
        let _ = fs::remove_dir(&folder);
        return None;
    }
    // Where swap is counted, none may be used.
    let _ = fs::write(folder.join("memory.memsw.limit_in_bytes"), limit.to_string());
    Some(kind)
}

fn v2(name: &str, limit: u64) -> Option<Kind> {
    let folder = own_cgroup("/sys/fs/cgroup", "")?.join(name);
    fs::create_dir(&folder).ok()?;
    if fs::write(folder.join("memory.max"), limit.to_string()).is_err() {
        let _ = fs::remove_dir(&folder);
        return None;
    }
    let _ = fs::write(folder.join("memory.swap.max"), "0");
    Some(Kind::CgroupV2(folder))
}

/// The folder of the cgroup that this process is in.
fn own_cgroup(mount: &str, controller: &str) -> Option<PathBuf> {
    let listed = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = listed.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        controllers.split(',').any(|name| name == controller).then(|| fields.next().map(str::to_owned))?
    })?;
    let folder = PathBuf::from(format!("{mount}{}", path.trim_end_matches('/')));
    // In a container the path may be that of the host.
    if folder.is_dir() { Some(folder) } else { Some(PathBuf::from(mount)).filter(|mount| mount.is_dir()) }
}

fn figure(file: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0)
}

fn resident(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The fields of `/proc/PID/stat` behind the program's name.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect())
}

fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| fields[0] != "Z" && fields[0] != "X")
}

fn descendants(first: u32) -> Vec<u32> {
    let mut found = if first != 0 && is_alive(first) { vec![first] } else { Vec::new() };
    let all: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?.get(1)?.parse().ok()?)))
        .collect();
    let mut index = 0;
    while index < found.len() {
        let parent = found[index];
        found.extend(all.iter().filter(|(pid, of)| *of == parent && is_alive(*pid)).map(|(pid, _)| *pid));
        index += 1;
    }
    found
}
