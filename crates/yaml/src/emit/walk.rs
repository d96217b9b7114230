//! The layout: collections, their keys, values and items, and how deep each is indented.
//!
//! Collections that are being written are [`Frame`]s on a stack, so nothing here recurses. Comments
//! have a life of their own in [`comment`], scalars and aliases are written in [`leaf`].

mod comment;
mod leaf;

pub(super) use self::comment::LeftOver;
use self::comment::{Lines, Waiting};
use self::leaf::written_collection_tag;
use super::writer::Writer;
use super::{EmitOptions, Quirks, SequenceStyle};
use crate::node::{Content, Node, Pair};

pub(super) struct Walker<'a> {
    writer: Writer,
    sequences: SequenceStyle,
    quirks: Quirks,
    waiting: Waiting<'a>,
    frames: Vec<Frame<'a>>,
    /// What the last scalar or alias left on its line.
    last_leaf: Leaf,
    /// The node written last was a key or a value.
    in_mapping: bool,
    flow_level: usize,
}

struct Frame<'a> {
    node: &'a Node,
    flow: bool,
    /// Collections directly behind a dash are indented by exactly two.
    in_block_sequence: bool,
    entered: bool,
    outer_indent: i32,
    next: usize,
    /// A key has been written and its value is due.
    value_due: bool,
    simple_key: bool,
    /// A comma already stands behind the last child, before its comment.
    comma_written: bool,
    /// What stands below the last key.
    tail: &'a str,
    role: Role,
}

/// What a scalar or alias leaves behind: a comment below something empty belongs to what follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaf {
    Text,
    /// Nothing, behind a key and its colon.
    EmptyValue,
    /// Nothing, behind a sign that takes no comment on its line.
    EmptyEntry,
}

/// How a node hangs in the tree, as far as the layout depends on it.
#[derive(Clone, Copy)]
enum Role {
    Root,
    Item,
    SimpleKey,
    ComplexKey,
    Value,
}

impl Role {
    /// What stands below a key is written below its value.
    fn is_key(self) -> bool {
        matches!(self, Self::SimpleKey | Self::ComplexKey)
    }
}

impl<'a> Walker<'a> {
    pub(super) fn new(out: String, options: EmitOptions, limit: usize, left_over: &'a LeftOver) -> Self {
        Self {
            writer: Writer::new(out, limit),
            sequences: options.sequences,
            quirks: options.fidelity.quirks(),
            waiting: Waiting::new(left_over),
            frames: Vec::new(),
            last_leaf: Leaf::Text,
            in_mapping: false,
            flow_level: 0,
        }
    }

    /// The text, and the comments that found no place in it.
    pub(super) fn finish(self) -> (String, LeftOver) {
        (self.writer.finish(), self.waiting.into_left_over())
    }

    pub(super) fn document(&mut self, root: &'a Node, head: &'a str, foot: &'a str, first: bool) {
        if !first {
            self.writer.write_indent();
            self.writer.indicator("---");
            self.writer.write_indent();
        }
        if !head.is_empty() {
            self.waiting.head = Lines::new(head);
        }
        if !self.waiting.head.is_empty() {
            self.write_head();
            self.writer.put_break();
        }
        self.expect(root);
        self.write_head();
        self.write_node(root, Role::Root);
        self.write_line();
        self.write_foot();
        while let Some(frame) = self.frames.pop() {
            if self.writer.is_full() {
                return;
            }
            self.step(frame);
        }
        if !self.quirks.careless_comments && !self.waiting.head.is_empty() {
            // Below an empty value it is read as the document's own comment.
            if self.last_leaf != Leaf::Text {
                self.writer.foot_indent = 0;
            }
            self.write_head();
        }
        if !foot.is_empty() {
            self.waiting.foot = foot;
        }
        self.writer.foot_indent = 0;
        self.write_foot();
        self.writer.foot_indent = -1;
        self.writer.write_indent();
    }

    // === collections ===

