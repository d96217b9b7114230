//! How much memory this process may use: the limit of its cgroup, or what the machine has.
//!
//! A limit counts wherever it is set on the way to the root: a container often sees only its own cgroup, as the root,
//! while on a machine the limit may be that of a slice far above.

use std::fs;
use std::path::{Path, PathBuf};

/// A cgroup without a limit says a number near this one (v1), or `max` (v2).
const UNLIMITED: u64 = 1 << 60;

/// Where memory is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The smallest limit of the cgroup of this process and of those above it, in bytes.
    Cgroup(u64),
    /// The memory of the machine in bytes: no cgroup has a limit.
    Machine(u64),
}

/// The limit of this process; none where `/proc` says nothing.
#[must_use]
pub fn limit() -> Option<Limit> {
    limit_below(Path::new("/"))
}

/// As [`limit`], with `/proc` and `/sys` below another root.
fn limit_below(root: &Path) -> Option<Limit> {
    let machine = machine(root);
    let cgroup = cgroup(root).filter(|limit| machine.is_none_or(|machine| *limit < machine));
    cgroup.map(Limit::Cgroup).or(machine.map(Limit::Machine))
}

/// The memory of the machine.
fn machine(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The smallest limit of all cgroups that this process is in.
fn cgroup(root: &Path) -> Option<u64> {
    let own = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = root.join("sys/fs/cgroup");
    let of_line = |line: &str| -> Option<u64> {
        // Each line is `number:controllers:path`; version 2 has the number 0 and no controllers.
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        if number == "0" && controllers.is_empty() {
            return smallest(&mounts, path, "memory.max");
        }
        let memory = controllers.split(',').any(|controller| controller == "memory");
        memory.then(|| smallest(&mounts.join("memory"), path, "memory.limit_in_bytes")).flatten()
    };
    own.lines().filter_map(of_line).min()
}

/// The smallest number in `file` from the mount's root down to `path`. Inside a container the path may be one of the
/// machine that is not there; then the root is the container's own.
fn smallest(mount: &Path, path: &str, file: &str) -> Option<u64> {
    let mut folder = PathBuf::from(mount);
    let mut found = read(&folder.join(file));
    for part in path.split('/').filter(|part| !part.is_empty() && *part != "..") {
        folder.push(part);
        found = [found, read(&folder.join(file))].into_iter().flatten().min();
    }
    found
}

/// The limit in a file; none for `max` and its like.
fn read(file: &Path) -> Option<u64> {
    let number: u64 = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    (number < UNLIMITED).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "MemTotal:       16384000 kB\nMemFree:         1000 kB\n";

    fn limit_with(files: &[(&str, &str)]) -> Option<Limit> {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        limit_below(root.path())
    }

    #[test]
    fn a_container_sees_its_limit_at_the_root() {
        let found = limit_with(&[
            ("proc/meminfo", MACHINE),
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", "536870912\n"),
        ]);
        assert_eq!(found, Some(Limit::Cgroup(512 << 20)));
    }

    #[test]
    fn the_smallest_limit_on_the_way_counts() {
        let found = limit_with(&[
            ("proc/meminfo", MACHINE),
            ("proc/self/cgroup", "0::/kubepods.slice/pod1/container\n"),
            ("sys/fs/cgroup/kubepods.slice/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/kubepods.slice/pod1/memory.max", "268435456\n"),
            ("sys/fs/cgroup/kubepods.slice/pod1/container/memory.max", "max\n"),
        ]);
        assert_eq!(found, Some(Limit::Cgroup(256 << 20)));
    }

    #[test]
    fn version_1_has_a_hierarchy_of_its_own_for_memory() {
        let found = limit_with(&[
            ("proc/meminfo", MACHINE),
            ("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/docker/abc\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "1073741824\n"),
        ]);
        assert_eq!(found, Some(Limit::Cgroup(1 << 30)));
        // In a container the path is that of the machine, and what is mounted is the container's own cgroup.
        let found = limit_with(&[
            ("proc/self/cgroup", "4:memory:/docker/abc\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"),
        ]);
        assert_eq!(found, Some(Limit::Cgroup(1 << 30)));
    }

    #[test]
    fn without_a_limit_it_is_the_machines_memory() {
        for limit in ["max\n", "9223372036854771712\n", "99999999999999\n", "nonsense", ""] {
            let found = limit_with(&[
                ("proc/meminfo", MACHINE),
                ("proc/self/cgroup", "0::/../..\n"),
                ("sys/fs/cgroup/memory.max", limit),
            ]);
            assert_eq!(found, Some(Limit::Machine(16_384_000 << 10)), "{limit:?}");
        }
        assert_eq!(limit_with(&[]), None);
        assert!(limit().is_some(), "this machine has memory");
    }
}
