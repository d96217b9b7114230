//! The emitter: a tree in, text out, byte for byte as kyaml writes it.
//!
//! The layout rules live in [`walk`], the choice of quotes in [`scalar`], indentation and line ends
//! in [`writer`]. Where the original's output is known to do damage, [`Quirks`] decides whether to
//! follow it, and nothing else does.

mod scalar;
mod walk;
mod writer;

#[cfg(test)]
mod tests;

use self::walk::{LeftOver, Walker};
use crate::node::{Document, Node};

/// How the dashes of a sequence stand to the key above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SequenceStyle {
    /// Flush with the key.
    #[default]
    Compact,
    /// Two columns further in.
    Wide,
}

/// Whether to repeat the original's mistakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fidelity {
    /// Values never change and no comment is lost; otherwise as the original.
    #[default]
    Faithful,
    /// Every byte as the original, damage included.
    Exact,
}

/// How to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmitOptions {
    /// Where dashes go.
    pub sequences: SequenceStyle,
    /// Whether to repeat the original's mistakes.
    pub fidelity: Fidelity,
}

/// The original's mistakes, one switch each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quirks {
    /// Folded scalars gain blank lines, and with them perhaps another value.
    pub(crate) growing_folds: bool,
    /// Nulls without text turn into `''` in flow style and as keys.
    pub(crate) null_as_empty_string: bool,
    /// Comments are lost, doubled or break the syntax: behind a key before a flow collection, an alias
    /// or another comment; behind a key inside a flow mapping or before an anchor; behind a block;
    /// below a key followed by an alias; of several lines behind a block scalar.
    pub(crate) careless_comments: bool,
    /// Characters beyond the basic plane are escaped.
    pub(crate) astral_escaped: bool,
    /// `<<` is written as `!!merge <<`.
    pub(crate) merge_tagged: bool,
    /// Line and paragraph separators are written raw.
    pub(crate) raw_separators: bool,
    /// A block scalar that keeps its trailing line breaks takes over the empty line before a comment.
    pub(crate) kept_breaks_grow: bool,
    /// A block scalar that starts with a tab lacks the hint without which it cannot be read.
    pub(crate) leading_tab_unmarked: bool,
    /// A timestamp turns into a string in flow style.
    pub(crate) timestamps_quoted: bool,
    /// A literal block with a space at the end of a line turns into one double-quoted line.
    pub(crate) trailing_spaces_quoted: bool,
    /// A single-quoted text that ends in a line break has its closing quote in the first column.
    pub(crate) quote_in_first_column: bool,
}

impl Fidelity {
    pub(crate) fn quirks(self) -> Quirks {
        let exact = self == Self::Exact;
        Quirks {
            growing_folds: exact,
            null_as_empty_string: exact,
            careless_comments: exact,
            astral_escaped: exact,
            merge_tagged: exact,
            raw_separators: exact,
            kept_breaks_grow: exact,
            leading_tab_unmarked: exact,
            timestamps_quoted: exact,
            trailing_spaces_quoted: exact,
            quote_in_first_column: exact,
        }
    }
}

/// Writes documents one after the other, separated by `---`.
#[derive(Debug)]
pub struct Emitter {
    out: String,
    options: EmitOptions,
    limit: usize,
    written: usize,
    /// Comments that found no place; the original writes them into the next document.
    left_over: LeftOver,
}

impl Emitter {
    /// An emitter with nothing written yet.
    #[must_use]
    pub fn new(options: EmitOptions) -> Self {
        Self::with_limit(options, usize::MAX)
    }

    /// An emitter that stops soon after it has written this many bytes; [`Emitter::finish_within`] tells.
    #[must_use]
    pub fn with_limit(options: EmitOptions, limit: usize) -> Self {
        Self { out: String::new(), options, limit, written: 0, left_over: LeftOver::default() }
    }

    /// Changes where dashes go in the documents to come.
    pub fn set_sequences(&mut self, sequences: SequenceStyle) {
        self.options.sequences = sequences;
    }

    /// Adds a document with its comments.
    pub fn document(&mut self, document: &Document) {
        self.write(&document.root, &document.head_comment, &document.foot_comment);
    }

    /// Adds a node as a document of its own.
    pub fn node(&mut self, root: &Node) {
        self.write(root, "", "");
    }

    fn write(&mut self, root: &Node, head: &str, foot: &str) {
        if self.out.len() > self.limit {
            return;
        }
        let left_over = std::mem::take(&mut self.left_over);
        let mut walker = Walker::new(std::mem::take(&mut self.out), self.options, self.limit, &left_over);
        walker.document(root, head, foot, self.written == 0);
        (self.out, self.left_over) = walker.finish();
        self.written += 1;
    }

    /// The text so far.
    #[must_use]
    pub fn finish(self) -> String {
        self.out
    }

    /// The text so far; nothing if it is longer than the limit.
    #[must_use]
    pub fn finish_within(self) -> Option<String> {
        (self.out.len() <= self.limit).then_some(self.out)
    }
}

/// Writes one node: compact sequences, [`Fidelity::Faithful`].
#[must_use]
pub fn node_to_string(node: &Node) -> String {
    node_to_string_with(node, EmitOptions::default())
}

/// Writes one node.
#[must_use]
pub fn node_to_string_with(node: &Node, options: EmitOptions) -> String {
    let mut emitter = Emitter::new(options);
    emitter.node(node);
    emitter.finish()
}

/// Writes one node, unless that takes more than `limit` bytes. Little more than that is ever held.
#[must_use]
pub fn node_to_string_within(node: &Node, options: EmitOptions, limit: usize) -> Option<String> {
    let mut emitter = Emitter::with_limit(options, limit);
    emitter.node(node);
    emitter.finish_within()
}

/// Writes a stream of documents: compact sequences, [`Fidelity::Faithful`].
#[must_use]
pub fn to_string<'a>(documents: impl IntoIterator<Item = &'a Document>) -> String {
    to_string_with(documents, EmitOptions::default())
}

/// Writes a stream of documents.
#[must_use]
pub fn to_string_with<'a>(documents: impl IntoIterator<Item = &'a Document>, options: EmitOptions) -> String {
    let mut emitter = Emitter::new(options);
    for document in documents {
        emitter.document(document);
    }
    emitter.finish()
}
