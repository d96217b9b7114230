//! The commands of the cluster in bad circumstances: each is met with one line that says what it is.
//!
//! These tests run beside the cluster, not in it, on clusters of their own.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use loggia_testing::wait_for;

/// A cache folder of its own, with the programs that were built for the real one.
struct Other {
    folder: tempfile::TempDir,
}

struct Said {
    code: i32,
    stdout: String,
    stderr: String,
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster").join(name)
}

fn said(command: &mut Command) -> Said {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { code: output.status.code().unwrap(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

impl Other {
    fn new() -> Option<Self> {
        let Some(cache) = std::env::var_os("LOGGIA_CLUSTER_PROGRAMS") else {
            loggia_testing::missing("cluster", "no programs of a cluster (make e2e)");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let cluster = folder.path().join("loggia-e2e/cluster");
        fs::create_dir_all(&cluster).unwrap();
        symlink(cache, cluster.join("bin")).unwrap();
        Some(Self { folder })
    }

    fn life(&self) -> PathBuf {
        self.folder.path().join("loggia-e2e/cluster/life")
    }

    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(script(name));
        command.args(arguments).env("XDG_CACHE_HOME", self.folder.path());
        command
    }

    fn say(&self, name: &str, arguments: &[&str]) -> Said {
        said(&mut self.command(name, arguments))
    }

    /// The mounts and interfaces that the machine has, and the control groups of this cluster.
    fn footprint(&self) -> (usize, usize, Vec<PathBuf>) {
        let lines = |path: &str| fs::read_to_string(path).unwrap().lines().count();
        let name = said(
            Command::new("bash")
                .args(["-c", ". \"$0\"; echo $CGROUP"])
                .arg(script("lib/common.sh"))
                .env("XDG_CACHE_HOME", self.folder.path()),
        );
        let name = name.stdout.trim_end();
        assert!(name.starts_with("loggia-e2e-"), "{name}");
        let hierarchies = fs::read_dir("/sys/fs/cgroup").unwrap().map(|entry| entry.unwrap().path());
        let groups =
            hierarchies.map(|hierarchy| hierarchy.join(name)).filter(|group| group.is_dir()).collect();
        (lines("/proc/self/mountinfo"), lines("/proc/net/dev"), groups)
    }

    fn sandbox(&self) -> String {
        let record = fs::read_to_string(self.life().join("sandbox")).unwrap();
        record.split_whitespace().next().unwrap().to_owned()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.say("down", &[]);
    }
}

#[test]
fn a_cluster_that_was_left_in_pieces_is_named_as_such_and_made_whole() {
    let Some(other) = Other::new() else { return };
    let before = other.footprint();

    // Someone ends `up` before it is done.
    let mut up = other.command("up", &[]).process_group(0).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !other.life().join("parts/etcd").exists() {
        assert!(begun.elapsed() < Duration::from_secs(600), "up does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    said(Command::new("kill").args(["-KILL", "--", &format!("-{}", up.id())]));
    up.wait().unwrap();
    assert!(other.say("status", &[]).stderr.contains("the cluster is only half started"));
    let up = other.say("up", &[]);
    assert_eq!(up.code, 0, "{}", up.stderr);
    assert!(up.stderr.contains("half-started: a cluster that never became ready"), "{}", up.stderr);

    // A second `up` finds nothing to do.
    let sandbox = other.sandbox();
    assert_eq!(other.say("up", &[]).code, 0);
    assert_eq!(other.sandbox(), sandbox);
    let status = other.say("status", &[]);
    assert_eq!(status.code, 0, "{}", status.stdout);

    // Somebody else sits on a port.
    assert_eq!(other.say("part", &["stop", "registry"]).code, 0);
    let listen = "use IO::Socket::INET; $s = IO::Socket::INET->new(LocalPort => 5000, Listen => 1, ReuseAddr => 1) or die; \
                  open(F, '>', $ARGV[0]); close F; sleep 300";
    let sign = other.folder.path().join("listening");
    let mut listener = other.command("run", &["perl", "-e", listen]).arg(&sign).spawn().unwrap();
    let listens = || {
        assert!(listener.try_wait().unwrap().is_none(), "the listener ended");
        sign.exists().then_some(())
    };
    wait_for(listens, || "the listener does not begin".to_owned());
    let start = other.say("part", &["start", "registry"]);
    assert_eq!(start.code, 1);
    assert!(
        start.stderr.contains("registry cannot start: port 5000 is taken by perl (pid "),
        "{}",
        start.stderr
    );
    let status = other.say("status", &[]);
    assert_eq!(status.code, 1);
    assert!(
        status.stdout.lines().any(|line| line.starts_with("registry ") && line.ends_with("does not run"))
    );

    // The machine was restarted, or something ended the sandbox: its folder alone is left.
    said(Command::new("kill").args(["-KILL", &sandbox]));
    listener.wait().unwrap();
    let gone = || (!Path::new("/proc").join(&sandbox).exists()).then_some(());
    wait_for(gone, || format!("process {sandbox} (the sandbox) does not end"));
    let status = other.say("status", &[]);
    assert_eq!((status.code, status.stderr.contains("stale state")), (2, true), "{}", status.stderr);
    let run = other.say("run", &["true"]);
    assert_eq!(
        (run.code, run.stderr.contains("the cluster is not up; start it with")),
        (1, true),
        "{}",
        run.stderr
    );
    let up = other.say("up", &[]);
    assert_eq!(up.code, 0, "{}", up.stderr);
    assert!(up.stderr.contains("stale state: the cluster that left"), "{}", up.stderr);

    // What goes, goes whole.
    assert!(other.say("down", &[]).stderr.contains("the cluster is gone"));
    assert!(other.say("down", &[]).stderr.contains("there is no cluster"));
    assert_eq!(other.say("status", &[]).code, 2);
    assert!(!other.life().exists());
    assert_eq!(other.footprint(), before);
}

#[test]
fn without_root_up_says_so() {
    let Some(other) = Other::new() else { return };
    // A user namespace in which nobody is root.
    let mut command = Command::new("unshare");
    command.arg("--user").arg(script("up")).env("XDG_CACHE_HOME", other.folder.path());
    let Said { code, stderr, .. } = said(&mut command);
    let expected = "cluster: a cluster needs namespaces, mounts and control groups: run this as root\n";
    assert_eq!((code, stderr.as_str()), (1, expected));
}

#[test]
fn on_a_full_disk_up_says_so() {
    let Some(other) = Other::new() else { return };
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "sh",
        "-c",
        "mount -t tmpfs -o size=8m tmpfs \"$XDG_CACHE_HOME\" && exec \"$0\"",
    ]);
    command.arg(script("up")).env("XDG_CACHE_HOME", other.folder.path());
    let Said { code, stderr, .. } = said(&mut command);
    assert_eq!(code, 1);
    let expected = "MiB left, a cluster needs 3000; make room or set XDG_CACHE_HOME\n";
    assert!(stderr.starts_with("cluster: disk full: ") && stderr.ends_with(expected), "{stderr}");
}

#[test]
fn without_go_up_exits_with_3() {
    let Some(other) = Other::new() else { return };
    // Everything but Go, and nothing that was built before.
    fs::remove_file(other.folder.path().join("loggia-e2e/cluster/bin")).unwrap();
    let path = tempfile::tempdir().unwrap();
    for entry in
        fs::read_dir("/usr/bin").unwrap().map(Result::unwrap).filter(|entry| entry.file_name() != "go")
    {
        symlink(entry.path(), path.path().join(entry.file_name())).unwrap();
    }
    let Said { code, stderr, .. } = said(other.command("up", &[]).env("PATH", path.path()));
    assert_eq!(
        (code, stderr.as_str()),
        (3, "cluster: Go is not installed, and the cluster is built with it\n")
    );
}
