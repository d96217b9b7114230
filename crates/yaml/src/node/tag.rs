//! Tags: the well-known ones as an enum, and the change between their long and short forms.

use std::borrow::Cow;

const LONG_PREFIX: &str = "tag:yaml.org,2002:";

/// The type of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tag {
    /// No tag at all: made by a program and printed as the text stands.
    #[default]
    None,
    /// `!!null`
    Null,
    /// `!!bool`
    Bool,
    /// `!!str`
    Str,
    /// `!!int`
    Int,
    /// `!!float`
    Float,
    /// `!!timestamp`
    Timestamp,
    /// `!!seq`
    Seq,
    /// `!!map`
    Map,
    /// `!!binary`
    Binary,
    /// `!!merge`, the tag of an unquoted `<<`.
    Merge,
    /// Any other tag; its text is kept with the node.
    Other,
}

impl Tag {
    /// The short form; empty for [`Tag::None`] and [`Tag::Other`].
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None | Self::Other => "",
            Self::Null => "!!null",
            Self::Bool => "!!bool",
            Self::Str => "!!str",
            Self::Int => "!!int",
            Self::Float => "!!float",
            Self::Timestamp => "!!timestamp",
            Self::Seq => "!!seq",
            Self::Map => "!!map",
            Self::Binary => "!!binary",
            Self::Merge => "!!merge",
        }
    }

    pub(crate) fn from_short(short: &str) -> Self {
        match short {
            "" => Self::None,
            "!!null" => Self::Null,
            "!!bool" => Self::Bool,
            "!!str" => Self::Str,
            "!!int" => Self::Int,
            "!!float" => Self::Float,
            "!!timestamp" => Self::Timestamp,
            "!!seq" => Self::Seq,
            "!!map" => Self::Map,
            "!!binary" => Self::Binary,
            "!!merge" => Self::Merge,
            _ => Self::Other,
        }
    }
}

/// `tag:yaml.org,2002:str` as `!!str`; other tags as they are.
pub(crate) fn shorten(tag: &str) -> Cow<'_, str> {
    match tag.strip_prefix(LONG_PREFIX) {
        Some(name) => Cow::Owned(format!("!!{name}")),
        None => Cow::Borrowed(tag),
    }
}

/// How a tag in short form is written: the handle, and what follows it unescaped.
///
/// An empty handle means the verbatim form `!<…>`.
pub(crate) fn handle_and_suffix(short: &str) -> (&'static str, &str) {
    if let Some(suffix) = short.strip_prefix("!!") {
        ("!!", suffix)
    } else if let Some(suffix) = short.strip_prefix('!') {
        ("!", suffix)
    } else {
        ("", short)
    }
}
