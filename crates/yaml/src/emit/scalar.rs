//! Scalars: which styles a text allows, and writing it in one of them.

use super::Quirks;
use super::writer::Writer;
use crate::node::ScalarStyle;

/// What a text allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    pub(super) multiline: bool,
    pub(super) plain_in_flow: bool,
    pub(super) plain_in_block: bool,
    pub(super) single_quoted: bool,
    pub(super) block: bool,
    /// The same, if a line may end in a space.
    pub(super) block_but_for_spaces: bool,
}

/// Where a scalar stands, as far as its style depends on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub(super) in_flow: bool,
    /// A key that is written without `?`.
    pub(super) simple_key: bool,
}

/// Finds the style that is asked for, or the next best that the text allows there.
pub(super) fn choose_style(
    text: &str,
    wanted: ScalarStyle,
    allowed: Allowed,
    position: Position,
) -> ScalarStyle {
    let mut style = wanted;
    if position.simple_key && allowed.multiline {
        style = ScalarStyle::DoubleQuoted;
    }
    if style == ScalarStyle::Plain {
        let fits = if position.in_flow { allowed.plain_in_flow } else { allowed.plain_in_block };
        let vanishes = text.is_empty() && (position.in_flow || position.simple_key);
        if !fits || vanishes {
            style = ScalarStyle::SingleQuoted;
        }
    }
    match style {
        ScalarStyle::SingleQuoted if !allowed.single_quoted => ScalarStyle::DoubleQuoted,
        ScalarStyle::Literal | ScalarStyle::Folded
            if !allowed.block || position.in_flow || position.simple_key =>
        {
            ScalarStyle::DoubleQuoted
        }
        style => style,
    }
}

/// Signs that mean something at the beginning of a text.
const LEADING_INDICATORS: &[u8] = b"#,[]{}&*!|>'\"%@`";

pub(super) fn analyze(text: &str, quirks: Quirks) -> Allowed {
    let bytes = text.as_bytes();
    let Some(&first) = bytes.first() else {
        return Allowed {
            multiline: false,
            plain_in_flow: false,
            plain_in_block: true,
            single_quoted: true,
            block: false,
            block_but_for_spaces: false,
        };
    };
    let mut in_flow_only = false;
    let mut indicators =
        text.starts_with("---") || text.starts_with("...") || LEADING_INDICATORS.contains(&first);
    let mut breaks = false;
    let mut special = false;
    let mut tabs = false;
    let mut space_before_break = false;
    let mut space_after_break = false;
    let (mut after_space, mut after_break, mut after_blank) = (false, false, true);
    let ends_at = |at: usize| matches!(bytes.get(at), None | Some(b' ' | b'\t'));

    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if byte.is_ascii_alphanumeric() {
            (after_space, after_break, after_blank) = (false, false, false);
            at += 1;
            continue;
        }
        let width = width_of(byte);
        match byte {
            b',' | b'[' | b']' | b'{' | b'}' => in_flow_only = true,
            b'?' => {
                in_flow_only = true;
                indicators |= at == 0 && ends_at(1);
            }
            b':' => {
                in_flow_only = true;
                indicators |= ends_at(at + 1);
            }
            b'-' => indicators |= at == 0 && ends_at(1),
            b'#' => indicators |= after_blank,
            _ => {}
        }
        if byte == b'\t' {
            tabs = true;
        } else if !is_printable(&bytes[at..], quirks) {
            special = true;
        }
        let is_break = is_break(&bytes[at..]);
        if byte == b' ' {
            space_after_break |= after_break;
            (after_space, after_break) = (true, false);
        } else if is_break {
            breaks = true;
            space_before_break |= after_space;
            (after_space, after_break) = (false, true);
        } else {
            (after_space, after_break) = (false, false);
        }
        after_blank = is_break || matches!(byte, b' ' | b'\t' | 0);
        at += width;
    }
    let edge = first == b' ' || is_break(bytes) || after_space || after_break;
    let separators = !quirks.raw_separators && breaks && text.contains(['\u{2028}', '\u{2029}']);
    let special = special || separators;
    let quotes_needed =
        edge || breaks || space_after_break || space_before_break || tabs || special || indicators;
    Allowed {
        multiline: breaks,
        plain_in_flow: !quotes_needed && !in_flow_only,
        plain_in_block: !quotes_needed,
        single_quoted: !(space_after_break || space_before_break || tabs || special),
        block: !(after_space || space_before_break || special),
        block_but_for_spaces: !special,
    }
}

/// Whether the character at the front is written as it is.
fn is_printable(bytes: &[u8], quirks: Quirks) -> bool {
    match bytes {
        [b'\n' | 0x20..=0x7E, ..] => true,
        [0xC2, second, ..] => *second >= 0xA0,
        [0xEF, 0xBB, 0xBF, ..] => false,
        [0xEF, 0xBF, 0xBE | 0xBF, ..] => false,
        [0xC3..=0xEF, ..] => true,
        [0xF0..=0xFF, ..] => !quirks.astral_escaped,
        _ => false,
    }
}

fn is_break(bytes: &[u8]) -> bool {
    matches!(bytes, [b'\r' | b'\n', ..] | [0xC2, 0x85, ..] | [0xE2, 0x80, 0xA8 | 0xA9, ..])
}

