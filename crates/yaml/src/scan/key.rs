//! Keys without `?`: every place that may turn out to be one, until that is settled.

use super::token::Mark;
use super::{Scan, Scanner};

/// How many characters may lie between the start of a key and its `:`.
const MAX_KEY_LENGTH: u32 = 1024;

/// A place that turns out to be a key if a `:` follows soon enough.
#[derive(Clone, Copy)]
pub(super) struct KeyCandidate {
    pub(super) possible: bool,
    /// Nothing but a key may stand here.
    pub(super) required: bool,
    /// The parser must not see this token before the question is settled.
    pub(super) awaited: bool,
    pub(super) token: usize,
    pub(super) mark: Mark,
}

impl KeyCandidate {
    pub(super) fn none(token: usize, mark: Mark) -> Self {
        Self { possible: false, required: false, awaited: false, token, mark }
    }
}

impl Scanner<'_> {
    /// Whether the front token may still get a key token before it.
    pub(super) fn is_front_undecided(&mut self) -> Scan<bool> {
        let number = self.taken;
        let from = if self.keys.len() == 1 { 0 } else { self.keys.partition_point(|key| key.token < number) };
        for at in from..self.keys.len() {
            let key = self.keys[at];
            if key.token != number {
                break;
            }
            if key.awaited {
                return self.is_key_still_possible(at);
            }
        }
        Ok(false)
    }

    /// A candidate expires at the end of its line or after too many characters.
    pub(super) fn is_key_still_possible(&mut self, at: usize) -> Scan<bool> {
        let key = self.keys[at];
        if !key.possible {
            return Ok(false);
        }
        let expired =
            key.mark.line < self.cursor.line || key.mark.index + MAX_KEY_LENGTH < self.cursor.index();
        if !expired {
            return Ok(true);
        }
        if key.required {
            return Err(self.error(key.mark, "could not find expected ':'"));
        }
        self.keys[at].possible = false;
        Ok(false)
    }

    pub(super) fn remember_key(&mut self) -> Scan {
        if !self.key_allowed {
            return Ok(());
        }
        self.forget_key()?;
        let mark = self.cursor.mark();
        let candidate = KeyCandidate {
            possible: true,
            required: !self.in_flow() && self.indent == mark.column as i32,
            awaited: true,
            token: self.next_number(),
            mark,
        };
        if let Some(slot) = self.keys.last_mut() {
            *slot = candidate;
        }
        Ok(())
    }

    pub(super) fn forget_key(&mut self) -> Scan {
        let Some(key) = self.keys.last_mut() else { return Ok(()) };
        if key.possible {
            if key.required {
                let mark = key.mark;
                return Err(self.error(mark, "could not find expected ':'"));
            }
            key.possible = false;
            key.awaited = false;
        }
        Ok(())
    }
}
