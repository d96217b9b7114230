//! The document model: [`Document`] and [`Node`], with everything people wrote still in place.
//!
//! A node is small (48 bytes): what most nodes lack, such as comments, anchors and unusual tags, sits
//! in a box of its own. Children are shared and copied on the first write, so cloning any subtree
//! costs one counter, whatever its size. Nothing here recurses over the tree, not even dropping it.

mod edit;
mod make;
mod tag;
mod view;
mod walk;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

pub use self::make::reads_as_non_string;
pub use self::tag::Tag;
pub(crate) use self::tag::handle_and_suffix;
use crate::text::Text;

/// One document of a stream: its root and the comments that belong to neither key nor item.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// Comment lines at the very top, separated from the root by an empty line.
    pub head_comment: Text,
    /// Comment lines after the root, separated from it by an empty line.
    pub foot_comment: Text,
    /// The content; a null scalar if the document is empty.
    pub root: Node,
}

/// A mapping, sequence, scalar or alias, with its style, comments and position.
#[derive(Clone)]
pub struct Node {
    content: Content,
    extras: Option<Box<Extras>>,
    line: u32,
    column: u32,
    tag: Tag,
    style: Style,
}

/// A key and its value in a mapping.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The key: nearly always a scalar, but YAML allows any node.
    pub key: Node,
    /// The value.
    pub value: Node,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Keys and values in order.
    Mapping,
    /// Items in order.
    Sequence,
    /// A single text, perhaps meaning a number or nothing.
    Scalar,
    /// A reference to an anchored node.
    Alias,
}

/// How a scalar is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScalarStyle {
    /// Without quotes where the text allows it.
    #[default]
    Plain,
    /// In single quotes.
    SingleQuoted,
    /// In double quotes.
    DoubleQuoted,
    /// As a `|` block.
    Literal,
    /// As a `>` block.
    Folded,
}

/// The comments attached to a node, each with its `#` and without indentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comments<'a> {
    /// Whole lines above the node.
    pub head: &'a str,
    /// The rest of the node's own line.
    pub line: &'a str,
    /// Whole lines below the node.
    pub foot: &'a str,
}

#[derive(Clone)]
pub(crate) enum Content {
    Scalar(Text),
    Sequence(Arc<Vec<Node>>),
    Mapping(Arc<Vec<Pair>>),
    Alias(Arc<Alias>),
}

pub(crate) struct Alias {
    pub(crate) name: Text,
    /// The anchored node as it was when the alias was read; none if the alias stands inside it.
    pub(crate) target: Option<Node>,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Style {
    pub(crate) scalar: ScalarStyle,
    pub(crate) flow: bool,
    /// The tag was written in the source, not derived.
    pub(crate) tagged: bool,
}

#[derive(Clone, Default)]
pub(crate) struct Extras {
    pub(crate) head: Text,
    pub(crate) line: Text,
    pub(crate) foot: Text,
    pub(crate) anchor: Text,
    /// The tag's text if [`Tag::Other`].
    pub(crate) tag: Text,
}

// === impl Document ===

impl Document {
    /// A document without comments of its own.
    #[must_use]
    pub fn new(root: Node) -> Self {
        Self { head_comment: Text::new(), foot_comment: Text::new(), root }
    }

    /// Whether there is nothing in it but perhaps comments.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root.tag() == Tag::Null && self.root.kind() == Kind::Scalar
    }
}

impl From<Node> for Document {
    fn from(root: Node) -> Self {
        Self::new(root)
    }
}

// === impl Node ===

impl Node {
    pub(crate) fn from_parts(content: Content, tag: Tag, style: Style, line: u32, column: u32) -> Self {
        Self { content, extras: None, line, column, tag, style }
    }

    pub(crate) fn set_content(&mut self, content: Content) {
        self.content = content;
    }

    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    pub(crate) fn extras(&self) -> Option<&Extras> {
        self.extras.as_deref()
    }

    pub(crate) fn extras_mut(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }

