//! The reading position: bytes inside, characters outside.

use super::token::{Mark, TokenKind};

pub(super) struct Cursor<'s> {
    pub(super) bytes: &'s [u8],
    pub(super) pos: usize,
    /// How many bytes so far were the second or later byte of a character.
    skew: usize,
    pub(super) line: u32,
    /// The character index at which the current line starts.
    line_start: usize,
    /// Line breaks since the last character that was not blank.
    pub(super) breaks: u32,
}

impl<'s> Cursor<'s> {
    pub(super) fn new(bytes: &'s [u8]) -> Self {
        Self { bytes, pos: 0, skew: 0, line: 0, line_start: 0, breaks: 0 }
    }

    /// The byte `ahead` of the position; 0 stands for the end, as the input holds no such byte.
    #[inline]
    pub(super) fn byte(&self, ahead: usize) -> u8 {
        self.bytes.get(self.pos + ahead).copied().unwrap_or(0)
    }

    #[inline]
    pub(super) fn index(&self) -> u32 {
        (self.pos - self.skew) as u32
    }

    #[inline]
    pub(super) fn column(&self) -> u32 {
        (self.pos - self.skew - self.line_start) as u32
    }

    #[inline]
    pub(super) fn mark(&self) -> Mark {
        Mark { index: self.index(), line: self.line, column: self.column() }
    }

    #[inline]
    pub(super) fn is_break(&self, ahead: usize) -> bool {
        break_length(self.bytes, self.pos + ahead) > 0
    }

    #[inline]
    pub(super) fn is_break_or_end(&self, ahead: usize) -> bool {
        self.pos + ahead >= self.bytes.len() || self.is_break(ahead)
    }

    #[inline]
    pub(super) fn is_blank(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), b' ' | b'\t')
    }

    #[inline]
    pub(super) fn is_blank_or_end(&self, ahead: usize) -> bool {
        self.is_blank(ahead) || self.is_break_or_end(ahead)
    }

    /// `---` or `...` here, at the start of a line and followed by a blank or the end.
    pub(super) fn document_marker(&self) -> Option<TokenKind> {
        if self.column() != 0 {
            return None;
        }
        let kind = match self.bytes.get(self.pos..self.pos + 3)? {
            b"---" => TokenKind::DocumentStart,
            b"..." => TokenKind::DocumentEnd,
            _ => return None,
        };
        self.is_blank_or_end(3).then_some(kind)
    }

    /// Moves over characters of one byte that are neither blank nor a break.
    #[inline]
    pub(super) fn advance_ascii(&mut self, count: usize) {
        self.pos += count;
        self.breaks = 0;
    }

    /// Moves over a run on one line that ends in something not blank.
    #[inline]
    pub(super) fn advance_run(&mut self, end: usize, multibyte: bool) {
        if multibyte {
            self.skew += continuation_bytes(&self.bytes[self.pos..end]);
        }
        self.pos = end;
        self.breaks = 0;
    }

    /// Moves over spaces, and over tabs if allowed.
    #[inline]
    pub(super) fn skip_blanks(&mut self, tabs: bool) {
        while let Some(byte) = self.bytes.get(self.pos) {
            if *byte == b' ' || (tabs && *byte == b'\t') {
                self.pos += 1;
            } else {
                break;
            }
        }
    }

    /// Moves over a single blank.
    #[inline]
    pub(super) fn skip_blank(&mut self) {
        self.pos += 1;
    }

    /// Moves over a line break if there is one.
    pub(super) fn skip_break(&mut self) {
        let length = break_length(self.bytes, self.pos);
        if length == 0 {
            return;
        }
        if self.bytes[self.pos] >= 0x80 {
            self.skew += length - 1;
        }
        self.pos += length;
        self.line += 1;
        self.line_start = self.pos - self.skew;
        self.breaks += 1;
    }

    /// Where the current line ends: at its break or at the end of the text.
    pub(super) fn line_end(&self) -> usize {
        line_end(self.bytes, self.pos)
    }

    /// Moves to the end of the line; the rest of it is not only blanks.
    pub(super) fn advance_to(&mut self, end: usize) {
        let multibyte = !self.bytes[self.pos..end].is_ascii();
        self.advance_run(end, multibyte);
    }

    /// At the end of the text an unfinished line counts as finished.
    pub(super) fn end_line(&mut self) {
        if self.column() != 0 {
            self.line += 1;
            self.line_start = self.pos - self.skew;
        }
    }
}

fn continuation_bytes(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte & 0xC0 == 0x80).count()
}

/// The length of the line break at `at`, 0 if there is none. CR LF is one break.
#[inline]
pub(super) fn break_length(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        Some(b'\n') => 1,
        Some(b'\r') => 1 + usize::from(bytes.get(at + 1) == Some(&b'\n')),
        Some(0xC2) if bytes.get(at + 1) == Some(&0x85) => 2,
        Some(0xE2) if bytes.get(at + 1) == Some(&0x80) && matches!(bytes.get(at + 2), Some(0xA8 | 0xA9)) => 3,
        _ => 0,
    }
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            b'\n' | b'\r' => return at,
            0xC2 | 0xE2 if break_length(bytes, at) > 0 => return at,
            _ => at += 1,
        }
    }
    at
}
