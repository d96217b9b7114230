//! Collections under construction: what may come next in each, and what happens when it ends.

use std::sync::Arc;

use super::pending::Taken;
use super::{Parse, Parser, Properties, context_error, is_unspecific};
use crate::node::{Content, Node, Pair, Style, Tag};
use crate::scan::{Mark, TokenKind};
use crate::text::Text;

pub(super) struct Frame {
    collection: Collection,
    /// The node without its children.
    shell: Node,
    anchor: usize,
    /// Where its children start among the waiting nodes.
    base: usize,
    /// Where the collection began, for errors.
    opened: Mark,
    /// The start token has been read.
    entered: bool,
    /// A flow mapping has just read a key without `?` or `:`.
    bare_key: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Collection {
    BlockSequence,
    /// A sequence whose dashes stand in the column of the key above.
    Indentless,
    BlockMapping,
    FlowSequence,
    FlowMapping,
    /// A single `key: value` inside a flow sequence.
    FlowPair,
}

impl Collection {
    fn is_mapping(self) -> bool {
        matches!(self, Self::BlockMapping | Self::FlowMapping | Self::FlowPair)
    }

    fn is_flow(self) -> bool {
        matches!(self, Self::FlowSequence | Self::FlowMapping | Self::FlowPair)
    }
}

impl Parser<'_> {
    pub(super) fn open(&mut self, collection: Collection, start: Mark, properties: Properties, opened: Mark) {
        let style = Style { flow: collection.is_flow(), ..Style::default() };
        let tag = if collection.is_mapping() { Tag::Map } else { Tag::Seq };
        // The children follow when the frame closes.
        let content = Content::Scalar(Text::new());
        let mut shell = Node::from_parts(content, tag, style, start.line + 1, start.column + 1);
        if !is_unspecific(&properties.tag) {
            shell.set_explicit_tag(&properties.tag);
        }
        match collection {
            Collection::FlowSequence | Collection::FlowMapping => {
                let comments = self.pending.take();
                shell.set_head_comment(comments.head);
                if !self.exact {
                    self.pending.add_head(comments.line);
                    shell.set_foot_comment(without_gaps(comments.foot));
                }
            }
            Collection::BlockSequence | Collection::BlockMapping => {
                let stem = self.pending.take_stem();
                shell.set_head_comment(stem);
            }
            Collection::Indentless | Collection::FlowPair => {}
        }
        let mut anchor = 0;
        if !properties.anchor.is_empty() {
            anchor = self.reserve_anchor(&properties.anchor);
            shell.set_anchor(properties.anchor);
        }
        self.frames.push(Frame {
            collection,
            shell,
            anchor,
            base: self.nodes.len(),
            opened,
            entered: matches!(collection, Collection::Indentless | Collection::FlowPair),
            bare_key: false,
        });
    }

    /// Goes on with the innermost collection up to its next child or its end.
    pub(super) fn step(&mut self, mut frame: Frame) -> Parse {
        let first = !frame.entered;
        if first {
            self.peek()?;
            self.take();
            frame.entered = true;
        }
        match frame.collection {
            Collection::BlockSequence => self.step_block_sequence(frame),
            Collection::Indentless => self.step_indentless(frame),
            Collection::BlockMapping if self.expects_key(&frame) => self.step_block_key(frame),
            Collection::BlockMapping => self.step_block_value(frame),
            Collection::FlowSequence => self.step_flow_sequence(frame, first),
            Collection::FlowPair => self.step_flow_pair(frame),
            Collection::FlowMapping if self.expects_key(&frame) => self.step_flow_key(frame, first),
            Collection::FlowMapping => self.step_flow_value(frame),
        }
    }

    fn expects_key(&self, frame: &Frame) -> bool {
        (self.nodes.len() - frame.base).is_multiple_of(2)
    }

    // === block collections ===

    fn step_block_sequence(&mut self, frame: Frame) -> Parse {
        let (kind, start) = self.peek()?;
        match kind {
            TokenKind::BlockEntry => {
                self.dash(frame, start, |next| matches!(next, TokenKind::BlockEntry | TokenKind::BlockEnd))
            }
            TokenKind::BlockEnd => {
                self.take();
                self.close(frame, Taken::default());
                Ok(())
            }
            _ => Err(context_error(frame.opened, start, "did not find expected '-' indicator")),
        }
    }

    fn step_indentless(&mut self, frame: Frame) -> Parse {
        let (kind, start) = self.peek()?;
        if !matches!(kind, TokenKind::BlockEntry) {
            self.close(frame, Taken::default());
            return Ok(());
        }
        self.dash(frame, start, |next| {
            matches!(next, TokenKind::BlockEntry | TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd)
        })
    }

