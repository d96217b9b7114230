//! Results as the SDK makes and writes them.

use loggia_krm::{FileRef, ResourceList, ResourceRef, ResultItem, Results, Severity, annotation};
use loggia_yaml::{Kind, Node, Pair};

use crate::sdk::object;

/// What comes first among the keys of a result and its parts; the others follow by name.
const SDK_ORDER: [&str; 4] = ["name", "namespace", "apiVersion", "kind"];

/// A message of severity `info`.
pub(crate) fn info(message: impl Into<String>) -> ResultItem {
    ResultItem::new(Severity::Info, message)
}

/// A message of severity `warning`.
pub(crate) fn warning(message: impl Into<String>) -> ResultItem {
    ResultItem::new(Severity::Warning, message)
}

/// A message of severity `error`.
pub(crate) fn error(message: impl Into<String>) -> ResultItem {
    ResultItem::new(Severity::Error, message)
}

/// An error about an object, with its reference and its file; `None` is treated as an empty object.
pub(crate) fn error_about(message: impl Into<String>, object: Option<&Node>) -> ResultItem {
    let text = |path: &[&str]| object.map_or("", |object| object::text(object, path)).to_owned();
    let index = text(&["metadata", "annotations", annotation::INDEX]);
    ResultItem {
        resource_ref: Some(ResourceRef {
            api_version: text(&["apiVersion"]),
            kind: text(&["kind"]),
            name: text(&["metadata", "name"]),
            namespace: text(&["metadata", "namespace"]),
        }),
        file: Some(FileRef {
            path: text(&["metadata", "annotations", annotation::PATH]),
            index: if index.is_empty() { -1 } else { index.parse().unwrap_or(0) },
        }),
        ..error(message)
    }
}

/// Adds results behind those the list came with, in the SDK's order of keys.
pub(crate) fn append(list: &mut ResourceList, items: impl IntoIterator<Item = ResultItem>) {
    let mut nodes = Results::from_iter(items).to_node();
    sort_keys(&mut nodes);
    let added = nodes.items_mut().map(std::mem::take).unwrap_or_default();
    if added.is_empty() {
        return;
    }
    let results = list.results.get_or_insert_with(Node::sequence);
    for node in added {
        results.push(node);
    }
}

/// The order of keys that the SDK's detour over JSON leaves: well-known names first, others by name.
pub(crate) fn sort_keys(root: &mut Node) {
    let rank = |pair: &Pair| {
        let key = pair.key.scalar().unwrap_or_default();
        (SDK_ORDER.iter().position(|name| *name == key).unwrap_or(4), key.to_owned())
    };
    // A list of what is left to do, as results may be nested deeper than the stack allows.
    let mut waiting = vec![root];
    while let Some(node) = waiting.pop() {
        match node.kind() {
            Kind::Mapping => {
                let Some(pairs) = node.pairs_mut() else { continue };
                pairs.sort_by_cached_key(rank);
                waiting.extend(pairs.iter_mut().map(|pair| &mut pair.value));
            }
            Kind::Sequence => waiting.extend(node.items_mut().into_iter().flatten()),
            Kind::Scalar | Kind::Alias => {}
        }
    }
}
