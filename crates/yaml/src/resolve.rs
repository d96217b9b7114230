//! What an unquoted scalar means: null, boolean, number, timestamp or plain string.
//!
//! The rules are go-yaml v3's, a mix of YAML 1.1 and 1.2: `yes` is a string, `017` is octal, `0o17`
//! too, `1_000` a number, `2001-01-01` a timestamp.

mod timestamp;

pub(crate) use self::timestamp::canonical as canonical_timestamp;
use crate::node::Tag;

/// The value of a scalar once its text has been read by the rules for unquoted text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resolved {
    /// Empty, `~`, `null`, `Null`, `NULL`.
    Null,
    /// `true`, `false` and their capitalised forms.
    Bool(bool),
    /// A whole number that fits 64 bits with a sign.
    Int(i64),
    /// A whole number above `i64::MAX`.
    Uint(u64),
    /// Any other number, infinities and not-a-number.
    Float(f64),
    /// A date, or a date and a time.
    Timestamp,
    /// Everything else.
    Str,
}

impl Resolved {
    /// The tag that goes with the value.
    #[must_use]
    pub fn tag(self) -> Tag {
        match self {
            Self::Null => Tag::Null,
            Self::Bool(_) => Tag::Bool,
            Self::Int(_) | Self::Uint(_) => Tag::Int,
            Self::Float(_) => Tag::Float,
            Self::Timestamp => Tag::Timestamp,
            Self::Str => Tag::Str,
        }
    }
}

/// Resolves the text of a plain scalar.
#[must_use]
pub fn resolve(text: &str) -> Resolved {
    let Some(&first) = text.as_bytes().first() else { return Resolved::Null };
    match first {
        b'0'..=b'9' | b'+' | b'-' => number_or_timestamp(text, true),
        b'.' => word(text).or_else(|| fraction(text)).unwrap_or(Resolved::Str),
        b't' | b'T' | b'f' | b'F' | b'n' | b'N' | b'~' => word(text).unwrap_or(Resolved::Str),
        _ => Resolved::Str,
    }
}

/// Resolves text that carries a tag other than `!!timestamp`, so that a date stays a string.
pub(crate) fn resolve_tagged(text: &str) -> Resolved {
    match text.as_bytes().first() {
        Some(b'0'..=b'9' | b'+' | b'-') => number_or_timestamp(text, false),
        _ => resolve(text),
    }
}

/// Whether YAML 1.1 reads the word as a boolean where go-yaml v3 sees a string. It is public for readers that
/// follow sigs.k8s.io/yaml, which still reads YAML 1.1.
#[must_use]
pub fn is_yaml11_bool(text: &str) -> bool {
    yaml11_bool(text).is_some()
}

pub(crate) fn yaml11_bool(text: &str) -> Option<bool> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// Whether YAML 1.1 reads the text as a number in base 60, such as `12:30:45`.
#[must_use]
pub(crate) fn is_base60(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (text, ""),
    };
    let mut groups = whole.split(':');
    let Some(first) = groups.next() else { return false };
    let digits_or_underscores = |s: &str| s.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let mut rest = groups.peekable();
    first.starts_with(|c: char| c.is_ascii_digit())
        && digits_or_underscores(first)
        && digits_or_underscores(fraction)
        && rest.peek().is_some()
        && rest.all(|group| match group.as_bytes() {
            [ones] => ones.is_ascii_digit(),
            [tens, ones] => (b'0'..=b'5').contains(tens) && ones.is_ascii_digit(),
            _ => false,
        })
}

/// The spellings that stand for themselves.
fn word(text: &str) -> Option<Resolved> {
    Some(match text {
        "true" | "True" | "TRUE" => Resolved::Bool(true),
        "false" | "False" | "FALSE" => Resolved::Bool(false),
        "" | "~" | "null" | "Null" | "NULL" => Resolved::Null,
        ".nan" | ".NaN" | ".NAN" => Resolved::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Resolved::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Resolved::Float(f64::NEG_INFINITY),
        _ => return None,
    })
}

fn number_or_timestamp(text: &str, dates: bool) -> Resolved {
    if let Some(value) = word(text) {
        return value;
    }
    if dates && timestamp::is_timestamp(text) {
        return Resolved::Timestamp;
    }
    // A number has no letter but those of prefixes, hexadecimal digits and exponents.
    if !text
        .bytes()
        .all(|b| b.is_ascii_hexdigit() || matches!(b, b'+' | b'-' | b'.' | b'_' | b'x' | b'X' | b'o' | b'O'))
    {
        return Resolved::Str;
    }
    let without_underscores;
    let digits = if text.contains('_') {
        without_underscores = text.replace('_', "");
        without_underscores.as_str()
    } else {
        text
    };
    integer(digits)
        .or_else(|| is_float_form(digits).then(|| finite(digits)).flatten())
        .or_else(|| prefix_before_sign(digits))
        .unwrap_or(Resolved::Str)
}

/// A whole number in the base its prefix names.
fn integer(text: &str) -> Option<Resolved> {
    let (negative, signed, digits) = split_sign(text);
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    whole(negative, signed, digits, base)
}

