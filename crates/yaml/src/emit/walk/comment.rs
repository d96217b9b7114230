//! When comments are written.
//!
//! They are not written where they are found but wait until the layout reaches a place for them; one
//! without such a place waits on and ends up at a later node, even in a later document. That is how
//! the original behaves, and much of its output depends on it. Where it only does harm,
//! [`careless_comments`](super::Quirks::careless_comments) decides.

use super::leaf::has_properties;
use super::{Leaf, Role, Walker};
use crate::node::{Kind, Node};

/// Comments on their way to the page.
#[derive(Default)]
pub(super) struct Waiting<'a> {
    pub(super) head: Lines<'a>,
    pub(super) line: &'a str,
    pub(super) foot: &'a str,
    /// What stands below the previous key of a mapping.
    pub(super) tail: &'a str,
    /// What stands behind a key whose value may have to come first.
    pub(super) key_line: &'a str,
}

/// Comments that still wait when a document ends.
#[derive(Debug, Default)]
pub(in crate::emit) struct LeftOver {
    head: String,
    line: String,
    foot: String,
    tail: String,
    key_line: String,
}

/// Comment lines, perhaps from several places: above a value, which has no room for them, above the
/// next key, and behind that key.
#[derive(Clone, Copy, Default)]
pub(super) struct Lines<'a>([&'a str; 3]);

impl<'a> Waiting<'a> {
    pub(super) fn new(left_over: &'a LeftOver) -> Self {
        Self {
            head: Lines::new(&left_over.head),
            line: &left_over.line,
            foot: &left_over.foot,
            tail: &left_over.tail,
            key_line: &left_over.key_line,
        }
    }

    pub(super) fn into_left_over(self) -> LeftOver {
        LeftOver {
            head: self.head.joined(),
            line: self.line.to_owned(),
            foot: self.foot.to_owned(),
            tail: self.tail.to_owned(),
            key_line: self.key_line.to_owned(),
        }
    }

    /// Whether something waits that needs lines of its own.
    pub(super) fn has_lines(&self) -> bool {
        !(self.head.is_empty() && self.foot.is_empty() && self.tail.is_empty())
    }
}

impl<'a> Lines<'a> {
    pub(super) fn new(lines: &'a str) -> Self {
        Self([lines, "", ""])
    }

    pub(super) fn is_empty(self) -> bool {
        self.0.iter().all(|lines| lines.is_empty())
    }

    /// Adds lines below those that wait already.
    fn push(&mut self, lines: &'a str) {
        if let Some(free) = self.0.iter_mut().find(|waiting| waiting.is_empty()) {
            *free = lines;
        }
    }

    fn joined(self) -> String {
        let parts: Vec<_> = self.0.into_iter().filter(|lines| !lines.is_empty()).collect();
        parts.join("\n")
    }
}

impl<'a> Walker<'a> {
    /// Puts the comments of a node in the queue, except those of a collection's end.
    pub(super) fn expect(&mut self, node: &'a Node) {
        self.expect_start(node, "", false);
    }

    /// A key's comments: what stands below it waits until its value is complete.
    pub(super) fn expect_key(&mut self, key: &'a Node, tail: &'a str) {
        self.expect_start(key, tail, true);
    }

    pub(super) fn expect_start(&mut self, node: &'a Node, tail: &'a str, is_key: bool) {
        let comments = node.comments();
        if !comments.head.is_empty() {
            if self.quirks.careless_comments {
                self.waiting.head = Lines::default();
            }
            self.waiting.head.push(comments.head);
        }
        let ends_later = matches!(node.kind(), Kind::Sequence | Kind::Mapping);
        if !ends_later {
            self.expect_end(node, !is_key);
        }
        let takes_tail = matches!(node.kind(), Kind::Scalar | Kind::Mapping);
        if !tail.is_empty() && (takes_tail || !self.quirks.careless_comments) {
            self.waiting.tail = tail;
        }
    }

    pub(super) fn expect_end(&mut self, node: &'a Node, foot_too: bool) {
        let comments = node.comments();
        if !comments.line.is_empty() {
            self.waiting.line = comments.line;
        }
        if !comments.foot.is_empty() && foot_too {
            self.waiting.foot = comments.foot;
        }
    }

    pub(super) fn write_head(&mut self) {
        let tail = std::mem::take(&mut self.waiting.tail);
        if !tail.is_empty() {
            self.writer.write_indent();
            self.writer.write_comment(tail);
            self.writer.foot_indent = self.writer.indent.max(0);
        }
        if self.waiting.head.is_empty() {
            return;
        }
        for lines in std::mem::take(&mut self.waiting.head).0 {
            if !lines.is_empty() {
                self.writer.write_indent();
                self.writer.write_comment(lines);
            }
        }
    }

