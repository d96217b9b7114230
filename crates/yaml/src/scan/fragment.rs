//! Collecting the text of a scalar or comment, copying only if it is not one piece of the source.

use std::ops::Range;
use std::sync::Arc;

use crate::text::Text;

#[derive(Default)]
pub(super) struct Fragment {
    piece: Range<usize>,
    owned: String,
}

impl Fragment {
    pub(super) fn is_empty(&self) -> bool {
        self.piece.is_empty() && self.owned.is_empty()
    }

    /// Appends a piece of the source.
    pub(super) fn push_piece(&mut self, source: &str, piece: Range<usize>) {
        if piece.is_empty() {
            return;
        }
        if self.owned.is_empty() {
            if self.piece.is_empty() {
                self.piece = piece;
                return;
            }
            if self.piece.end == piece.start {
                self.piece.end = piece.end;
                return;
            }
        }
        self.own(source);
        self.owned.push_str(&source[piece]);
    }

    /// Appends text that does not stand in the source like this.
    pub(super) fn push_str(&mut self, source: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        self.own(source);
        self.owned.push_str(text);
    }

    /// Appends a character that does not stand in the source like this.
    pub(super) fn push(&mut self, source: &str, c: char) {
        self.own(source);
        self.owned.push(c);
    }

    fn own(&mut self, source: &str) {
        if !self.piece.is_empty() {
            self.owned.push_str(&source[self.piece.clone()]);
            self.piece = 0..0;
        }
    }

    /// A piece of the source or text of its own; one of them is empty.
    pub(super) fn into_parts(self) -> (Range<usize>, String) {
        (self.piece, self.owned)
    }

    /// Hands the text over and starts anew.
    pub(super) fn take(&mut self, source: &Arc<String>) -> Text {
        let this = std::mem::take(self);
        if this.owned.is_empty() { Text::from_source(source, this.piece) } else { Text::from(this.owned) }
    }
}
