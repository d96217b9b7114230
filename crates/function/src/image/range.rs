//! Versions in image tags and ranges of them: `~0.4`, `0.2 - 0.2.2`, `<0.2`, `0.3.x`, `*`.

use std::cmp::Ordering;

/// `MAJOR[.MINOR[.PATCH]]`, where a part that is missing or a wildcard counts as 0 and is remembered as open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    parts: [u64; 3],
    /// How many parts are given.
    given: usize,
    prerelease: bool,
}

/// A range of versions: any of several alternatives, each a list of conditions that must all hold.
#[derive(Clone, Debug)]
pub(super) struct Constraint(Vec<Vec<Condition>>);

#[derive(Clone, Copy, Debug)]
struct Condition {
    /// The lowest version, and whether it belongs to the range.
    low: Option<(Version, bool)>,
    /// The highest version, and whether it belongs to the range.
    high: Option<(Version, bool)>,
    /// The condition holds outside of the range.
    negated: bool,
}

/// Whether a text names one version.
pub(super) fn is_version(text: &str) -> bool {
    Version::parse(text).is_some_and(|version| version.given > 0 && !text.contains(['x', 'X', '*']))
}

// === impl Version ===

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (text, _build) = text.split_once('+').unwrap_or((text, ""));
        let (numbers, prerelease) =
            text.split_once('-').map_or((text, false), |(numbers, _)| (numbers, true));
        let mut version = Self { parts: [0; 3], given: 0, prerelease };
        let mut open = false;
        for (at, part) in numbers.split('.').enumerate() {
            if matches!(part, "x" | "X" | "*") {
                open = true;
                continue;
            }
            if at > 2 || open || part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            version.parts[at] = part.parse().ok()?;
            version.given = at + 1;
        }
        Some(version)
    }

    fn order(&self, other: &Self) -> Ordering {
        self.parts.cmp(&other.parts).then(other.prerelease.cmp(&self.prerelease))
    }

    /// The first version beyond those that agree in so many parts.
    fn beyond(&self, parts: usize) -> Self {
        let mut next = [0; 3];
        next[..parts].copy_from_slice(&self.parts[..parts]);
        if let Some(last) = parts.checked_sub(1) {
            next[last] = next[last].saturating_add(1);
        }
        Self { parts: next, given: 3, prerelease: false }
    }
}

// === impl Constraint ===

impl Constraint {
    pub(super) fn parse(text: &str) -> Option<Self> {
        text.split("||").map(alternative).collect::<Option<_>>().map(Self)
    }

    /// The highest of the tags in the range, as it is spelled.
    pub(super) fn best<'a>(&self, tags: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        let versions =
            tags.filter_map(|tag| Version::parse(tag).filter(|version| version.given > 0).map(|v| (v, tag)));
        let fitting = versions.filter(|(version, _)| !version.prerelease && self.matches(version));
        fitting.max_by(|(a, _), (b, _)| a.order(b).then(a.given.cmp(&b.given))).map(|(_, tag)| tag)
    }

    fn matches(&self, version: &Version) -> bool {
        self.0.iter().any(|conditions| conditions.iter().all(|condition| condition.holds(version)))
    }
}

fn alternative(text: &str) -> Option<Vec<Condition>> {
    if let Some((low, high)) = text.split_once(" - ") {
        let (low, high) = (Version::parse(low.trim())?, Version::parse(high.trim())?);
        let high = if high.given == 3 { (high, true) } else { (high.beyond(high.given), false) };
        return Some(vec![Condition { low: Some((low, true)), high: Some(high), negated: false }]);
    }
    // An operator may stand apart from its version.
    let mut words: Vec<String> = Vec::new();
    for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
        match words.last_mut() {
            Some(last) if last.chars().all(|character| "<>=!~^".contains(character)) => last.push_str(word),
            _ => words.push(word.to_owned()),
        }
    }
    if words.is_empty() {
        return None;
    }
    words.iter().map(|word| condition(word)).collect()
}

fn condition(text: &str) -> Option<Condition> {
    let end = text.find(|character| !"<>=!~^".contains(character)).unwrap_or(text.len());
    let (operator, version) = text.split_at(end);
    let version = Version::parse(version)?;
    let given = version.given;
    let range = |low, high| Some(Condition { low, high, negated: false });
    let same = |parts: usize| Condition {
        low: (parts > 0).then_some((version, true)),
        high: (parts > 0).then(|| (version.beyond(parts), false)),
        negated: false,
    };
    match operator {
        "" | "=" | "==" if given == 3 => range(Some((version, true)), Some((version, true))),
        "" | "=" | "==" => Some(same(given)),
        "!=" => Some(Condition { negated: true, ..same(given) }),
        ">" if given < 3 => range(Some((version.beyond(given), true)), None),
        ">" => range(Some((version, false)), None),
        ">=" | "=>" => range(Some((version, true)), None),
        "<" => range(None, Some((version, false))),
        "<=" | "=<" if given < 3 => range(None, Some((version.beyond(given), false))),
        "<=" | "=<" => range(None, Some((version, true))),
        "~" | "~>" => Some(same(given.min(2))),
        "^" => {
            let fixed = version.parts[..given].iter().position(|part| *part > 0).map_or(given, |at| at + 1);
            Some(same(fixed))
        }
        _ => None,
    }
}

impl Condition {
    fn holds(&self, version: &Version) -> bool {
        let above = self.low.is_none_or(|(low, included)| match version.order(&low) {
            Ordering::Less => false,
            Ordering::Equal => included,
            Ordering::Greater => true,
        });
        let below = self.high.is_none_or(|(high, included)| match version.order(&high) {
            Ordering::Greater => false,
            Ordering::Equal => included,
            Ordering::Less => true,
        });
        (above && below) != self.negated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_tag_in_the_range_wins_as_it_is_spelled() {
        let tags = [
            "latest",
            "unstable",
            "v0.1",
            "v0.2.0",
            "v0.2",
            "v0.2.2",
            "0.3.1",
            "v0.4.0-rc1",
            "v1.0.0",
            "v1.2.0",
        ];
        for (range, best) in [
            ("~0.2", Some("v0.2.2")),
            ("0.2 - 0.2.1", Some("v0.2.0")),
            ("<0.2", Some("v0.1")),
            ("0.3.x", Some("0.3.1")),
            ("*", Some("v1.2.0")),
            ("^1.0", Some("v1.2.0")),
            ("^0.2.0", Some("v0.2.2")),
            (">= 0.2.1, < 1", Some("0.3.1")),
            ("~0.1 || ~0.3", Some("0.3.1")),
            ("!=1.2.0", Some("v1.0.0")),
            (">1.2", None),
            ("~0.4", None),
        ] {
            let found = Constraint::parse(range).expect(range).best(tags.into_iter());
            assert_eq!(found, best, "{range}");
        }
    }

    #[test]
    fn the_largest_number_is_a_version() {
        for range in ["~18446744073709551615", "^18446744073709551615.1", ">18446744073709551615"] {
            assert_eq!(Constraint::parse(range).unwrap().best(["v1.0"].into_iter()), None, "{range}");
        }
        assert!(Constraint::parse("18446744073709551616").is_none());
    }

    #[test]
    fn one_version_is_no_range_and_a_word_is_neither() {
        assert!(is_version("v0.4.1") && is_version("0.4"));
        assert!(!is_version("0.3.x") && !is_version("latest") && !is_version("~0.4"));
        assert!(Constraint::parse("latest").is_none() && Constraint::parse("").is_none());
    }
}
