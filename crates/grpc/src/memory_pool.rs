//! Memory for messages: taken before a message is read, given back when its answer has left.
//!
//! There are four pools, so that no call waits for memory that only it could give back. A call *waits*, in the order
//! of arrival, for its share of the first: its message, and an answer of the same size. An answer that is larger takes
//! the rest from the second, at once or not at all. Calls whose message has not begun, or that wait, hold in the third
//! what may arrive of them: their metadata, and what HTTP/2 lets a caller send unasked. A quarter of it is for calls
//! that wait alone on their connections.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{FRAME, STREAM_WINDOW};

/// The unit of the pools, since a semaphore gives at most `u32::MAX` at once.
const UNIT: usize = 1 << 10;

/// What a small call takes at most.
const SMALL: usize = 256 << 10;

/// What a call takes beside its messages: tasks, buffers, the status of a failure.
const BASE: usize = 64 << 10;

/// The memory for the messages of all calls of a server. Clones share it.
#[derive(Clone, Debug)]
pub struct MessageMemory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit: usize,
    calls: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    /// For small calls alone, so that they do not wait behind large ones.
    small: Arc<Semaphore>,
    arriving: Arc<Semaphore>,
    /// The same for calls whose connection has no other that waits, once the rest is taken.
    alone: Arc<Semaphore>,
    waiting: AtomicUsize,
    refused: AtomicU64,
}

/// How memory is used now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// The most bytes that messages may take.
    pub limit: usize,
    /// The bytes that are taken.
    pub used: usize,
    /// The calls that wait for memory.
    pub waiting: usize,
    /// The calls that were refused since the start because there was none.
    pub refused: u64,
}

/// The memory of one call. Clones share it; it is given back with the last of them.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    shared: Arc<HeldShared>,
}

#[derive(Debug)]
struct HeldShared {
    memory: MessageMemory,
    /// How often the size of its message the call takes.
    factor: usize,
    permits: Mutex<Permits>,
}

#[derive(Debug)]
struct Permits {
    call: OwnedSemaphorePermit,
    answer: Option<OwnedSemaphorePermit>,
    /// The size of the call's message.
    message: usize,
}

/// The metadata of a call whose message has no memory yet.
#[derive(Debug)]
pub(crate) struct Arriving {
    _permit: OwnedSemaphorePermit,
}

/// There is no memory left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// Counts a call that waits.
struct Waiting<'a>(&'a Shared);

// === impl MessageMemory ===

impl MessageMemory {
    /// Memory of so many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let pool = |bytes: usize| {
            let units = (bytes / UNIT).clamp(1, (u32::MAX as usize).min(Semaphore::MAX_PERMITS));
            Arc::new(Semaphore::new(units))
        };
        let shared = Shared {
            limit: bytes,
            calls: pool(for_calls(bytes)),
            answers: pool(bytes / 8),
            small: pool(bytes / 8),
            arriving: pool(bytes / 16 * 3),
            alone: pool(bytes / 16),
            waiting: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The most bytes that messages may take.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.shared.limit
    }

    /// How memory is used now.
    #[must_use]
    pub fn usage(&self) -> MemoryUse {
        let Shared { limit, calls, answers, small, arriving, alone, waiting, refused } = &*self.shared;
        let left = [calls, answers, small, arriving, alone]
            .map(|pool| pool.available_permits())
            .iter()
            .sum::<usize>()
            * UNIT;
        // What is lost to rounding counts as free.
        let used = limit.saturating_sub(left);
        MemoryUse {
            limit: *limit,
            used: if used < 4 * UNIT { 0 } else { used },
            waiting: waiting.load(Ordering::Relaxed),
            refused: refused.load(Ordering::Relaxed),
        }
    }

    /// Takes what the metadata of a call needs until its message has memory. A call that waits alone on its connection
    /// has a better chance, so that few connections with many calls leave room for others.
    pub(crate) fn arrive(&self, metadata: usize, alone: bool) -> Result<Arriving, Exhausted> {
        // A first piece of the message may be read to learn its length, and then as much again arrives.
        let bytes = metadata + FRAME as usize + STREAM_WINDOW as usize;
        let Shared { arriving, alone: reserve, .. } = &*self.shared;
        let permit = match Arc::clone(arriving).try_acquire_many_owned(units(bytes)) {
            Err(_) if alone => Arc::clone(reserve).try_acquire_many_owned(units(bytes)),
            permit => permit,
        };
        permit.map(|permit| Arriving { _permit: permit }).map_err(|_| self.refuse())
    }

    /// Waits, in order, for what a message of this size needs.
    pub(crate) async fn take(&self, message: usize, factor: usize) -> Result<Held, Exhausted> {
        let wanted = self.share(message, factor);
        let calls = || Arc::clone(&self.shared.calls);
        // A semaphore lets nobody overtake those that wait for it, so this is fair.
        let at_once = || match calls().try_acquire_many_owned(wanted) {
            Err(_) if wanted <= units(SMALL) => {
                Arc::clone(&self.shared.small).try_acquire_many_owned(wanted).ok()
            }
            permit => permit.ok(),
        };
        let call = match at_once() {
            Some(permit) => permit,
            None => {
                let _waiting = Waiting::new(&self.shared);
                calls().acquire_many_owned(wanted).await.map_err(|_| Exhausted)?
            }
        };
        let permits = Mutex::new(Permits { call, answer: None, message });
        Ok(Held { shared: Arc::new(HeldShared { memory: self.clone(), factor, permits }) })
    }

    /// Whether calls wait for memory.
    pub(crate) fn is_short(&self) -> bool {
        self.shared.waiting.load(Ordering::Relaxed) > 0
    }

    /// How many calls of one connection may be without memory at once, so that others have a place to wait, too.
    pub(crate) fn places_of_a_connection(&self) -> usize {
        (self.shared.limit / 4 / 8 / (FRAME as usize + STREAM_WINDOW as usize)).max(16)
    }

    /// Counts a call that is refused.
    pub(crate) fn refuse(&self) -> Exhausted {
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
        Exhausted
    }

    /// What a call takes of the first pool. One that wants more than there is gets it all, alone.
    fn share(&self, message: usize, factor: usize) -> u32 {
        let all = u32::try_from(for_calls(self.shared.limit) / UNIT).unwrap_or(u32::MAX).max(1);
        units(BASE.saturating_add(message.saturating_mul(factor))).min(all)
    }
}

