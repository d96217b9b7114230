//! What decoding adds to the tree: followed aliases, merged mappings, checked tags and keys.
//!
//! Everything that can grow by way of aliases is counted.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use crate::error::Error;
use crate::node::{Kind, Node, ScalarStyle, Tag};
use crate::resolve::Resolved;

/// How much of a document may come from aliases: nearly all while it is small, a tenth at the end.
#[derive(Default)]
pub(crate) struct Budget {
    read: Cell<u64>,
    through_aliases: Cell<u64>,
    /// Bytes of text that were copied by way of aliases.
    copied: Cell<usize>,
    duplicates: Cell<bool>,
}

impl Budget {
    pub(crate) fn spend(&self, in_alias: bool) -> Result<(), Error> {
        let read = self.read.get() + 1;
        let through_aliases = self.through_aliases.get() + u64::from(in_alias);
        self.read.set(read);
        self.through_aliases.set(through_aliases);
        let share = through_aliases as f64 / read as f64;
        if through_aliases > 100 && read > 1000 && share > allowed_share(read) {
            return Err(Error::complete("document contains excessive aliasing"));
        }
        Ok(())
    }
}

impl Budget {
    /// Counts the text of a scalar that stands behind an alias: a few aliases of a long text are a lot of it.
    pub(crate) fn copy(&self, text: &str, in_alias: bool) -> Result<(), Error> {
        const MAX_COPIED: usize = 32 << 20;
        if in_alias {
            self.copied.set(self.copied.get().saturating_add(text.len()));
        }
        if self.copied.get() > MAX_COPIED {
            return Err(Error::complete("document contains excessive aliasing"));
        }
        Ok(())
    }

    /// Fails if the mapping has a key twice, and remembers that this was the reason.
    fn refuse_duplicates(&self, node: &Node) -> Result<(), Error> {
        let mut duplicates = Duplicates::default();
        self.duplicates.set(duplicates.collect(node));
        duplicates.into_error().map_or(Ok(()), Err)
    }

    pub(super) fn met_duplicates(&self) -> bool {
        self.duplicates.get()
    }
}

fn allowed_share(read: u64) -> f64 {
    const LOW: f64 = 400_000.0;
    const HIGH: f64 = 4_000_000.0;
    let over = (read as f64 - LOW) / (HIGH - LOW);
    0.99 - 0.89 * over.clamp(0.0, 1.0)
}

/// The node an alias stands for.
pub(crate) fn follow_alias(node: &Node) -> Result<&Node, Error> {
    node.alias_target().ok_or_else(|| {
        let name = node.alias_name().unwrap_or_default();
        Error::complete(format!("anchor '{name}' value contains itself"))
    })
}

/// The meaning of a scalar; its tag must fit its text.
pub(crate) fn resolve_by_tag(node: &Node, text: &str) -> Result<Resolved, Error> {
    let resolved = node.resolved().unwrap_or(Resolved::Str);
    let tag = node.tag();
    let checked = matches!(tag, Tag::Null | Tag::Bool | Tag::Int | Tag::Float | Tag::Timestamp);
    if checked && resolved.tag() != tag {
        let found = resolved.tag().as_str();
        return Err(Error::complete(format!("cannot decode {found} `{text}` as a {}", tag.as_str())));
    }
    Ok(resolved)
}

// === keys ===

/// How many keys that occur twice are listed in one error.
const MAX_DUPLICATES_LISTED: usize = 100;

/// The keys that occur twice in one mapping, each as a problem with the place of the second.
#[derive(Default)]
struct Duplicates {
    problems: Vec<String>,
    first: (u32, u32),
}

impl Duplicates {
    /// Adds those of one mapping, not of its children; tells whether there were any.
    fn collect(&mut self, node: &Node) -> bool {
        if !may_have_duplicates(node) {
            return false;
        }
        let name = |key: &'_ Node| key.scalar().or_else(|| key.alias_name()).unwrap_or_default().to_owned();
        let pairs = node.pairs();
        let mut places: HashMap<(Kind, String), Vec<usize>> = HashMap::new();
        for (at, pair) in pairs.iter().enumerate() {
            places.entry((pair.key.kind(), name(&pair.key))).or_default().push(at);
        }
        let before = self.problems.len();
        for (at, pair) in pairs.iter().enumerate() {
            let same = &places[&(pair.key.kind(), name(&pair.key))];
            for &again in same.iter().skip_while(|&&again| again <= at) {
                if self.problems.len() >= MAX_DUPLICATES_LISTED {
                    return true;
                }
                let second = &pairs[again].key;
                if self.problems.is_empty() {
                    self.first = (second.line(), second.column());
                }
                self.problems.push(format!(
                    "line {}: mapping key {:?} already defined at line {}",
                    second.line(),
                    name(second),
                    pair.key.line()
                ));
            }
        }
        self.problems.len() > before
    }

