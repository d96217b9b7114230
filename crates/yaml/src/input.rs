//! From bytes to text: encodings, and the characters YAML does not allow.

use crate::error::Error;

/// The block size in which go-yaml reads: a bad character spoils its whole block, so errors in the
/// text before the block are reported and those in the block are not.
const READ_BLOCK: usize = 512;

/// The longest text whose columns fit a signed number.
const MAX_LENGTH: usize = i32::MAX as usize - 1;

/// Decoded text, as far as it is allowed.
pub(crate) struct Input {
    pub(crate) text: String,
    /// If a bad character was met: the text ends before the block it stands in.
    pub(crate) spoiled: Option<Error>,
}

impl Input {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let decoded = match bytes {
            [0xFF, 0xFE, rest @ ..] => decode_utf16(rest, u16::from_le_bytes)?,
            [0xFE, 0xFF, rest @ ..] => decode_utf16(rest, u16::from_be_bytes)?,
            _ => match std::str::from_utf8(bytes) {
                Ok(text) => text.to_owned(),
                Err(error) => {
                    let (good, bad) = bytes.split_at(error.valid_up_to());
                    let good = String::from_utf8_lossy(good).into_owned();
                    // A character that is not allowed may come before the bytes that are not a character.
                    let input = Self::from_string(good)?;
                    return Ok(match input.spoiled {
                        Some(_) => input,
                        None => input.spoil_from(error.valid_up_to(), Error::new(utf8_problem(bad)), bytes),
                    });
                }
            },
        };
        Self::from_string(decoded)
    }

    pub(crate) fn from_string(text: String) -> Result<Self, Error> {
        if text.len() > MAX_LENGTH {
            return Err(Error::new(format!("input of {} bytes is larger than {MAX_LENGTH}", text.len())));
        }
        let bad = find_control(text.as_bytes());
        let text = match text.strip_prefix('\u{FEFF}') {
            Some(rest) => rest.to_owned(),
            None => text,
        };
        let input = Self { text, spoiled: None };
        Ok(match bad {
            None => input,
            Some(at) => {
                let bytes = input.text.clone().into_bytes();
                let error = Error::new("control characters are not allowed");
                input.spoil_from(at, error, &bytes)
            }
        })
    }

    /// Cuts the text before the block that holds `at` and gives the error its place.
    fn spoil_from(mut self, at: usize, error: Error, bytes: &[u8]) -> Self {
        let before = &self.text[..floor_char_boundary(&self.text, at)];
        let line = before.matches('\n').count() as u32 + 1;
        let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) as u32 + 1;
        let mut block = 0;
        loop {
            let next = floor_boundary(bytes, block + READ_BLOCK);
            if next > at || next <= block {
                break;
            }
            block = next;
        }
        let cut = floor_char_boundary(&self.text, block);
        self.text.truncate(cut);
        self.spoiled = Some(error.at(line, column));
        self
    }
}

fn floor_char_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn floor_boundary(bytes: &[u8], at: usize) -> usize {
    let mut at = at.min(bytes.len());
    while at > 0 && at < bytes.len() && bytes[at] & 0xC0 == 0x80 {
        at -= 1;
    }
    at
}

/// The first character that YAML forbids even inside quotes.
fn find_control(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + bytes[from..].iter().position(|&byte| SUSPECT[byte as usize])?;
        let forbidden = match bytes[at] {
            0xC2 => matches!(bytes.get(at + 1), Some(0x80..=0x84 | 0x86..=0x9F)),
            0xEF => matches!(bytes.get(at + 1..at + 3), Some([0xBF, 0xBE | 0xBF])),
            _ => true,
        };
        if forbidden {
            return Some(at);
        }
        from = at + 1;
    }
}

/// Bytes that are, or may begin, a forbidden character.
static SUSPECT: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = !matches!(byte as u8, b'\t' | b'\n' | b'\r');
        byte += 1;
    }
    table[0x7F] = true;
    table[0xC2] = true;
    table[0xEF] = true;
    table
};

/// What is wrong with bytes that are not UTF-8.
fn utf8_problem(bad: &[u8]) -> &'static str {
    let lead = bad.first().copied().unwrap_or(0);
    let width = match lead {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => return "invalid leading UTF-8 octet",
    };
    if bad.len() < width {
        return "incomplete UTF-8 octet sequence";
    }
    if bad[1..width].iter().any(|byte| byte & 0xC0 != 0x80) {
        return "invalid trailing UTF-8 octet";
    }
    let too_long = match width {
        2 => lead < 0xC2,
        3 => lead == 0xE0 && bad[1] < 0xA0,
        _ => lead == 0xF0 && bad[1] < 0x90,
    };
    if too_long { "invalid length of a UTF-8 sequence" } else { "invalid Unicode character" }
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, Error> {
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    let mut text = String::with_capacity(bytes.len());
    for (at, decoded) in char::decode_utf16(units).enumerate() {
        match decoded {
            Ok(c) => text.push(c),
            Err(error) => {
                let low = error.unpaired_surrogate() & 0xFC00 == 0xDC00;
                let at_end = (at + 1) * 2 >= bytes.len();
                return Err(Error::new(match (low, at_end) {
                    (true, _) => "unexpected low surrogate area",
                    (false, true) => "incomplete UTF-16 surrogate pair",
                    (false, false) => "expected low surrogate area",
                }));
            }
        }
    }
    if bytes.len() % 2 == 1 {
        return Err(Error::new("incomplete UTF-16 character"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(bytes: &[u8]) -> String {
        match Input::from_bytes(bytes) {
            Ok(input) => input.spoiled.expect("spoiled").to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_byte_order_mark_is_swallowed_and_utf_16_is_decoded() {
        let text = |bytes: &[u8]| Input::from_bytes(bytes).expect("valid").text;
        assert_eq!(text(b"\xEF\xBB\xBFa: 1"), "a: 1");
        assert_eq!(text(b"\xFF\xFEa\0:\0 \0\xE9\0"), "a: é");
        assert_eq!(text(b"\xFE\xFF\0a\xD8\x3D\xDE\0"), "a😀");
    }

    #[test]
    fn bytes_that_are_no_text_are_named_as_go_yaml_names_them() {
        assert_eq!(problem(b"a: \xFF"), "yaml: invalid leading UTF-8 octet");
        assert_eq!(problem(b"a: \xC3"), "yaml: incomplete UTF-8 octet sequence");
        assert_eq!(problem(b"a: \xC3("), "yaml: invalid trailing UTF-8 octet");
        assert_eq!(problem(b"a: \xC0\x80"), "yaml: invalid length of a UTF-8 sequence");
        assert_eq!(problem(b"a: \xED\xA0\x80"), "yaml: invalid Unicode character");
        assert_eq!(problem(b"\xFF\xFEa"), "yaml: incomplete UTF-16 character");
    }

    #[test]
    fn control_characters_are_refused_with_their_place() {
        for bytes in
            [&b"a\nb: \x01"[..], b"a\nb: \x7F", "a\nb: \u{80}".as_bytes(), "a\nb: \u{FFFE}".as_bytes()]
        {
            let error = Input::from_bytes(bytes).expect("decodes").spoiled.expect("spoiled");
            assert_eq!(error.to_string(), "yaml: control characters are not allowed");
            assert_eq!((error.line(), error.column()), (Some(2), Some(4)));
        }
        assert!(
            Input::from_bytes("\u{85}\u{A0}\u{FFFD}😀\t\r\n".as_bytes()).expect("valid").spoiled.is_none()
        );
    }
}
