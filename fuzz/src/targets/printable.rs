//! Text from outside on a terminal and in logs: nothing in it can act.

pub(crate) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let quoted = loggia_go::quote(&text);
    assert!(!quoted.contains(|letter: char| letter.is_control()), "a control character in {quoted:?}");
}
