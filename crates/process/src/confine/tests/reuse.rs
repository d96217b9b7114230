//! One warden after another call: nothing of the last call is left in its domain, and old rules do not stay.

use super::*;

/// The threads of this process that are wardens.
fn wardens() -> usize {
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    threads
        .filter(|thread| {
            fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.trim() == "warden")
        })
        .count()
}

#[tokio::test]
async fn calls_in_a_row_see_nothing_of_each_other() {
    let prison = Prison::new();
    for round in 0..20 {
        let left = prison.says("ls -A $TMPDIR; echo x >$TMPDIR/left; mkdir -p $TMPDIR/a/b").await;
        assert_eq!(left, "", "round {round}");
        // It would write into the folder of the next call.
        let script = "(setsid sh -c 'while :; do echo x >$TMPDIR/late; done' >/dev/null 2>&1 </dev/null &)";
        prison.run(script).await;
    }
    let before = wardens();
    for _ in 0..50 {
        prison.run("true").await;
    }
    assert!(wardens() <= before + 3, "{} wardens, {before} before", wardens());
}

#[tokio::test]
async fn a_file_that_appears_beside_a_secret_is_in_reach_soon() {
    if !Abi::here().exists() {
        return loggia_testing::left_out("this kernel has no Landlock");
    }
    let prison = Prison::with(Kernel::ThisOne, |folder, settings| {
        fs::write(folder.join("secret"), "secret").unwrap();
        settings.hidden.push(folder.join("secret"));
    });
    // More wardens wait than one call needs.
    let calls = (0..8).map(|_| prison.run("sleep 0.05")).collect::<Vec<_>>();
    for call in calls {
        call.await;
    }
    fs::write(prison.folder.path().join("fresh"), "fresh").unwrap();
    tokio::time::sleep(LOOK_INTERVAL + Duration::from_millis(100)).await;
    let script = format!("cat {} {}", prison.path("fresh"), prison.path("secret"));
    for _ in 0..8 {
        let said = prison.says(&script).await;
        assert!(said.starts_with("fresh") && said.contains("Permission denied"), "{said}");
    }
}

#[tokio::test]
async fn many_calls_at_once_leave_few_wardens() {
    let prison = Prison::new();
    let calls = (0..100).map(|_| {
        let processes = prison.processes.clone();
        tokio::spawn(async move { processes.run(&shell("sleep 0.02"), Bytes::new(), until(None)).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    drop(prison);
    let begin = Clock::now();
    // Tests of this process that run beside this one have wardens, too.
    while wardens() > 200 {
        assert!(begin.elapsed() < Duration::from_secs(10), "{} wardens stay", wardens());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
