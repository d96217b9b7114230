//! Lets time pass without waiting for it.
//!
//! A paused clock alone will not do: the registry is another process, and while tokio waits for it, a paused clock
//! would jump to the next timeout.

use std::time::{Duration, Instant};

use tokio::runtime::Handle;

/// Moves the clock of this runtime, which must have one thread, and lets it run on from there. No request may be
/// under way, as it would time out.
pub(crate) async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Returns once every spawned task has ended, and with them all that happens in the background.
pub(crate) async fn settled() {
    until(|| Handle::current().metrics().num_alive_tasks() == 0).await;
}

/// Returns once a condition holds that depends on another thread or process.
pub(crate) async fn until(done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