/// How much of all memory is for calls and answers of the same size.
fn for_calls(bytes: usize) -> usize {
    bytes / 2
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

// === impl Held ===

impl Held {
    /// Gives back what a message of this size does not need after all.
    pub(crate) fn shrink(&self, message: usize) {
        let HeldShared { memory, factor, permits } = &*self.shared;
        let needed = memory.share(message, *factor) as usize;
        let mut permits = permits.lock().unwrap_or_else(PoisonError::into_inner);
        permits.message = permits.message.min(message);
        let spare = permits.call.num_permits().saturating_sub(needed);
        drop(permits.call.split(spare));
    }

    /// Takes what an answer of this size needs beyond what the call has already.
    pub(crate) fn answer(&self, size: usize) -> Result<(), Exhausted> {
        let HeldShared { memory, permits, .. } = &*self.shared;
        let mut permits = permits.lock().unwrap_or_else(PoisonError::into_inner);
        let beyond = size.saturating_sub(permits.message + BASE / 2);
        if beyond == 0 {
            return Ok(());
        }
        let permit = Arc::clone(&memory.shared.answers).try_acquire_many_owned(units(beyond));
        permits.answer = Some(permit.map_err(|_| memory.refuse())?);
        Ok(())
    }
}

// === impl Waiting ===

impl<'a> Waiting<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test]
    async fn calls_wait_in_order_and_only_small_ones_have_memory_of_their_own() {
        let memory = MessageMemory::new(16 * MIB);
        let first = memory.take(3 * MIB, 2).await.unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let (mut large, mut medium) = (pin!(memory.take(3 * MIB, 2)), pin!(memory.take(MIB / 2, 2)));
        assert!(large.as_mut().poll(&mut context).is_pending());
        assert!(medium.as_mut().poll(&mut context).is_pending(), "there is memory, but it is not its turn");
        assert_eq!(memory.usage().waiting, 2);
        let small: Vec<_> = (0..32).map(|_| Box::pin(memory.take(0, 2))).collect();
        let mut held = Vec::new();
        for mut call in small {
            match call.as_mut().poll(&mut context) {
                std::task::Poll::Ready(call) => held.push(call.unwrap()),
                std::task::Poll::Pending => panic!("a small call waits behind large ones"),
            }
        }
        assert!(pin!(memory.take(0, 2)).poll(&mut context).is_pending(), "their memory is bounded, too");
        drop(first);
        let (_large, _medium) = (large.await.unwrap(), medium.await.unwrap());
        assert_eq!(memory.usage().waiting, 0);
    }

    #[tokio::test]
    async fn everything_comes_back() {
        let memory = MessageMemory::new(16 * MIB);
        assert_eq!(memory.usage().used, 0);
        let held = memory.take(2 * MIB, 2).await.unwrap();
        assert_eq!(memory.usage().used, 4 * MIB + BASE);
        held.answer(3 * MIB).unwrap();
        assert!(memory.usage().used > 4 * MIB + 900_000);
        let other = memory.take(0, 2).await.unwrap();
        assert_eq!(other.answer(2 * MIB), Err(Exhausted));
        assert_eq!(memory.usage().refused, 1);
        drop((held, other));
        assert_eq!(memory.usage().used, 0);
    }

    #[tokio::test]
    async fn a_message_that_was_smaller_than_it_could_be_gives_back_the_rest() {
        let memory = MessageMemory::new(64 * MIB);
        let held = memory.take(6 * MIB, 2).await.unwrap();
        held.shrink(MIB);
        assert_eq!(memory.usage().used, 2 * MIB + BASE);
        held.shrink(3 * MIB);
        assert_eq!(memory.usage().used, 2 * MIB + BASE, "it never grows");
    }

    #[tokio::test]
    async fn a_message_larger_than_all_memory_gets_it_alone() {
        let memory = MessageMemory::new(8 * MIB);
        let held = memory.take(100 * MIB, 8).await.unwrap();
        assert_eq!(memory.usage().used, 4 * MIB);
        let mut other = pin!(memory.take(MIB / 2, 1));
        assert!(other.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(held);
        other.await.unwrap();
    }

    #[test]
    fn metadata_of_calls_that_only_begin_is_bounded() {
        let memory = MessageMemory::new(4 * MIB);
        let fill =
            |alone| std::iter::from_fn(|| memory.arrive(500, alone).ok()).take(1000).collect::<Vec<_>>();
        let begun = fill(false);
        assert_eq!(begun.len(), 5, "768 KiB for 144 KiB and 500 bytes each");
        let others = fill(true);
        assert_eq!(others.len(), 1, "256 KiB are left for calls that wait alone");
        drop((begun, others));
        assert!(memory.arrive(500, false).is_ok());
    }
}