/// Oddities such as `0b-101` or `0o+7`: the sign after the prefix is accepted too.
fn prefix_before_sign(text: &str) -> Option<Resolved> {
    let (base, rest) = match text.get(..2) {
        Some("0b") => (2, &text[2..]),
        Some("0o") => (8, &text[2..]),
        _ => return None,
    };
    let (negative, signed, digits) = split_sign(rest);
    if signed { whole(negative, signed, digits, base) } else { None }
}

fn split_sign(text: &str) -> (bool, bool, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (true, true, &text[1..]),
        Some(b'+') => (false, true, &text[1..]),
        _ => (false, false, text),
    }
}

fn whole(negative: bool, signed: bool, digits: &str, base: u32) -> Option<Resolved> {
    // The standard parser would accept another sign here.
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    if negative {
        0i64.checked_sub_unsigned(magnitude).map(Resolved::Int)
    } else if let Ok(value) = i64::try_from(magnitude) {
        Some(Resolved::Int(value))
    } else {
        (!signed).then_some(Resolved::Uint(magnitude))
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float_form(text: &str) -> bool {
    let (_, _, unsigned) = split_sign(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && all_digits(fraction),
        Some((whole, fraction)) => all_digits(whole) && all_digits(fraction),
        None => !mantissa.is_empty() && all_digits(mantissa),
    };
    mantissa_fits
        && exponent.is_none_or(|exponent| {
            let (_, _, digits) = split_sign(exponent);
            !digits.is_empty() && all_digits(digits)
        })
}

/// A number that starts with its point. Here go-yaml leaves underscores to Go, which allows them only
/// between two digits.
fn fraction(text: &str) -> Option<Resolved> {
    if !text.contains('_') {
        return finite(text);
    }
    let is_digit = |part: Option<char>| part.is_some_and(|c| c.is_ascii_digit());
    let mut parts = text.split('_').peekable();
    while let Some(part) = parts.next() {
        if let Some(next) = parts.peek()
            && !(is_digit(part.chars().next_back()) && is_digit(next.chars().next()))
        {
            return None;
        }
    }
    finite(&text.replace('_', ""))
}

/// A decimal number that does not overflow to infinity.
fn finite(text: &str) -> Option<Resolved> {
    let value: f64 = is_float_form(text).then(|| text.parse().ok()).flatten()?;
    value.is_finite().then_some(Resolved::Float(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(texts: &[&str]) -> Vec<Tag> {
        texts.iter().map(|text| resolve(text).tag()).collect()
    }

    #[test]
    fn words_that_mean_null_or_a_boolean_resolve_so() {
        assert_eq!(tags(&["", "~", "null", "Null", "NULL"]), [Tag::Null; 5]);
        assert_eq!(tags(&["true", "True", "TRUE", "false", "False", "FALSE"]), [Tag::Bool; 6]);
    }

    #[test]
    fn whole_numbers_come_in_four_bases_with_underscores() {
        assert_eq!(resolve("0x1F"), Resolved::Int(31));
        assert_eq!(resolve("-0x1F"), Resolved::Int(-31));
        assert_eq!(resolve("0b101"), Resolved::Int(5));
        assert_eq!(resolve("0b-101"), Resolved::Int(-5));
        assert_eq!(resolve("017"), Resolved::Int(15));
        assert_eq!(resolve("0o17"), Resolved::Int(15));
        assert_eq!(resolve("1_000"), Resolved::Int(1000));
        assert_eq!(resolve("+12"), Resolved::Int(12));
        assert_eq!(resolve("9223372036854775808"), Resolved::Uint(1 << 63));
        assert_eq!(resolve("-9223372036854775808"), Resolved::Int(i64::MIN));
        assert_eq!(resolve("18446744073709551616"), Resolved::Float(18_446_744_073_709_551_616.0));
    }

    #[test]
    fn numbers_with_a_point_or_an_exponent_are_floats_while_finite() {
        assert_eq!(resolve("1e3"), Resolved::Float(1000.0));
        assert_eq!(resolve(".5"), Resolved::Float(0.5));
        assert_eq!(resolve("08"), Resolved::Float(8.0));
        assert_eq!(resolve("1."), Resolved::Float(1.0));
        assert_eq!(resolve("-.Inf"), Resolved::Float(f64::NEG_INFINITY));
        assert_eq!(tags(&["1e999", ".e3", ".", "1.2.3", "-", "+", "1e"]), [Tag::Str; 7]);
    }

    #[test]
    fn behind_a_leading_point_underscores_stand_between_digits() {
        assert_eq!(resolve(".9_7"), Resolved::Float(0.97));
        assert_eq!(resolve(".1_0e1_0"), Resolved::Float(1e9));
        assert_eq!(tags(&[".9__7", ".9_", "._9", ".1e_1", ".1_e1", ".1_0e999"]), [Tag::Str; 6]);
    }

    #[test]
    fn everything_else_is_a_string() {
        let strings =
            ["yes", "no", "on", "off", "y", "0x", "12:30:45", "=", "2001-13-01", "tRue", "NaN", "<<", "_1"];
        assert_eq!(tags(&strings), [Tag::Str; 13]);
    }

    #[test]
    fn base_60_needs_a_digit_and_minutes_below_60() {
        assert!(is_base60("1:30"));
        assert!(is_base60("-12:30:45.5_"));
        assert!(!is_base60("1:60"));
        assert!(!is_base60("12"));
        assert!(!is_base60("1:300"));
        assert!(!is_base60(":30"));
    }
}
