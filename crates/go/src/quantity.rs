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

#[cfg(test)]
mod tests {
    use super::bytes;

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
