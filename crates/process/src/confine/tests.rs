//! Real children that try to get out: at files, at each other, at their parent, and past their own end.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::fs;
use std::path::Path;
use std::time::Instant as Clock;

use bytes::Bytes;

use super::*;
use crate::tests::{LIMITS, noted, shell, until};
use crate::{Finished, Processes};

mod ends;
mod reuse;

/// A folder that children may write to, and what is confined with it.
struct Prison {
    folder: tempfile::TempDir,
    processes: Processes,
}

/// How much of Landlock to make use of.
#[derive(Clone, Copy, Debug)]
enum Kernel {
    ThisOne,
    /// One that scopes no signals, or has no Landlock at all: what is left over is found as orphans.
    Without,
}

fn limits() -> ResourceLimits {
    ResourceLimits {
        processes: Some(200),
        temporary: Some(10 << 20),
        file_size: Some(1 << 30),
        open_files: Some(256),
        memory: Some(4 << 30),
        cpu_time: None,
    }
}

impl Prison {
    fn new() -> Self {
        Self::with(Kernel::ThisOne, |_, _| {})
    }

    fn with(kernel: Kernel, change: impl FnOnce(&Path, &mut Settings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("out")).unwrap();
        fs::create_dir(folder.path().join("tmp")).unwrap();
        let files = Files::ReadOnly {
            writable: vec![folder.path().join("out")],
            temporary: folder.path().join("tmp"),
        };
        let mut settings = Settings { files, hidden: vec![], network: false, filter: true, limits: limits() };
        change(folder.path(), &mut settings);
        let abi = match kernel {
            Kernel::ThisOne => Abi::here(),
            Kernel::Without => Abi::NONE,
        };
        let confinement = Confinement::with_abi(settings, abi).unwrap();
        Self { folder, processes: Processes::confined(LIMITS, confinement) }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    async fn run(&self, script: &str) -> Finished {
        self.processes.run(&shell(script), Bytes::new(), until(None)).await.unwrap()
    }

    async fn says(&self, script: &str) -> String {
        let Finished { stdout, stderr, .. } = self.run(script).await;
        String::from_utf8_lossy(&stdout).into_owned() + &stderr.text()
    }
}

/// Tests of what only Landlock of a recent kernel gives are left out, with a line, where there is none.
fn scopes() -> bool {
    let scopes = Abi::here().scopes_signals();
    if !scopes {
        loggia_testing::left_out("this kernel's Landlock does not scope signals");
    }
    scopes
}

#[tokio::test]
async fn a_program_runs_as_it_does_without_walls() {
    let prison = Prison::new();
    let input: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).take(900_000).collect();
    let finished =
        prison.processes.run(&shell("cat"), Bytes::from(input.clone()), until(None)).await.unwrap();
    assert_eq!(finished.stdout, input);
    assert_eq!(prison.says("echo a | tr a b; f=$(mktemp); echo x >$f; cat $f").await, "b\nx\n");
    assert_eq!(prison.says("cat <<END\nhere\nEND\n").await, "here\n");
    assert_eq!(prison.run("kill -9 $$").await.status.to_string(), "signal: 9 (SIGKILL)");
    assert_eq!(prison.run("exit 7").await.status.code(), Some(7));
    assert_eq!(prison.says("yes | head -1").await, "y\n", "a broken pipe ends its writer");
    let missing = Command { program: "/no/such".into(), ..shell("") };
    let error = prison.processes.run(&missing, Bytes::new(), until(None)).await.unwrap_err();
    assert_eq!(error.to_string(), "fork/exec /no/such: no such file or directory");
    let by_name = Command { program: "cat".into(), arguments: vec![], ..shell("") };
    let finished = prison.processes.run(&by_name, Bytes::from_static(b"x"), until(None)).await.unwrap();
    assert_eq!(&finished.stdout[..], b"x");
}

