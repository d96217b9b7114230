//! How programs on the SDK read their list, order its items and write it.

use loggia_krm::{ResourceList, Wrapping, sdk};
use loggia_yaml::{EmitOptions, Fidelity, Node, Pair, SequenceStyle, node_to_string_within};

use crate::sdk::object::Object;
use crate::sdk::report;

/// Sorts by version, kind, namespace and name; equals stay in order.
pub(crate) fn sort_items(list: &mut ResourceList) {
    list.items.sort_by_cached_key(|item| {
        let item = Object::of(item);
        format!("{} {} {} {}", item.api_version(), item.kind(), item.namespace(), item.name())
    });
}

/// Reads one list; results of functions that ran before are kept with it.
///
/// # Errors
/// In the SDK's words.
pub(crate) fn read(stdin: &[u8]) -> Result<ResourceList, sdk::Error> {
    let mut list = ResourceList::from_node(sdk::read(stdin)?).map_err(sdk::Error::Yaml)?;
    list.wrapping = Some(Wrapping::default());
    list.function_config = list.function_config.filter(|config| !config.is_empty());
    read_results(&mut list);
    Ok(list)
}

/// Results of functions before are kept as a list, whatever their shape was.
fn read_results(list: &mut ResourceList) {
    let items = match list.results.take() {
        Some(results) if results.is_mapping() => results.get("items").cloned(),
        results => results,
    };
    list.results = items.filter(|items| items.is_sequence() && !items.is_empty()).map(|mut items| {
        report::sort_keys(&mut items);
        items
    });
}

/// Writes the list without what is empty; nothing if that is longer than `limit`.
pub(crate) fn write(list: &ResourceList, limit: usize) -> Option<String> {
    let Wrapping { api_version, kind } = Wrapping::default();
    let pair = |key: &str, value: Node| Pair { key: Node::verbatim(key), value };
    let mut pairs = vec![pair("apiVersion", Node::verbatim(api_version)), pair("kind", Node::verbatim(kind))];
    if !list.items.is_empty() {
        pairs.push(pair("items", list.items.iter().map(|item| item.node().clone()).collect()));
    }
    pairs.extend(list.function_config.clone().map(|config| pair("functionConfig", config)));
    pairs.extend(list.results.clone().map(|results| pair("results", results)));
    let options = EmitOptions { sequences: SequenceStyle::Compact, fidelity: Fidelity::Faithful };
    node_to_string_within(&Node::from_pairs(pairs), options, limit)
}
