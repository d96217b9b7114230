//! The `data` of function configs that are read for it alone, whatever kind of object they are.

use std::collections::BTreeMap;

use loggia_krm::ResourceList;
use loggia_yaml::{Node, Tag};

use crate::kyaml::fields::raw_text;

/// The entries of `data` as text, whatever kind of object it is in; null and collections are the empty text.
pub(crate) fn of_config(list: &ResourceList) -> BTreeMap<String, String> {
    list.function_config.as_ref().map(of).unwrap_or_default()
}

/// The entries of an object's `data`.
pub(crate) fn of(object: &Node) -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    for pair in object.get("data").map(Node::pairs).unwrap_or_default() {
        entries.entry(value(&pair.key).to_owned()).or_insert_with(|| value(&pair.value).to_owned());
    }
    entries
}

/// The text of a scalar, nothing if it is null.
fn value(node: &Node) -> &str {
    if node.tag() == Tag::Null { "" } else { raw_text(node) }
}

/// The entries of an object's `data` as kyaml's `GetDataMap` reads them: unlike in [`of`], the last of two equal
/// keys wins. What is not a scalar is the empty text.
pub(crate) fn map(config: Option<&Node>) -> BTreeMap<String, String> {
    let data = config.and_then(|config| config.get("data")).map_or(&[][..], Node::pairs);
    let value =
        |value: &Node| if value.is_null() { "" } else { value.scalar().unwrap_or_default() }.to_owned();
    data.iter().map(|pair| (pair.key.scalar().unwrap_or_default().to_owned(), value(&pair.value))).collect()
}