    pub(super) fn write_line(&mut self) {
        let line = std::mem::take(&mut self.waiting.line);
        if !line.is_empty() {
            if !self.writer.whitespace {
                self.writer.put(' ');
            }
            self.writer.write_comment(line);
        }
    }

    /// A block has no line of its own to write a comment behind; unless it is to wait for the next
    /// node, it goes behind what was written last, or else on a line of its own; but below something
    /// empty it would be read as standing above what follows, so it waits for that.
    pub(super) fn flush_line_of_block(&mut self) {
        if self.quirks.careless_comments || self.waiting.line.is_empty() {
            return;
        }
        if self.writer.column > 0 && self.last_leaf != Leaf::EmptyEntry {
            return self.write_line();
        }
        if self.last_leaf != Leaf::Text {
            return self.waiting.head.push(std::mem::take(&mut self.waiting.line));
        }
        self.writer.write_indent();
        self.writer.write_comment(std::mem::take(&mut self.waiting.line));
        self.writer.foot_indent = self.writer.indent.max(0);
    }

    pub(super) fn write_foot(&mut self) {
        let foot = std::mem::take(&mut self.waiting.foot);
        if !foot.is_empty() {
            self.writer.write_indent();
            self.writer.write_comment(foot);
            self.writer.foot_indent = self.writer.indent.max(0);
        }
    }

    /// Whether something waits that goes behind or below the node at hand.
    pub(super) fn has_trailing(&self) -> bool {
        !(self.waiting.line.is_empty() && self.waiting.foot.is_empty() && self.waiting.tail.is_empty())
    }

    /// What stands below the last key of a mapping.
    pub(super) fn expect_tail(&mut self, tail: &'a str) {
        if !tail.is_empty() {
            self.waiting.tail = tail;
        }
    }

    /// A comment behind a key goes above it if there will be no room for it behind the value.
    pub(super) fn lift_key_comment(&mut self, value: &Node) {
        let crowded = has_rival_comment(value) || (self.flow_level > 0 && !value.is_empty());
        if crowded && !self.quirks.careless_comments {
            let line = std::mem::take(&mut self.waiting.line);
            self.waiting.head.push(line);
        }
    }

    /// Decides where the comment behind a key goes: before a block, behind anything else.
    pub(super) fn place_key_comment(&mut self, value: &'a Node) {
        if self.waiting.key_line.is_empty() {
            return;
        }
        match value.kind() {
            Kind::Alias if self.quirks.careless_comments => {}
            Kind::Scalar | Kind::Alias if self.waiting.line.is_empty() => {
                self.waiting.line = std::mem::take(&mut self.waiting.key_line);
            }
            // Behind the anchor or tag, which would otherwise start a line of its own.
            Kind::Mapping | Kind::Sequence
                if !value.is_flow() && !self.quirks.careless_comments && has_properties(value) =>
            {
                self.waiting.line = std::mem::take(&mut self.waiting.key_line);
            }
            Kind::Mapping | Kind::Sequence if !value.is_flow() => {
                let line = std::mem::take(&mut self.waiting.line);
                self.waiting.line = std::mem::take(&mut self.waiting.key_line);
                self.write_line();
                self.waiting.key_line = std::mem::take(&mut self.waiting.line);
                self.waiting.line = line;
            }
            // It waits for the closing bracket.
            _ => {}
        }
    }

    /// A comment behind or below a flow item comes after its comma.
    pub(super) fn write_flow_trailer(&mut self) {
        if self.has_trailing() {
            self.writer.closing_indicator(",");
        }
        self.write_line();
        self.write_foot();
    }

    /// At a closing bracket: whether its comment must wait because the line goes on with `:`.
    pub(super) fn holds_comment_back(&mut self, role: Role) -> bool {
        if self.quirks.careless_comments {
            return false;
        }
        let outermost = self.flow_level == 0;
        if matches!(role, Role::SimpleKey) {
            if outermost {
                self.waiting.key_line = std::mem::take(&mut self.waiting.line);
            }
            return true;
        }
        if outermost && self.waiting.line.is_empty() {
            self.waiting.line = std::mem::take(&mut self.waiting.key_line);
        }
        false
    }
}

/// Whether a comment behind the key would meet one behind the value on the same line.
fn has_rival_comment(value: &Node) -> bool {
    let on_one_line = !matches!(value.kind(), Kind::Mapping | Kind::Sequence) || value.is_flow();
    on_one_line && !value.comments().line.is_empty()
}
