//! The order in which functions of the SDK's family write their items.

use loggia_krm::ResourceList;

/// Sorts by version, kind, namespace and name; equals stay in order.
pub(crate) fn sort_items(list: &mut ResourceList) {
    list.items.sort_by_cached_key(|item| {
        format!("{} {} {} {}", item.api_version(), item.kind(), item.namespace(), item.name())
    });
}
