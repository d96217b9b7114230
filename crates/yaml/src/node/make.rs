//! Making nodes: one constructor for each way a string gets its quotes.

use std::sync::Arc;

use super::{Alias, Content, Node, Pair, ScalarStyle, Style, Tag};
use crate::resolve::{Resolved, is_base60, is_yaml11_bool, resolve};
use crate::text::Text;

impl Node {
    /// A string as a marshalled structure holds it, good for readers of YAML 1.1 and 1.2.
    ///
    /// A text with line breaks becomes a literal block. One that would not read back as a string,
    /// such as `5`, `yes` or `12:30`, gets double quotes. All other text stays plain.
    #[must_use]
    pub fn string(text: impl Into<Text>) -> Self {
        let text = text.into();
        let style = if text.contains('\n') {
            ScalarStyle::Literal
        } else if resolve(&text) != Resolved::Str || is_base60(&text) || is_yaml11_bool(&text) {
            ScalarStyle::DoubleQuoted
        } else {
            ScalarStyle::Plain
        };
        Self::string_with_style(text, style)
    }

    /// A string as a field setter makes it: double quotes if YAML 1.1 reads the bare text as anything
    /// but a string, structure included (`- a`, `a: b`, `#a`), otherwise as [`Node::string_as_read`].
    #[must_use]
    pub fn string_for_field(text: impl Into<Text>) -> Self {
        let text = text.into();
        let style = if reads_as_non_string(&text) { ScalarStyle::DoubleQuoted } else { ScalarStyle::Plain };
        Self::string_with_style(text, style)
    }

    /// A string without a style of its own, as a function's output has it: quoted only if the text
    /// resolves to another type by go-yaml's rules, so `yes` and `12:30` stay bare.
    #[must_use]
    pub fn string_as_read(text: impl Into<Text>) -> Self {
        Self::string_with_style(text, ScalarStyle::Plain)
    }

    /// A string in single quotes, as annotations set by a reader are written.
    #[must_use]
    pub fn single_quoted(text: impl Into<Text>) -> Self {
        Self::string_with_style(text, ScalarStyle::SingleQuoted)
    }

    /// A string with the given style.
    #[must_use]
    pub fn string_with_style(text: impl Into<Text>, scalar: ScalarStyle) -> Self {
        let style = Style { scalar, ..Style::default() };
        Self::from_parts(Content::Scalar(text.into()), Tag::Str, style, 0, 0)
    }

    /// A scalar without tag or style: printed as it stands, whatever it then means.
    #[must_use]
    pub fn verbatim(text: impl Into<Text>) -> Self {
        Self::from_parts(Content::Scalar(text.into()), Tag::None, Style::default(), 0, 0)
    }

    fn resolved_scalar(text: impl Into<Text>, tag: Tag) -> Self {
        Self::from_parts(Content::Scalar(text.into()), tag, Style::default(), 0, 0)
    }

    /// A null written as `null`.
    #[must_use]
    pub fn null() -> Self {
        Self::resolved_scalar("null", Tag::Null)
    }

    /// `true` or `false`.
    #[must_use]
    pub fn bool(value: bool) -> Self {
        Self::resolved_scalar(if value { "true" } else { "false" }, Tag::Bool)
    }

    /// A whole number.
    #[must_use]
    pub fn int(value: i64) -> Self {
        Self::resolved_scalar(value.to_string(), Tag::Int)
    }

    /// A whole number that is not negative.
    #[must_use]
    pub fn uint(value: u64) -> Self {
        Self::resolved_scalar(value.to_string(), Tag::Int)
    }

    /// A number in its shortest form that reads back the same.
    #[must_use]
    pub fn float(value: f64) -> Self {
        let text = crate::number::format_shortest(value);
        // A whole value prints without a point and then reads back as an integer.
        let tag = resolve(&text).tag();
        Self::resolved_scalar(text, tag)
    }

    /// An empty mapping.
    #[must_use]
    pub fn mapping() -> Self {
        Self::from_pairs(Vec::new())
    }

    /// A mapping of the given pairs, in their order.
    #[must_use]
    pub fn from_pairs(pairs: Vec<Pair>) -> Self {
        Self::from_parts(Content::Mapping(Arc::new(pairs)), Tag::Map, Style::default(), 0, 0)
    }

    /// An empty sequence.
    #[must_use]
    pub fn sequence() -> Self {
        Self::from_items(Vec::new())
    }

    /// A sequence of the given items, in their order.
    #[must_use]
    pub fn from_items(items: Vec<Node>) -> Self {
        Self::from_parts(Content::Sequence(Arc::new(items)), Tag::Seq, Style::default(), 0, 0)
    }

    /// A reference to the node that carries the anchor `name`.
    #[must_use]
    pub fn alias(name: impl Into<Text>, target: Option<Node>) -> Self {
        let alias = Alias { name: name.into(), target };
        Self::from_parts(Content::Alias(Arc::new(alias)), Tag::None, Style::default(), 0, 0)
    }
}

impl Pair {
    /// A pair with a string key, quoted as [`Node::string`] would.
    #[must_use]
    pub fn new(key: impl Into<Text>, value: Node) -> Self {
        Self { key: Node::string(key), value }
    }
}

impl FromIterator<Node> for Node {
    fn from_iter<I: IntoIterator<Item = Node>>(items: I) -> Self {
        Self::from_items(items.into_iter().collect())
    }
}

impl FromIterator<Pair> for Node {
    fn from_iter<I: IntoIterator<Item = Pair>>(pairs: I) -> Self {
        Self::from_pairs(pairs.into_iter().collect())
    }
}

/// Whether a YAML 1.1 reader sees something other than a string in the bare text.
#[must_use]
pub fn reads_as_non_string(text: &str) -> bool {
    if text.is_empty() || text.contains('\n') {
        return false;
    }
    if is_plain_word(text) {
        return false;
    }
    match crate::parse_first(text) {
        Ok(Some(document)) => match document.root.resolved() {
            None => document.root.alias_name().is_none(),
            Some(Resolved::Str) => {
                let root = &document.root;
                root.scalar_style() == ScalarStyle::Plain
                    && root.tag() == Tag::Str
                    && !root.has_explicit_tag()
                    && root.scalar().is_some_and(is_yaml11_bool)
            }
            Some(_) => true,
        },
        Ok(None) => true,
        Err(_) => false,
    }
}

/// Letters and dashes that are not a word with a meaning: the common case, decided without parsing.
fn is_plain_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'/' | b'_'))
        && resolve(text) == Resolved::Str
        && !is_yaml11_bool(text)
}
