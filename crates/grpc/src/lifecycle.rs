//! From start to stop: which phase the service is in, and which calls it still owes an answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// Where the service stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Not ready for calls yet.
    Starting,
    /// Taking calls.
    Serving,
    /// Finishing the calls it has, refusing others.
    Draining,
    /// Giving up what is left.
    Closing,
}

/// The phase of one service. Clones share it.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    phase: Arc<watch::Sender<Phase>>,
    warm: Arc<watch::Sender<bool>>,
    /// Each call in flight holds a receiver, so the sender knows when the last is gone.
    calls: Arc<watch::Sender<()>>,
}

/// A call in flight; the service does not stop before it is dropped or runs out of patience.
#[derive(Debug)]
pub struct InFlight {
    _call: watch::Receiver<()>,
    phase: watch::Receiver<Phase>,
}

// === impl Lifecycle ===

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            phase: Arc::new(watch::Sender::new(Phase::Starting)),
            warm: Arc::new(watch::Sender::new(true)),
            calls: Arc::new(watch::Sender::new(())),
        }
    }
}

impl Lifecycle {
    /// Starts to take calls.
    pub fn serve(&self) {
        self.phase.send_replace(Phase::Serving);
    }

    /// Sets whether the warm-up is over, as it is by default. Calls are taken either way.
    pub fn set_warm(&self, warm: bool) {
        self.warm.send_replace(warm);
    }

    /// Stops to take calls, waits for those in flight, no longer than `patience`, and then closes.
    /// Returns how many were given up.
    pub async fn drain(&self, patience: Duration) -> usize {
        self.phase.send_replace(Phase::Draining);
        let _ = tokio::time::timeout(patience, self.calls.closed()).await;
        let left = self.calls.receiver_count();
        self.phase.send_replace(Phase::Closing);
        left
    }

    /// Tells the phase and its changes.
    pub fn watch(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Tells whether the service is warm, and when that changes.
    pub fn watch_warm(&self) -> watch::Receiver<bool> {
        self.warm.subscribe()
    }

    /// The calls that are owed an answer now.
    pub fn in_flight(&self) -> usize {
        self.calls.receiver_count()
    }

    /// Enters a call, unless this is not the time for one.
    pub fn enter(&self) -> Result<InFlight, Phase> {
        // Entered first and checked then: a drain that begins in between waits for this call.
        let call = InFlight { _call: self.calls.subscribe(), phase: self.phase.subscribe() };
        match *self.phase.borrow() {
            Phase::Serving => Ok(call),
            other => Err(other),
        }
    }
}

// === impl InFlight ===

impl InFlight {
    /// Returns when the service gives up the calls that are left.
    pub async fn given_up(&mut self) {
        if self.phase.wait_for(|phase| *phase == Phase::Closing).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_drain_waits_for_calls_and_refuses_others() {
        let lifecycle = Lifecycle::default();
        assert_eq!(lifecycle.enter().unwrap_err(), Phase::Starting);
        lifecycle.serve();
        let call = lifecycle.enter().unwrap();
        let drained = tokio::spawn({
            let lifecycle = lifecycle.clone();
            async move { lifecycle.drain(Duration::from_secs(25)).await }
        });
        lifecycle.watch().wait_for(|phase| *phase == Phase::Draining).await.unwrap();
        assert_eq!(lifecycle.enter().unwrap_err(), Phase::Draining);
        drop(call);
        assert_eq!(drained.await.unwrap(), 0);
        assert_eq!(*lifecycle.watch().borrow(), Phase::Closing);
    }

    #[tokio::test(start_paused = true)]
    async fn patience_has_an_end() {
        let lifecycle = Lifecycle::default();
        lifecycle.serve();
        let mut call = lifecycle.enter().unwrap();
        let begin = tokio::time::Instant::now();
        assert_eq!(lifecycle.drain(Duration::from_secs(25)).await, 1);
        assert_eq!(begin.elapsed(), Duration::from_secs(25));
        call.given_up().await;
    }
}
