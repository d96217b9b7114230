//! Finding and changing what is inside mappings and sequences.
//!
//! Changes keep what surrounds them: a replaced value keeps its comments and its quotes, a removed
//! key leaves the order of the others alone. Shared children are copied, one level, on first write.

use std::hash::Hash as _;
use std::mem;
use std::sync::Arc;

use super::{Content, Kind, Node, Pair, Tag};
use crate::error::Error;
use crate::text::Text;

impl Node {
    // --- mappings ---

    /// The pairs of a mapping in order; empty for other kinds.
    #[must_use]
    pub fn pairs(&self) -> &[Pair] {
        match &self.content {
            Content::Mapping(pairs) => pairs,
            _ => &[],
        }
    }

    /// The pairs for editing; `None` if this is not a mapping.
    pub fn pairs_mut(&mut self) -> Option<&mut Vec<Pair>> {
        match &mut self.content {
            Content::Mapping(pairs) => Some(Arc::make_mut(pairs)),
            _ => None,
        }
    }

    fn position_of(&self, key: &str) -> Option<usize> {
        self.pairs().iter().position(|pair| pair.key.scalar() == Some(key))
    }

    /// The first pair whose key has this text.
    #[must_use]
    pub fn pair(&self, key: &str) -> Option<&Pair> {
        self.pairs().iter().find(|pair| pair.key.scalar() == Some(key))
    }

    /// The first pair whose key has this text, for editing key and value.
    pub fn pair_mut(&mut self, key: &str) -> Option<&mut Pair> {
        let at = self.position_of(key)?;
        self.pairs_mut()?.get_mut(at)
    }