    fn into_error(self) -> Option<Error> {
        let (line, column) = self.first;
        (!self.problems.is_empty()).then(|| Error::decoding(&self.problems).at(line, column))
    }
}

/// The error for all mappings of a tree that have a key twice. What is inside such a mapping is not
/// looked at.
pub(crate) fn duplicate_keys_in(root: &Node) -> Option<Error> {
    let mut duplicates = Duplicates::default();
    let mut waiting = vec![root];
    while let Some(node) = waiting.pop() {
        if duplicates.collect(node) {
            continue;
        }
        waiting.extend(node.items().iter().rev());
        waiting.extend(node.pairs().iter().rev().flat_map(|pair| [&pair.value, &pair.key]));
    }
    duplicates.into_error()
}

/// A quick look that copies nothing.
fn may_have_duplicates(node: &Node) -> bool {
    let pairs = node.pairs();
    let name = |key: &'_ Node| -> (Kind, usize) { (key.kind(), key.scalar().map_or(0, str::len)) };
    if pairs.len() <= 8 {
        return pairs.iter().enumerate().any(|(at, pair)| {
            pairs[..at].iter().any(|earlier| {
                name(&earlier.key) == name(&pair.key) && earlier.key.scalar() == pair.key.scalar()
            })
        });
    }
    let mut seen = HashSet::with_capacity(pairs.len());
    pairs.iter().any(|pair| match pair.key.scalar() {
        Some(text) => !seen.insert(text),
        None => true,
    })
}

// === merging ===

/// The pairs of a mapping with those it merges in; its own keys win, then the earlier ones.
///
/// Fails on keys that occur twice in one mapping.
pub(crate) fn merged_pairs<'a>(node: &'a Node, budget: &Budget) -> Result<Vec<(&'a Node, &'a Node)>, Error> {
    budget.refuse_duplicates(node)?;
    let pairs = node.pairs();
    let own = || pairs.iter().filter(|pair| !is_merge(&pair.key));
    let mut merged: Vec<_> = own().map(|pair| (&pair.key, &pair.value)).collect();
    if merged.len() == pairs.len() {
        return Ok(merged);
    }
    let mut seen: HashSet<Name<'_>> = own().filter_map(|pair| Name::of(&pair.key)).collect();
    // The last merge key counts, as in go-yaml.
    let source = pairs.iter().rev().find(|pair| is_merge(&pair.key)).map(|pair| &pair.value);
    let mut waiting: Vec<(&Node, bool)> = source.map(|source| (source, true)).into_iter().collect();
    while let Some((node, list_allowed)) = waiting.pop() {
        budget.spend(true)?;
        match node.kind() {
            // An alias must stand for a mapping; only a list written in place may hold several.
            Kind::Alias => waiting.push((follow_alias(node)?, false)),
            Kind::Sequence if list_allowed => {
                waiting.extend(node.items().iter().rev().map(|item| (item, false)));
            }
            Kind::Mapping => {
                budget.refuse_duplicates(node)?;
                for pair in node.pairs() {
                    budget.spend(true)?;
                    if is_merge(&pair.key) {
                        waiting.push((&pair.value, true));
                    } else if Name::of(&pair.key).is_none_or(|name| seen.insert(name)) {
                        merged.push((&pair.key, &pair.value));
                    }
                }
            }
            _ => return Err(Error::complete("map merge requires map or sequence of maps as the value")),
        }
    }
    Ok(merged)
}

/// What tells the keys of merged mappings apart: their text, but null is not the empty string.
#[derive(PartialEq, Eq, Hash)]
enum Name<'a> {
    Null,
    Text(&'a str),
}

impl<'a> Name<'a> {
    fn of(key: &'a Node) -> Option<Self> {
        key.scalar().map(|text| if key.is_null() { Self::Null } else { Self::Text(text) })
    }
}

fn is_merge(key: &Node) -> bool {
    key.scalar() == Some("<<")
        && match key.tag() {
            Tag::Merge => true,
            Tag::None => key.scalar_style() == ScalarStyle::Plain,
            _ => false,
        }
}

// === binary ===

/// Decodes base64, ignoring line breaks.
pub(crate) fn decode_base64(text: &str) -> Result<Vec<u8>, Error> {
    let invalid = || Error::complete("!!binary value contains invalid base64 data");
    let digits: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect();
    if !digits.len().is_multiple_of(4) {
        return Err(invalid());
    }
    let padding = digits.iter().rev().take_while(|&&byte| byte == b'=').count();
    if padding > 2 {
        return Err(invalid());
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3);
    for group in digits[..digits.len() - padding].chunks(4) {
        let mut bits: u32 = 0;
        for &digit in group {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return Err(invalid()),
            };
            bits = (bits << 6) | u32::from(value);
        }
        bits <<= 6 * (4 - group.len());
        let decoded = bits.to_be_bytes();
        bytes.extend_from_slice(&decoded[1..group.len()]);
    }
    Ok(bytes)
}
