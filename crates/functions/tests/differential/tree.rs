//! YAML to be written in many ways: plain values, and a writer that varies quotes, brackets and comments.

use crate::random::Random;

#[derive(Clone, Debug)]
pub(crate) enum Tree {
    /// A scalar as it stands in the text.
    Raw(String),
    /// A string, quoted in any way that keeps it one.
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

/// A string.
pub(crate) fn text(value: impl Into<String>) -> Tree {
    Tree::Text(value.into())
}

/// A scalar that is written as it is.
pub(crate) fn raw(value: &str) -> Tree {
    Tree::Raw(value.to_owned())
}

/// A mapping.
pub(crate) fn map<const N: usize>(pairs: [(&str, Tree); N]) -> Tree {
    Tree::Map(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// A sequence.
pub(crate) fn list(items: impl IntoIterator<Item = Tree>) -> Tree {
    Tree::List(items.into_iter().collect())
}

impl Tree {
    /// Adds a key, or replaces its value.
    pub(crate) fn set(&mut self, key: &str, value: Tree) {
        if let Self::Map(pairs) = self {
            match pairs.iter_mut().find(|(name, _)| name == key) {
                Some((_, old)) => *old = value,
                None => pairs.push((key.to_owned(), value)),
            }
        }
    }

    /// Puts something unexpected somewhere.
    pub(crate) fn wreck(&mut self, random: &mut Random) {
        match self {
            Self::Map(pairs) if !pairs.is_empty() && !random.one_in(4) => {
                let at = random.below(pairs.len());
                if random.one_in(5) {
                    pairs.remove(at);
                } else {
                    pairs[at].1.wreck(random);
                }
            }
            Self::List(items) if !items.is_empty() && !random.one_in(4) => {
                let at = random.below(items.len());
                items[at].wreck(random);
            }
            _ => {
                *self = match random.below(7) {
                    0 => raw("null"),
                    1 => raw("5"),
                    2 => raw("true"),
                    3 => list([text("odd")]),
                    4 => Self::Map(Vec::new()),
                    5 => text(""),
                    _ => text("odd"),
                }
            }
        }
    }

    /// Writes the tree as a block below `indent` spaces.
    pub(crate) fn write(&self, random: &mut Random, indent: usize, comments: bool) -> String {
        let mut out = String::new();
        Writer { random, comments }.block(self, indent, &mut out);
        out
    }
}

struct Writer<'a> {
    random: &'a mut Random,
    comments: bool,
}

impl Writer<'_> {
    fn block(&mut self, tree: &Tree, indent: usize, out: &mut String) {
        let pad = " ".repeat(indent);
        match tree {
            Tree::Map(pairs) if !pairs.is_empty() => {
                for (key, value) in pairs {
                    self.head_comment(&pad, out);
                    *out += &format!("{pad}{}:", self.key(key));
                    self.value(value, indent, out);
                }
            }
            Tree::List(items) if !items.is_empty() => {
                for item in items {
                    self.head_comment(&pad, out);
                    self.item(item, indent, out);
                }
            }
            flat => *out += &format!("{pad}{}\n", self.flow(flat)),
        }
    }

    fn value(&mut self, value: &Tree, indent: usize, out: &mut String) {
        let nested = match value {
            Tree::Map(pairs) => !pairs.is_empty(),
            Tree::List(items) => !items.is_empty(),
            _ => false,
        };
        if nested && !self.random.one_in(12) {
            self.line_comment(out);
            out.push('\n');
            let wide = matches!(value, Tree::Map(_)) || self.random.one_in(3);
            self.block(value, if wide { indent + 2 } else { indent }, out);
        } else {
            *out += &format!(" {}", self.flow(value));
            self.line_comment(out);
            out.push('\n');
        }
    }

    fn item(&mut self, item: &Tree, indent: usize, out: &mut String) {
        let pad = " ".repeat(indent);
        match item {
            Tree::Map(pairs) if !pairs.is_empty() => {
                let mut block = String::new();
                let comments = std::mem::replace(&mut self.comments, false);
                self.block(item, indent + 2, &mut block);
                self.comments = comments;
                *out += &format!("{pad}- {}", block.trim_start());
            }
            other => {
                *out += &format!("{pad}- {}", self.flow(other));
                self.line_comment(out);
                out.push('\n');
            }
        }
    }

    fn flow(&mut self, tree: &Tree) -> String {
        match tree {
            Tree::Raw(raw) => raw.clone(),
            Tree::Text(text) => self.quoted(text),
            Tree::List(items) => {
                let items: Vec<String> = items.iter().map(|item| self.flow(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Tree::Map(pairs) => {
                let pairs: Vec<String> = pairs
                    .iter()
                    .map(|(key, value)| format!("{}: {}", self.key(key), self.flow(value)))
                    .collect();
                format!("{{{}}}", pairs.join(", "))
            }
        }
    }

    fn key(&mut self, key: &str) -> String {
        let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || "-./_".contains(c))
            && key.starts_with(|c: char| c.is_ascii_alphabetic())
            && !is_special(key);
        if plain && !self.random.one_in(30) { key.to_owned() } else { format!("{key:?}") }
    }

    fn quoted(&mut self, text: &str) -> String {
        let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "-./_:@".contains(c))
            && !text.ends_with(':')
            && !is_special(text);
        match self.random.below(6) {
            0 => format!("{text:?}"),
            1 if !text.contains('\n') => format!("'{}'", text.replace('\'', "''")),
            _ if plain => text.to_owned(),
            _ => format!("{text:?}"),
        }
    }

    fn head_comment(&mut self, pad: &str, out: &mut String) {
        if self.comments && self.random.one_in(14) {
            *out += &format!("{pad}# above {}\n", self.random.below(100));
        }
    }

    fn line_comment(&mut self, out: &mut String) {
        if self.comments && self.random.one_in(10) {
            *out += &format!(" # beside {}", self.random.below(100));
        }
    }
}

fn is_special(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    matches!(
        lower.as_str(),
        "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" | "null" | "inf" | "nan"
    )
}
