//! Signals that end a command before it writes anything.
//!
//! A thread of its own listens, since the one that renders may be busy. It has the work dropped, which ends child
//! processes in good order, and if that takes too long it ends the command itself.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::failure::Failure;
use crate::printer::Printer;

/// How long the work may take to end before the command ends without it.
const GRACE: Duration = Duration::from_millis(500);

/// The work goes on.
const RUNNING: u8 = 0;
/// The work has ended, and its outcome counts.
const DONE: u8 = 1;
/// A signal came first.
const INTERRUPTED: u8 = 2;

/// Listens to SIGINT and SIGTERM until the work is done. After that they have no effect: what is written is written.
pub(crate) struct Interrupts {
    state: Arc<AtomicU8>,
    signals: oneshot::Receiver<Signal>,
    /// Closed when the work was dropped.
    _working: mpsc::Sender<()>,
}

#[derive(Clone, Copy)]
enum Signal {
    Interrupt,
    Terminate,
}

// === impl Interrupts ===

impl Interrupts {
    pub(crate) fn listen() -> io::Result<Self> {
        let state = Arc::new(AtomicU8::new(RUNNING));
        let (report, signals) = oneshot::channel();
        let (working, ended) = mpsc::channel(1);
        let (ready, started) = std::sync::mpsc::channel();
        let listener = Listener { state: Arc::clone(&state), report, ended };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .stack_size(256 << 10)
            .spawn(move || listener.run(&ready))?;
        started.recv().map_err(io::Error::other)??;
        Ok(Self { state, signals, _working: working })
    }

    /// The outcome of the work, unless a signal comes first.
    pub(crate) async fn or<T>(self, work: impl Future<Output = T>) -> Result<T, Failure> {
        let Self { state, signals, _working } = self;
        let ended = tokio::select! {
            biased;
            done = work => Ok(done),
            // The listener leaves only after a signal.
            Ok(signal) = signals => Err(signal.failure()),
        };
        match (ended, state.compare_exchange(RUNNING, DONE, Ordering::SeqCst, Ordering::SeqCst)) {
            (Err(interrupted), _) => Err(interrupted),
            (Ok(done), Ok(_)) => Ok(done),
            // The signal was first by a hair, and the listener may have said so.
            (Ok(_), Err(_)) => Err(Signal::Interrupt.failure()),
        }
    }
}

struct Listener {
    state: Arc<AtomicU8>,
    report: oneshot::Sender<Signal>,
    ended: mpsc::Receiver<()>,
}

// === impl Listener ===

impl Listener {
    fn run(self, ready: &std::sync::mpsc::Sender<io::Result<()>>) {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(ready.send(Err(error))),
        };
        runtime.block_on(self.listen(ready));
    }

    async fn listen(mut self, ready: &std::sync::mpsc::Sender<io::Result<()>>) {
        let (mut interrupt, mut terminate) =
            match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
                (Ok(interrupt), Ok(terminate)) => (interrupt, terminate),
                (Err(error), _) | (_, Err(error)) => return drop(ready.send(Err(error))),
            };
        let _ = ready.send(Ok(()));
        let signal = tokio::select! {
            _ = interrupt.recv() => Signal::Interrupt,
            _ = terminate.recv() => Signal::Terminate,
            _ = self.ended.recv() => return,
        };
        let _ = self.report.send(signal);
        // A busy thread does not hear of it. What it does is only in memory, so the command can end at once.
        if timeout(GRACE, self.ended.recv()).await.is_err()
            && self.state.compare_exchange(RUNNING, INTERRUPTED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        {
            let failure = signal.failure();
            Printer::stderr().failure(&failure, false);
            std::process::exit(failure.exit_code().into());
        }
    }
}

// === impl Signal ===

impl Signal {
    fn failure(self) -> Failure {
        match self {
            Self::Interrupt => Failure::Interrupted(130, "interrupted; nothing was written"),
            Self::Terminate => Failure::Interrupted(143, "told to stop; nothing was written"),
        }
    }
}
