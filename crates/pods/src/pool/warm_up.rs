//! Functions that get an instance before their first call, a few at a time.

use std::collections::VecDeque;

use super::Image;
use super::event::InstanceId;

#[derive(Debug)]
pub(super) struct WarmUp {
    at_once: usize,
    wanted: VecDeque<Image>,
    /// The instances that are being started for this.
    starting: Vec<InstanceId>,
}

// === impl WarmUp ===

impl WarmUp {
    pub(super) fn new(at_once: usize) -> Self {
        Self { at_once, wanted: VecDeque::new(), starting: Vec::new() }
    }

    pub(super) fn want(&mut self, image: Image) {
        self.wanted.push_back(image);
    }

    /// The next function, if one may be started and not too many are.
    pub(super) fn next(&mut self, may_start: impl Fn(&Image) -> bool) -> Option<Image> {
        if self.starting.len() >= self.at_once {
            return None;
        }
        let position = self.wanted.iter().position(may_start)?;
        self.wanted.remove(position)
    }

    pub(super) fn began(&mut self, instance: InstanceId) {
        self.starting.push(instance);
    }

    /// A start succeeded or failed. Returns whether it was one of these.
    pub(super) fn ended(&mut self, instance: InstanceId) -> bool {
        let before = self.starting.len();
        self.starting.retain(|starting| *starting != instance);
        self.starting.len() < before
    }

    /// How many functions wait for their turn.
    pub(super) fn waiting(&self) -> usize {
        self.wanted.len()
    }

    /// Nothing is left to be warmed up.
    pub(super) fn is_over(&self) -> bool {
        self.wanted.is_empty() && self.starting.is_empty()
    }
}