    /// Takes a dash and reads the item behind it. What stands above the dash goes to that item if it
    /// is a block collection.
    ///
    /// A comment above makes the original look ahead and ignore an error there. It scans on from
    /// where the error was and reports what it meets next, or else the first error after all.
    fn dash(&mut self, frame: Frame, dash: Mark, ends_item: fn(&TokenKind) -> bool) -> Parse {
        let above = self.pending.head_length();
        self.take();
        if above > 0 {
            match self.peek() {
                Ok((TokenKind::BlockSequenceStart | TokenKind::BlockMappingStart, _)) => {
                    self.pending.split_stem(above);
                }
                Ok(_) => {}
                Err(error) => self.ignored = Some(error),
            }
        }
        let empty = ends_item(self.peek()?.0);
        self.child(frame, empty, dash.next(), true, false)?;
        self.ignored.take().map_or(Ok(()), Err)
    }

    fn step_block_key(&mut self, frame: Frame) -> Parse {
        let (kind, start) = self.peek()?;
        match kind {
            TokenKind::Key => {
                self.take();
                let exact = self.exact;
                let next = self.peek()?.0;
                if matches!(next, TokenKind::Value) && !exact {
                    // The original hands what stands between `?` and `:` on to the value.
                    let head = self.pending.take_head();
                    self.child(frame, true, start.next(), true, true)?;
                    if let Some(key) = self.nodes.last_mut().filter(|_| !head.is_empty()) {
                        key.set_head_comment(head);
                    }
                    return Ok(());
                }
                let empty = matches!(next, TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd);
                self.child(frame, empty, start.next(), true, true)
            }
            TokenKind::BlockEnd => {
                let comments = self.pending.take();
                self.take();
                self.close(frame, comments);
                Ok(())
            }
            _ => Err(context_error(frame.opened, start, "did not find expected key")),
        }
    }

    fn step_block_value(&mut self, frame: Frame) -> Parse {
        let (kind, start) = self.peek()?;
        if !matches!(kind, TokenKind::Value) {
            return self.child(frame, true, start, true, true);
        }
        self.take();
        let empty = matches!(self.peek()?.0, TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd);
        self.child(frame, empty, start.next(), true, true)
    }

    // === flow collections ===

    fn step_flow_sequence(&mut self, frame: Frame, first: bool) -> Parse {
        let (kind, start) = self.peek()?;
        if !first && !matches!(kind, TokenKind::FlowSequenceEnd) {
            if !matches!(kind, TokenKind::FlowEntry) {
                return Err(context_error(frame.opened, start, "did not find expected ',' or ']'"));
            }
            self.take();
        }
        let (kind, start) = self.peek()?;
        match kind {
            TokenKind::FlowSequenceEnd => self.close_flow(frame),
            TokenKind::Key => {
                self.frames.push(frame);
                self.open(Collection::FlowPair, start, Properties::default(), start);
                self.take();
            }
            _ => return self.child(frame, false, start, false, false),
        }
        Ok(())
    }

    fn step_flow_pair(&mut self, frame: Frame) -> Parse {
        let present = self.nodes.len() - frame.base;
        let (kind, start) = self.peek()?;
        match present {
            0 => {
                let empty =
                    matches!(kind, TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowSequenceEnd);
                if empty {
                    // The token is gone although only a key was due; that ends in an error later.
                    self.take();
                }
                self.child(frame, empty, start.next(), false, false)
            }
            1 => {
                let mut empty = true;
                if matches!(kind, TokenKind::Value) {
                    self.take();
                    empty = matches!(self.peek()?.0, TokenKind::FlowEntry | TokenKind::FlowSequenceEnd);
                }
                self.child(frame, empty, start, false, false)
            }
            _ => {
                self.close(frame, Taken::default());
                Ok(())
            }
        }
    }

    fn step_flow_key(&mut self, mut frame: Frame, first: bool) -> Parse {
        let (kind, start) = self.peek()?;
        if !first && !matches!(kind, TokenKind::FlowMappingEnd) {
            if !matches!(kind, TokenKind::FlowEntry) {
                return Err(context_error(frame.opened, start, "did not find expected ',' or '}'"));
            }
            self.take();
        }
        match self.peek()?.0 {
            TokenKind::FlowMappingEnd => {
                self.close_flow(frame);
                return Ok(());
            }
            TokenKind::Key => {
                frame.bare_key = false;
                self.take();
            }
            _ => {
                frame.bare_key = true;
                return self.child(frame, false, start, false, false);
            }
        }
        let (kind, start) = self.peek()?;
        let empty = matches!(kind, TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowMappingEnd);
        self.child(frame, empty, start, false, false)
    }

