//! When two streams hold the same values. The fuzz target `parse_emit_parse` includes this file too.

use loggia_yaml::{Document, Node};

/// Whether both streams hold the same values. A document without content may come and go, and a null may be spelled
/// out.
pub(crate) fn same_values(left: &[Document], right: &[Document]) -> bool {
    let full = |documents: &[Document]| {
        documents.iter().filter(|document| !document.is_empty()).cloned().collect::<Vec<_>>()
    };
    let (left, right) = (full(left), full(right));
    left.len() == right.len()
        && left.iter().zip(&right).all(|(left, right)| same_value(&left.root, &right.root))
}

fn same_value(left: &Node, right: &Node) -> bool {
    let mut waiting = vec![(left, right)];
    while let Some((left, right)) = waiting.pop() {
        let same = left.kind() == right.kind()
            && left.len() == right.len()
            && left.anchor() == right.anchor()
            && left.alias_name() == right.alias_name()
            && (left.is_null() && right.is_null()
                || left.tag_text() == right.tag_text() && left.scalar() == right.scalar());
        if !same {
            return false;
        }
        waiting.extend(left.items().iter().zip(right.items()));
        waiting.extend(
            left.pairs()
                .iter()
                .zip(right.pairs())
                .flat_map(|(left, right)| [(&left.key, &right.key), (&left.value, &right.value)]),
        );
    }
    true
}