    fn step(&mut self, mut frame: Frame<'a>) {
        match (frame.node.content(), frame.flow) {
            (Content::Sequence(items), false) => self.step_block_sequence(frame, items),
            (Content::Sequence(items), true) => self.step_flow_sequence(frame, items),
            (Content::Mapping(pairs), flow) => {
                if frame.value_due {
                    frame.value_due = false;
                    let pair = &pairs[frame.next];
                    frame.next += 1;
                    if flow {
                        self.write_flow_value(frame, &pair.value);
                    } else {
                        self.write_block_value(frame, &pair.value);
                    }
                } else if flow {
                    self.step_flow_key(frame, pairs);
                } else {
                    self.step_block_key(frame, pairs);
                }
            }
            _ => {}
        }
    }

    /// The first step into a collection: sets the indentation of what is inside.
    fn enter(&mut self, frame: &mut Frame<'a>, flush_with_key: bool) {
        frame.entered = true;
        frame.outer_indent = self.writer.indent;
        self.indent_inside(frame.flow, frame.in_block_sequence);
        if flush_with_key && !frame.in_block_sequence && frame.outer_indent >= 0 {
            self.writer.indent -= 2;
        }
    }

    fn indent_inside(&mut self, flow: bool, in_block_sequence: bool) {
        let indent = self.writer.indent;
        self.writer.indent = if indent < 0 {
            if flow { 2 } else { 0 }
        } else if in_block_sequence {
            indent + 2
        } else {
            2 * ((indent + 2) / 2)
        };
    }

    /// Whether the node at hand stands directly behind a dash.
    fn in_block_sequence(&self) -> bool {
        self.frames.last().is_some_and(|parent| parent.node.is_sequence() && !parent.flow)
    }

    fn step_block_sequence(&mut self, mut frame: Frame<'a>, items: &'a [Node]) {
        let Some(item) = items.get(frame.next) else {
            self.expect_end(frame.node, !frame.role.is_key());
            self.flush_line_of_block();
            self.writer.indent = frame.outer_indent;
            return;
        };
        self.expect(item);
        if !frame.entered {
            let below_key = self.in_mapping && (self.writer.column == 0 || !self.writer.indention);
            self.enter(&mut frame, below_key && self.sequences == SequenceStyle::Compact);
        }
        frame.next += 1;
        self.write_head();
        self.writer.write_indent();
        self.writer.entry_indicator("-");
        self.frames.push(frame);
        self.write_node(item, Role::Item);
        self.write_line();
        self.write_foot();
    }

    fn step_block_key(&mut self, mut frame: Frame<'a>, pairs: &'a [Pair]) {
        let Some(pair) = pairs.get(frame.next) else {
            self.expect_tail(frame.tail);
            self.expect_end(frame.node, !frame.role.is_key());
            self.write_head();
            self.flush_line_of_block();
            self.writer.indent = frame.outer_indent;
            return;
        };
        let key = &pair.key;
        self.expect_key(key, frame.tail);
        frame.tail = key.comments().foot;
        if !frame.entered {
            self.enter(&mut frame, false);
        }
        self.lift_key_comment(&pair.value);
        self.write_head();
        self.writer.write_indent();
        if !self.waiting.line.is_empty() {
            self.waiting.key_line = std::mem::take(&mut self.waiting.line);
        }
        frame.simple_key = self.is_simple_key(key);
        let role = if frame.simple_key { Role::SimpleKey } else { Role::ComplexKey };
        if !frame.simple_key {
            self.writer.entry_indicator("?");
        }
        frame.value_due = true;
        self.frames.push(frame);
        self.write_node(key, role);
    }

    fn write_block_value(&mut self, frame: Frame<'a>, value: &'a Node) {
        let simple_key = frame.simple_key;
        self.expect(value);
        if simple_key {
            self.writer.closing_indicator(":");
        } else {
            self.writer.write_indent();
            self.writer.entry_indicator(":");
        }
        self.frames.push(frame);
        self.place_key_comment(value);
        self.write_node(value, Role::Value);
        self.write_line();
        self.write_foot();
    }

