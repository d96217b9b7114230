//! What is written in the default mode reads back as the same values.
//!
//! The bounded twin of this target, which also watches that a second write gives the same bytes, is
//! `tests/fidelity/properties.rs`.

#![no_main]

#[path = "../../tests/fidelity/same.rs"]
mod same;

use libfuzzer_sys::fuzz_target;
use loggia_yaml::{EmitOptions, Fidelity, ParseOptions, SequenceStyle, parse_all_with, to_string_with};

use self::same::same_values;

const READING: ParseOptions = ParseOptions { exact: false, unique_keys: false };

fuzz_target!(|bytes: &[u8]| {
    let Ok(documents) = parse_all_with(bytes, READING) else { return };
    for sequences in [SequenceStyle::Compact, SequenceStyle::Wide] {
        let text = to_string_with(&documents, EmitOptions { sequences, fidelity: Fidelity::Faithful });
        let again = parse_all_with(text.as_bytes(), READING).expect("what was written parses");
        assert!(same_values(&documents, &again), "other values in {text:?}");
    }
});
