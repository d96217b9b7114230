//! Patterns for file paths: `*`, `?`, `[a-z]`, `{a,b}`, and `**` for any number of folders.

use crate::regexp::Expression;

/// A pattern that was read.
pub(crate) struct Glob(Expression);

/// The pattern has a bracket or brace too few, or ends in a backslash. The text is the original's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadPattern;

impl std::fmt::Display for BadPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("syntax error in pattern")
    }
}

impl Glob {
    pub(crate) fn new(pattern: &str) -> Result<Self, BadPattern> {
        let expression = format!("^(?s:{})$", translate(pattern)?);
        Expression::new(&expression).map(Self).map_err(|_| BadPattern)
    }

    /// A path that is too much for the pattern matches nothing; the call ends with the limit that it met.
    pub(crate) fn matches(&self, path: &str) -> bool {
        self.0.is_match(path).unwrap_or(false)
    }
}

fn translate(pattern: &str) -> Result<String, BadPattern> {
    let mut out = String::new();
    let mut rest = pattern;
    let (mut depth, mut starts_segment) = (0_usize, true);
    while let Some(first) = rest.chars().next() {
        let started = std::mem::replace(&mut starts_segment, false);
        let ends = |rest: &str| rest.is_empty();
        match first {
            '/' if ends(rest.strip_prefix("/**").unwrap_or("x")) => {
                out.push_str("(?:/.*)?");
                rest = "";
                continue;
            }
            '/' if ends(rest.strip_prefix("/**/").unwrap_or("x")) => {
                out.push_str("(?:/(?:[^/]*/)*)?");
                rest = "";
                continue;
            }
            '/' => {
                out.push('/');
                starts_segment = true;
            }
            '*' if started && rest == "**" => {
                out.push_str(".*");
                rest = "";
                continue;
            }
            '*' if started && rest.starts_with("**/") => {
                out.push_str("(?:[^/]*/)*");
                rest = &rest[3..];
                starts_segment = true;
                continue;
            }
            '*' => out.push_str("[^/]*"),
            '?' => out.push_str("[^/]"),
            '[' => {
                rest = class(&rest[1..], &mut out)?;
                continue;
            }
            '{' => {
                depth += 1;
                out.push_str("(?:");
                starts_segment = true;
            }
            ',' if depth > 0 => {
                out.push('|');
                starts_segment = true;
            }
            '}' => {
                depth = depth.checked_sub(1).ok_or(BadPattern)?;
                out.push(')');
            }
            '\\' => {
                let escaped = rest[1..].chars().next().ok_or(BadPattern)?;
                push(&mut out, escaped);
                rest = &rest[1 + escaped.len_utf8()..];
                continue;
            }
            character => push(&mut out, character),
        }
        rest = &rest[first.len_utf8()..];
    }
    if depth == 0 { Ok(out) } else { Err(BadPattern) }
}

/// What stands between brackets, the first of which is gone; gives what follows.
fn class<'a>(text: &'a str, out: &mut String) -> Result<&'a str, BadPattern> {
    let mut rest = text;
    let negative = rest.starts_with(['^', '!']);
    rest = &rest[usize::from(negative)..];
    if rest.is_empty() || rest.starts_with(']') {
        return Err(BadPattern);
    }
    out.push_str(if negative { "[^" } else { "[" });
    // Whatever else is in the class: this is in no path and keeps it from being empty.
    out.push('\0');
    let mut low: Option<char> = None;
    loop {
        let first = rest.chars().next().ok_or(BadPattern)?;
        rest = &rest[first.len_utf8()..];
        if first == ']' {
            break;
        }
        let is_range = first == '-' && low.is_some() && !rest.is_empty() && !rest.starts_with(']');
        let mut character = first;
        if is_range {
            character = rest.chars().next().ok_or(BadPattern)?;
            rest = &rest[character.len_utf8()..];
        }
        if character == '\\' {
            character = rest.chars().next().ok_or(BadPattern)?;
            rest = &rest[character.len_utf8()..];
        }
        match (is_range, low) {
            (true, Some(from)) => {
                if from <= character {
                    push(out, from);
                    out.push('-');
                    push(out, character);
                }
                low = None;
            }
            _ => {
                push(out, character);
                low = Some(character);
            }
        }
    }
    out.push(']');
    Ok(rest)
}

fn push(out: &mut String, character: char) {
    if character.is_ascii_punctuation() {
        out.push('\\');
    }
    out.push(character);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_paths() {
        let cases = [
            (
                "**/setters.yaml",
                &["setters.yaml", "a/setters.yaml", "a/b/setters.yaml"][..],
                &["xsetters.yaml"][..],
            ),
            ("a/**", &["a", "a/b", "a/b/c"], &["ab", "b/a"]),
            ("*.yaml", &["a.yaml", ".yaml"], &["a/b.yaml", "a.yml"]),
            ("a/**.yaml", &["a/b.yaml"], &["a/b/c.yaml"]),
            ("{a,b/c}/?.yaml", &["a/x.yaml", "b/c/x.yaml"], &["a/xy.yaml", "c/x.yaml"]),
            ("[a-c]x", &["ax", "cx"], &["dx"]),
            ("[!a-c]x", &["dx"], &["ax"]),
            (r"\*", &["*"], &["a"]),
            ("[z-a]", &["z"], &["a", "m"]),
        ];
        for (pattern, yes, no) in cases {
            let glob = Glob::new(pattern).expect(pattern);
            assert!(yes.iter().all(|path| glob.matches(path)), "{pattern}");
            assert!(!no.iter().any(|path| glob.matches(path)), "{pattern}");
        }
    }

    #[test]
    fn an_unfinished_pattern_is_an_error() {
        for pattern in ["[", "[a", "[]", "[^]", "{a", "a}", "\\", "[a\\"] {
            assert!(Glob::new(pattern).is_err(), "{pattern}");
        }
    }
}
