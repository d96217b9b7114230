//! Comments that were met and wait for the node they belong to.

use crate::node::Node;
use crate::scan::comment::{Comment, Place};
use crate::text::Text;

#[derive(Default)]
pub(super) struct Pending {
    head: Lines,
    line: Lines,
    foot: Lines,
    /// The lines above a dash, set aside for the collection behind it.
    stem: Text,
}

/// Comments of one kind: mostly one piece of the source, else joined line by line.
#[derive(Default)]
struct Lines {
    only: Text,
    joined: String,
}

impl Lines {
    fn len(&self) -> usize {
        if self.joined.is_empty() { self.only.len() } else { self.joined.len() }
    }

    fn push(&mut self, text: Text) {
        if self.len() == 0 {
            self.only = text;
            return;
        }
        if self.joined.is_empty() {
            self.joined.push_str(&self.only.take());
        }
        self.joined.push('\n');
        self.joined.push_str(&text);
    }

    fn take(&mut self) -> Text {
        if self.joined.is_empty() { self.only.take() } else { Text::from(std::mem::take(&mut self.joined)) }
    }
}

/// The comments one node gets.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) head: Text,
    pub(super) line: Text,
    pub(super) foot: Text,
}

impl Pending {
    pub(super) fn add(&mut self, comment: Comment) {
        let slot = match comment.place {
            Place::Head => &mut self.head,
            Place::Line => &mut self.line,
            Place::Foot => &mut self.foot,
        };
        slot.push(comment.text);
    }

    /// All comments for the node at hand.
    #[inline]
    pub(super) fn take(&mut self) -> Taken {
        if !self.stem.is_empty() {
            self.stem = Text::new();
        }
        Taken { head: self.head.take(), line: self.line.take(), foot: self.foot.take() }
    }

    /// Puts a comment above the next node.
    pub(super) fn add_head(&mut self, text: Text) {
        if !text.is_empty() {
            self.head.push(text);
        }
    }

    pub(super) fn take_head(&mut self) -> Text {
        self.head.take()
    }

    pub(super) fn head_length(&self) -> usize {
        self.head.len()
    }

    /// Sets the first `length` bytes above the node aside for the collection that follows a dash.
    pub(super) fn split_stem(&mut self, length: usize) {
        let head = self.head.take();
        self.stem = head.slice(0..length);
        if head.len() > length {
            self.head.only = head.slice(length + 1..head.len());
        }
    }

    pub(super) fn take_stem(&mut self) -> Text {
        self.stem.take()
    }

    /// Takes what stands above the last empty line at the top of a document.
    pub(super) fn split_document_head(&mut self) -> Text {
        let head = self.head.take();
        let bytes = head.as_bytes();
        for at in (1..bytes.len()).rev() {
            if bytes[at] != b'\n' {
                continue;
            }
            let end = if at == bytes.len() - 1 {
                at
            } else if bytes[at - 1] == b'\n' {
                at - 1
            } else {
                continue;
            };
            self.head.only = head.slice(at + 1..head.len());
            return head.slice(0..end);
        }
        self.head.only = head;
        Text::new()
    }
}

impl Taken {
    #[inline]
    pub(super) fn give_to(self, node: &mut Node) {
        if !(self.head.is_empty() && self.line.is_empty() && self.foot.is_empty()) {
            let extras = node.extras_mut();
            extras.head = self.head;
            extras.line = self.line;
            extras.foot = self.foot;
        }
    }
}
