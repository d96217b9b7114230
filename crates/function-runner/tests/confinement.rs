//! Exec functions that try to get out of a real service, which runs as root and as a user without any privilege.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tonic::Code;

mod support;

use support::{Called as _, Functions, Server, children_of, evaluate, eventually, is_running, noted, output};

const NOBODY: u32 = 65_534;
const LIST: &str = "kind: ResourceList\nitems: []\n";

/// Whom the service runs as.
#[derive(Clone, Copy, Debug, PartialEq)]
enum User {
    Root,
    Nobody,
}

/// As whom tests can run the service here.
fn users() -> &'static [User] {
    match rustix::process::geteuid().is_root() {
        true => &[User::Root, User::Nobody],
        false => {
            support::left_out("only root can start the service as another user");
            &[User::Root]
        }
    }
}

/// Serves functions as a user, who owns their folder.
fn serve(user: User, functions: &Functions, flags: &[&str]) -> Server {
    let command = functions.command(flags);
    if user == User::Root {
        return Server::start(&mut { command });
    }
    give_away(functions.folder());
    let mut unprivileged = Command::new("setpriv");
    unprivileged.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--bounding-set=-all",
        "--inh-caps=-all",
    ]);
    unprivileged.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => unprivileged.env(name, value),
            None => unprivileged.env_remove(name),
        };
    }
    Server::start(&mut unprivileged)
}

fn give_away(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        fs::read_dir(path).unwrap().for_each(|entry| give_away(&entry.unwrap().path()));
    }
}

async fn says(server: &Server, image: &str) -> String {
    match evaluate(&server.client(), image, LIST).await {
        Ok(answer) => {
            String::from_utf8_lossy(&answer.resource_list).into_owned()
                + &String::from_utf8_lossy(&answer.log)
        }
        Err(status) => status.message().to_owned(),
    }
}

/// A call that is answered within a second, whatever else goes on.
async fn healthy(server: &Server) {
    let begin = Instant::now();
    assert_eq!(says(server, "echo").await, LIST);
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
}

fn scopes() -> bool {
    let scopes = loggia_process::Abi::here().lacks().is_none();
    if !scopes {
        support::left_out("this kernel's Landlock does not confine in full");
    }
    scopes
}

#[tokio::test]
async fn no_secret_of_the_service_can_be_read_by_any_name() {
    if !scopes() {
        return;
    }
    for user in users() {
        let functions = Functions::new();
        let folder = functions.folder().display().to_string();
        let secrets = ["auth.json", "kube.yaml", "pod.key", "more/secret"];
        fs::create_dir(functions.folder().join("more")).unwrap();
        for secret in secrets {
            fs::write(functions.folder().join(secret), "canary").unwrap();
        }
        let reads: String = secrets
            .iter()
            .map(|name| {
                format!(
                    "cat {folder}/{name} /proc/$PPID/root{folder}/{name} /proc/self/root{folder}/{name}; "
                )
            })
            .collect();
        let functions = functions.with("echo", &["echo"], "cat").with(
            "thief",
            &["thief"],
            &format!(
                "exec 2>&1; {reads} cat /proc/$PPID/environ /proc/$PPID/fd/* /proc/[0-9]*/environ; \
                 ls {folder}/more /proc/$PPID/fd /proc/self/fd; \
                 for fd in 3 4 5 6 7 8 9 10 11 12; do head -c 100 /proc/self/fd/$fd; done; exit 0"
            ),
        );
        let flags = [
            "--disable-runtimes=pod".to_owned(),
            format!("--registry-auth-secret-path={folder}/auth.json"),
            format!("--kubeconfig={folder}/kube.yaml"),
            format!("--pod-tls-key={folder}/pod.key"),
            format!("--exec-hidden={folder}/more"),
            "--require-confinement".to_owned(),
        ];
        let server = serve(*user, &functions, &flags.iter().map(String::as_str).collect::<Vec<_>>());
        let seen = says(&server, "thief").await;
        assert!(!seen.contains("canary") && !seen.contains("HOME=/root"), "{user:?}: {seen}");
        assert!(seen.matches("ermission denied").count() >= 13, "{user:?}: {seen}");
        healthy(&server).await;
    }
}

