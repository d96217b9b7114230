//! What a function has no business changing, put back: comments, the order of keys, block style.
//!
//! A function answers with values. [`restore_comments`] gives each value the comments that it had,
//! [`restore_order`] puts keys where they were, [`restore_style`] undoes the braces and quotes of an answer in
//! JSON. Entries of lists are told apart by what names them, else by their value, and by position only as a last
//! resort. A value that changed its type simply has nothing to get back.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use loggia_yaml::{Kind, Node, ScalarStyle, Tag};

use crate::resource::Resource;

/// Nothing that people write nests deeper, and the stack has an end.
const MAX_DEPTH: usize = 200;

/// What names the entries of lists, the most telling first.
const NAMING_KEYS: [&str; 8] = ["name", "mountPath", "containerPort", "key", "port", "ip", "image", "type"];

/// Puts back what a function's answer lost of a resource: comments and order, and if it was written in braces
/// while the original was not, the style.
pub fn restore(original: &Resource, answer: &mut Resource) {
    if answer.node().is_flow() && !original.node().is_flow() {
        restore_style(original.node(), answer.node_mut());
    }
    restore_header(original, answer);
    restore_comments(original.node(), answer.node_mut());
    restore_order(original.node(), answer.node_mut());
}

/// The comments above and below a document. In a list the one above travels on the root, and stays there if
/// the first key has one of its own and the resource changed: kpt's users know it so.
fn restore_header(original: &Resource, answer: &mut Resource) {
    if answer.document().foot_comment.is_empty() {
        answer.document_mut().foot_comment = original.document().foot_comment.clone();
    }
    let header = original.document().head_comment.clone();
    let found = &answer.document().head_comment;
    if header.is_empty() || !(found.is_empty() || *found == header) {
        return;
    }
    let first = original.node().pairs().first().map_or("", |pair| pair.key.comments().head).to_owned();
    if answer.node().comments().head.starts_with(header.as_str()) {
        answer.node_mut().set_head_comment("");
    }
    if let Some(pair) = answer.node_mut().pairs_mut().and_then(|pairs| pairs.first_mut())
        && pair.key.comments().head.starts_with(header.as_str())
    {
        pair.key.set_head_comment(first.as_str());
    }
    answer.document_mut().head_comment = header;
    if !first.is_empty() && !says_the_same(answer.node(), original.node()) {
        restore_comments(original.node(), answer.node_mut());
        restore_order(original.node(), answer.node_mut());
        answer.fold_header();
    }
}

/// Whether both hold the same texts under the same keys, in whatever order and style.
fn says_the_same(a: &Node, b: &Node) -> bool {
    let mut waiting = vec![(a, b)];
    while let Some((a, b)) = waiting.pop() {
        if a.kind() != b.kind() || a.len() != b.len() || a.scalar() != b.scalar() {
            return false;
        }
        waiting.extend(a.items().iter().zip(b.items()));
        let find = Keys::of(b);
        for pair in a.pairs() {
            let first = pair.key.scalar().and_then(|key| find.first(b, key));
            match first.and_then(|at| b.pairs().get(at)).map(|pair| &pair.value) {
                Some(other) => waiting.push((&pair.value, other)),
                None => return false,
            }
        }
    }
    true
}

// === comments ===

/// Gives every value that is still there the comments it had, where it has none.
pub fn restore_comments(original: &Node, answer: &mut Node) {
    comments(original, answer, 0);
}

fn comments(original: &Node, answer: &mut Node, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    fill(original, answer);
    if answer.shares_children_with(original) {
        return;
    }
    match (original.kind(), answer.kind()) {
        (Kind::Mapping, Kind::Mapping) => {
            let find = Keys::of(original);
            let Some(pairs) = answer.pairs_mut() else { return };
            for (at, pair) in pairs.iter_mut().enumerate() {
                let Some(before) = pair.key.scalar().and_then(|key| find.position(original, key, at)) else {
                    continue;
                };
                let before = &original.pairs()[before];
                fill(&before.key, &mut pair.key);
                if before.value.kind() == pair.value.kind() {
                    comments(&before.value, &mut pair.value, depth + 1);
                } else {
                    // What stood behind the old value stands behind the key of the new one.
                    pair.key.fill_comments_from(&before.value);
                }
            }
        }
        (Kind::Sequence, Kind::Sequence) => {
            for_each_match(original, answer, |before, item| comments(before, item, depth + 1));
        }
        _ => {}
    }
}

