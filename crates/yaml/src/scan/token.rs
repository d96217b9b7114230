//! Tokens and the places they start at.

use crate::node::ScalarStyle;
use crate::text::Text;

/// A place in the text, all counted from 0 and in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) index: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Mark {
    /// The place behind a sign of one character.
    pub(crate) fn next(self) -> Self {
        Self { index: self.index + 1, line: self.line, column: self.column + 1 }
    }
}

#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: Mark,
}

#[derive(Debug)]
pub(crate) enum TokenKind {
    StreamStart,
    StreamEnd,
    VersionDirective { major: u8, minor: u8 },
    TagDirective(Box<TagParts>),
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(Text),
    Anchor(Text),
    Tag(Box<TagParts>),
    Scalar(Text, ScalarStyle),
}

/// The handle of a tag and what follows it, or the handle and prefix that a directive defines.
#[derive(Debug)]
pub(crate) struct TagParts {
    pub(crate) handle: Text,
    pub(crate) suffix: String,
}