#[tokio::test]
async fn a_call_cannot_take_the_input_of_another_or_end_it_or_the_service() {
    if !scopes() {
        return;
    }
    for user in users() {
        let functions = Functions::new()
            .with("echo", &["echo"], "cat")
            .with("victim", &["victim"], "echo $$ > \"$(dirname \"$0\")/../pid\"; sleep 1; cat")
            .with(
                "thief",
                &["thief"],
                "exec 2>&1; pid=$(cat \"$(dirname \"$0\")/../pid\"); head -c 20 /proc/$pid/fd/0; cat /proc/$pid/environ; \
                 kill -9 $pid; kill -9 -$pid; kill -STOP $PPID; kill -9 $PPID; renice -n 19 $PPID; \
                 prlimit --pid $PPID --nofile=1:1; echo end",
            );
        let server = serve(*user, &functions, &[]);
        let secret = "kind: ResourceList\nitems: []\n# TENANT-B-SECRET\n";
        let client = server.client();
        let victim = evaluate(&client, "victim", secret);
        let attack = async {
            noted(&functions.note("pid")).await;
            says(&server, "thief").await
        };
        let (victim, seen) = tokio::join!(victim, attack);
        assert_eq!(victim.unwrap().resource_list, secret, "{user:?}: {seen}");
        assert!(seen.contains("end") && !seen.contains("SECRET"), "{user:?}: {seen}");
        healthy(&server).await;
    }
}

#[tokio::test]
async fn nothing_outlives_its_call() {
    for user in users() {
        let note = "\"$(dirname \"$0\")/../NAME\"";
        let stay = |name: &str, how: &str| {
            let note = note.replace("NAME", name);
            format!("note={note}; export note; {how} while [ ! -s \"$note\" ]; do sleep 0.01; done; cat")
        };
        let functions = Functions::new()
            .with("echo", &["echo"], "cat")
            .with("session", &["session"], &stay("session", "setsid sh -c 'echo $$ >$note; sleep 60; true' >/dev/null 2>&1 &"))
            .with(
                "twice",
                &["twice"],
                &stay("twice", "(setsid sh -c 'trap \"\" TERM HUP; (sh -c \"echo \\$\\$ >$note; sleep 60; true\") & wait' &) >/dev/null 2>&1;"),
            )
            .with("pipes", &["pipes"], &stay("pipes", "setsid sh -c 'echo $$ >$note; sleep 60; true' &"))
            .with(
                "hangs",
                &["hangs"],
                &stay("hangs", "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ >$note; sleep 60; true' & sleep 60;"),
            );
        let server = serve(*user, &functions, &[]);
        for name in ["session", "twice", "pipes"] {
            assert_eq!(says(&server, name).await, LIST, "{user:?} {name}");
            let pid = noted(&functions.note(name)).await;
            let gone = eventually("the escapee is gone", || !is_running(pid)).await;
            assert!(gone < Duration::from_secs(1), "{user:?} {name}: {gone:?}");
        }
        let client = server.client();
        let answer = client.evaluate("hangs", LIST.into(), Some(Duration::from_millis(800))).await;
        assert_eq!(answer.unwrap_err().code(), Code::DeadlineExceeded);
        let pid = noted(&functions.note("hangs")).await;
        let gone = eventually("the escapee is gone", || !is_running(pid)).await;
        assert!(gone < Duration::from_secs(1), "{user:?}: {gone:?}");
        eventually("no child is left", || children_of(server.pid()).is_empty()).await;
        healthy(&server).await;
    }
}

#[tokio::test]
async fn a_fork_bomb_costs_its_own_call() {
    for user in users() {
        let functions = Functions::new().with("echo", &["echo"], "cat").with(
            "bomb",
            &["bomb"],
            "b() { setsid sleep 61.5 & b | b & }; b; b; sleep 61.5",
        );
        let server = serve(*user, &functions, &["--exec-processes=300"]);
        let bomb = async {
            let begin = Instant::now();
            let status = evaluate(&server.client(), "bomb", LIST).await.unwrap_err();
            (status, begin.elapsed())
        };
        let (status, took) = bomb.await;
        assert_eq!(status.code(), Code::ResourceExhausted, "{user:?}: {status}");
        assert!(
            status.message().contains("started more than 300 processes and threads (`--exec-processes`)"),
            "{user:?}: {}",
            status.message()
        );
        assert!(took < Duration::from_secs(5), "{user:?}: {took:?}");
        healthy(&server).await;
        eventually("no child is left", || children_of(server.pid()).is_empty()).await;
    }
}

