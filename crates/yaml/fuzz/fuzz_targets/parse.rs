//! Any bytes are read or rejected, and what was read can be written; nothing panics.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loggia_yaml::{
    EmitOptions, Fidelity, ParseOptions, SequenceStyle, detect_sequence_style, parse_all_with, to_string_with,
};

fuzz_target!(|bytes: &[u8]| {
    for exact in [false, true] {
        let options = ParseOptions { exact, unique_keys: !exact };
        match parse_all_with(bytes, options) {
            Ok(documents) => {
                let fidelity = if exact { Fidelity::Exact } else { Fidelity::Faithful };
                let _ = to_string_with(&documents, EmitOptions { sequences: SequenceStyle::Wide, fidelity });
            }
            Err(error) => {
                let _ = error.render("fuzz.yaml", &String::from_utf8_lossy(bytes));
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = detect_sequence_style(text);
    }
});
