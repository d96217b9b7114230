//! Every function of the catalog on lists and configs with structure, and on any text.

use loggia_functions::CATALOG;
use loggia_krm::{ResourceList, StreamOptions};

use crate::made;

/// What a function may answer per byte of its input, and at least; more is growth without bound.
const GROWTH: usize = 1000;
const SLACK: usize = 8 << 20;

/// A list with structure.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(case) = made::case(bytes) else { return };
    let output = case.version.filter(case.list.as_bytes());
    check(case.function.name, &case.list, &output.stdout);
}

/// Any text, by the function that its first byte selects.
pub(crate) fn run_text(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let function = CATALOG[usize::from(*first) % CATALOG.len()];
    for version in function.versions {
        let output = version.filter(rest);
        check(function.name, &String::from_utf8_lossy(rest), &output.stdout);
    }
}

/// What a function wrote can be read, unless it could not read its input.
fn check(function: &str, input: &str, output: &str) {
    assert!(
        output.len() <= input.len() * GROWTH + SLACK,
        "{function} made {} bytes of {}",
        output.len(),
        input.len()
    );
    if output.is_empty() || ResourceList::parse(input.as_bytes(), StreamOptions::default()).is_err() {
        return;
    }
    if let Err(error) = ResourceList::parse(output.as_bytes(), StreamOptions::default()) {
        // `format` puts an alias before its anchor when it sorts, and so does the original.
        if error.to_string().contains("unknown anchor") {
            return;
        }
        panic!("{function} wrote what it cannot read: {error}\n{output}\n=== from\n{input}");
    }
}