    /// What the node is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.content {
            Content::Scalar(_) => Kind::Scalar,
            Content::Sequence(_) => Kind::Sequence,
            Content::Mapping(_) => Kind::Mapping,
            Content::Alias(_) => Kind::Alias,
        }
    }

    /// Whether this is a mapping.
    #[must_use]
    pub fn is_mapping(&self) -> bool {
        self.kind() == Kind::Mapping
    }

    /// Whether this is a sequence.
    #[must_use]
    pub fn is_sequence(&self) -> bool {
        self.kind() == Kind::Sequence
    }

    /// Whether this is a scalar.
    #[must_use]
    pub fn is_scalar(&self) -> bool {
        self.kind() == Kind::Scalar
    }

    /// The line the node starts on, counted from 1; 0 if it was not parsed.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.line
    }

    /// The column the node starts at in characters, counted from 1; 0 if it was not parsed.
    #[must_use]
    pub fn column(&self) -> u32 {
        self.column
    }

    // --- tag, anchor, style ---

    /// The tag, explicit or derived. [`Node::tag_text`] has the text of [`Tag::Other`].
    #[must_use]
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// The tag in its short form: `!!str`, `!custom`; empty if none is set.
    #[must_use]
    pub fn tag_text(&self) -> &str {
        match self.tag {
            Tag::Other => self.extras().map_or("", |extras| &extras.tag),
            known => known.as_str(),
        }
    }

    /// Whether the tag stands in the source and is written out again.
    #[must_use]
    pub fn has_explicit_tag(&self) -> bool {
        self.style.tagged
    }

    /// Sets the tag that is implied, for example `!!str` to keep `5` a string.
    pub fn set_tag(&mut self, tag: Tag) {
        self.tag = tag;
        self.style.tagged = false;
    }

    /// Sets a tag that is written out, in its short (`!!str`) or long form; empty removes it.
    pub fn set_explicit_tag(&mut self, tag: &str) {
        let short = tag::shorten(tag);
        self.tag = Tag::from_short(&short);
        self.style.tagged = !short.is_empty();
        if self.tag == Tag::Other {
            self.extras_mut().tag = Text::from(short.into_owned());
        }
    }

    /// The anchor's name without `&`; empty if there is none.
    #[must_use]
    pub fn anchor(&self) -> &str {
        self.extras().map_or("", |extras| &extras.anchor)
    }

    /// Names the node, so that aliases can refer to it; empty removes the anchor.
    pub fn set_anchor(&mut self, name: impl Into<Text>) {
        let name = name.into();
        if !name.is_empty() || self.extras.is_some() {
            self.extras_mut().anchor = name;
        }
    }

    /// The style a scalar was written in or is to be written in.
    #[must_use]
    pub fn scalar_style(&self) -> ScalarStyle {
        self.style.scalar
    }

    /// Asks for a scalar style. The emitter falls back to another where the text forbids it.
    pub fn set_scalar_style(&mut self, style: ScalarStyle) {
        self.style.scalar = style;
    }

    /// Whether a collection is written in brackets or braces.
    #[must_use]
    pub fn is_flow(&self) -> bool {
        self.style.flow
    }

    /// Chooses between flow and block style for a collection.
    pub fn set_flow(&mut self, flow: bool) {
        self.style.flow = flow;
    }

    /// Takes over every style flag of another node: quotes, flow, written-out tag.
    pub fn set_style_of(&mut self, other: &Node) {
        self.style = other.style;
    }

    // --- comments ---

    /// The comments of this node.
    #[must_use]
    pub fn comments(&self) -> Comments<'_> {
        self.extras().map_or_else(Comments::default, |extras| Comments {
            head: &extras.head,
            line: &extras.line,
            foot: &extras.foot,
        })
    }

    /// Sets the comment lines above; each line begins with `#` or gets one. Empty removes them.
    pub fn set_head_comment(&mut self, comment: impl Into<Text>) {
        self.set_comment(comment.into(), |extras| &mut extras.head);
    }

    /// Sets the comment behind the node; it begins with `#` or gets one. Empty removes it.
    pub fn set_line_comment(&mut self, comment: impl Into<Text>) {
        self.set_comment(comment.into(), |extras| &mut extras.line);
    }

    /// Sets the comment lines below; each line begins with `#` or gets one. Empty removes them.
    pub fn set_foot_comment(&mut self, comment: impl Into<Text>) {
        self.set_comment(comment.into(), |extras| &mut extras.foot);
    }

    fn set_comment(&mut self, comment: Text, slot: impl Fn(&mut Extras) -> &mut Text) {
        if !comment.is_empty() || self.extras.is_some() {
            *slot(self.extras_mut()) = comment;
        }
    }

    /// Takes over the comments of `other` wherever this node has none, slot by slot.
    pub fn fill_comments_from(&mut self, other: &Node) {
        let Some(theirs) = other.extras() else { return };
        let missing = |mine: &Text, their: &Text| mine.is_empty() && !their.is_empty();
        let empty = Extras::default();
        let ours = self.extras().unwrap_or(&empty);
        let (head, line, foot) = (
            missing(&ours.head, &theirs.head),
            missing(&ours.line, &theirs.line),
            missing(&ours.foot, &theirs.foot),
        );
        if head {
            self.extras_mut().head = theirs.head.clone();
        }
        if line {
            self.extras_mut().line = theirs.line.clone();
        }
        if foot {
            self.extras_mut().foot = theirs.foot.clone();
        }
    }

    /// Removes the comments of this node, not those of its children.
    pub fn clear_comments(&mut self) {
        if let Some(extras) = &mut self.extras {
            extras.head = Text::new();
            extras.line = Text::new();
            extras.foot = Text::new();
        }
    }
}

impl Default for Node {
    /// An empty null, as after `key:`.
    fn default() -> Self {
        Self::from_parts(Content::Scalar(Text::new()), Tag::Null, Style::default(), 0, 0)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = crate::emit::node_to_string(self);
        f.debug_struct("Node")
            .field("kind", &self.kind())
            .field("tag", &self.tag_text())
            .field("line", &self.line)
            .field("column", &self.column)
            .field("yaml", &text)
            .finish()
    }
}