/// A head comment of the first key is also seen as one of the collection; it must not appear twice.
fn fill(original: &Node, answer: &mut Node) {
    let head = original.comments().head;
    let on_first_key =
        |head: &str| answer.pairs().first().is_some_and(|pair| pair.key.comments().head == head);
    if !head.is_empty() && on_first_key(head) {
        let mut rest = original.clone();
        rest.set_head_comment("");
        answer.fill_comments_from(&rest);
    } else {
        answer.fill_comments_from(original);
    }
}

// === order ===

/// Puts keys in the order they had; new ones follow in the order they came.
pub fn restore_order(original: &Node, answer: &mut Node) {
    order(original, answer, 0);
}

fn order(original: &Node, answer: &mut Node, depth: usize) {
    if depth > MAX_DEPTH || answer.shares_children_with(original) {
        return;
    }
    match (original.kind(), answer.kind()) {
        (Kind::Mapping, Kind::Mapping) => {
            let find = Keys::of(original);
            let Some(pairs) = answer.pairs_mut() else { return };
            let place = |at: usize, key: Option<&str>| key.and_then(|key| find.position(original, key, at));
            let places: Vec<Option<usize>> =
                pairs.iter().enumerate().map(|(at, pair)| place(at, pair.key.scalar())).collect();
            for (pair, place) in pairs.iter_mut().zip(&places) {
                if let Some(place) = place {
                    order(&original.pairs()[*place].value, &mut pair.value, depth + 1);
                }
            }
            let rank = |place: &Option<usize>| place.unwrap_or(usize::MAX);
            if !places.is_sorted_by_key(rank) {
                let mut ranked: Vec<_> = places.iter().map(rank).zip(std::mem::take(pairs)).collect();
                ranked.sort_by_key(|(rank, _)| *rank);
                pairs.extend(ranked.into_iter().map(|(_, pair)| pair));
            }
        }
        (Kind::Sequence, Kind::Sequence) => {
            for_each_match(original, answer, |before, item| order(before, item, depth + 1));
        }
        _ => {}
    }
}

// === style ===

/// Writes an answer in JSON the way the original was written; what is new gets block style and no needless
/// quotes.
pub fn restore_style(original: &Node, answer: &mut Node) {
    style(Some(original), answer, 0);
}

fn style(original: Option<&Node>, answer: &mut Node, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    let original = original.filter(|original| original.kind() == answer.kind());
    match answer.kind() {
        Kind::Mapping => {
            answer.set_flow(original.is_some_and(Node::is_flow));
            let find = original.map(Keys::of);
            let Some(pairs) = answer.pairs_mut() else { return };
            for (at, pair) in pairs.iter_mut().enumerate() {
                let before = original.zip(find.as_ref()).and_then(|(original, find)| {
                    pair.key
                        .scalar()
                        .and_then(|key| find.position(original, key, at))
                        .map(|at| &original.pairs()[at])
                });
                style(before.map(|pair| &pair.key), &mut pair.key, depth + 1);
                style(before.map(|pair| &pair.value), &mut pair.value, depth + 1);
            }
        }
        Kind::Sequence => {
            answer.set_flow(original.is_some_and(Node::is_flow));
            let matches = original.map_or_else(Vec::new, |original| match_items(original, answer));
            let Some(items) = answer.items_mut() else { return };
            for (at, item) in items.iter_mut().enumerate() {
                let before = matches.get(at).copied().flatten().zip(original);
                style(before.map(|(before, original)| &original.items()[before]), item, depth + 1);
            }
        }
        Kind::Scalar => scalar_style(original, answer),
        Kind::Alias => {}
    }
}

fn scalar_style(original: Option<&Node>, answer: &mut Node) {
    match original.filter(|original| original.scalar() == answer.scalar() && original.tag() == answer.tag()) {
        Some(original) => answer.set_style_of(original),
        None if answer.tag() == Tag::Str && answer.scalar_style() == ScalarStyle::DoubleQuoted => {
            let plain = Node::string(answer.scalar().unwrap_or_default());
            answer.set_scalar_style(plain.scalar_style());
        }
        None => {}
    }
}

