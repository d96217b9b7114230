//! Amounts of bytes, as Kubernetes writes them.

/// The number of bytes that a text such as `512Mi`, `1G` or `4096` means.
#[must_use]
pub fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "" => 1,
        "k" => 1000,
        "M" => 1000_u64.pow(2),
        "G" => 1000_u64.pow(3),
        "T" => 1000_u64.pow(4),
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// An amount of bytes on a command line: `4Gi`, `512Mi`, or a plain number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size(pub u64);

impl std::str::FromStr for Size {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        bytes(text).map(Self).ok_or("write it as 512Mi, 4Gi or a number of bytes")
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let units = [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
        let unit = units.iter().find(|(_, bits)| self.0 > 0 && self.0.is_multiple_of(1 << bits));
        match unit {
            Some((name, bits)) => write!(f, "{}{name}", self.0 >> bits),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Size, bytes};

    #[test]
    fn a_size_is_shown_as_it_would_be_written() {
        for (text, size) in [("4Gi", 4 << 30), ("1536Mi", 1536 << 20), ("1000", 1000), ("0", 0)] {
            assert_eq!(text.parse(), Ok(Size(size)));
            assert_eq!(Size(size).to_string(), text);
        }
        assert!("4 GB".parse::<Size>().is_err());
    }

    #[test]
    fn units_are_those_of_kubernetes() {
        assert_eq!(bytes("4096"), Some(4096));
        assert_eq!(bytes("512Mi"), Some(512 << 20));
        assert_eq!(bytes("1G"), Some(1_000_000_000));
        assert_eq!(bytes("2Ti"), Some(2 << 40));
        for wrong in ["", "Mi", "-1", "1.5Gi", "1 Gi", "1mi", "99999999999Ti", "1Gi "] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
