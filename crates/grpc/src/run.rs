//! A server's life: serve until a signal, drain, stop.

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use crate::Lifecycle;
use crate::server::{self, Routes};

/// SIGTERM and SIGINT, which mean the same.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

// === impl Signals ===

impl Signals {
    /// Listens to signals from now on.
    pub fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Returns at the next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Serves until a signal asks to stop, which it logs as `stopping`. Then no new calls are taken and those in flight get `drain_timeout` to end;
/// `clean_up` runs last. A second signal ends the process at once.
pub async fn until_stopped(
    listener: TcpListener,
    routes: Routes,
    lifecycle: &Lifecycle,
    mut signals: Signals,
    drain_timeout: Duration,
    stopping: &'static str,
    clean_up: impl Future<Output = ()>,
) -> io::Result<()> {
    let port = listener.local_addr()?.port();
    let serving = tokio::spawn(server::serve(listener, routes));
    lifecycle.serve();
    info!("Listening on :{port}");
    signals.next().await;
    info!(?drain_timeout, "{stopping}");
    let stop = async {
        match lifecycle.drain(drain_timeout).await {
            0 => info!("Every call was answered"),
            left => warn!("Gave up {left} calls that did not end in time"),
        }
        if serving.await.is_err() {
            error!("The server ended badly");
        }
        clean_up.await;
    };
    tokio::select! {
        () = stop => {
            info!("Stopped");
            Ok(())
        }
        () = signals.next() => {
            warn!("Stopping at once");
            std::process::exit(1)
        }
    }
}
