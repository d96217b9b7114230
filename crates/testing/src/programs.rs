//! The programs of this workspace and of others, and processes as the kernel lists them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The function runner under test, outside of any cluster.
pub fn runner() -> Command {
    let mut command = Command::new(program("function-runner"));
    for name in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "WRAPPER_SERVER_IMAGE"] {
        command.env_remove(name);
    }
    command
}

/// The wrapper server under test, for a function.
pub fn wrapper(flags: &[&str], function: &[&str]) -> Command {
    let mut command = Command::new(program("wrapper-server"));
    command.arg("--port=0").args(flags).arg("--").args(function);
    command
}

/// A program of this workspace, which is built with the tests of its own crate.
pub fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().and_then(Path::parent).unwrap().join(name)
}

/// A program of the Go toolbox, if it was installed: beside the tests, or on the path.
pub fn tool(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("LOGGIA_TOOLS").into_iter().chain(std::env::var_os("PATH"));
    let found = folders
        .flat_map(|paths| std::env::split_paths(&paths).collect::<Vec<_>>())
        .map(|folder| folder.join(name))
        .find(|path| path.is_file());
    if found.is_none() {
        crate::missing("tools", &format!("{name} is not installed (make tools)"));
    }
    found
}

/// Runs a program to its end: exit code, standard output, standard error.
pub fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Processes whose parent is this one, but for its workers: their numbers and states.
pub fn children_of(parent: u32) -> Vec<(u32, char)> {
    all_children_of(parent).into_iter().filter(|(pid, _)| !is_worker(*pid)).collect()
}

/// The processes of this one that wait for calls of built-in functions or run them.
pub fn workers_of(parent: u32) -> Vec<u32> {
    all_children_of(parent).into_iter().map(|(pid, _)| pid).filter(|pid| is_worker(*pid)).collect()
}

fn is_worker(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"worker\0__worker\0"))
}

fn all_children_of(parent: u32) -> Vec<(u32, char)> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let (_, rest) = stat.rsplit_once(") ")?;
            let mut fields = rest.split(' ');
            let state = fields.next()?.chars().next()?;
            (fields.next()?.parse() == Ok(parent)).then_some((pid, state))
        })
        .collect()
}

/// Whether a process is there and not merely waiting for its burial.
pub fn is_running(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}
