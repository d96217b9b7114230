//! Text from outside, made safe to show to people.
//!
//! A function's message, a file's name or a registry's answer may hold what a terminal obeys instead of showing:
//! escape sequences, a carriage return that hides a line, letters that reorder the text around them (CVE-2021-42574).
//! [`printable`] turns all of it into something visible. It is for the last step before text reaches a terminal or a
//! log; data for programs is not touched.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A text of several lines: everything but line feeds and tabs that a reader would not see is made visible, as
/// `\x1b` or `\u{202e}`.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |character| !matches!(character, '\n' | '\t') && is_hidden(character))
}

/// A text that must stay on one line: like [`printable`], with line feeds made visible as `\n`.
#[must_use]
pub fn printable_line(text: &str) -> Cow<'_, str> {
    escaped(text, |character| character != '\t' && is_hidden(character))
}

/// Whether a character shows nothing by itself, but may change how others are shown: controls, marks of writing
/// direction, and what has no width.
#[must_use]
pub(crate) fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            u32::from(character),
            0xad                    // soft hyphen
                | 0x34f             // combining grapheme joiner
                | 0x61c             // direction of Arabic letters
                | 0x115f | 0x1160 | 0x3164 | 0xffa0 // fillers
                | 0x17b4 | 0x17b5
                | 0x180b..=0x180f
                | 0x200b..=0x200f   // no width; direction
                | 0x2028..=0x202e   // line and paragraph separators; direction
                | 0x2060..=0x206f   // no width; direction
                | 0xfeff            // byte order mark
                | 0xfff0..=0xfffb
                | 0x1d173..=0x1d17a
                | 0xe0000..=0xe0fff // tags and variation selectors that can carry a hidden text
        )
}

fn escaped(text: &str, hazard: impl Fn(char) -> bool) -> Cow<'_, str> {
    let Some(first) = text.find(&hazard) else { return Cow::Borrowed(text) };
    let mut shown = String::with_capacity(text.len() + 16);
    shown.push_str(&text[..first]);
    for character in text[first..].chars() {
        if hazard(character) { push(&mut shown, character) } else { shown.push(character) }
    }
    Cow::Owned(shown)
}

fn push(shown: &mut String, character: char) {
    // Writing to a `String` cannot fail.
    let _ = match (character, u32::from(character)) {
        ('\n', _) => shown.write_str("\\n"),
        ('\r', _) => shown.write_str("\\r"),
        (_, code @ 0..=0xff) => write!(shown, "\\x{code:02x}"),
        (_, code) => write!(shown, "\\u{{{code:x}}}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_can_be_seen_is_not_copied() {
        for text in ["", "plain", "two\nlines\tand a tab", "größe 日本 😀 e\u{301}", "a\\b"] {
            assert!(matches!(printable(text), Cow::Borrowed(shown) if shown == text), "{text:?}");
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_made_visible() {
        let cases = [
            ("\u{1b}[2J[PASS]", "\\x1b[2J[PASS]"),
            ("\u{1b}]0;title\u{7}", "\\x1b]0;title\\x07"),
            ("\u{9b}2J", "\\x9b2J"),
            ("\u{7f}\u{8}", "\\x7f\\x08"),
            ("bad\rgood", "bad\\rgood"),
            ("a\u{202e}b\u{2066}c", "a\\u{202e}b\\u{2066}c"),
            ("pass\u{200b}word\u{feff}", "pass\\u{200b}word\\u{feff}"),
            ("a\u{e0041}\u{2028}b", "a\\u{e0041}\\u{2028}b"),
            ("\0", "\\x00"),
        ];
        for (text, shown) in cases {
            assert_eq!(printable(text), shown, "{text:?}");
            assert_eq!(printable_line(text), shown, "{text:?}");
        }
        assert_eq!(printable("a\nb\tc"), "a\nb\tc");
        assert_eq!(printable_line("a\nb\tc"), "a\\nb\tc");
    }

    #[test]
    fn what_is_shown_has_nothing_left_to_hide() {
        let all: String = (0..=0x0010_ffff).filter_map(char::from_u32).collect();
        let shown = printable(&all);
        assert!(!shown.chars().any(|character| !matches!(character, '\n' | '\t') && is_hidden(character)));
        assert_eq!(printable(&shown), shown);
    }
}
