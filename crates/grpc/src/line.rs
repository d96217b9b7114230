//! One connection as the server sees it: which calls are open, which answers wait for their reader, what was written.
//!
//! HTTP/2 hides from the server when an answer has left: it takes an answer and writes it when the peer lets it. So
//! memory of a call that was answered stays with its connection until the connection has written all that it had, and
//! [`Line::look`] finds peers that do not read.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use crate::limits::LIGHT_STREAMS;
use crate::memory_pool::Held;

/// A peer that reads less than this in the time for an answer is one that does not read.
const LEAST_READ: u64 = 64 << 10;

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Line {
    begin: Instant,
    open: Mutex<Open>,
    light: AtomicUsize,
    /// Places for calls that have no memory yet.
    places: Arc<Semaphore>,
    most_places: usize,
    /// Whether there is something in `Open::answered`.
    answered: AtomicBool,
    /// The bytes that were written, and whether the last attempt had to wait.
    written: AtomicU64,
    blocked: AtomicBool,
    /// The place is needed for another connection.
    leave: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Open {
    calls: HashMap<u64, Arc<Reading>>,
    last: u64,
    /// Since when there is no call.
    idle_since: Option<Instant>,
    /// Memory of calls that were answered since the connection last wrote all that it had.
    answered: Vec<Held>,
    /// When and at which count of bytes the peer was last found to read.
    read: Option<(Instant, u64)>,
    closed: bool,
}

/// How the peer reads one answer, in milliseconds since the connection began.
#[derive(Debug, Default)]
struct Reading {
    /// Since when the answer waits for the peer, plus one; 0 while it does not.
    since: AtomicU64,
    waited: AtomicU64,
}

/// A call that is open. Dropped, it is over.
#[derive(Debug)]
pub(crate) struct OpenCall {
    line: Arc<Line>,
    number: u64,
    reading: Arc<Reading>,
    /// Counts among the calls that need no memory.
    light: bool,
    held: Option<Held>,
    /// What its caller has less of for as long.
    occupied: Occupied,
}

/// A turn and the bytes of a message, of those that a rule allows.
type Occupied = (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>);

/// What is wrong with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// No call for this long.
    Idle(Duration),
    /// The peer does not read its answers.
    Unread,
}

/// A stream that reports what is written to it.
#[derive(Debug)]
pub(crate) struct Reported<S> {
    pub(crate) stream: S,
    pub(crate) line: Arc<Line>,
}

// === impl Line ===

impl Line {
    /// A connection with so many places for calls that have no memory yet.
    pub(crate) fn new(places: usize) -> Arc<Self> {
        let open = Open { idle_since: Some(Instant::now()), ..Open::default() };
        Arc::new(Self {
            begin: Instant::now(),
            open: Mutex::new(open),
            light: AtomicUsize::new(0),
            places: Arc::new(Semaphore::new(places)),
            most_places: places,
            answered: AtomicBool::new(false),
            written: AtomicU64::new(0),
            blocked: AtomicBool::new(false),
            leave: watch::Sender::new(false),
        })
    }

    /// Whether it ever had a call, and since when it has none. Nothing while it has one.
    pub(crate) fn idle(&self) -> Option<(bool, Instant)> {
        let open = self.lock();
        open.idle_since.map(|since| (open.last > 0, since))
    }

    /// Another connection takes the place of this one.
    pub(crate) fn ask_to_leave(&self) {
        self.leave.send_replace(true);
    }

    /// Returns when another connection has taken the place of this one.
    pub(crate) async fn asked_to_leave(&self) {
        // The sender is this line's own, so it is there.
        let _ = self.leave.subscribe().wait_for(|leave| *leave).await;
    }

    #[cfg(test)]
    pub(crate) fn is_to_leave(&self) -> bool {
        *self.leave.borrow()
    }

    /// Opens a call.
    pub(crate) fn open(self: &Arc<Self>) -> OpenCall {
        let reading = Arc::<Reading>::default();
        let mut open = self.lock();
        open.last += 1;
        open.idle_since = None;
        let number = open.last;
        open.calls.insert(number, Arc::clone(&reading));
        OpenCall { line: Arc::clone(self), number, reading, light: false, held: None, occupied: (None, None) }
    }