fn is_break_char(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn width_of(byte: u8) -> usize {
    match byte {
        0..=0x7F => 1,
        0x80..=0xDF => 2,
        0xE0..=0xEF => 3,
        _ => 4,
    }
}

// === writing ===

impl Writer {
    pub(super) fn write_plain(&mut self, text: &str) {
        if !text.is_empty() {
            if !self.whitespace {
                self.put(' ');
            }
            self.write(text);
            self.whitespace = false;
        }
        self.indention = false;
    }

    pub(super) fn write_single_quoted(&mut self, text: &str, quirks: Quirks) {
        self.indicator("'");
        let mut after_break = false;
        for piece in text.split_inclusive(is_break_char) {
            let (line, line_break) = split_break(piece);
            if !line.is_empty() {
                if after_break {
                    self.write_indent();
                }
                self.write_doubling_quotes(line);
                self.indention = false;
                after_break = false;
            }
            if let Some(c) = line_break {
                if !after_break && c == '\n' {
                    self.put_break();
                }
                self.write_break(c);
                after_break = true;
            }
        }
        if after_break && !quirks.quote_in_first_column {
            self.write_indent();
        }
        self.closing_indicator("'");
    }

    fn write_doubling_quotes(&mut self, line: &str) {
        for (number, part) in line.split('\'').enumerate() {
            if number > 0 {
                self.write("''");
            }
            self.write(part);
        }
    }

    pub(super) fn write_double_quoted(&mut self, text: &str, quirks: Quirks) {
        self.indicator("\"");
        // A text that starts with a byte order mark is escaped throughout.
        let escape_all = quirks.astral_escaped && text.starts_with('\u{FEFF}');
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let stop = rest
                .char_indices()
                .find(|&(at, c)| escape_all || needs_escape(c, &rest.as_bytes()[at..], quirks))
                .map_or(rest.len(), |(at, _)| at);
            if stop > 0 {
                self.write(&rest[..stop]);
                rest = &rest[stop..];
            } else {
                self.write_escaped(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        self.closing_indicator("\"");
    }

    fn write_escaped(&mut self, c: char) {
        let short = match c {
            '\0' => '0',
            '\x07' => 'a',
            '\x08' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\x0B' => 'v',
            '\x0C' => 'f',
            '\r' => 'r',
            '\x1B' => 'e',
            '"' => '"',
            '\\' => '\\',
            '\u{85}' => 'N',
            '\u{A0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => {
                let code = u32::from(c);
                let escape = match code {
                    0..=0xFF => format!("\\x{code:02X}"),
                    0x100..=0xFFFF => format!("\\u{code:04X}"),
                    _ => format!("\\U{code:08X}"),
                };
                return self.write(&escape);
            }
        };
        self.put('\\');
        self.put(short);
    }

    /// The signs behind `|` or `>` that keep leading blanks and trailing breaks.
    pub(super) fn write_block_hints(&mut self, text: &str, quirks: Quirks) {
        let leading_tab = !quirks.leading_tab_unmarked && text.starts_with('\t');
        if leading_tab || text.starts_with(|c| c == ' ' || is_break_char(c)) {
            self.closing_indicator("2");
        }
        let mut back = text.chars().rev();
        match (back.next(), back.next()) {
            (Some(last), before) if is_break_char(last) => {
                if before.is_none_or(is_break_char) {
                    self.closing_indicator("+");
                }
            }
            _ => self.closing_indicator("-"),
        }
    }

    pub(super) fn write_literal_lines(&mut self, text: &str) {
        self.whitespace = true;
        for piece in text.split_inclusive(is_break_char) {
            let (line, line_break) = split_break(piece);
            if !line.is_empty() {
                self.write_indent();
                self.write(line);
                self.indention = false;
            }
            if let Some(c) = line_break {
                self.write_break(c);
            }
        }
    }

    /// One line of output for each line of text. Between two lines that do not start with a blank a
    /// reader folds the first break, so one more is needed.
    pub(super) fn write_folded_lines(&mut self, text: &str, quirks: Quirks) {
        self.whitespace = true;
        let starts_blank = |line: &str| line.starts_with([' ', '\t']);
        // The original looks at the first line of the text instead of the line to come.
        let first_line_blank = starts_blank(text.trim_start_matches(is_break_char));
        let mut after_break = true;
        let mut line_blank = true;
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(is_break_char).unwrap_or(rest.len());
            let (line, tail) = rest.split_at(end);
            if !line.is_empty() {
                if after_break {
                    self.write_indent();
                    line_blank = starts_blank(line);
                }
                self.write(line);
                self.indention = false;
                after_break = false;
            }
            let Some(c) = tail.chars().next() else { break };
            if !after_break && !line_blank && c == '\n' {
                let next = tail.trim_start_matches(is_break_char);
                let extra = if quirks.growing_folds {
                    !first_line_blank
                } else {
                    !next.is_empty() && !starts_blank(next)
                };
                if extra {
                    self.put_break();
                }
            }
            self.write_break(c);
            after_break = true;
            rest = &tail[c.len_utf8()..];
        }
    }
}

fn needs_escape(c: char, bytes: &[u8], quirks: Quirks) -> bool {
    match c {
        '"' | '\\' => true,
        ' '..='~' => false,
        _ => !is_printable(bytes, quirks) || is_break(bytes),
    }
}

fn split_break(piece: &str) -> (&str, Option<char>) {
    match piece.chars().next_back().filter(|&c| is_break_char(c)) {
        Some(c) => (&piece[..piece.len() - c.len_utf8()], Some(c)),
        None => (piece, None),
    }
}
