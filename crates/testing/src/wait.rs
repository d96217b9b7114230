//! Conditions with a deadline, where a sleep would only hope.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// More than any test needs.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until something holds, and says for how long.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what} never came true");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    begin.elapsed()
}

/// The number that a function wrote into a file, as soon as it is there.
pub async fn noted(path: &Path) -> u32 {
    let read = || fs::read_to_string(path).ok()?.trim().parse().ok();
    eventually(&format!("a number in {}", path.display()), || read().is_some()).await;
    read().unwrap()
}
