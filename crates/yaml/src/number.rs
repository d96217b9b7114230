//! Numbers as text, in the shortest form that reads back the same.

/// A float as Go's `strconv` prints it with `%g` and the least digits: exponents below -4 and from
/// 6 on, with at least two digits.
pub(crate) fn format_shortest(value: f64) -> String {
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-.inf" } else { ".inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(-4..=5) => format!("{value}"),
        Ok(exponent) => with_exponent(mantissa, exponent),
        Err(_) => scientific,
    }
}

/// A float as Go's `encoding/json` prints it: exponents below -6 and from 21 on.
pub(crate) fn format_json(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let scientific = format!("{value:e}");
        if let Some((mantissa, exponent)) = scientific.split_once('e')
            && let Ok(exponent) = exponent.parse::<i32>()
        {
            let text = with_exponent(mantissa, exponent);
            // `e-09` is shortened to `e-9`, a positive exponent has two digits here anyway.
            return text.replace("e-0", "e-");
        }
        return scientific;
    }
    format!("{value}")
}

fn with_exponent(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_go_prints_them() {
        for (value, text) in [
            (1.5, "1.5"),
            (100_000.0, "100000"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (1e21, "1e+21"),
            (1.25e-5, "1.25e-05"),
            (0.0001, "0.0001"),
            (f64::INFINITY, ".inf"),
            (-0.0, "-0"),
        ] {
            assert_eq!(format_shortest(value), text);
        }
    }

    #[test]
    fn json_floats_have_their_own_limits() {
        assert_eq!(format_json(1e-6), "0.000001");
        assert_eq!(format_json(1e-7), "1e-7");
        assert_eq!(format_json(1e21), "1e+21");
        assert_eq!(format_json(1.5e-10), "1.5e-10");
    }
}
