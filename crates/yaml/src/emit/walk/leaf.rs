//! Scalars with what stands before them: anchors and tags.

use super::super::scalar::{Allowed, Position, analyze, choose_style};
use super::{Leaf, Role, Walker};
use crate::node::{Content, Node, ScalarStyle, Tag, handle_and_suffix};
use crate::resolve::resolve;
use crate::scan::is_name_byte;

/// Longer keys are written with `?`.
const MAX_SIMPLE_KEY: usize = 128;

/// What a scalar needs before its style can be chosen.
struct Prepared<'a> {
    text: &'a str,
    tag: &'a str,
    wanted: ScalarStyle,
    allowed: Allowed,
}

impl<'a> Walker<'a> {
    fn prepare<'n>(&self, node: &'n Node, text: &'n str) -> Prepared<'n> {
        let tag = node.tag();
        let style = node.scalar_style();
        let mut written_tag = node.tag_text();
        let mut quotes_needed = false;
        if tag != Tag::None && !node.has_explicit_tag() {
            if tag == Tag::Str && style != ScalarStyle::Plain {
                written_tag = "";
            } else {
                let resolved = resolve(text).tag();
                let merge = tag == Tag::Merge && !self.quirks.merge_tagged;
                if resolved == tag || merge {
                    written_tag = "";
                } else if tag == Tag::Str {
                    written_tag = "";
                    quotes_needed = true;
                }
            }
        }
        let wanted = match style {
            ScalarStyle::Plain if text.contains('\n') => ScalarStyle::Literal,
            ScalarStyle::Plain if quotes_needed => ScalarStyle::DoubleQuoted,
            style => style,
        };
        let mut allowed = analyze(text, self.quirks);
        if !self.quirks.trailing_spaces_quoted && style == ScalarStyle::Literal && !text.trim().is_empty() {
            allowed.block |= allowed.block_but_for_spaces;
        }
        Prepared { text, tag: written_tag, wanted, allowed }
    }

    pub(super) fn write_scalar(&mut self, node: &'a Node, text: &'a str, role: Role) {
        let prepared = self.prepare(node, text);
        let position = Position { in_flow: self.flow_level > 0, simple_key: matches!(role, Role::SimpleKey) };
        let mut text = prepared.text;
        let mut style = choose_style(text, prepared.wanted, prepared.allowed, position);
        let lost_null = text.is_empty()
            && node.tag() == Tag::Null
            && style == ScalarStyle::SingleQuoted
            && prepared.tag.is_empty();
        if lost_null && !self.quirks.null_as_empty_string {
            style = ScalarStyle::Plain;
            if !matches!(role, Role::Value) || self.has_trailing() {
                text = "null";
            }
        }
        // No text that means a number or a time needs quotes, which would make it a string.
        let meaningful = matches!(node.tag(), Tag::Null | Tag::Bool | Tag::Int | Tag::Float | Tag::Timestamp)
            && prepared.tag.is_empty()
            && !text.is_empty();
        if meaningful && prepared.wanted == ScalarStyle::Plain && !self.quirks.timestamps_quoted {
            style = ScalarStyle::Plain;
        }
        self.write_anchor(node);
        if !prepared.tag.is_empty() {
            self.write_tag(prepared.tag);
        }
        let written = !text.is_empty() || style != ScalarStyle::Plain || !prepared.tag.is_empty();
        self.last_leaf = if written || !node.anchor().is_empty() {
            Leaf::Text
        } else if self.frames.last().is_some_and(|frame| frame.simple_key && matches!(role, Role::Value)) {
            Leaf::EmptyValue
        } else {
            Leaf::EmptyEntry
        };
        let outer_indent = self.writer.indent;
        self.indent_inside(true, self.in_block_sequence());
        match style {
            ScalarStyle::Plain if text.is_empty() && position.in_flow => {
                self.writer.put(' ');
                self.writer.whitespace = true;
                self.writer.indention = false;
            }
            ScalarStyle::Plain => self.writer.write_plain(text),
            ScalarStyle::SingleQuoted => self.writer.write_single_quoted(text, self.quirks),
            ScalarStyle::DoubleQuoted => self.writer.write_double_quoted(text, self.quirks),
            ScalarStyle::Literal => {
                self.write_block_header("|", text);
                self.writer.write_literal_lines(text);
            }
            ScalarStyle::Folded => {
                self.write_block_header(">", text);
                self.writer.write_folded_lines(text, self.quirks);
            }
        }
        self.writer.indent = outer_indent;
        let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        if block && !self.quirks.kept_breaks_grow && (text.ends_with("\n\n") || text == "\n") {
            self.writer.protect_breaks();
        }
    }

    fn write_block_header(&mut self, sign: &str, text: &str) {
        self.writer.indicator(sign);
        self.writer.write_block_hints(text, self.quirks);
        if self.waiting.line.is_empty() {
            self.writer.put_break();
        } else if self.waiting.line.contains('\n') && !self.quirks.careless_comments {
            // A second line would be taken for text.
            let line = std::mem::take(&mut self.waiting.line).replace('\n', " ");
            self.writer.put(' ');
            self.writer.write_comment(&line);
        } else {
            self.write_line();
        }
    }

    pub(super) fn write_anchor(&mut self, node: &Node) {
        if !node.anchor().is_empty() {
            self.writer.indicator("&");
            self.writer.write(node.anchor());
        }
    }

    pub(super) fn write_tag(&mut self, tag: &str) {
        let (handle, suffix) = handle_and_suffix(tag);
        self.writer.indicator(if handle.is_empty() { "!<" } else { handle });
        for byte in suffix.bytes() {
            if is_name_byte(byte) || b";/?:@&=+$,_.~*'()[]".contains(&byte) {
                self.writer.put(char::from(byte));
            } else {
                self.writer.write(&format!("%{byte:02X}"));
            }
        }
        if handle.is_empty() {
            self.writer.closing_indicator(">");
        }
    }

    /// Whether a key needs no `?`: short, on one line, and no filled collection.
    pub(super) fn is_simple_key(&self, key: &Node) -> bool {
        let properties = |tag: &str| {
            let (handle, suffix) = handle_and_suffix(tag);
            key.anchor().len() + if tag.is_empty() { 0 } else { handle.len() + suffix.len() }
        };
        // Any tag that is not spelled out is short, so most keys need no closer look.
        const SURELY_SHORT: usize = MAX_SIMPLE_KEY / 2;
        if let Content::Scalar(text) = key.content()
            && text.len() < SURELY_SHORT
            && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
            && key.extras().is_none()
        {
            return true;
        }
        let length = match key.content() {
            Content::Alias(alias) => alias.name.len(),
            Content::Scalar(text) => {
                let prepared = self.prepare(key, text);
                if prepared.allowed.multiline {
                    return false;
                }
                properties(prepared.tag) + text.len()
            }
            _ if !key.is_empty() => return false,
            _ => properties(written_collection_tag(key)),
        };
        length <= MAX_SIMPLE_KEY
    }
}

/// The tag of a collection if it must be written, else empty.
pub(super) fn written_collection_tag(node: &Node) -> &str {
    let implied = if node.is_mapping() { Tag::Map } else { Tag::Seq };
    if node.has_explicit_tag() || node.tag() != implied { node.tag_text() } else { "" }
}

pub(super) fn has_properties(collection: &Node) -> bool {
    !collection.anchor().is_empty() || !written_collection_tag(collection).is_empty()
}
