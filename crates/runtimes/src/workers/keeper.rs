//! The thread that starts workers.
//!
//! The kernel kills a worker when the thread that started it ends, and threads of a runtime come and go. So one thread
//! starts them all and lives as long as the pool.

use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use loggia_process::WorkerProcess;
use tokio::sync::oneshot;

/// The thread that starts workers. It ends when this is dropped, and the workers with it.
#[derive(Debug)]
pub(super) struct Keeper {
    orders: mpsc::Sender<Order>,
}

type Started = io::Result<(WorkerProcess, UnixStream)>;

#[derive(Debug)]
struct Order {
    program: PathBuf,
    arguments: Vec<OsString>,
    reply: oneshot::Sender<Started>,
}

// === impl Keeper ===

impl Keeper {
    pub(super) fn start() -> io::Result<Self> {
        let (orders, inbox) = mpsc::channel::<Order>();
        let keep = move || {
            while let Ok(Order { program, arguments, reply }) = inbox.recv() {
                if !reply.is_closed() {
                    // A caller that went away meanwhile drops the worker, and that ends it.
                    let _ = reply.send(WorkerProcess::start(&program, &arguments));
                }
            }
        };
        thread::Builder::new().name("workers".to_owned()).stack_size(256 << 10).spawn(keep)?;
        Ok(Self { orders })
    }

    pub(super) async fn worker(&self, program: PathBuf, arguments: Vec<OsString>) -> Started {
        let (reply, started) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts workers has ended");
        self.orders.send(Order { program, arguments, reply }).map_err(|_| gone())?;
        started.await.unwrap_or_else(|_| Err(gone()))
    }
}