#[tokio::test]
async fn a_secret_is_hidden_by_every_name() {
    if !Abi::here().exists() {
        return loggia_testing::left_out("this kernel has no Landlock");
    }
    let prison = Prison::with(Kernel::ThisOne, |folder, settings| {
        fs::create_dir_all(folder.join("volume/..2024")).unwrap();
        fs::write(folder.join("volume/..2024/token"), "canary").unwrap();
        fs::write(folder.join("volume/..2024/other"), "canary").unwrap();
        std::os::unix::fs::symlink("..2024", folder.join("volume/..data")).unwrap();
        std::os::unix::fs::symlink("..data/token", folder.join("volume/token")).unwrap();
        std::os::unix::fs::symlink("volume", folder.join("link")).unwrap();
        fs::write(folder.join("key.pem"), "canary").unwrap();
        fs::write(folder.join("beside"), "seen").unwrap();
        settings.hidden =
            vec![folder.join("volume/token"), folder.join("key.pem"), folder.join("not/yet/there")];
    });
    fs::create_dir_all(prison.folder.path().join("not/yet/there")).unwrap();
    fs::write(prison.folder.path().join("not/yet/there/late"), "canary").unwrap();
    let me = std::process::id();
    for path in [
        "volume/token",
        "volume/..data/token",
        "volume/..2024/token",
        "volume/..2024/other",
        "link/token",
        "key.pem",
        "out/../key.pem",
        "not/yet/there/late",
    ] {
        let path = prison.path(path);
        for name in [path.clone(), format!("/proc/{me}/root{path}"), format!("/proc/self/root{path}")] {
            let seen = prison.says(&format!("cat {name}; cp {name} {}", prison.path("out/copy"))).await;
            assert!(!seen.contains("canary") && seen.contains("ermission denied"), "{name}: {seen}");
            assert!(!Path::new(&prison.path("out/copy")).exists());
        }
        let moved = format!("ln {path} {out}; mv {path} {out}; ls {out}", out = prison.path("out"));
        assert!(!prison.says(&moved).await.contains("canary"));
        assert_eq!(fs::read_dir(prison.path("out")).unwrap().count(), 0);
    }
    assert_eq!(prison.says(&format!("cat {}", prison.path("beside"))).await, "seen");
}

#[tokio::test]
async fn what_its_parent_holds_is_out_of_reach() {
    let prison = Prison::new();
    let kept = prison.path("kept");
    fs::write(&kept, "canary").unwrap();
    // Inherited by children, as careless code would have it.
    let open = fs::File::open(&kept).unwrap();
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    let me = std::process::id();
    let script = format!(
        "for fd in /proc/self/fd/* /dev/fd/*; do case $fd in */[012]) ;; *) head -c 100 $fd;; esac; done; \
         cat /proc/{me}/fd/* /proc/{me}/environ /proc/{me}/maps; ls /proc/{me}/root/"
    );
    let finished = prison.run(&script).await;
    assert_eq!(&finished.stdout[..], b"", "{}", finished.stderr.text());
}

#[tokio::test]
async fn files_are_written_in_the_private_folder_alone_and_are_gone_with_the_call() {
    let prison = Prison::new();
    let here = prison.path("here");
    let seen = prison
        .says(&format!("echo x >{here}; echo y >/tmp/{}-loggia; echo $TMPDIR", std::process::id()))
        .await;
    assert!(seen.matches("ermission denied").count() == 2, "{seen}");
    let private = seen.lines().find(|line| line.starts_with('/')).unwrap();
    assert!(private.starts_with(&prison.path("tmp")), "{private}");
    let script =
        "cd $TMPDIR; mkdir -p a/b c; echo x >a/b/f; mv a/b/f c/f; mv a/b c/d; chmod 000 a; : >c/f; ls -R";
    assert!(prison.says(script).await.contains("c/d"), "renames between folders work");
    let everything = format!("find {} -type f", prison.path("tmp"));
    let left = prison.processes.run(&shell(&everything), Bytes::new(), until(None)).await.unwrap();
    assert!(!String::from_utf8_lossy(&left.stdout).contains("c/f"));
    prison.run(&format!("echo kept >{}", prison.path("out/file"))).await;
    assert_eq!(fs::read_to_string(prison.path("out/file")).unwrap(), "kept\n");
}

#[tokio::test]
async fn a_private_folder_that_grows_too_large_ends_the_call() {
    let prison = Prison::new();
    let script = "cd $TMPDIR; head -c 30000000 /dev/zero >f; sleep 60";
    let begin = Clock::now();
    let answer = prison.processes.run(&shell(script), Bytes::new(), until(None)).await;
    assert_eq!(
        answer.unwrap_err().to_string(),
        "wrote more than 10485760 bytes to its temporary directory (`--exec-temporary-size`), and was stopped"
    );
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert_eq!(prison.says("ls $TMPDIR").await, "");
}

#[tokio::test]
async fn calls_cannot_look_into_each_other_or_harm_each_other() {
    if !scopes() {
        return;
    }
    let prison = Prison::new();
    let note = prison.path("out/pid");
    let victim = shell(&format!("echo $$ >{note}.new; mv {note}.new {note}; sleep 1; cat"));
    let victim = prison.processes.run(&victim, Bytes::from_static(b"TENANT-B-SECRET"), until(None));
    let attack = async {
        let pid = noted(&note).await;
        prison
            .says(&format!(
                "cd /proc/{pid}; head -c 9 fd/0; cat environ maps; ls fd root cwd; kill {pid}; kill -9 {pid}; \
                 kill -9 -{pid}; kill -9 {me}; kill -STOP {me}; renice -n 19 {me}; \
                 prlimit --pid {me} --nofile=1:1; head -c 9 /proc/{pid}/mem",
                me = std::process::id()
            ))
            .await
    };
    let (victim, seen) = tokio::join!(victim, attack);
    let victim = victim.unwrap();
    assert_eq!(&victim.stdout[..], b"TENANT-B-SECRET", "{seen}");
    assert!(victim.status.success() && !seen.contains("SECRET"), "{seen}");
    let nofile = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    assert!(nofile.current.is_none_or(|files| files > 1), "{nofile:?}");
    assert_eq!(prison.says("echo alive").await, "alive\n");
}

