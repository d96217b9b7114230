//! Which way a document's author indents sequences.

use crate::emit::SequenceStyle;

/// Finds the style of the first sequence that shows one; compact if none does.
///
/// Only a line that starts with a dash counts whose preceding line, comments aside, is a bare `key:`
/// in the same column or two to the left.
#[must_use]
pub fn detect_sequence_style(text: &str) -> SequenceStyle {
    let mut key_line = None;
    for line in text.split('\n') {
        let dash = line.find("- ").filter(|&at| line[..at].bytes().all(|b| b == b' '));
        if let Some(style) = dash.and_then(|dash| style_below(key_line?, dash)) {
            return style;
        }
        if !line.trim_matches(' ').starts_with('#') {
            key_line = Some(line);
        }
    }
    SequenceStyle::Compact
}

/// The style of a dash in that column below that line, if the line is a key.
fn style_below(line: &str, dash: usize) -> Option<SequenceStyle> {
    let line = line.split('#').next()?;
    let key = line.trim_start_matches(' ');
    let indent = line.len() - key.len();
    let name = key.trim_end_matches(' ').strip_suffix(':')?;
    if name.contains(':') {
        return None;
    }
    match dash.checked_sub(indent)? {
        0 => Some(SequenceStyle::Compact),
        2 => Some(SequenceStyle::Wide),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::SequenceStyle::{Compact, Wide};
    use super::detect_sequence_style;

    #[test]
    fn the_first_sequence_below_a_bare_key_decides() {
        assert_eq!(detect_sequence_style("a:\n- 1\nb:\n  - 2\n"), Compact);
        assert_eq!(detect_sequence_style("a:\n  - 1\nb:\n- 2\n"), Wide);
        assert_eq!(detect_sequence_style("a: # c\n  # more\n  - 1\n"), Wide);
    }

    #[test]
    fn other_indents_and_other_lines_do_not_decide() {
        assert_eq!(detect_sequence_style("a:\n    - 1\nb:\n  - 2\n"), Wide);
        assert_eq!(detect_sequence_style("\"a:b\":\n  - x\n"), Compact);
        assert_eq!(detect_sequence_style("a: &x\n  - x\n"), Compact);
        assert_eq!(detect_sequence_style("- a\n- b\n"), Compact);
        assert_eq!(detect_sequence_style(""), Compact);
    }
}
