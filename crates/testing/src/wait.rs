//! Conditions with a deadline, where a sleep would only hope.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// More than any test needs.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Between two looks at something cheap, such as a file or `/proc`.
const PAUSE: Duration = Duration::from_millis(2);

/// Between two looks at something that is asked over a network.
const LONG_PAUSE: Duration = Duration::from_millis(100);

/// Waits until something holds, and says for how long.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what} never came true");
        tokio::time::sleep(PAUSE).await;
    }
    begin.elapsed()
}

/// As [`eventually`], for what is found out by asking, and with a patience of its own.
pub async fn until(what: &str, patience: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < patience, "{what}: not so after {patience:?}");
        tokio::time::sleep(LONG_PAUSE).await;
    }
}

/// As [`eventually`], outside of async code: waits until there is an answer. What was seen instead is shown if none comes.
pub fn wait_for<T>(mut attempt: impl FnMut() -> Option<T>, instead: impl Fn() -> String) -> T {
    let begin = Instant::now();
    loop {
        if let Some(answer) = attempt() {
            return answer;
        }
        assert!(begin.elapsed() < 3 * PATIENCE, "{}", instead());
        std::thread::sleep(PAUSE);
    }
}

/// The number that a function wrote into a file, as soon as it is there.
pub async fn noted(path: &Path) -> u32 {
    let read = || fs::read_to_string(path).ok()?.trim().parse().ok();
    eventually(&format!("a number in {}", path.display()), || read().is_some()).await;
    read().unwrap()
}
