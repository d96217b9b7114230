//! A way to the API server that can be cut without cutting it off from others.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Passes on what comes, until it is told otherwise. Ends when it is dropped.
#[derive(Debug)]
pub struct Wire {
    /// `HOST:PORT`, where it listens.
    pub address: String,
    cuts: watch::Sender<u64>,
    closed: Arc<watch::Sender<bool>>,
    task: JoinHandle<()>,
}

// === impl Wire ===

impl Wire {
    /// A way to `HOST:PORT`.
    pub async fn to(target: &str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a port for the wire")?;
        let address = listener.local_addr()?.to_string();
        let (cuts, closed) = (watch::Sender::new(0), Arc::new(watch::Sender::new(false)));
        let task = tokio::spawn(pass_on(listener, target.to_owned(), cuts.subscribe(), Arc::clone(&closed)));
        Ok(Self { address, cuts, closed, task })
    }

    /// Breaks every connection there is. New ones are let through.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Breaks every connection there is, and each new one until it is opened again.
    pub fn close(&self) {
        self.closed.send_replace(true);
        self.cut();
    }

    pub fn open(&self) {
        self.closed.send_replace(false);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_on(
    listener: TcpListener,
    target: String,
    cuts: watch::Receiver<u64>,
    closed: Arc<watch::Sender<bool>>,
) {
    while let Ok((mut near, _)) = listener.accept().await {
        if *closed.borrow() {
            continue;
        }
        let (target, mut cuts) = (target.clone(), cuts.clone());
        cuts.mark_unchanged();
        tokio::spawn(async move {
            let Ok(mut far) = TcpStream::connect(&target).await else { return };
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                _ = cuts.changed() => {}
            }
        });
    }
}
