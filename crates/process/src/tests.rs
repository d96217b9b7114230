//! Real children: shells that read, write, hang, flood and leave others behind.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

use super::*;

const OUTPUT: usize = 1 << 20;
pub(crate) const LIMITS: Limits = Limits { concurrent: 4, stderr: 64 * 1024 };

pub(crate) fn until(deadline: Option<tokio::time::Instant>) -> Bounds {
    Bounds { deadline, stdout: OUTPUT }
}

pub(crate) fn shell(script: &str) -> Command {
    Command {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        environment: Environment::Only(vec![("PATH".into(), "/usr/bin:/bin".into())]),
    }
}

async fn run(script: &str, input: &[u8]) -> Result<Finished, Error> {
    Processes::new(LIMITS).run(&shell(script), Bytes::copy_from_slice(input), until(None)).await
}

pub(crate) fn after(span: Duration) -> Option<tokio::time::Instant> {
    Some(tokio::time::Instant::now() + span)
}

/// A fresh name for a file that a child writes its process number to.
fn note() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pid").display().to_string();
    (folder, path)
}

/// Waits until the file holds a process number.
pub(crate) async fn noted(path: &str) -> u32 {
    let begin = Instant::now();
    loop {
        match fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()) {
            Some(pid) => return pid,
            None => assert!(begin.elapsed() < Duration::from_secs(5), "the child never wrote {path}"),
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub(crate) fn is_running(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
}

/// How long a process went on running.
pub(crate) async fn gone_after(pid: u32) -> Duration {
    let begin = Instant::now();
    while is_running(pid) {
        assert!(begin.elapsed() < Duration::from_secs(5), "process {pid} goes on");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    begin.elapsed()
}

#[tokio::test]
async fn input_comes_back_byte_for_byte() {
    let input: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).take(1 << 20).collect();
    let finished = run("cat", &input).await.unwrap();
    assert_eq!(finished.stdout, input);
    assert!(finished.status.success());
}

#[tokio::test]
async fn a_function_that_writes_before_it_reads_does_not_hang() {
    let input = vec![b'x'; 1 << 20];
    let finished = run("head -c 900000 /dev/zero; cat >/dev/null; echo end >&2", &input).await.unwrap();
    assert_eq!(finished.stdout.len(), 900_000);
    assert_eq!(finished.stderr.text(), "end\n");
}

#[tokio::test]
async fn a_function_need_not_read_its_input() {
    let finished = run("echo done", &vec![b'x'; 1 << 20]).await.unwrap();
    assert_eq!(&finished.stdout[..], b"done\n");
}

#[tokio::test]
async fn closed_pipes_do_not_end_the_wait_for_the_process() {
    let finished = run("exec <&- >&- 2>&-; sleep 0.2; exit 7", b"x").await.unwrap();
    assert_eq!(finished.status.code(), Some(7));
}

#[tokio::test]
async fn exit_codes_and_signals_are_told() {
    assert_eq!(run("exit 3", b"").await.unwrap().status.code(), Some(3));
    assert_eq!(run("kill -9 $$", b"").await.unwrap().status.signal(), Some(9));
}

#[tokio::test]
async fn the_child_sees_only_the_variables_it_was_given() {
    let finished = run("env", b"").await.unwrap();
    let seen = String::from_utf8(finished.stdout.to_vec()).unwrap();
    // The shell itself adds where it is.
    let foreign: Vec<_> = seen
        .lines()
        .filter(|line| !["PATH", "PWD", "OLDPWD", "SHLVL", "_"].contains(&line.split('=').next().unwrap()))
        .collect();
    assert_eq!(foreign, [""; 0]);
}

#[tokio::test]
async fn a_flood_on_standard_output_ends_the_child() {
    let begin = Instant::now();
    match run("cat /dev/zero", b"").await {
        Err(Error::TooMuchOutput { limit, .. }) => assert_eq!(limit, OUTPUT),
        other => panic!("{other:?}"),
    }
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn output_of_exactly_the_limit_is_taken() {
    let finished = run("head -c 1048576 /dev/zero", b"").await.unwrap();
    assert_eq!(finished.stdout.len(), OUTPUT);
    assert!(matches!(run("head -c 1048577 /dev/zero", b"").await, Err(Error::TooMuchOutput { .. })));
}

#[tokio::test]
async fn a_flood_on_standard_error_keeps_its_ends() {
    let finished =
        run("echo first >&2; head -c 50000000 /dev/zero | tr '\\0' x >&2; echo last >&2", b"").await.unwrap();
    let text = finished.stderr.text();
    assert!(text.starts_with("first\n") && text.ends_with("last\n"));
    assert_eq!(finished.stderr.total(), 50_000_011);
    assert!(text.len() < LIMITS.stderr + 100);
}

#[tokio::test]
async fn at_the_deadline_the_answer_comes_at_once_and_the_group_goes() {
    let (_folder, path) = note();
    let processes = Processes::new(LIMITS);
    // A grandchild that ignores SIGTERM and holds the pipes.
    let script =
        format!("(trap '' TERM; echo $$ >{path}.tmp; mv {path}.tmp {path}; sleep 60) & trap '' TERM; wait");
    let begin = Instant::now();
    let answer = processes.run(&shell(&script), Bytes::new(), until(after(Duration::from_millis(200)))).await;
    let took = begin.elapsed();
    assert!(matches!(answer, Err(Error::DeadlineExceeded)), "{answer:?}");
    assert!(took >= Duration::from_millis(190) && took < Duration::from_millis(300), "{took:?}");
    assert!(gone_after(noted(&path).await).await < Duration::from_secs(1));
    processes.stop().await;
    assert_eq!(processes.running(), 0);
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_the_group_with_it() {
    let (_folder, path) = note();
    let processes = Processes::new(LIMITS);
    let script = format!("sleep 60 & echo $! >{path}.tmp; mv {path}.tmp {path}; wait");
    let command = shell(&script);
    let pid = tokio::select! {
        answer = processes.run(&command, Bytes::new(), until(None)) => panic!("{answer:?}"),
        pid = noted(&path) => pid,
    };
    assert!(gone_after(pid).await < Duration::from_secs(1));
}

#[tokio::test]
async fn a_function_may_clean_up_when_told_to_end() {
    let (_folder, path) = note();
    let script = format!("trap 'echo 1 >{path}; exit' TERM; while :; do sleep 0.01; done");
    let answer = Processes::new(LIMITS)
        .run(&shell(&script), Bytes::new(), until(after(Duration::from_millis(100))))
        .await;
    assert!(matches!(answer, Err(Error::DeadlineExceeded)));
    assert_eq!(noted(&path).await, 1);
}

#[tokio::test]
async fn what_the_leader_leaves_behind_is_killed_and_does_not_hold_up_the_answer() {
    let (_folder, path) = note();
    let begin = Instant::now();
    let finished = run(&format!("sleep 60 & echo $! >{path}; echo answer"), b"").await.unwrap();
    assert_eq!(&finished.stdout[..], b"answer\n");
    assert!(begin.elapsed() < Duration::from_secs(2));
    assert!(gone_after(noted(&path).await).await < Duration::from_millis(100));
}

#[tokio::test]
async fn output_of_a_helper_that_outlives_the_leader_is_waited_for() {
    let finished = run("(sleep 0.3; echo late) & echo early", b"").await.unwrap();
    assert_eq!(&finished.stdout[..], b"early\nlate\n");
}

#[tokio::test]
async fn whoever_leaves_the_group_with_the_pipes_cannot_hold_up_the_answer_for_ever() {
    let (_folder, path) = note();
    let begin = Instant::now();
    let finished = run(&format!("setsid sleep 5 & echo $! >{path}; echo answer"), b"").await.unwrap();
    assert_eq!(&finished.stdout[..], b"answer\n");
    assert!(begin.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn a_program_that_cannot_start_is_told_with_its_path() {
    let processes = Processes::new(LIMITS);
    let start = async |program: &str| {
        let command = Command { program: program.into(), ..shell("") };
        processes.run(&command, Bytes::new(), until(None)).await.unwrap_err().to_string()
    };
    assert_eq!(start("/no/such").await, "fork/exec /no/such: no such file or directory");
    assert_eq!(start("/etc/passwd").await, "fork/exec /etc/passwd: permission denied");
    let (_folder, path) = note();
    fs::write(&path, "not a program").unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(start(&path).await, format!("fork/exec {path}: exec format error"));
}

#[tokio::test]
async fn more_calls_than_slots_wait_their_turn_or_their_deadline() {
    let processes = Processes::new(Limits { concurrent: 1, ..LIMITS });
    let slow = shell("sleep 0.3");
    let first = processes.run(&slow, Bytes::new(), until(None));
    let second = async {
        let begin = Instant::now();
        let answer = processes.run(&slow, Bytes::new(), until(after(Duration::from_millis(100)))).await;
        (answer, begin.elapsed())
    };
    let third = processes.run(&slow, Bytes::new(), until(None));
    let begin = Instant::now();
    let (first, (second, waited), third) = tokio::join!(first, second, third);
    assert!(first.is_ok() && third.is_ok());
    assert!(matches!(second, Err(Error::DeadlineExceeded)));
    assert!(waited < Duration::from_millis(200), "{waited:?}");
    assert!(begin.elapsed() >= Duration::from_millis(600));
}

#[tokio::test]
async fn stopping_ends_those_that_run_and_those_that_wait() {
    let processes = Processes::new(Limits { concurrent: 1, ..LIMITS });
    let hanging = shell("sleep 60");
    let calls = async {
        tokio::join!(
            processes.run(&hanging, Bytes::new(), until(None)),
            processes.run(&hanging, Bytes::new(), until(None))
        )
    };
    let stop = async {
        while processes.running() == 0 {
            tokio::task::yield_now().await;
        }
        processes.stop().await;
    };
    let ((first, second), ()) = tokio::join!(calls, stop);
    assert!(matches!((first, second), (Err(Error::Stopped), Err(Error::Stopped))));
    assert!(matches!(processes.run(&hanging, Bytes::new(), until(None)).await, Err(Error::Stopped)));
}