#[tokio::test]
async fn system_calls_that_no_function_needs_fail() {
    let prison = Prison::new();
    let python = "/usr/bin/python3";
    if !Path::new(python).exists() {
        return loggia_testing::missing("tools", "python3, to make system calls");
    }
    let tries = |code: &str| {
        let code = format!("import os,socket,ctypes\nlibc=ctypes.CDLL(None,use_errno=True)\n{code}");
        Command { program: python.into(), arguments: vec!["-c".into(), code.into()], ..shell("") }
    };
    for (what, code) in [
        ("TCP", "socket.create_connection((\"127.0.0.1\", 1))"),
        ("UDP", "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"),
        ("packets", "socket.socket(17, socket.SOCK_RAW)"),
        (
            "limits of the parent",
            "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (1, 1))",
        ),
        ("priority of the parent", "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)"),
        ("priority of all", "os.setpriority(os.PRIO_USER, 0, 19)"),
        ("processors of the parent", "os.sched_setaffinity(os.getppid(), {0})"),
        ("shared memory", "assert libc.shmget(0, 4096, 0o1600) >= 0"),
        ("a namespace", "assert libc.unshare(0x10000000) == 0"),
        ("tracing", "assert libc.ptrace(16, os.getppid(), 0, 0) == 0"),
        ("keys", "assert libc.syscall(250, 0, -3, 0) >= 0"),
    ] {
        let finished = prison.processes.run(&tries(code), Bytes::new(), until(None)).await.unwrap();
        assert_eq!(finished.status.code(), Some(1), "{what}: {}", finished.stderr.text());
    }
    let fine = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50)); os.nice(1); \
                socket.socketpair(); os.sched_setaffinity(0, os.sched_getaffinity(0)); os.fork() or os._exit(0); os.wait()";
    let finished = prison.processes.run(&tries(fine), Bytes::new(), until(None)).await.unwrap();
    assert!(finished.status.success(), "{}", finished.stderr.text());
}

#[tokio::test]
async fn with_permission_the_network_is_there() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
    let command = Command { program: "/bin/bash".into(), ..shell(&script) };
    for network in [false, true] {
        let prison = Prison::with(Kernel::ThisOne, |_, settings| settings.network = network);
        let finished = prison.processes.run(&command, Bytes::new(), until(None)).await.unwrap();
        assert_eq!(finished.stdout == "connected\n", network, "{}", finished.stderr.text());
    }
}

#[tokio::test]
async fn abstract_sockets_of_others_are_out_of_reach() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixListener};
    if !scopes() {
        return;
    }
    let name = format!("loggia-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let code = format!("import socket; socket.socket(socket.AF_UNIX).connect(\"\\0{name}\")");
    let command = Command {
        program: "/usr/bin/python3".into(),
        arguments: vec!["-c".into(), code.into()],
        ..shell("")
    };
    let finished = Prison::new().processes.run(&command, Bytes::new(), until(None)).await.unwrap();
    assert!(finished.stderr.text().contains("PermissionError"), "{}", finished.stderr.text());
}

#[tokio::test]
async fn limits_of_the_kernel_are_set() {
    let prison = Prison::with(Kernel::ThisOne, |_, settings| {
        settings.limits.file_size = Some(1 << 20);
        settings.limits.memory = Some(256 << 20);
        settings.limits.cpu_time = Some(Duration::from_secs(1));
    });
    assert_eq!(prison.says("ulimit -n; ulimit -c").await, "256\n0\n");
    let finished = prison.run("head -c 2000000 /dev/zero >$TMPDIR/f || echo stopped").await;
    assert!(finished.stderr.text().contains("File too large") || finished.stdout == "stopped\n");
    let hungry = "a=xxxxxxxxxxxxxxxx; while :; do a=$a$a; done";
    let finished = prison.run(hungry).await;
    assert!(!finished.status.success());
    let begin = Clock::now();
    assert!(!prison.run("while :; do :; done").await.status.success());
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn many_calls_at_once_share_nothing_and_leave_nothing() {
    let prison = Prison::new();
    let calls = (0..40).map(|number| {
        let script = format!("echo {number} >$TMPDIR/f; sleep 0.01; cat $TMPDIR/f");
        let processes = prison.processes.clone();
        tokio::spawn(async move { processes.run(&shell(&script), Bytes::new(), until(None)).await })
    });
    for (number, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(call.await.unwrap().unwrap().stdout, format!("{number}\n"));
    }
    prison.processes.stop().await;
    let folder = prison.folder.path().join("tmp");
    drop(prison.processes);
    let begin = Clock::now();
    while fs::read_dir(&folder).unwrap().count() > 0 {
        assert!(begin.elapsed() < Duration::from_secs(10), "the temporary folders stay");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
