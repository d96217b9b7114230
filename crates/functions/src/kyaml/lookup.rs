//! Following a path of keys, indexes and `[key=value]` to one place in a tree, as kyaml's lookups do.
//!
//! Nothing is found behind null, nor at an index that a list does not have.

use loggia_krm::WrongKind;
use loggia_yaml::{Kind, Node, Pair, Tag, node_to_string};

use crate::kyaml::fields::{MAX_DEPTH, raw_text};

/// One step of a path.
enum Step<'a> {
    Key(&'a str),
    Index(usize),
    Last,
    /// The item whose key has the value, or that is the value if the key is empty.
    Item(&'a str, &'a str),
}

/// The node that a path leads to.
///
/// # Errors
/// If a step does not fit what it is taken from, or is none.
pub(crate) fn get<'a>(root: &'a Node, path: &[&str]) -> Result<Option<&'a Node>, String> {
    let mut node = root;
    for part in cleaned(path) {
        let found = match Step::parse(part)? {
            Step::Key(_) if node.tag() == Tag::Null => None,
            Step::Key(key) => {
                expect_kind(node, Kind::Mapping)?;
                node.get(key)
            }
            step => {
                expect_kind(node, Kind::Sequence)?;
                step.position(node.items()).map(|at| &node.items()[at])
            }
        };
        match found {
            Some(found) => node = found,
            None => return Ok(None),
        }
    }
    Ok(Some(node))
}

/// The node that a path leads to, for editing. Missing keys and items are made; the last is of the kind given.
///
/// # Errors
/// If a step does not fit what it is taken from, or is none.
pub(crate) fn make<'a>(
    root: &'a mut Node,
    path: &[&str],
    kind: Kind,
) -> Result<Option<&'a mut Node>, String> {
    let path = cleaned(path);
    if path.len() > MAX_DEPTH {
        return Err(format!("a field path has {} parts; at most {MAX_DEPTH} are followed", path.len()));
    }
    let mut node = root;
    for (at, part) in path.iter().enumerate() {
        if node.tag() == Tag::Null {
            return Ok(None);
        }
        let step = Step::parse(part)?;
        if let Step::Key(key) = step {
            expect_kind(node, Kind::Mapping)?;
            if !node.contains_key(key) {
                let value = empty(kind_before(path.get(at + 1).copied(), kind));
                node.push_pair(Pair { key: Node::verbatim(key), value });
            }
            let Some(value) = node.get_mut(key) else { return Ok(None) };
            node = value;
            continue;
        }
        expect_kind(node, Kind::Sequence)?;
        let position = step.position(node.items()).or_else(|| {
            let Step::Item(key, value) = step else { return None };
            node.push(new_item(key, value));
            Some(node.len() - 1)
        });
        let item = position.and_then(|at| node.items_mut()?.get_mut(at));
        match item {
            Some(item) => node = item,
            None => return Ok(None),
        }
    }
    Ok(Some(node))
}

/// What an item that is looked for as `[key=value]` is made as.
pub(crate) fn new_item(key: &str, value: &str) -> Node {
    let value = Node::verbatim(value);
    if key.is_empty() { value } else { Node::from_pairs(vec![Pair { key: Node::verbatim(key), value }]) }
}

/// The kind that a new node must have so that the next part of a path fits it.
pub(crate) fn kind_before(next: Option<&str>, last: Kind) -> Kind {
    match next {
        None | Some("") => last,
        Some(next) if is_item(next) || next.parse::<i64>().is_ok_and(|index| index >= 0) => Kind::Sequence,
        Some(_) => Kind::Mapping,
    }
}

/// An empty node of a kind.
pub(crate) fn empty(kind: Kind) -> Node {
    match kind {
        Kind::Mapping => Node::mapping(),
        Kind::Sequence => Node::sequence(),
        Kind::Scalar | Kind::Alias => Node::verbatim(""),
    }
}

/// Whether a part of a path stands in brackets.
pub(crate) fn is_item(part: &str) -> bool {
    part.starts_with('[') && part.ends_with(']')
}

/// Key and value of `[key=value]`.
pub(crate) fn split_item(part: &str) -> Result<(&str, &str), String> {
    let inner = part.strip_suffix(']').unwrap_or(part);
    let inner = inner.strip_prefix('[').unwrap_or(inner);
    inner
        .split_once('=')
        .ok_or_else(|| "list path element must contain fieldName=fieldValue for element to match".to_owned())
}

/// Fails unless a node is of a kind or null, in kyaml's words.
pub(crate) fn expect_kind(node: &Node, expected: Kind) -> Result<(), String> {
    if node.kind() == expected || node.tag() == Tag::Null {
        return Ok(());
    }
    let contents = node_to_string(node);
    Err(WrongKind { expected, found: node.kind(), contents, line: None }.to_string())
}

fn cleaned<'a>(path: &[&'a str]) -> Vec<&'a str> {
    path.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect()
}

// === impl Step ===

impl<'a> Step<'a> {
    fn parse(part: &'a str) -> Result<Self, String> {
        if let Ok(index) = part.parse::<i64>() {
            return usize::try_from(index)
                .map(Self::Index)
                .map_err(|_| format!("array index {index} cannot be negative"));
        }
        match part {
            "-" => Ok(Self::Last),
            "*" => Err("wildcard is not supported in PathGetter".to_owned()),
            part if is_item(part) => split_item(part).map(|(key, value)| Self::Item(key, value)),
            part => Ok(Self::Key(part)),
        }
    }

    fn position(&self, items: &[Node]) -> Option<usize> {
        match self {
            Self::Key(_) => None,
            Self::Index(index) => (*index < items.len()).then_some(*index),
            Self::Last => items.len().checked_sub(1),
            Self::Item("", value) => items.iter().position(|item| raw_text(item) == *value),
            Self::Item(key, value) => {
                items.iter().position(|item| item.get(key).is_some_and(|found| raw_text(found) == *value))
            }
        }
    }
}