    /// The value of a key in a mapping.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.pair(key).map(|pair| &pair.value)
    }

    /// The value of a key in a mapping, for editing.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.pair_mut(key).map(|pair| &mut pair.value)
    }

    /// Whether the mapping has the key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.position_of(key).is_some()
    }

    /// The text of a string value, a shorthand for `get` and `as_str`.
    #[must_use]
    pub fn get_str(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Node::as_str)
    }

    /// Sets the value of a key, at its place if it exists, else at the end.
    ///
    /// A replaced value hands on its style if both are of the same kind, as field setters of kyaml do.
    /// Its comments stay too, where the new value has none; kyaml drops them. Null and other non-mappings become a mapping first.
    pub fn set(&mut self, key: &str, mut value: Node) {
        if let Some(old) = self.get_mut(key) {
            value.fill_comments_from(old);
            if value.kind() == old.kind() {
                value.style = old.style;
            }
            *old = value;
        } else {
            self.push_pair(Pair { key: Node::verbatim(key), value });
        }
    }

    /// Replaces or adds a value exactly as given: no comment and no style of the old one stays.
    pub fn replace(&mut self, key: &str, value: Node) -> Option<Node> {
        if let Some(old) = self.get_mut(key) {
            return Some(mem::replace(old, value));
        }
        self.push_pair(Pair { key: Node::verbatim(key), value });
        None
    }

    /// Adds a pair at the end without looking for its key.
    pub fn push_pair(&mut self, pair: Pair) {
        self.become_kind(Kind::Mapping);
        if let Some(pairs) = self.pairs_mut() {
            pairs.push(pair);
        }
    }

    /// Adds a pair before position `at`, or at the end if there are fewer.
    pub fn insert_pair(&mut self, at: usize, pair: Pair) {
        self.become_kind(Kind::Mapping);
        if let Some(pairs) = self.pairs_mut() {
            pairs.insert(at.min(pairs.len()), pair);
        }
    }

    /// Removes the first pair with the key and returns it.
    pub fn remove(&mut self, key: &str) -> Option<Pair> {
        let at = self.position_of(key)?;
        Some(self.pairs_mut()?.remove(at))
    }

    /// Keeps the pairs that `keep` approves of.
    pub fn retain_pairs(&mut self, keep: impl FnMut(&Pair) -> bool) {
        if let Some(pairs) = self.pairs_mut() {
            pairs.retain(keep);
        }
    }

    /// The value of a key, created as an empty mapping if missing or null.
    pub fn entry_mapping(&mut self, key: &str) -> &mut Node {
        self.entry_of_kind(key, Kind::Mapping)
    }

    /// The value of a key, created as an empty sequence if missing or null.
    pub fn entry_sequence(&mut self, key: &str) -> &mut Node {
        self.entry_of_kind(key, Kind::Sequence)
    }

    fn entry_of_kind(&mut self, key: &str, kind: Kind) -> &mut Node {
        self.become_kind(Kind::Mapping);
        let at = self.position_of(key).unwrap_or_else(|| {
            self.push_pair(Pair { key: Node::verbatim(key), value: Node::default() });
            self.pairs().len() - 1
        });
        let Content::Mapping(pairs) = &mut self.content else { unreachable!("just made a mapping") };
        let value = &mut Arc::make_mut(pairs)[at].value;
        value.become_kind(kind);
        value
    }

    /// Turns the node into an empty collection unless it is of that kind already; comments stay.
    fn become_kind(&mut self, kind: Kind) {
        if self.kind() == kind {
            return;
        }
        let (content, tag) = match kind {
            Kind::Mapping => (Content::Mapping(Arc::default()), Tag::Map),
            _ => (Content::Sequence(Arc::default()), Tag::Seq),
        };
        self.content = content;
        self.tag = tag;
        self.style = super::Style::default();
    }

    // --- sequences ---

    /// The items of a sequence in order; empty for other kinds.
    #[must_use]
    pub fn items(&self) -> &[Node] {
        match &self.content {
            Content::Sequence(items) => items,
            _ => &[],
        }
    }

    /// The items for editing; `None` if this is not a sequence.
    pub fn items_mut(&mut self) -> Option<&mut Vec<Node>> {
        match &mut self.content {
            Content::Sequence(items) => Some(Arc::make_mut(items)),
            _ => None,
        }
    }

    /// Adds an item at the end; null and other non-sequences become a sequence first.
    pub fn push(&mut self, item: Node) {
        self.become_kind(Kind::Sequence);
        if let Some(items) = self.items_mut() {
            items.push(item);
        }
    }

    // --- both ---

    /// How many pairs or items there are; 0 for scalars and aliases.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.content {
            Content::Mapping(pairs) => pairs.len(),
            Content::Sequence(items) => items.len(),
            _ => 0,
        }
    }

    /// Whether there are no pairs or items; true for scalars and aliases.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Follows keys, and decimal indexes into sequences, downwards.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, step| match node.kind() {
            Kind::Sequence => node.items().get(step.parse::<usize>().ok()?),
            _ => node.get(step),
        })
    }

    /// Follows keys, and decimal indexes into sequences, downwards, for editing.
    pub fn at_mut(&mut self, path: &[&str]) -> Option<&mut Node> {
        path.iter().try_fold(self, |node, step| match node.kind() {
            Kind::Sequence => node.items_mut()?.get_mut(step.parse::<usize>().ok()?),
            _ => node.get_mut(step),
        })
    }

    // --- scalars ---

    /// Changes a scalar's text, keeping tag, style and comments; other kinds are left alone.
    pub fn set_scalar(&mut self, text: impl Into<Text>) {
        if let Content::Scalar(old) = &mut self.content {
            *old = text.into();
        }
    }

    // --- checks ---

    /// Fails if a mapping anywhere in this tree has a key twice.
    ///
    /// # Errors
    /// The text is that of a strict decoder and names every such key; the place is that of the first.
    pub fn check_unique_keys(&self) -> Result<(), Error> {
        crate::de::duplicate_keys_in(self).map_or(Ok(()), Err)
    }

    /// About how many bytes of text the tree comes to, without indentation and comments; counting ends at `most`.
    /// Children that are shared count as often as they occur.
    #[must_use]
    pub fn text_size(&self, most: usize) -> usize {
        const PER_NODE: usize = 2;
        let mut size = 0;
        let mut waiting = vec![self];
        while let Some(node) = waiting.pop() {
            let text = node.scalar().or_else(|| node.alias_name()).map_or(0, str::len);
            size += text + PER_NODE;
            // What waits is at least as much again.
            if size + waiting.len() + node.len() >= most {
                return most;
            }
            waiting.extend(node.items());
            waiting.extend(node.pairs().iter().flat_map(|pair| [&pair.key, &pair.value]));
        }
        size
    }

    /// Feeds a hasher so that trees for which [`Node::same_value`] holds come out alike.
    pub fn hash_value(&self, state: &mut impl std::hash::Hasher) {
        let mut waiting = vec![self];
        while let Some(node) = waiting.pop() {
            state.write_u8(node.kind() as u8);
            match &node.content {
                Content::Alias(alias) => alias.name.hash(state),
                Content::Scalar(text) => {
                    if node.tag != Tag::Null {
                        text.hash(state);
                    }
                    node.tag_text().hash(state);
                }
                Content::Sequence(_) | Content::Mapping(_) => {
                    state.write_usize(node.len());
                    node.tag_text().hash(state);
                }
            }
            waiting.extend(node.items());
            waiting.extend(node.pairs().iter().flat_map(|pair| [&pair.key, &pair.value]));
        }
    }

    /// Whether both trees hold the same values: kinds, tags, texts and order, whatever the style,
    /// the comments and the positions. Nulls are equal, aliases if their names are.
    #[must_use]
    pub fn same_value(&self, other: &Node) -> bool {
        let mut waiting = vec![(self, other)];
        while let Some((left, right)) = waiting.pop() {
            let level = match (&left.content, &right.content) {
                (Content::Scalar(a), Content::Scalar(b)) => {
                    (left.tag == Tag::Null || a == b) && left.tag_text() == right.tag_text()
                }
                (Content::Alias(a), Content::Alias(b)) => a.name == b.name,
                (Content::Sequence(a), Content::Sequence(b)) => {
                    if !Arc::ptr_eq(a, b) {
                        waiting.extend(a.iter().zip(b.iter()));
                    }
                    a.len() == b.len() && left.tag_text() == right.tag_text()
                }
                (Content::Mapping(a), Content::Mapping(b)) => {
                    if !Arc::ptr_eq(a, b) {
                        waiting.extend(
                            a.iter()
                                .zip(b.iter())
                                .flat_map(|(a, b)| [(&a.key, &b.key), (&a.value, &b.value)]),
                        );
                    }
                    a.len() == b.len() && left.tag_text() == right.tag_text()
                }
                _ => false,
            };
            if !level {
                return false;
            }
        }
        true
    }
}
