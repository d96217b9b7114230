//! [`Text`]: a string that is either a slice of the parsed source or its own.
//!
//! Scalars, anchors and comments are mostly unchanged pieces of the input. A `Text` points into the
//! shared source instead of copying, so a tree costs little, is `'static`, and may cross threads.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// An immutable string of at most 4 GiB that is cheap to clone and to slice.
///
/// It dereferences to `str`. A text cut from a document keeps that document's source alive.
#[derive(Clone, Default)]
pub struct Text {
    buffer: Option<Arc<String>>,
    start: u32,
    len: u32,
}

impl Text {
    /// The empty text; it holds no memory.
    #[must_use]
    pub const fn new() -> Self {
        Self { buffer: None, start: 0, len: 0 }
    }

    /// The text as a string slice.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.buffer {
            Some(buffer) => {
                let start = self.start as usize;
                buffer.get(start..start + self.len as usize).unwrap_or_default()
            }
            None => "",
        }
    }

    /// A piece of a shared source; `range` lies on character borders within the first 4 GiB.
    pub(crate) fn from_source(source: &Arc<String>, range: Range<usize>) -> Self {
        if range.is_empty() {
            return Self::new();
        }
        Self {
            buffer: Some(Arc::clone(source)),
            start: length_as_u32(range.start),
            len: length_as_u32(range.end - range.start),
        }
    }

    /// A piece of this text, sharing its memory.
    pub(crate) fn slice(&self, range: Range<usize>) -> Self {
        if range.is_empty() {
            return Self::new();
        }
        Self {
            buffer: self.buffer.clone(),
            start: self.start + length_as_u32(range.start),
            len: length_as_u32(range.end - range.start),
        }
    }

    /// Both texts, the other one on a new line.
    pub(crate) fn joined_with(self, other: Text) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Self::from(format!("{self}\n{other}")),
        }
    }

    /// Moves the text out, leaving an empty one.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

fn length_as_u32(length: usize) -> u32 {
    u32::try_from(length).expect("a text is shorter than 4 GiB")
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self
    }
}

impl From<String> for Text {
    fn from(string: String) -> Self {
        if string.is_empty() {
            return Self::new();
        }
        let len = length_as_u32(string.len());
        Self { buffer: Some(Arc::new(string)), start: 0, len }
    }
}

impl From<&str> for Text {
    fn from(string: &str) -> Self {
        Self::from(string.to_owned())
    }
}

impl From<&String> for Text {
    fn from(string: &String) -> Self {
        Self::from(string.as_str())
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.as_str().to_owned()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other)
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_shares_the_source_and_reads_like_a_string() {
        let source = Arc::new(String::from("name: café"));
        let text = Text::from_source(&source, 6..11);
        assert_eq!(text, "café");
        assert_eq!(text.slice(0..3), "caf");
        assert_eq!(Arc::strong_count(&source), 2);
    }
}