// === matching ===

/// Where each key of a mapping is; small mappings are searched.
struct Keys<'a>(Option<HashMap<&'a str, usize>>);

impl<'a> Keys<'a> {
    fn of(node: &'a Node) -> Self {
        const SMALL: usize = 16;
        let index = || {
            let keys = node.pairs().iter().enumerate();
            // The first of equal keys counts, as everywhere.
            keys.rev().filter_map(|(at, pair)| pair.key.scalar().map(|key| (key, at))).collect()
        };
        Self((node.len() > SMALL).then(index))
    }

    /// The first position of a key.
    fn first(&self, node: &Node, key: &str) -> Option<usize> {
        match &self.0 {
            Some(index) => index.get(key).copied(),
            None => node.pairs().iter().position(|pair| pair.key.scalar() == Some(key)),
        }
    }

    /// The position of a key, most likely at `guess`.
    fn position(&self, node: &Node, key: &str, guess: usize) -> Option<usize> {
        let is_at = |at: usize| node.pairs().get(at).is_some_and(|pair| pair.key.scalar() == Some(key));
        if is_at(guess) {
            return Some(guess);
        }
        match &self.0 {
            Some(index) => index.get(key).copied(),
            None => (0..node.len()).find(|&at| is_at(at)),
        }
    }
}

/// Visits each item of the answer that was in the original, with what it was there.
fn for_each_match(original: &Node, answer: &mut Node, mut visit: impl FnMut(&Node, &mut Node)) {
    let matches = match_items(original, answer);
    let Some(items) = answer.items_mut() else { return };
    for (item, before) in items.iter_mut().zip(matches) {
        if let Some(before) = before {
            visit(&original.items()[before], item);
        }
    }
}

/// For each item of the answer the item of the original that it was.
fn match_items(original: &Node, answer: &Node) -> Vec<Option<usize>> {
    let (before, after) = (original.items(), answer.items());
    if let Some(key) = NAMING_KEYS.iter().find(|key| names_all(before, key) && names_all(after, key)) {
        let places: HashMap<&str, usize> =
            before.iter().enumerate().filter_map(|(at, item)| Some((name(item, key)?, at))).collect();
        return after.iter().map(|item| name(item, key).and_then(|name| places.get(name).copied())).collect();
    }
    let mut taken = vec![false; before.len()];
    let mut matches: Vec<Option<usize>> = vec![None; after.len()];
    let mut scalars: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut equals = Equals::default();
    for (at, item) in before.iter().enumerate().rev() {
        if let Some(text) = item.scalar() {
            scalars.entry(text).or_default().push(at);
        }
    }
    for (at, item) in after.iter().enumerate() {
        let found = match item.scalar() {
            Some(text) => scalars.get_mut(text).and_then(Vec::pop),
            None => before
                .get(at)
                .filter(|other| other.same_value(item))
                .map(|_| at)
                .or_else(|| (before.len() != after.len()).then(|| equals.find(before, item, &taken))?),
        };
        if let Some(found) = found.filter(|&found| !taken[found]) {
            taken[found] = true;
            matches[at] = Some(found);
        }
    }
    // What is left over may be the same entry with another value.
    for (at, item) in after.iter().enumerate() {
        let same_kind = |other: &Node| !other.is_scalar() && other.kind() == item.kind();
        if matches[at].is_none() && before.get(at).is_some_and(same_kind) && !taken[at] {
            taken[at] = true;
            matches[at] = Some(at);
        }
    }
    matches
}

/// The first items of a list by what they hold, once that was asked for.
#[derive(Default)]
struct Equals {
    hashing: RandomState,
    places: Option<HashMap<u64, Vec<usize>>>,
}

impl Equals {
    /// Looking for moved items is for lists that people write.
    const MANY: usize = 200;

    fn hash(hashing: &RandomState, node: &Node) -> u64 {
        let mut hasher = hashing.build_hasher();
        node.hash_value(&mut hasher);
        hasher.finish()
    }

