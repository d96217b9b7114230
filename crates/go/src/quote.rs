//! Strings in double quotes, as Go's `%q` prints them.

use std::fmt::Write as _;

/// Quotes a string the way Go's `strconv.Quote` does.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        push(&mut quoted, character);
    }
    quoted.push('"');
    quoted
}

fn push(quoted: &mut String, character: char) {
    match character {
        '"' => quoted.push_str("\\\""),
        '\\' => quoted.push_str("\\\\"),
        '\x07' => quoted.push_str("\\a"),
        '\x08' => quoted.push_str("\\b"),
        '\x0c' => quoted.push_str("\\f"),
        '\n' => quoted.push_str("\\n"),
        '\r' => quoted.push_str("\\r"),
        '\t' => quoted.push_str("\\t"),
        '\x0b' => quoted.push_str("\\v"),
        ' '..='~' => quoted.push(character),
        _ => push_wide(quoted, character),
    }
}

/// Go prints what Unicode calls a letter, mark, number, punctuation or symbol, and escapes the rest:
/// controls, format characters, private use and every space but the ASCII one.
fn push_wide(quoted: &mut String, character: char) {
    let code = u32::from(character);
    let invisible = character.is_control()
        || character.is_whitespace()
        || matches!(
            code,
            0xad | 0x600..=0x605
                | 0x61c
                | 0x6dd
                | 0x70f
                | 0x180e
                | 0x200b..=0x200f
                | 0x2028..=0x202e
                | 0x2060..=0x206f
                | 0xe000..=0xf8ff
                | 0xfeff
                | 0xfff0..=0xfffb
                | 0xfffe..=0xffff
                | 0xe0000..=0x10ffff
        );
    // Writing to a `String` cannot fail.
    let _ = match code {
        _ if !invisible => {
            quoted.push(character);
            Ok(())
        }
        0..=0x7f => write!(quoted, "\\x{code:02x}"),
        0x80..=0xffff => write!(quoted, "\\u{code:04x}"),
        _ => write!(quoted, "\\U{code:08x}"),
    };
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn plain_text_only_gains_quotes() {
        assert_eq!(quote("ghcr.io/x/set-labels:v0.2"), r#""ghcr.io/x/set-labels:v0.2""#);
        assert_eq!(quote("größe"), r#""größe""#);
    }

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        assert_eq!(
            quote("a\"b\\c\n\t\x00\x7f\u{a0}\u{200b}\u{1f600}"),
            r#""a\"b\\c\n\t\x00\x7f\u00a0\u200b😀""#
        );
    }
}
