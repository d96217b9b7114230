//! Where orders wait for wardens, and wardens for orders.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Order;

/// Wardens that wait ahead of any order.
const SPARE: usize = 2;

/// Wardens that wait at most; others leave when their call is over.
const MOST_IDLE: usize = 32;

/// Shared by all wardens, the thread that starts them, and the [`OrderSender`].
#[derive(Debug, Default)]
pub(super) struct OrderQueue {
    state: Mutex<State>,
    /// For wardens: there is an order, or there will be none.
    order: Condvar,
    /// For the thread that starts wardens: there are too few, or no more are needed.
    shortage: Condvar,
}

#[derive(Debug, Default)]
struct State {
    orders: VecDeque<Order>,
    /// Wardens that wait or are about to.
    idle: usize,
    closed: bool,
}

/// The way in for orders. Dropped, it closes the queue.
#[derive(Debug)]
pub(super) struct OrderSender(Arc<OrderQueue>);

// === impl OrderSender ===

impl OrderSender {
    pub(super) fn new(queue: Arc<OrderQueue>) -> Self {
        Self(queue)
    }

    /// Leaves an order for the next warden.
    pub(super) fn give(&self, order: Order) {
        let mut state = self.0.lock();
        state.orders.push_back(order);
        let short = state.is_short();
        drop(state);
        self.0.order.notify_one();
        if short {
            self.0.shortage.notify_one();
        }
    }
}

impl Drop for OrderSender {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.order.notify_all();
        self.0.shortage.notify_one();
    }
}

// === impl OrderQueue ===

impl OrderQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there are too few wardens, and counts one more. False: there will be no more orders.
    pub(super) fn needs_another(&self) -> bool {
        let mut state = self.lock();
        while !state.closed && !state.is_short() {
            state = self.shortage.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.idle += usize::from(!state.closed);
        !state.closed
    }

    /// A warden that was counted waits no more.
    pub(super) fn left(&self) {
        let mut state = self.lock();
        state.idle = state.idle.saturating_sub(1);
        if state.is_short() {
            self.shortage.notify_one();
        }
    }

    /// The next order for a warden that is counted as idle; nothing if there will be none.
    pub(super) fn take(&self) -> Option<Order> {
        let mut state = self.lock();
        loop {
            if let Some(order) = state.orders.pop_front() {
                state.idle = state.idle.saturating_sub(1);
                return Some(order);
            }
            if state.closed {
                return None;
            }
            state = self.order.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives back an order that a warden took and cannot carry out, for another one.
    pub(super) fn put_back(&self, order: Order) {
        self.lock().orders.push_front(order);
        self.order.notify_one();
        self.shortage.notify_one();
    }

    /// Counts a warden as idle again, unless enough are.
    pub(super) fn come_back(&self) -> bool {
        let mut state = self.lock();
        let wanted = state.idle < MOST_IDLE && !state.closed;
        state.idle += usize::from(wanted);
        wanted
    }
}

// === impl State ===

impl State {
    fn is_short(&self) -> bool {
        self.idle < self.orders.len() + SPARE
    }
}
