//! Text from outside on a terminal and in logs: nothing in it can act.

use loggia_go::{printable, printable_line, quote};

pub(crate) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let quoted = quote(&text);
    assert!(!quoted.contains(|letter: char| letter.is_control()), "a control character in {quoted:?}");
    let shown = printable(&text);
    let acts = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    assert!(!shown.contains(acts), "a control character in {shown:?}");
    let reorders = |letter: char| matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    assert!(!shown.contains(reorders), "a letter that reorders text in {shown:?}");
    let line = printable_line(&text);
    assert!(!line.contains('\n'), "more than one line in {line:?}");
}
