//! Which plain scalars are timestamps.
//!
//! Four shapes count: `Y-M-D`, the same with `T` or `t` and a time with zone, and with blanks and a
//! time without zone. Months, days and clock fields have one or two digits and must be valid.

/// Whether the whole text is a timestamp.
pub(super) fn is_timestamp(text: &str) -> bool {
    // A look at the fifth character spares numbers the rest.
    text.as_bytes().get(4) == Some(&b'-') && read(text).is_some()
}

/// The timestamp in the form of RFC 3339, as JSON has it.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let Timestamp { date: (year, month, day), clock: (hour, minute, second), fraction, zone } = read(text)?;
    let digits = fraction.get(..9).unwrap_or(fraction).trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    let zone = if zone.get(1..) == Some("00:00") { "Z" } else { zone };
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{point}{digits}{zone}"))
}

struct Timestamp<'a> {
    date: (u32, u32, u32),
    clock: (u32, u32, u32),
    fraction: &'a str,
    zone: &'a str,
}

fn read(text: &str) -> Option<Timestamp<'_>> {
    let mut rest = Rest { text, at: 0 };
    let date = rest.date()?;
    let mut timestamp = Timestamp { date, clock: (0, 0, 0), fraction: "", zone: "Z" };
    if rest.eat(b'T') || rest.eat(b't') {
        (timestamp.clock, timestamp.fraction) = rest.clock()?;
        timestamp.zone = rest.zone()?;
    } else if rest.eat(b' ') {
        while rest.eat(b' ') {}
        (timestamp.clock, timestamp.fraction) = rest.clock()?;
    }
    let (year, month, day) = date;
    let valid = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    (valid && rest.at == text.len()).then_some(timestamp)
}

struct Rest<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Rest<'a> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek(0) == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn digit(&mut self) -> Option<u32> {
        let digit = self.peek(0).filter(u8::is_ascii_digit)?;
        self.at += 1;
        Some(u32::from(digit - b'0'))
    }

    fn one_or_two_digits(&mut self) -> Option<u32> {
        let first = self.digit()?;
        Some(self.digit().map_or(first, |second| first * 10 + second))
    }

    fn two_digits(&mut self) -> Option<u32> {
        Some(self.digit()? * 10 + self.digit()?)
    }

    fn date(&mut self) -> Option<(u32, u32, u32)> {
        let year = self.two_digits()? * 100 + self.two_digits()?;
        let month = self.eat(b'-').then(|| self.one_or_two_digits())??;
        let day = self.eat(b'-').then(|| self.one_or_two_digits())??;
        Some((year, month, day))
    }

    fn field_below(&mut self, limit: u32) -> Option<u32> {
        self.one_or_two_digits().filter(|value| *value < limit)
    }

    fn clock(&mut self) -> Option<((u32, u32, u32), &'a str)> {
        let hour = self.field_below(24)?;
        let minute = self.eat(b':').then(|| self.field_below(60))??;
        let second = self.eat(b':').then(|| self.field_below(60))??;
        let mut fraction = "";
        if matches!(self.peek(0), Some(b'.' | b',')) && self.peek(1).is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
            let from = self.at;
            while self.digit().is_some() {}
            fraction = &self.text[from..self.at];
        }
        Some(((hour, minute, second), fraction))
    }

    fn zone(&mut self) -> Option<&'a str> {
        let from = self.at;
        if !self.eat(b'Z') {
            if !(self.eat(b'+') || self.eat(b'-')) {
                return None;
            }
            self.two_digits().filter(|hours| *hours <= 24)?;
            self.eat(b':').then(|| self.two_digits())?.filter(|minutes| *minutes <= 60)?;
        }
        Some(&self.text[from..self.at])
    }
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::{canonical, is_timestamp};

    #[test]
    fn valid_dates_and_times_are_timestamps() {
        for text in [
            "2001-01-01",
            "2001-1-2",
            "2001-12-14T21:59:43.10-05:00",
            "2001-12-14t21:59:43Z",
            "2001-12-14   21:59:43.1",
            "2000-02-29",
            "2001-1-1T1:2:3,5Z",
        ] {
            assert!(is_timestamp(text), "{text}");
        }
    }

    #[test]
    fn impossible_or_incomplete_ones_are_not() {
        for text in [
            "2001-13-01",
            "2001-02-30",
            "1900-02-29",
            "2001-01",
            "2001-01-01T",
            "2001-01-01T1:2:3",
            "2001-01-01 1:2:3Z",
            "2001-01-01 ",
            "201-01-01",
            "2001-01-01T24:00:00Z",
            "2001-01-01x",
        ] {
            assert!(!is_timestamp(text), "{text}");
        }
    }

    #[test]
    fn the_canonical_form_fills_up_and_cuts_off() {
        let canonical = |text| canonical(text).expect("a timestamp");
        assert_eq!(canonical("2001-1-2"), "2001-01-02T00:00:00Z");
        assert_eq!(canonical("2001-12-14t21:5:43.100-05:00"), "2001-12-14T21:05:43.1-05:00");
        assert_eq!(canonical("2001-12-14 1:2:3.0"), "2001-12-14T01:02:03Z");
        assert_eq!(canonical("2001-12-14T1:2:3+00:00"), "2001-12-14T01:02:03Z");
    }
}
