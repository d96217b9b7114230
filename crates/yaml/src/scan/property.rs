//! Anchors, aliases, tags and directives.

use super::token::{TagParts, TokenKind};
use super::{Scan, Scanner};
use crate::text::Text;

impl Scanner<'_> {
    // === anchors ===

    pub(super) fn fetch_anchor(&mut self, anchor: bool) -> Scan {
        self.remember_key()?;
        self.key_allowed = false;
        let start = self.cursor.mark();
        self.cursor.advance_ascii(1);
        let name = self.take_name();
        let ends = self.cursor.is_blank_or_end(0)
            || matches!(self.cursor.byte(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !ends {
            return Err(self.error(start, "did not find expected alphabetic or numeric character"));
        }
        self.push(if anchor { TokenKind::Anchor(name) } else { TokenKind::Alias(name) }, start);
        Ok(())
    }

    /// Letters, digits, `-` and `_`.
    fn take_name(&mut self) -> Text {
        let from = self.cursor.pos;
        while is_name_byte(self.cursor.byte(0)) {
            self.cursor.advance_ascii(1);
        }
        Text::from_source(self.source, from..self.cursor.pos)
    }

    // === tags ===

    pub(super) fn fetch_tag(&mut self) -> Scan {
        self.remember_key()?;
        self.key_allowed = false;
        let start = self.cursor.mark();
        let parts =
            if self.cursor.byte(1) == b'<' { self.scan_verbatim_tag()? } else { self.scan_short_tag()? };
        if !self.cursor.is_blank_or_end(0) {
            return Err(self.error(start, "did not find expected whitespace or line break"));
        }
        self.push(TokenKind::Tag(Box::new(parts)), start);
        Ok(())
    }

    fn scan_verbatim_tag(&mut self) -> Scan<TagParts> {
        let start = self.cursor.mark();
        self.cursor.advance_ascii(2);
        let suffix = self.scan_uri(String::new(), false, start)?;
        if self.cursor.byte(0) != b'>' {
            return Err(self.error(start, "did not find the expected '>'"));
        }
        self.cursor.advance_ascii(1);
        Ok(TagParts { handle: Text::new(), suffix })
    }

    fn scan_short_tag(&mut self) -> Scan<TagParts> {
        let start = self.cursor.mark();
        let handle = self.scan_handle(false)?;
        if handle.len() > 1 && handle.ends_with('!') {
            let suffix = self.scan_uri(String::new(), false, start)?;
            return Ok(TagParts { handle, suffix });
        }
        // What looked like a handle is the beginning of the suffix.
        let suffix = self.scan_uri(handle[1..].to_owned(), true, start)?;
        Ok(if suffix.is_empty() {
            TagParts { handle: Text::new(), suffix: "!".to_owned() }
        } else {
            TagParts { handle: handle.slice(0..1), suffix }
        })
    }

    fn scan_handle(&mut self, directive: bool) -> Scan<Text> {
        let start = self.cursor.mark();
        let from = self.cursor.pos;
        if self.cursor.byte(0) != b'!' {
            return Err(self.error(start, "did not find expected '!'"));
        }
        self.cursor.advance_ascii(1);
        self.take_name();
        if self.cursor.byte(0) == b'!' {
            self.cursor.advance_ascii(1);
        } else if directive && self.cursor.pos - from > 1 {
            return Err(self.error(start, "did not find expected '!'"));
        }
        Ok(Text::from_source(self.source, from..self.cursor.pos))
    }

    /// Reads what may stand in a tag, resolving `%xx`. `started` says that nothing more is fine.
    fn scan_uri(&mut self, head: String, started: bool, start: super::Mark) -> Scan<String> {
        let from = self.cursor.pos;
        let mut uri = head;
        loop {
            let byte = self.cursor.byte(0);
            if byte == b'%' {
                let octets = self.scan_uri_escape(start)?;
                match String::from_utf8(octets) {
                    Ok(text) => uri.push_str(&text),
                    Err(_) => return Err(self.error(start, "found an incorrect trailing UTF-8 octet")),
                }
            } else if is_uri_byte(byte) {
                uri.push(char::from(byte));
                self.cursor.advance_ascii(1);
            } else {
                break;
            }
        }
        if !started && self.cursor.pos == from {
            return Err(self.error(start, "did not find expected tag URI"));
        }
        Ok(uri)
    }

    /// The octets of one character, each written as `%xx`.
    fn scan_uri_escape(&mut self, start: super::Mark) -> Scan<Vec<u8>> {
        let mut octets = Vec::with_capacity(4);
        let mut expected = 1;
        while octets.len() < expected {
            let digits = self.cursor.bytes.get(self.cursor.pos + 1..self.cursor.pos + 3);
            let octet = match digits {
                Some(&[high, low]) if self.cursor.byte(0) == b'%' => hex_octet(high, low),
                _ => None,
            };
            let Some(octet) = octet else {
                return Err(self.error(start, "did not find URI escaped octet"));
            };
            if octets.is_empty() {
                expected = match octet {
                    0..=0x7F => 1,
                    0xC0..=0xDF => 2,
                    0xE0..=0xEF => 3,
                    0xF0..=0xF7 => 4,
                    _ => return Err(self.error(start, "found an incorrect leading UTF-8 octet")),
                };
            } else if octet & 0xC0 != 0x80 {
                return Err(self.error(start, "found an incorrect trailing UTF-8 octet"));
            }
            octets.push(octet);
            self.cursor.advance_ascii(3);
        }
        Ok(octets)
    }

    // === directives ===

    pub(super) fn fetch_directive(&mut self) -> Scan {
        self.close_blocks(-1, self.cursor.mark());
        self.forget_key()?;
        self.key_allowed = false;
        let start = self.cursor.mark();
        self.cursor.advance_ascii(1);
        let name = self.take_name();
        if name.is_empty() {
            return Err(self.error(start, "could not find expected directive name"));
        }
        if !self.cursor.is_blank_or_end(0) {
            return Err(self.error(start, "found unexpected non-alphabetical character"));
        }
        let kind = match name.as_str() {
            "YAML" => self.scan_version()?,
            "TAG" => self.scan_tag_definition()?,
            _ => return Err(self.error(start, "found unknown directive name")),
        };
        self.cursor.skip_blanks(true);
        if self.cursor.byte(0) == b'#' {
            let end = self.cursor.line_end();
            self.cursor.advance_to(end);
        }
        if !self.cursor.is_break_or_end(0) {
            return Err(self.error(start, "did not find expected comment or line break"));
        }
        self.cursor.skip_break();
        self.push(kind, start);
        Ok(())
    }

    fn scan_version(&mut self) -> Scan<TokenKind> {
        let start = self.cursor.mark();
        self.cursor.skip_blanks(true);
        let major = self.scan_version_number()?;
        if self.cursor.byte(0) != b'.' {
            return Err(self.error(start, "did not find expected digit or '.' character"));
        }
        self.cursor.advance_ascii(1);
        let minor = self.scan_version_number()?;
        Ok(TokenKind::VersionDirective { major, minor })
    }

    fn scan_version_number(&mut self) -> Scan<u8> {
        let start = self.cursor.mark();
        let mut value = 0;
        let mut digits = 0;
        while let digit @ b'0'..=b'9' = self.cursor.byte(0) {
            digits += 1;
            if digits > 2 {
                return Err(self.error(start, "found extremely long version number"));
            }
            value = value * 10 + (digit - b'0');
            self.cursor.advance_ascii(1);
        }
        if digits == 0 {
            return Err(self.error(start, "did not find expected version number"));
        }
        Ok(value)
    }

    fn scan_tag_definition(&mut self) -> Scan<TokenKind> {
        let start = self.cursor.mark();
        self.cursor.skip_blanks(true);
        let handle = self.scan_handle(true)?;
        if !self.cursor.is_blank(0) {
            return Err(self.error(start, "did not find expected whitespace"));
        }
        self.cursor.skip_blanks(true);
        let suffix = self.scan_uri(String::new(), false, start)?;
        if !self.cursor.is_blank_or_end(0) {
            return Err(self.error(start, "did not find expected whitespace or line break"));
        }
        Ok(TokenKind::TagDirective(Box::new(TagParts { handle, suffix })))
    }
}

pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_uri_byte(byte: u8) -> bool {
    is_name_byte(byte) || b";/?:@&=+$,.!~*'()[]".contains(&byte)
}

fn hex_octet(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}
