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
    let script = format!("cat {} {}", prison.path("fresh"), prison.path("secret"));
    let begin = Clock::now();
    while !prison.says(&script).await.starts_with("fresh") {
        assert!(begin.elapsed() < LOOK_INTERVAL * 10, "old rules stay");
    }
    for _ in 0..8 {
        let said = prison.says(&script).await;
        assert!(said.starts_with("fresh") && said.contains("Permission denied"), "{said}");
    }
}