    /// The first thing that is wrong with this connection.
    pub(crate) fn look(&self, idle: Option<Duration>, answer_time: Duration) -> Option<Finding> {
        let now = Instant::now();
        let mut open = self.lock();
        if let (Some(idle), Some(since)) = (idle, open.idle_since) {
            let quiet = now.saturating_duration_since(since);
            if quiet >= idle {
                return Some(Finding::Idle(quiet));
            }
        }
        let most = u64::try_from(answer_time.as_millis()).unwrap_or(u64::MAX);
        let now_millis = self.millis();
        if open.calls.values().any(|reading| reading.total(now_millis) >= most) {
            return Some(Finding::Unread);
        }
        let written = self.written.load(Ordering::Relaxed);
        let (since, mark) = *open.read.get_or_insert((now, written));
        if !self.blocked.load(Ordering::Relaxed) || written - mark >= LEAST_READ {
            open.read = Some((now, written));
        } else if now.saturating_duration_since(since) >= answer_time {
            return Some(Finding::Unread);
        }
        None
    }

    /// Ends the accounts of a connection that is closed.
    pub(crate) fn close(&self) {
        let mut open = self.lock();
        open.closed = true;
        let answered = std::mem::take(&mut open.answered);
        drop(open);
        drop(answered);
    }

    /// All that there was to write is written.
    fn flushed(&self) {
        if self.answered.swap(false, Ordering::AcqRel) {
            let answered = std::mem::take(&mut self.lock().answered);
            drop(answered);
        }
    }

    fn wrote(&self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Ready(Ok(count)) => {
                self.written.fetch_add(*count as u64, Ordering::Relaxed);
                self.blocked.store(false, Ordering::Relaxed);
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.blocked.store(true, Ordering::Relaxed),
        }
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Reading ===

impl Reading {
    fn total(&self, now: u64) -> u64 {
        let waited = self.waited.load(Ordering::Relaxed);
        match self.since.load(Ordering::Relaxed) {
            0 => waited,
            since => waited + now.saturating_sub(since - 1),
        }
    }
}

// === impl OpenCall ===

impl OpenCall {
    /// Counts the call among those that need no memory, if the connection has not too many of them.
    pub(crate) fn lighten(&mut self) -> Result<(), ()> {
        self.light = true;
        let others = self.line.light.fetch_add(1, Ordering::Relaxed);
        if others < LIGHT_STREAMS { Ok(()) } else { Err(()) }
    }

    /// A place among the calls of this connection that have no memory yet, if one is left.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.line.places).try_acquire_owned().ok()
    }

    /// Whether no other call of this connection is without memory.
    pub(crate) fn waits_alone(&self) -> bool {
        self.line.places.available_permits() + 1 >= self.line.most_places
    }

    /// Takes its place among the calls of its caller until it is over.
    pub(crate) fn occupy(&mut self, occupied: Occupied) {
        self.occupied = occupied;
    }

    /// Keeps memory until the answer has left.
    pub(crate) fn hold(&mut self, held: Held) {
        self.held = Some(held);
    }

    /// A piece of the answer is ready and waits for the peer.
    pub(crate) fn given(&self) {
        self.reading.since.store(self.line.millis() + 1, Ordering::Relaxed);
    }

    /// The peer took the piece before.
    pub(crate) fn taken(&self) {
        let since = self.reading.since.swap(0, Ordering::Relaxed);
        if since > 0 {
            let waited = self.line.millis().saturating_sub(since - 1);
            self.reading.waited.fetch_add(waited, Ordering::Relaxed);
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if self.light {
            self.line.light.fetch_sub(1, Ordering::Relaxed);
        }
        let mut open = self.line.lock();
        open.calls.remove(&self.number);
        if open.calls.is_empty() {
            open.idle_since = Some(Instant::now());
        }
        if let Some(held) = self.held.take().filter(|_| !open.closed) {
            open.answered.push(held);
            self.line.answered.store(true, Ordering::Release);
        }
    }
}

// === impl Reported ===

impl<S: AsyncRead + Unpin> AsyncRead for Reported<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Reported<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.line.wrote(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.line.wrote(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.line.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