    /// The first item that is equal and not taken.
    fn find(&mut self, before: &[Node], item: &Node, taken: &[bool]) -> Option<usize> {
        let Self { hashing, places } = self;
        let places = places.get_or_insert_with(|| {
            let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
            for (at, node) in before.iter().take(Self::MANY).enumerate() {
                places.entry(Self::hash(hashing, node)).or_default().push(at);
            }
            places
        });
        let alike = places.get(&Self::hash(hashing, item))?;
        alike.iter().copied().find(|&at| !taken[at] && before[at].same_value(item))
    }
}

fn name<'a>(item: &'a Node, key: &str) -> Option<&'a str> {
    item.get(key).and_then(Node::scalar)
}

/// Whether a key tells all items apart.
fn names_all(items: &[Node], key: &str) -> bool {
    let mut seen = std::collections::HashSet::with_capacity(items.len());
    items.iter().all(|item| name(item, key).is_some_and(|name| seen.insert(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Resource {
        Resource::from(loggia_yaml::parse_first(text).expect("is YAML").expect("is something"))
    }

    fn restored(original: &str, answer: &str) -> String {
        let mut answer = parse(answer);
        restore(&parse(original), &mut answer);
        loggia_yaml::to_string([answer.document()])
    }

    #[test]
    fn comments_come_back_to_what_they_were_about() {
        let original = "# head\na: 1 # one\nb:\n  # inner\n  c: 2\n# foot\n";
        assert_eq!(
            restored(original, "a: 5\nb:\n  c: 2\n"),
            "# head\na: 5 # one\nb:\n  # inner\n  c: 2\n# foot\n"
        );
    }

    #[test]
    fn a_header_with_an_empty_line_below_it_stays_one() {
        assert_eq!(restored("# licence\n\na: 1\n", "# licence\na: 2\n"), "# licence\n\na: 2\n");
        assert_eq!(restored("# licence\n\na: 1\n", "a: 2\n"), "# licence\n\na: 2\n");
    }

    #[test]
    fn a_header_and_a_comment_below_it_become_one_when_the_resource_changes() {
        let original = "# licence\n\n# about\na: 1\n";
        assert_eq!(restored(original, "a: 1\n"), original);
        assert_eq!(restored(original, "a: 2\n"), "# licence\n# about\na: 2\n");
    }

    #[test]
    fn keys_come_back_in_order_and_new_ones_follow() {
        assert_eq!(restored("b: 1\na: 2\n", "a: 2\nb: 1\nc: 3\n"), "b: 1\na: 2\nc: 3\n");
    }

    #[test]
    fn comments_follow_the_entries_of_a_list() {
        let original = "l:\n- name: a # first\n- name: b # second\n";
        assert_eq!(
            restored(original, "l:\n- name: new\n- name: a\n- name: b\n"),
            "l:\n- name: new\n- name: a # first\n- name: b # second\n"
        );
        assert_eq!(restored("l:\n- x # x\n- y # y\n", "l:\n- y\n- x\n"), "l:\n- y # y\n- x # x\n");
    }

    #[test]
    fn a_comment_does_not_multiply() {
        let original = "l:\n- # h\n  a: 1\n";
        let once = restored(original, "l:\n- a: 1\n");
        assert_eq!(once, original);
        assert_eq!(restored(&once, &once), original);
    }

    #[test]
    fn a_field_may_change_its_type() {
        assert_eq!(restored("a: 1 # c\n", "a:\n  b: 1\n"), "a: # c\n  b: 1\n");
        assert_eq!(restored("a:\n  b: 1\n", "a: [1]\n"), "a: [1]\n");
    }

    #[test]
    fn an_answer_in_json_is_written_in_the_style_the_file_had() {
        let original = "# c\nkind: A # k\nlist: [1, 2]\nquoted: \"x\"\nnested:\n  a: 'b'\n";
        let answer = r#"{"kind":"A","list":[1,2],"nested":{"a":"b","m":"5"},"quoted":"x","new":{"l":["p"]}}"#;
        assert_eq!(
            restored(original, answer),
            "# c\nkind: A # k\nlist: [1, 2]\nquoted: \"x\"\nnested:\n  a: 'b'\n  m: \"5\"\nnew:\n  l:\n  - p\n"
        );
    }
}
