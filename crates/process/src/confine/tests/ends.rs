//! Children that try to stay after the end of their call, on kernels with and without Landlock.

use crate::adopt_orphans;
use crate::tests::{after, gone_after, is_running};

use super::*;

#[tokio::test]
async fn whatever_it_does_to_stay_is_gone_with_the_call() {
    for kernel in [Kernel::ThisOne, Kernel::Without] {
        let prison = Prison::with(kernel, |_, settings| settings.files = Files::AsTheyAre);
        // Only a process that adopts orphans finds them.
        adopt_orphans().unwrap();
        for (what, script) in [
            (
                "another session",
                "setsid sh -c 'echo $$ >NOTE.new; mv NOTE.new NOTE; sleep 60' >/dev/null 2>&1 </dev/null &",
            ),
            (
                "a double fork that ignores signals",
                "(setsid sh -c \"trap '' TERM HUP INT; (sh -c 'echo \\$\\$ >NOTE.new; mv NOTE.new NOTE; sleep 60') & wait\" &)  >/dev/null 2>&1",
            ),
            ("the pipes held open", "setsid sh -c 'echo $$ >NOTE.new; mv NOTE.new NOTE; sleep 60' &"),
        ] {
            let note = prison.path("out/note");
            let _ = fs::remove_file(&note);
            let script = format!(
                "{}\nwhile [ ! -e {note} ]; do sleep 0.01; done; echo answer",
                script.replace("NOTE", &note)
            );
            let begin = Clock::now();
            let finished = prison.run(&script).await;
            assert_eq!(&finished.stdout[..], b"answer\n", "{kernel:?} {what}");
            assert!(begin.elapsed() < Duration::from_secs(4), "{kernel:?} {what}");
            let gone = gone_after(noted(&note).await).await;
            assert!(gone < Duration::from_millis(900), "{kernel:?} {what}: {gone:?}");
        }
    }
}

#[tokio::test]
async fn at_the_deadline_escapees_go_too() {
    for kernel in [Kernel::ThisOne, Kernel::Without] {
        let prison = Prison::with(kernel, |_, settings| settings.files = Files::AsTheyAre);
        adopt_orphans().unwrap();
        let note = prison.path("out/note");
        let script = format!(
            "trap '' TERM; (setsid sh -c \"trap '' TERM; echo \\$\\$ >{note}.new; mv {note}.new {note}; sleep 60; true\" &); sleep 60; true"
        );
        let deadline = after(Duration::from_millis(700));
        let answer = prison.processes.run(&shell(&script), Bytes::new(), until(deadline)).await;
        assert!(matches!(answer, Err(Error::DeadlineExceeded)), "{answer:?}");
        let gone = gone_after(noted(&note).await).await;
        assert!(gone < Duration::from_secs(1), "{kernel:?}: {gone:?}");
    }
}

#[tokio::test]
async fn a_helper_of_its_own_group_may_finish_writing_whatever_other_calls_do() {
    for kernel in [Kernel::ThisOne, Kernel::Without] {
        let prison = Prison::with(kernel, |_, settings| settings.files = Files::AsTheyAre);
        adopt_orphans().unwrap();
        let slow = prison.run("(sleep 0.5; echo late) & echo early");
        let others = async {
            for _ in 0..10 {
                prison.run("setsid sleep 9 >/dev/null 2>&1 & sleep 0.02").await;
            }
        };
        let (slow, ()) = tokio::join!(slow, others);
        assert_eq!(&slow.stdout[..], b"early\nlate\n", "{kernel:?}");
    }
}

#[tokio::test]
async fn a_fork_bomb_is_stopped_at_the_limit_and_leaves_nothing() {
    for kernel in [Kernel::ThisOne, Kernel::Without] {
        let prison = Prison::with(kernel, |_, settings| settings.files = Files::AsTheyAre);
        adopt_orphans().unwrap();
        let mark = format!("61.{}{:?}", std::process::id(), kernel as u8);
        let script = format!("b() {{ setsid sleep {mark} & b | b & }}; b; b; sleep {mark}");
        let begin = Clock::now();
        let deadline = after(Duration::from_secs(10));
        let answer = prison.processes.run(&shell(&script), Bytes::new(), until(deadline)).await;
        let limit = OverLimit::Processes { limit: 200 };
        match answer {
            Err(Error::OverLimit { limit: found, .. }) => assert_eq!(found, limit),
            other => panic!("{kernel:?}: {other:?}"),
        }
        assert!(begin.elapsed() < Duration::from_secs(5), "{kernel:?}: {:?}", begin.elapsed());
        let left = || {
            let processes = fs::read_dir("/proc").unwrap().flatten();
            processes
                .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
                .filter(|pid| {
                    fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(&mark))
                        && is_running(*pid)
                })
                .count()
        };
        let begin = Clock::now();
        while left() > 0 {
            assert!(begin.elapsed() < Duration::from_secs(1), "{kernel:?}: {} are left", left());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(prison.says("echo alive").await, "alive\n");
    }
}

#[tokio::test]
async fn a_process_that_hops_from_one_to_the_next_is_caught() {
    for kernel in [Kernel::ThisOne, Kernel::Without] {
        let prison = Prison::with(kernel, |_, settings| settings.files = Files::AsTheyAre);
        adopt_orphans().unwrap();
        // Each of them starts its successor in a session of its own and exits.
        let beat = prison.path("out/beat");
        let hop = prison.path("out/hop");
        fs::write(&hop, format!("echo x >>{beat}\nsetsid sh {hop} >/dev/null 2>&1 </dev/null &\n")).unwrap();
        prison.run(&format!("setsid sh {hop} & sleep 0.3")).await;
        let size = || fs::metadata(&beat).map_or(0, |found| found.len());
        assert!(size() > 2, "{kernel:?}: it never hopped");
        let begin = Clock::now();
        loop {
            let before = size();
            tokio::time::sleep(Duration::from_millis(150)).await;
            if size() == before {
                break;
            }
            assert!(begin.elapsed() < Duration::from_secs(2), "{kernel:?}: it hops on");
        }
    }
}

#[tokio::test]
async fn a_process_that_stops_itself_is_ended_at_the_deadline() {
    let prison = Prison::new();
    let note = prison.path("out/note");
    let script = format!("echo $$ >{note}; kill -STOP $$; sleep 60");
    let deadline = after(Duration::from_millis(300));
    let answer = prison.processes.run(&shell(&script), Bytes::new(), until(deadline)).await;
    assert!(matches!(answer, Err(Error::DeadlineExceeded)), "{answer:?}");
    assert!(gone_after(noted(&note).await).await < Duration::from_secs(1));
    prison.processes.stop().await;
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_escapees_with_it() {
    let prison = Prison::new();
    let note = prison.path("out/note");
    let script = format!(
        "setsid sh -c 'trap \"\" TERM; echo $$ >{note}.new; mv {note}.new {note}; sleep 60; true' & sleep 60"
    );
    let command = shell(&script);
    let pid = tokio::select! {
        answer = prison.processes.run(&command, Bytes::new(), until(None)) => panic!("{answer:?}"),
        pid = noted(&note) => pid,
    };
    assert!(gone_after(pid).await < Duration::from_secs(1));
}
