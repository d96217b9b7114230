//! What one server takes from its callers, in bytes, numbers and time.

use std::time::Duration;

use crate::memory_pool::MessageMemory;

/// The most calls at once on one connection.
pub(crate) const STREAMS: u32 = 128;

/// The most health and reflection calls at once on one connection. They are served when memory is used up.
pub(crate) const LIGHT_STREAMS: usize = 32;

/// The largest message of a health or reflection call.
pub(crate) const LIGHT_MESSAGE: usize = 16 << 10;

/// The most metadata of one call, counted as HTTP/2 does: name, value and 32 bytes for each entry.
pub(crate) const METADATA: usize = 16 << 10;

/// The same for health and reflection calls.
pub(crate) const LIGHT_METADATA: usize = 8 << 10;

/// How much of a message that has no memory yet may arrive: HTTP/2 lets a caller send this much before it is asked to
/// go on.
pub(crate) const STREAM_WINDOW: u32 = 128 << 10;

/// The same for all calls of a connection. It is as much as they could take together: otherwise calls that wait for
/// memory would keep those from arriving that have it.
pub(crate) const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAMS;

/// The largest piece in which a message arrives.
pub(crate) const FRAME: u32 = 16 << 10;

/// How much of an answer waits inside HTTP/2 to be written.
pub(crate) const SEND_BUFFER: usize = 64 << 10;

/// How much of what was written waits in the kernel.
pub(crate) const SOCKET_BUFFER: usize = 256 << 10;

/// What one server takes from its callers.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The memory for the messages of all calls.
    pub memory: MessageMemory,
    /// How long a message may take to arrive, from the call's headers to its last byte; and how long a call may wait
    /// for memory.
    pub request_time: Duration,
    /// How long an answer may wait for its reader, in all.
    pub answer_time: Duration,
    /// How long a call may take whose caller sets no deadline.
    pub call_time: Option<Duration>,
    /// The most connections at once.
    pub connections: usize,
    /// How long a connection is used before its peer is asked to make another one.
    pub connection_age: Option<Duration>,
    /// How long the calls of such a connection may take to end.
    pub connection_age_grace: Option<Duration>,
    /// How long a connection may be without a call before it is closed.
    pub connection_idle: Option<Duration>,
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: MessageMemory::new(256 << 20),
            request_time: Duration::from_secs(30),
            answer_time: Duration::from_secs(60),
            call_time: None,
            connections: 1024,
            connection_age: None,
            connection_age_grace: None,
            connection_idle: None,
        }
    }
}

impl Limits {
    /// How many connections there may be if all together may hold so many bytes, most of them in the kernel.
    #[must_use]
    pub fn connections_within(bytes: usize) -> usize {
        (bytes / (2 * SOCKET_BUFFER)).clamp(32, 1024)
    }
}
