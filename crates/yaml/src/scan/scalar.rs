//! Scalars in their five styles, decoded.
//!
//! Text that stands in the source exactly as it reads, which is most of it, is not copied.

use super::cursor::break_length;
use super::fragment::Fragment;
use super::run::{plain_run_end, quoted_run_end};
use super::token::{Mark, TokenKind};
use super::{Scan, Scanner};
use crate::node::ScalarStyle;

/// Line breaks and blanks met inside a scalar whose effect depends on what follows.
#[derive(Default)]
struct Gap {
    /// Blanks on a line, before any break.
    blanks: std::ops::Range<usize>,
    first_break: Fragment,
    /// The first break is an ordinary one, which folds into a space.
    folds: bool,
    more_breaks: Fragment,
    /// The gap holds a break, even if it was escaped.
    broken: bool,
}

/// What to do with the breaks at the end of a block scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}

struct BlockHeader {
    chomping: Chomping,
    /// The indentation relative to the parent, if it is given.
    increment: Option<i32>,
}

impl Scanner<'_> {
    // === block scalars ===

    pub(super) fn fetch_block_scalar(&mut self, literal: bool) -> Scan {
        self.forget_key()?;
        self.key_allowed = true;
        let start = self.cursor.mark();
        self.cursor.advance_ascii(1);
        let header = self.scan_block_header(start)?;
        let source = self.source.as_str();

        let mut indent = header.increment.map(|increment| self.indent.max(0) + increment);
        let mut text = Fragment::default();
        let mut line_break = Fragment::default();
        let mut folds = false;
        let mut more_breaks = Fragment::default();
        let content_indent = self.scan_block_breaks(&mut indent, &mut more_breaks, start)?;
        let mut after_blank = false;
        while self.cursor.column() as i32 == content_indent && self.cursor.pos < self.cursor.bytes.len() {
            let blank = self.cursor.is_blank(0);
            if !literal && !after_blank && !blank && folds {
                if more_breaks.is_empty() {
                    text.push(source, ' ');
                }
                line_break = Fragment::default();
            } else {
                text.append(source, &mut line_break);
            }
            text.append(source, &mut more_breaks);
            after_blank = blank;

            let from = self.cursor.pos;
            let end = self.cursor.line_end();
            self.advance_line(end);
            text.push_piece(source, from..end);
            folds = self.take_break(&mut line_break);
            self.scan_block_breaks(&mut indent, &mut more_breaks, start)?;
        }
        if header.chomping != Chomping::Strip {
            text.append(source, &mut line_break);
        }
        if header.chomping == Chomping::Keep {
            text.append(source, &mut more_breaks);
        }
        let style = if literal { ScalarStyle::Literal } else { ScalarStyle::Folded };
        let text = text.take(self.source);
        self.push(TokenKind::Scalar(text, style), start);
        Ok(())
    }

    /// The rest of the line behind `|` or `>`: indicators in any order, then perhaps a comment.
    fn scan_block_header(&mut self, start: Mark) -> Scan<BlockHeader> {
        let mut header = BlockHeader { chomping: Chomping::Clip, increment: None };
        if !self.scan_chomping(&mut header) {
            self.scan_increment(&mut header, start)?;
            self.scan_chomping(&mut header);
        } else {
            self.scan_increment(&mut header, start)?;
        }
        self.cursor.skip_blanks(true);
        if self.cursor.byte(0) == b'#' {
            self.scan_line_comment(start);
        }
        if !self.cursor.is_break_or_end(0) {
            return Err(self.error(start, "did not find expected comment or line break"));
        }
        self.cursor.skip_break();
        Ok(header)
    }

    fn scan_chomping(&mut self, header: &mut BlockHeader) -> bool {
        header.chomping = match self.cursor.byte(0) {
            b'+' => Chomping::Keep,
            b'-' => Chomping::Strip,
            _ => return false,
        };
        self.cursor.advance_ascii(1);
        true
    }

    fn scan_increment(&mut self, header: &mut BlockHeader, start: Mark) -> Scan {
        match self.cursor.byte(0) {
            b'0' => Err(self.error(start, "found an indentation indicator equal to 0")),
            digit @ b'1'..=b'9' => {
                header.increment = Some(i32::from(digit - b'0'));
                self.cursor.advance_ascii(1);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Skips indentation and empty lines, and finds the indentation out if it is not known yet.
    fn scan_block_breaks(
        &mut self,
        indent: &mut Option<i32>,
        breaks: &mut Fragment,
        start: Mark,
    ) -> Scan<i32> {
        let mut widest = 0;
        loop {
            let mut column = self.cursor.column() as i32;
            while indent.is_none_or(|indent| column < indent) && self.cursor.byte(0) == b' ' {
                self.cursor.skip_blank();
                column += 1;
            }
            widest = widest.max(column);
            if indent.is_none_or(|indent| column < indent) && self.cursor.byte(0) == b'\t' {
                let problem = "found a tab character where an indentation space is expected";
                return Err(self.error(start, problem));
            }
            if !self.cursor.is_break(0) {
                break;
            }
            self.take_break(breaks);
        }
        Ok(*indent.get_or_insert(widest.max(self.indent + 1).max(1)))
    }

    // === quoted scalars ===

    pub(super) fn fetch_quoted_scalar(&mut self, quote: u8) -> Scan {
        self.remember_key()?;
        self.key_allowed = false;
        let start = self.cursor.mark();
        self.cursor.advance_ascii(1);
        let source = self.source.as_str();
        let mut text = Fragment::default();
        loop {
            if self.cursor.document_marker().is_some() {
                return Err(self.error(start, "found unexpected document indicator"));
            }
            if self.cursor.pos >= self.cursor.bytes.len() {
                return Err(self.error(start, "found unexpected end of stream"));
            }
            let mut gap = Gap::default();
            self.scan_quoted_run(quote, &mut text, &mut gap, start)?;
            if self.cursor.byte(0) == quote {
                break;
            }
            self.scan_gap(&mut gap, None, start)?;
            text.push_gap(source, &mut gap);
        }
        self.cursor.advance_ascii(1);
        let style = if quote == b'\'' { ScalarStyle::SingleQuoted } else { ScalarStyle::DoubleQuoted };
        let text = text.take(self.source);
        self.push(TokenKind::Scalar(text, style), start);
        Ok(())
    }

    /// Reads up to the closing quote, a blank or a break; an escaped break opens the gap.
    fn scan_quoted_run(&mut self, quote: u8, text: &mut Fragment, gap: &mut Gap, start: Mark) -> Scan {
        let source = self.source.as_str();
        loop {
            let from = self.cursor.pos;
            let (end, multibyte) = quoted_run_end(self.cursor.bytes, from, quote);
            if end > from {
                self.cursor.advance_run(end, multibyte);
                text.push_piece(source, from..end);
            }
            match self.cursor.byte(0) {
                b'\'' if quote == b'\'' && self.cursor.byte(1) == b'\'' => {
                    text.push(source, '\'');
                    self.cursor.advance_ascii(2);
                }
                b'\\' if quote == b'"' && self.cursor.is_break(1) => {
                    self.cursor.advance_ascii(1);
                    self.cursor.skip_break();
                    gap.broken = true;
                    return Ok(());
                }
                b'\\' if quote == b'"' => {
                    let c = self.scan_escape(start)?;
                    text.push(source, c);
                }
                _ => return Ok(()),
            }
        }
    }

    fn scan_escape(&mut self, start: Mark) -> Scan<char> {
        let c = match self.cursor.byte(1) {
            b'0' => '\0',
            b'a' => '\x07',
            b'b' => '\x08',
            b't' | b'\t' => '\t',
            b'n' => '\n',
            b'v' => '\x0B',
            b'f' => '\x0C',
            b'r' => '\r',
            b'e' => '\x1B',
            b' ' => ' ',
            b'"' => '"',
            b'\'' => '\'',
            b'\\' => '\\',
            b'/' if self.escaped_slash => '/',
            b'N' => '\u{85}',
            b'_' => '\u{A0}',
            b'L' => '\u{2028}',
            b'P' => '\u{2029}',
            b'x' => return self.scan_code_point(2, start),
            b'u' => return self.scan_code_point(4, start),
            b'U' => return self.scan_code_point(8, start),
            _ => return Err(self.error(start, "found unknown escape character")),
        };
        self.cursor.advance_ascii(2);
        Ok(c)
    }

    fn scan_code_point(&mut self, digits: usize, start: Mark) -> Scan<char> {
        self.cursor.advance_ascii(2);
        let mut value: u32 = 0;
        for ahead in 0..digits {
            let Some(digit) = char::from(self.cursor.byte(ahead)).to_digit(16) else {
                return Err(self.error(start, "did not find expected hexdecimal number"));
            };
            value = (value << 4) | digit;
        }
        let Some(c) = char::from_u32(value) else {
            return Err(self.error(start, "found invalid Unicode character escape code"));
        };
        self.cursor.advance_ascii(digits);
        Ok(c)
    }

    // === plain scalars ===

    pub(super) fn fetch_plain_scalar(&mut self) -> Scan {
        self.remember_key()?;
        self.key_allowed = false;
        let source = self.source.as_str();
        let start = self.cursor.mark();
        let in_flow = self.in_flow();
        let indent = self.indent + 1;
        let mut text = Fragment::default();
        let mut gap = Gap::default();
        while self.cursor.document_marker().is_none() && self.cursor.byte(0) != b'#' {
            let from = self.cursor.pos;
            let (end, multibyte) = plain_run_end(self.cursor.bytes, from, in_flow);
            if end > from {
                text.push_gap(source, &mut gap);
                text.push_piece(source, from..end);
                self.cursor.advance_run(end, multibyte);
            }
            if !self.cursor.is_blank(0) && !self.cursor.is_break(0) {
                break;
            }
            self.scan_gap(&mut gap, Some(indent), start)?;
            if !in_flow && (self.cursor.column() as i32) < indent {
                break;
            }
        }
        if gap.broken {
            self.key_allowed = true;
        }
        let text = text.take(self.source);
        self.push(TokenKind::Scalar(text, ScalarStyle::Plain), start);
        Ok(())
    }

    // === blanks and breaks ===

    /// Reads blanks and breaks. With `indent`, a tab must not stand where indentation belongs.
    fn scan_gap(&mut self, gap: &mut Gap, indent: Option<i32>, start: Mark) -> Scan {
        loop {
            if self.cursor.is_blank(0) {
                let tab = self.cursor.byte(0) == b'\t';
                if gap.broken && tab && indent.is_some_and(|indent| (self.cursor.column() as i32) < indent) {
                    return Err(self.error(start, "found a tab character that violates indentation"));
                }
                if !gap.broken {
                    let at = self.cursor.pos;
                    gap.blanks = if gap.blanks.is_empty() { at..at + 1 } else { gap.blanks.start..at + 1 };
                }
                self.cursor.skip_blank();
            } else if self.cursor.is_break(0) {
                if gap.broken {
                    self.take_break(&mut gap.more_breaks);
                } else {
                    gap.blanks = 0..0;
                    gap.folds = self.take_break(&mut gap.first_break);
                    gap.broken = true;
                }
            } else {
                return Ok(());
            }
        }
    }

    /// Moves over a break and appends its normal form. Tells whether it was an ordinary one; the
    /// line and paragraph separators are not.
    fn take_break(&mut self, into: &mut Fragment) -> bool {
        let source = self.source.as_str();
        let at = self.cursor.pos;
        let length = break_length(self.cursor.bytes, at);
        self.cursor.skip_break();
        match (length, self.cursor.bytes.get(at)) {
            (0, _) => false,
            (1, Some(b'\n')) => {
                into.push_piece(source, at..at + 1);
                true
            }
            (3, _) => {
                into.push_piece(source, at..at + 3);
                false
            }
            _ => {
                into.push(source, '\n');
                true
            }
        }
    }

    /// Moves to the end of a line that may consist of blanks only.
    fn advance_line(&mut self, end: usize) {
        let breaks = self.cursor.breaks;
        let only_blanks = self.cursor.bytes[self.cursor.pos..end].iter().all(|b| matches!(b, b' ' | b'\t'));
        self.cursor.advance_to(end);
        if only_blanks {
            self.cursor.breaks = breaks;
        }
    }
}

impl Fragment {
    /// Appends another fragment and empties it.
    fn append(&mut self, source: &str, other: &mut Fragment) {
        let other = std::mem::take(other);
        let (piece, owned) = other.into_parts();
        self.push_piece(source, piece);
        self.push_str(source, &owned);
    }

    /// Appends a gap the way it reads: breaks fold, blanks stay. The gap is empty afterwards.
    fn push_gap(&mut self, source: &str, gap: &mut Gap) {
        if gap.broken {
            let mut gap = std::mem::take(gap);
            if !gap.folds {
                self.append(source, &mut gap.first_break);
                self.append(source, &mut gap.more_breaks);
            } else if gap.more_breaks.is_empty() {
                self.push(source, ' ');
            } else {
                self.append(source, &mut gap.more_breaks);
            }
        } else {
            self.push_piece(source, std::mem::take(&mut gap.blanks));
        }
    }
}