#[tokio::test]
async fn temporary_files_are_bounded_and_gone_with_their_call() {
    for user in users() {
        let functions = Functions::new()
            .with("echo", &["echo"], "cat")
            .with("fill", &["fill"], "head -c 200000000 /dev/zero >$TMPDIR/f; sleep 60")
            .with(
                "leave",
                &["leave"],
                "cd $TMPDIR; mkdir -p a/b/c; echo canary >a/b/c/f; mv a/b/c/f a/f; echo $TMPDIR >&2; cat",
            )
            .with(
                "deep",
                &["deep"],
                "cd $TMPDIR; i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done; cat",
            )
            .with("look", &["look"], "exec 2>&1; find $TMPDIR/.. -type f; ls -a $TMPDIR | wc -l");
        let server = serve(*user, &functions, &["--exec-temporary-size=50000000"]);
        let status = evaluate(&server.client(), "fill", LIST).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{user:?}: {status}");
        assert!(
            status.message().contains("50000000 bytes to its temporary directory (`--exec-temporary-size`)")
        );
        let private = says(&server, "leave").await.lines().last().unwrap().to_owned();
        assert_eq!(says(&server, "deep").await, LIST, "{user:?}");
        eventually("the folder is empty", || {
            fs::read_dir(&private).is_ok_and(|mut entries| entries.next().is_none())
        })
        .await;
        let seen = says(&server, "look").await;
        assert!(!seen.contains("a/f"), "{user:?}: {seen}");
        healthy(&server).await;
    }
}

#[tokio::test]
async fn the_network_is_there_on_request_only() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "exec 2>&1; cat >/dev/null; bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected'; exit 0"
    );
    for user in users() {
        let functions = Functions::new().with("call", &["call"], &script);
        let closed = serve(*user, &functions, &[]);
        let seen = says(&closed, "call").await;
        assert!(!seen.contains("connected") && seen.contains("ermission denied"), "{user:?}: {seen}");
        let open = serve(*user, &functions, &["--exec-network"]);
        assert!(says(&open, "call").await.contains("connected"), "{user:?}");
    }
}

#[tokio::test]
async fn floods_and_closed_pipes_do_no_harm() {
    for user in users() {
        let functions = Functions::new()
            .with("echo", &["echo"], "cat")
            .with("stderr", &["stderr"], "head -c 100000000 /dev/zero >&2; cat")
            .with("closes", &["closes"], "exec <&-; echo 'kind: ResourceList'; echo 'items: []'");
        let server = serve(*user, &functions, &[]);
        assert!(says(&server, "stderr").await.starts_with(LIST), "{user:?}");
        let large = format!("{LIST}# {}\n", "x".repeat(1_000_000));
        assert_eq!(evaluate(&server.client(), "closes", large).await.unwrap().resource_list, LIST);
        healthy(&server).await;
    }
}

/// Starts a program on a kernel whose Landlock is missing, as far as the program can see.
const WITHOUT_LANDLOCK: &str = r#"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
insns = [(0x20,0,0,0),(0x15,0,1,444),(0x06,0,0,0x00050026),(0x06,0,0,0x7fff0000)]
code = b"".join(struct.pack("HBBI", *i) for i in insns)
buffer = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxQ", len(insns), ctypes.addressof(buffer))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.create_string_buffer(program)) == 0
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[tokio::test]
async fn without_landlock_the_service_warns_or_refuses() {
    if support::tool("python3").is_none() {
        return;
    }
    let functions = Functions::new().with("echo", &["echo"], "cat").with(
        "stays",
        &["stays"],
        "note=\"$(dirname \"$0\")/../pid\"; setsid sh -c \"echo \\$\\$ >$note; sleep 60; true\" >/dev/null 2>&1 & \
         while [ ! -s \"$note\" ]; do sleep 0.01; done; cat",
    );
    let old_kernel = |flags: &[&str]| {
        let command = functions.command(flags);
        let mut python = Command::new("python3");
        python.args(["-c", WITHOUT_LANDLOCK]).arg(command.get_program()).args(command.get_args());
        python
    };
    let (code, _, stderr) = output(&mut old_kernel(&["--require-confinement"]));
    assert_eq!(code, Some(1), "{stderr}");
    let last = stderr.lines().last().unwrap();
    assert!(last.contains("exec functions are not confined in full: this kernel lacks Landlock"), "{last}");
    assert!(last.contains("--require-confinement") && last.contains("--disable-runtimes=exec"), "{last}");
    let server = Server::start(&mut old_kernel(&[]));
    assert_eq!(server.log().iter().filter(|line| line.contains("not confined in full")).count(), 1);
    assert_eq!(says(&server, "stays").await, LIST);
    let pid = noted(&functions.note("pid")).await;
    assert!(eventually("the escapee is gone", || !is_running(pid)).await < Duration::from_secs(1));
    healthy(&server).await;
}