    fn step_flow_value(&mut self, frame: Frame) -> Parse {
        let (kind, start) = self.peek()?;
        if frame.bare_key || !matches!(kind, TokenKind::Value) {
            return self.child(frame, true, start, false, false);
        }
        self.take();
        let (kind, start) = self.peek()?;
        let empty = matches!(kind, TokenKind::FlowEntry | TokenKind::FlowMappingEnd);
        self.child(frame, empty, start, false, false)
    }

    fn close_flow(&mut self, frame: Frame) {
        let comments = self.pending.take();
        self.take();
        self.close(frame, comments);
    }

    // === children ===

    /// Puts the frame back and reads its next child, or gives it an empty one at `place`.
    fn child(&mut self, frame: Frame, empty: bool, place: Mark, block: bool, indentless: bool) -> Parse {
        self.frames.push(frame);
        if empty {
            self.finish_empty(place);
            return Ok(());
        }
        self.parse_node(block, indentless)
    }

    /// Fills the node with its children. Of the comments at its end it keeps those behind and below.
    fn close(&mut self, frame: Frame, mut comments: Taken) {
        let mut node = frame.shell;
        let empty_flow = frame.collection.is_flow() && self.nodes.len() == frame.base;
        if empty_flow && !self.exact && comments.line.is_empty() && !comments.head.contains('\n') {
            comments.line = comments.head.take();
        }
        let foot = if self.exact { comments.foot } else { below(comments.head, comments.foot) };
        if !(comments.line.is_empty() && foot.is_empty()) {
            let extras = node.extras_mut();
            extras.line = comments.line;
            extras.foot = below(extras.foot.take(), foot);
        }
        if frame.collection == Collection::BlockMapping
            && !node.comments().foot.is_empty()
            && let Some(last_key) = self.nodes.len().checked_sub(2).filter(|&at| at >= frame.base)
        {
            let foot = node.extras_mut().foot.take();
            self.move_foot(foot, last_key);
        }
        let children = self.nodes.drain(frame.base..);
        if frame.collection.is_mapping() {
            let mut pairs = Vec::with_capacity(children.len() / 2);
            let mut children = children;
            while let (Some(key), Some(value)) = (children.next(), children.next()) {
                pairs.push(Pair { key, value });
            }
            drop(children);
            node.set_content(Content::Mapping(Arc::new(pairs)));
        } else {
            let items = children.collect();
            node.set_content(Content::Sequence(Arc::new(items)));
        }
        if frame.anchor != 0 {
            self.complete_anchor(&node, frame.anchor);
        }
        self.finish(node);
    }

    /// Adds a finished node to the collection around it, where comments below it find their owner:
    /// in a mapping that is always a key, and what stands below a key belongs to the one before.
    pub(super) fn finish(&mut self, node: Node) {
        self.nodes.push(node);
        let Some(frame) = self.frames.last().filter(|frame| frame.collection.is_mapping()) else { return };
        let count = self.nodes.len() - frame.base;
        let last = self.nodes.len() - 1;
        if self.nodes[last].comments().foot.is_empty() {
            return;
        }
        if count % 2 == 1 {
            if frame.collection == Collection::BlockMapping && count > 2 {
                let foot = self.nodes[last].extras_mut().foot.take();
                self.move_foot(foot, last - 2);
            }
        } else if self.nodes[last - 1].comments().foot.is_empty() {
            let foot = self.nodes[last].extras_mut().foot.take();
            self.nodes[last - 1].set_foot_comment(foot);
        }
    }

    /// Puts a comment below a waiting key; one that is there already gives way in go-yaml.
    fn move_foot(&mut self, foot: Text, key: usize) {
        let extras = self.nodes[key].extras_mut();
        extras.foot = if self.exact { foot } else { below(extras.foot.take(), foot) };
    }
}

/// Comments from two places as one below a node, without the empty lines at which it would end.
fn below(first: Text, second: Text) -> Text {
    if first.is_empty() { second } else { without_gaps(first.joined_with(second)) }
}

fn without_gaps(comment: Text) -> Text {
    if !comment.contains("\n\n") && !comment.ends_with('\n') {
        return comment;
    }
    let lines = comment.lines().filter(|line| !line.is_empty());
    Text::from(lines.collect::<Vec<_>>().join("\n"))
}