    fn step_flow_sequence(&mut self, mut frame: Frame<'a>, items: &'a [Node]) {
        let first = !frame.entered;
        let Some(item) = items.get(frame.next) else {
            self.expect_end(frame.node, !frame.role.is_key());
            self.enter_flow(&mut frame, "[");
            self.leave_flow(&frame);
            if self.writer.column == 0 {
                self.writer.write_indent();
            }
            return self.close_flow(&frame, "]");
        };
        self.expect(item);
        self.enter_flow(&mut frame, "[");
        if !first && !frame.comma_written {
            self.writer.closing_indicator(",");
        }
        self.write_head();
        if self.writer.column == 0 {
            self.writer.write_indent();
        }
        frame.next += 1;
        frame.comma_written = self.has_trailing();
        self.frames.push(frame);
        self.write_node(item, Role::Item);
        self.write_flow_trailer();
    }

    fn step_flow_key(&mut self, mut frame: Frame<'a>, pairs: &'a [Pair]) {
        let first = !frame.entered;
        let Some(pair) = pairs.get(frame.next) else {
            self.expect_tail(frame.tail);
            self.expect_end(frame.node, !frame.role.is_key());
            self.enter_flow(&mut frame, "{");
            if self.waiting.has_lines() && !first && !frame.comma_written {
                self.writer.closing_indicator(",");
            }
            self.write_head();
            self.leave_flow(&frame);
            return self.close_flow(&frame, "}");
        };
        let key = &pair.key;
        self.expect_key(key, frame.tail);
        frame.tail = key.comments().foot;
        self.enter_flow(&mut frame, "{");
        if !first && !frame.comma_written {
            self.writer.closing_indicator(",");
        }
        self.lift_key_comment(&pair.value);
        self.write_head();
        if self.writer.column == 0 {
            self.writer.write_indent();
        }
        frame.simple_key = self.is_simple_key(key);
        let role = if frame.simple_key { Role::SimpleKey } else { Role::ComplexKey };
        if !frame.simple_key {
            self.writer.indicator("?");
        }
        frame.value_due = true;
        self.frames.push(frame);
        self.write_node(key, role);
    }

    fn write_flow_value(&mut self, mut frame: Frame<'a>, value: &'a Node) {
        self.expect(value);
        if frame.simple_key {
            self.writer.closing_indicator(":");
        } else {
            self.writer.indicator(":");
        }
        frame.comma_written = self.has_trailing();
        self.frames.push(frame);
        self.write_node(value, Role::Value);
        self.write_flow_trailer();
    }

    fn enter_flow(&mut self, frame: &mut Frame<'a>, bracket: &str) {
        if !frame.entered {
            self.writer.opening_indicator(bracket);
            self.enter(frame, false);
            self.flow_level += 1;
        }
    }

    fn leave_flow(&mut self, frame: &Frame<'a>) {
        self.flow_level -= 1;
        self.writer.indent = frame.outer_indent;
    }

    fn close_flow(&mut self, frame: &Frame<'a>, bracket: &str) {
        self.writer.closing_indicator(bracket);
        self.last_leaf = Leaf::Text;
        if !self.holds_comment_back(frame.role) {
            self.write_line();
            self.write_foot();
        }
    }

    // === nodes ===

    /// Writes a scalar or alias, or opens a collection.
    fn write_node(&mut self, node: &'a Node, role: Role) {
        self.in_mapping = role.is_key() || matches!(role, Role::Value);
        match node.content() {
            Content::Alias(alias) => {
                self.writer.indicator("*");
                self.writer.write(&alias.name);
                self.last_leaf = Leaf::Text;
            }
            Content::Scalar(text) => self.write_scalar(node, text, role),
            Content::Sequence(_) | Content::Mapping(_) => {
                self.write_anchor(node);
                let tag = written_collection_tag(node);
                if !tag.is_empty() {
                    self.write_tag(tag);
                }
                let flow = self.flow_level > 0 || node.is_flow() || node.is_empty();
                let in_block_sequence = self.in_block_sequence();
                self.frames.push(Frame {
                    node,
                    flow,
                    in_block_sequence,
                    entered: false,
                    outer_indent: 0,
                    next: 0,
                    value_due: false,
                    simple_key: false,
                    comma_written: false,
                    tail: "",
                    role,
                });
            }
        }
    }
}
