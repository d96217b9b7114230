//! A render on a thread of its own.
//!
//! Between two functions a render parses, compares and writes YAML, which takes as long as the package is large. On the
//! workers of the server that would hold up health checks and other calls. Its stack is larger than theirs, too.

use std::future::Future;
use std::sync::Arc;

use loggia_function::context;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tonic::Status;

/// How many packages are worked on at once. Others wait in order.
const THREADS: usize = 64;
const STACK: usize = 8 << 20;

/// The threads of a service. Clones share them.
#[derive(Clone, Debug)]
pub struct Threads {
    free: Arc<Semaphore>,
}

impl Default for Threads {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(THREADS)) }
    }
}

impl Threads {
    /// Runs work on a thread. Dropping the answer ends the work where it waits next.
    ///
    /// # Errors
    /// If no thread can be started, or the work panics.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Status> {
        let permit = Arc::clone(&self.free).acquire_owned().await;
        let (answer, answered) = oneshot::channel();
        let (alive, gone) = oneshot::channel::<()>();
        let (runtime, work) = (Handle::current(), context::carried(work));
        let thread = std::thread::Builder::new().name("package".to_owned()).stack_size(STACK);
        let started = thread.spawn(move || {
            let ended = runtime.block_on(async {
                tokio::select! {
                    biased;
                    _ = gone => None,
                    ended = work => Some(ended),
                }
            });
            if let Some(ended) = ended {
                // A caller that is gone wants no answer.
                let _ = answer.send(ended);
            }
            drop(permit);
        });
        if let Err(error) = started {
            return Err(Status::resource_exhausted(format!(
                "no thread could be started for the package: {error}; try again"
            )));
        }
        let answered = answered.await;
        drop(alive);
        answered.map_err(|_| {
            Status::internal("the render met something unforeseen; this is a defect, please report it")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn work_has_a_large_stack_and_its_panic_is_an_error() {
        fn deep(levels: usize) -> usize {
            let room = std::hint::black_box([1_u8; 1024]);
            if levels == 0 { 0 } else { deep(levels - 1) + usize::from(room[levels % 1024]) }
        }
        let threads = Threads::default();
        assert_eq!(threads.run(async { deep(3000) }).await.unwrap(), 3000);
        let status = threads.run::<()>(async { panic!("no") }).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::Internal);
    }

    #[tokio::test]
    async fn work_without_a_caller_ends_where_it_waits() {
        struct Flag(Arc<AtomicBool>);
        impl Drop for Flag {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let ended = Arc::new(AtomicBool::new(false));
        let flag = Flag(Arc::clone(&ended));
        let threads = Threads::default();
        let work = async move {
            let _flag = flag;
            loop {
                tokio::task::yield_now().await;
            }
        };
        let running = threads.run::<()>(work);
        assert!(tokio::time::timeout(Duration::from_millis(50), running).await.is_err());
        let freed = async {
            while !ended.load(Ordering::SeqCst) || threads.free.available_permits() < THREADS {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), freed).await.expect("the thread ends");
    }
}
