//! Formats of strings that schemas name. Names that are not known hold for anything.

/// What is wrong with a text, in the words of the original's library.
pub(super) fn check(name: &str, text: &str) -> Result<(), String> {
    match name {
        "date-time" => date_time(text),
        "date" => date(text),
        _ => Ok(()),
    }
}

fn date_time(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    if bytes.len() < 20 {
        return Err("less than 20 characters long".to_owned());
    }
    if !matches!(bytes[10], b't' | b'T') {
        return Err("11th character must be t or T".to_owned());
    }
    let (Some(day), Some(hour)) = (text.get(..10), text.get(11..)) else {
        return Err("invalid date element: not ASCII".to_owned());
    };
    date(day).map_err(|error| format!("invalid date element: {error}"))?;
    time(hour).map_err(|error| format!("invalid time element: {error}"))
}

fn date(text: &str) -> Result<(), String> {
    let failed = || format!("parsing time {text:?} as \"2006-01-02\": cannot parse {text:?} as \"2006\"");
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return Err(failed()) };
    let number = |part: &str, width: usize| {
        (part.len() == width && part.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| part.parse::<u32>().unwrap_or(0))
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else {
        return Err(failed());
    };
    if !(1..=12).contains(&month) {
        return Err(format!("parsing time {text:?}: month out of range"));
    }
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if (1..=days).contains(&day) { Ok(()) } else { Err(format!("parsing time {text:?}: day out of range")) }
}

fn time(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    if bytes.len() < 9 {
        return Err("less than 9 characters long".to_owned());
    }
    if bytes[2] != b':' || bytes[5] != b':' {
        return Err("missing colon in correct place".to_owned());
    }
    let digits = |from: usize| std::str::from_utf8(&bytes[from..from + 2]).ok()?.parse::<u32>().ok();
    let (Some(hour), Some(minute), Some(second)) = (digits(0), digits(3), digits(6)) else {
        return Err("invalid hour/min/sec".to_owned());
    };
    if hour > 23 || minute > 59 || second > 60 {
        return Err("hour/min/sec out of range".to_owned());
    }
    let rest = text.get(8..).unwrap_or_default();
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|character: char| character.is_ascii_digit());
            if zone.len() == fraction.len() {
                return Err("no digits in second fraction".to_owned());
            }
            zone
        }
        None => rest,
    };
    zone(rest)
}

fn zone(text: &str) -> Result<(), String> {
    if matches!(text, "z" | "Z") {
        return Ok(());
    }
    let bytes = text.as_bytes();
    if bytes.len() != 6 {
        return Err("offset must be 6 characters long".to_owned());
    }
    if !matches!(bytes[0], b'+' | b'-') {
        return Err("offset must begin with plus/minus".to_owned());
    }
    if bytes[3] != b':' {
        return Err("missing colon in offset in correct place".to_owned());
    }
    let digits = |from: usize| std::str::from_utf8(&bytes[from..from + 2]).ok()?.parse::<u32>().ok();
    match (digits(1), digits(4)) {
        (Some(hour), Some(minute)) if hour <= 23 && minute <= 59 => Ok(()),
        (Some(_), Some(_)) => Err("hour/min in offset out of range".to_owned()),
        _ => Err("invalid hour/min in offset".to_owned()),
    }
}
