//! Any bytes are read or rejected; what was read is written, and reads back as the same values.

use loggia_yaml::{
    EmitOptions, Fidelity, ParseOptions, SequenceStyle, detect_sequence_style, parse_all_with, to_string_with,
};

#[allow(dead_code, unreachable_pub)]
#[path = "../../../crates/yaml/tests/fidelity/same.rs"]
mod same;

const READING: ParseOptions = ParseOptions { exact: false, unique_keys: false };

pub(crate) fn run(bytes: &[u8]) {
    exact(bytes);
    let _ = std::str::from_utf8(bytes).map(detect_sequence_style);
    let Ok(documents) = parse_all_with(bytes, READING) else { return };
    for document in &documents {
        let _ = loggia_yaml::to_json(&document.root);
    }
    for sequences in [SequenceStyle::Compact, SequenceStyle::Wide] {
        let text = to_string_with(&documents, EmitOptions { sequences, fidelity: Fidelity::Faithful });
        let again = match parse_all_with(text.as_bytes(), READING) {
            Ok(again) => again,
            Err(error) => {
                panic!("what was written does not parse: {}\n{text:?}", error.render("fuzz.yaml", &text))
            }
        };
        assert!(same::same_values(&documents, &again), "other values in {text:?}");
    }
}

fn exact(bytes: &[u8]) {
    match parse_all_with(bytes, ParseOptions { exact: true, unique_keys: false }) {
        Ok(documents) => {
            let options = EmitOptions { sequences: SequenceStyle::Wide, fidelity: Fidelity::Exact };
            let _ = to_string_with(&documents, options);
        }
        Err(error) => {
            let _ = error.render("fuzz.yaml", &String::from_utf8_lossy(bytes));
        }
    }
}
