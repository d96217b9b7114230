//! What scalars and aliases hold, as text and as what it means.

use super::{Content, Node, ScalarStyle, Tag};
use crate::resolve::{Resolved, resolve, resolve_tagged};
use crate::text::Text;

impl Node {
    /// Whether both are one collection: the same children, in memory, unchanged since one was
    /// cloned from the other. Scalars never are.
    #[must_use]
    pub fn shares_children_with(&self, other: &Node) -> bool {
        match (self.content(), other.content()) {
            (Content::Mapping(a), Content::Mapping(b)) => std::sync::Arc::ptr_eq(a, b),
            (Content::Sequence(a), Content::Sequence(b)) => std::sync::Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// The text of a scalar whatever its type; `None` for other kinds.
    #[must_use]
    pub fn scalar(&self) -> Option<&str> {
        self.scalar_text().map(Text::as_str)
    }

    /// The text of a scalar, to be kept without copying.
    #[must_use]
    pub fn scalar_text(&self) -> Option<&Text> {
        match &self.content {
            Content::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// The name an alias refers to.
    #[must_use]
    pub fn alias_name(&self) -> Option<&str> {
        match &self.content {
            Content::Alias(alias) => Some(&alias.name),
            _ => None,
        }
    }

    /// The node an alias stood for when it was read; `None` also if it refers to its own parent.
    #[must_use]
    pub fn alias_target(&self) -> Option<&Node> {
        match &self.content {
            Content::Alias(alias) => alias.target.as_ref(),
            _ => None,
        }
    }

    /// The meaning of a scalar; `None` for other kinds.
    #[must_use]
    pub fn resolved(&self) -> Option<Resolved> {
        let text = self.scalar()?;
        Some(match self.tag {
            Tag::Str | Tag::Merge | Tag::Binary | Tag::Other | Tag::Seq | Tag::Map => Resolved::Str,
            Tag::None if self.style.scalar == ScalarStyle::Plain => resolve(text),
            Tag::None => Resolved::Str,
            Tag::Timestamp => resolve(text),
            Tag::Float => match resolve_tagged(text) {
                Resolved::Int(value) => Resolved::Float(value as f64),
                other => other,
            },
            Tag::Null | Tag::Bool | Tag::Int => resolve_tagged(text),
        })
    }

    /// The text, if this scalar is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        let text = self.scalar()?;
        // Only strings may keep their text unexamined, which spares resolving most scalars.
        let string = self.tag == Tag::Str || self.resolved() == Some(Resolved::Str);
        string.then_some(text)
    }

    /// The value, if this scalar is a boolean.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self.resolved()? {
            Resolved::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The value, if this scalar is a whole number that fits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self.resolved()? {
            Resolved::Int(value) => Some(value),
            _ => None,
        }
    }

    /// The value, if this scalar is a whole number that is not negative.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match self.resolved()? {
            Resolved::Int(value) => u64::try_from(value).ok(),
            Resolved::Uint(value) => Some(value),
            _ => None,
        }
    }

    /// The value, if this scalar is any number.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self.resolved()? {
            Resolved::Int(value) => Some(value as f64),
            Resolved::Uint(value) => Some(value as f64),
            Resolved::Float(value) => Some(value),
            _ => None,
        }
    }

    /// Whether this scalar is null, spelled out or empty.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.resolved() == Some(Resolved::Null)
    }
}
