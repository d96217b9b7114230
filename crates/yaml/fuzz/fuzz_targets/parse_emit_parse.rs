//! What is written in the default mode reads back as the same values.
//!
//! The bounded twin of this target, which also watches that a second write gives the same bytes, is
//! `tests/fidelity/properties.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loggia_yaml::{
    Document, EmitOptions, Fidelity, Node, ParseOptions, SequenceStyle, parse_all_with, to_string_with,
};

const READING: ParseOptions = ParseOptions { exact: false, unique_keys: false };

fuzz_target!(|bytes: &[u8]| {
    let Ok(documents) = parse_all_with(bytes, READING) else { return };
    for sequences in [SequenceStyle::Compact, SequenceStyle::Wide] {
        let text = to_string_with(&documents, EmitOptions { sequences, fidelity: Fidelity::Faithful });
        let again = parse_all_with(text.as_bytes(), READING).expect("what was written parses");
        let full =
            |documents: &[Document]| documents.iter().filter(|d| !d.is_empty()).cloned().collect::<Vec<_>>();
        let (before, after) = (full(&documents), full(&again));
        assert_eq!(before.len(), after.len(), "documents came or went in {text:?}");
        for (before, after) in before.iter().zip(&after) {
            assert!(same_value(&before.root, &after.root), "other values in {text:?}");
        }
    }
});

/// Whether both trees hold the same values; a null may be spelled out.
fn same_value(left: &Node, right: &Node) -> bool {
    let mut waiting = vec![(left, right)];
    while let Some((left, right)) = waiting.pop() {
        let same = left.kind() == right.kind()
            && left.len() == right.len()
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
