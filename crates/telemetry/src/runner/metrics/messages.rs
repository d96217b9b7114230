//! The metrics of the memory for messages.

use loggia_grpc::MemoryUse;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{as_gauge, register};

/// How the memory for messages is used.
#[derive(Debug)]
pub(super) struct Messages {
    limit: Gauge,
    used: Gauge,
    waiting: Gauge,
    refused: Counter,
}

// === impl Messages ===

impl Messages {
    pub(super) fn new(to: &mut Registry) -> Self {
        Self {
            limit: register(
                to,
                "loggia_message_memory_limit_bytes",
                "The most memory that the messages of all calls may take",
                Gauge::default(),
            ),
            used: register(
                to,
                "loggia_message_memory_bytes",
                "The memory that the messages of all calls take now",
                Gauge::default(),
            ),
            waiting: register(
                to,
                "loggia_message_memory_waiters",
                "Calls that wait for memory",
                Gauge::default(),
            ),
            refused: register(
                to,
                "loggia_message_memory_refusals",
                "Calls that were refused because there was no memory for them",
                Counter::default(),
            ),
        }
    }

    pub(super) fn look(&self, usage: &MemoryUse) {
        let MemoryUse { limit, used, waiting, refused } = *usage;
        self.limit.set(as_gauge(limit));
        self.used.set(as_gauge(used));
        self.waiting.set(as_gauge(waiting));
        // It only grows, and is read under the lock of the registry.
        self.refused.inc_by(refused.saturating_sub(self.refused.get()));
    }
}
