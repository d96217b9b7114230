//! Durations as Go writes them: `300ms`, `1h15m`, `1.5h`, `-1s`.

use std::fmt;
use std::str::FromStr;

const MICROSECOND: i64 = 1_000;
const MILLISECOND: i64 = 1_000 * MICROSECOND;
const SECOND: i64 = 1_000 * MILLISECOND;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// A span of time in whole nanoseconds; unlike [`std::time::Duration`] it may be negative, because
/// flags use zero and below for "never".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(i64);

/// Why a text is not a duration, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(String);

// === impl Duration ===

impl Duration {
    /// A span of so many seconds.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND))
    }

    /// The span as the standard library has it, unless it is zero or negative.
    pub fn positive(self) -> Option<std::time::Duration> {
        u64::try_from(self.0).ok().filter(|&nanos| nanos > 0).map(std::time::Duration::from_nanos)
    }
}

impl From<std::time::Duration> for Duration {
    /// What does not fit becomes the longest span there is.
    fn from(span: std::time::Duration) -> Self {
        Self(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl FromStr for Duration {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let invalid = || ParseError(format!("invalid duration {}", crate::quote(text)));
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let (number, after) = split_while(rest, |b| b.is_ascii_digit() || b == b'.');
            let (unit, after) = split_while(after, |b| !b.is_ascii_digit() && b != b'.');
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
                return Err(invalid());
            }
            let scale = unit_nanos(unit).ok_or_else(|| match unit {
                "" => ParseError(format!("missing unit in duration {}", crate::quote(text))),
                _ => ParseError(format!(
                    "unknown unit {} in duration {}",
                    crate::quote(unit),
                    crate::quote(text)
                )),
            })?;
            total = term(whole, fraction, scale)
                .and_then(|nanos| total.checked_add(nanos))
                .ok_or_else(invalid)?;
            rest = after;
        }
        let signed = if negative { -total } else { total };
        i64::try_from(signed).map(Self).map_err(|_| invalid())
    }
}

/// Splits where the bytes stop satisfying `belongs`, which must hold for all or none of the bytes of
/// a character above ASCII.
fn split_while(text: &str, belongs: impl Fn(u8) -> bool) -> (&str, &str) {
    let end = text.bytes().position(|b| !belongs(b));
    text.split_at(end.unwrap_or(text.len()))
}

fn unit_nanos(unit: &str) -> Option<i64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    })
}

fn term(whole: &str, fraction: &str, scale: i64) -> Option<i128> {
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Digits beyond a femtosecond of an hour cannot change a nanosecond.
    let fraction = &fraction[..fraction.len().min(18)];
    let part = match fraction {
        "" => 0,
        digits => {
            digits.parse::<i128>().ok()? * i128::from(scale) / 10_i128.pow(u32::try_from(digits.len()).ok()?)
        }
    };
    whole.checked_mul(i128::from(scale))?.checked_add(part)
}

impl fmt::Display for Duration {
    /// Go's form: `1h15m0s`, `2.5s`, `300ms`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let nanos = self.0.unsigned_abs();
        let in_unit = |unit: i64| fixed(nanos, unit.unsigned_abs());
        if nanos == 0 {
            return f.write_str("0s");
        }
        if nanos < SECOND.unsigned_abs() {
            return match i64::try_from(nanos).unwrap_or(i64::MAX) {
                ..MICROSECOND => write!(f, "{nanos}ns"),
                MICROSECOND..MILLISECOND => write!(f, "{}µs", in_unit(MICROSECOND)),
                _ => write!(f, "{}ms", in_unit(MILLISECOND)),
            };
        }
        let (hours, rest) = (nanos / HOUR.unsigned_abs(), nanos % HOUR.unsigned_abs());
        let (minutes, rest) = (rest / MINUTE.unsigned_abs(), rest % MINUTE.unsigned_abs());
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", fixed(rest, SECOND.unsigned_abs()))
    }
}

/// `nanos` in units of `unit`, a power of ten, without trailing zeros.
fn fixed(nanos: u64, unit: u64) -> String {
    let width = unit.ilog10() as usize;
    let text = format!("{}.{:0width$}", nanos / unit, nanos % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

// === impl ParseError ===

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "time: {}", self.0)
    }
}

impl std::error::Error for ParseError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<i64, String> {
        text.parse::<Duration>().map(|d| d.0).map_err(|e| e.to_string())
    }

    #[test]
    fn go_durations_are_read() {
        assert_eq!(read("30m"), Ok(30 * MINUTE));
        assert_eq!(read("1h15m"), Ok(75 * MINUTE));
        assert_eq!(read("1.5h"), Ok(90 * MINUTE));
        assert_eq!(read(".5s"), Ok(SECOND / 2));
        assert_eq!(read("-300ms"), Ok(-300 * MILLISECOND));
        assert_eq!(read("+1µs"), Ok(MICROSECOND));
        assert_eq!(read("0"), Ok(0));
        assert_eq!(read("2562047h47m16.854775807s"), Ok(i64::MAX));
    }

    #[test]
    fn anything_else_is_refused_with_the_reason() {
        assert_eq!(read("30").unwrap_err(), r#"time: missing unit in duration "30""#);
        assert_eq!(read("30 min").unwrap_err(), r#"time: unknown unit " min" in duration "30 min""#);
        for bad in ["", "-", ".s", "1.2.3s", "3000000h", "99999999999999999999999999999999999999999s"] {
            assert!(read(bad).unwrap_err().starts_with("time: invalid duration"), "{bad}");
        }
    }

    #[test]
    fn durations_are_printed_as_go_prints_them() {
        for (text, printed) in [
            ("30m", "30m0s"),
            ("1h", "1h0m0s"),
            ("2500ms", "2.5s"),
            ("1500us", "1.5ms"),
            ("15ns", "15ns"),
            ("-90s", "-1m30s"),
            ("0s", "0s"),
        ] {
            assert_eq!(text.parse::<Duration>().unwrap().to_string(), printed);
        }
    }

    #[test]
    fn only_positive_spans_reach_the_clock() {
        assert_eq!(Duration::from_secs(2).positive(), Some(std::time::Duration::from_secs(2)));
        assert_eq!(Duration::from_secs(0).positive(), None);
        assert_eq!(Duration::from_secs(-1).positive(), None);
    }
}
