//! Patterns for one file name or path, by the rules of Go's `filepath.Match`.
//!
//! `*` and `?` do not match a slash. A class such as `[a-c]` or `[^x]` matches any character it names, a slash
//! included. A backslash takes the next character as it is.

/// A pattern ready to be held against texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob(Vec<Token>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Star,
    AnyOne,
    Literal(char),
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Glob {
    /// Reads a pattern; `None` if it is malformed and so matches nothing.
    pub(super) fn parse(pattern: &str) -> Option<Self> {
        let mut chars = pattern.chars().peekable();
        let mut tokens = Vec::new();
        while let Some(c) = chars.next() {
            tokens.push(match c {
                '*' => Token::Star,
                '?' => Token::AnyOne,
                '\\' => Token::Literal(chars.next()?),
                '[' => {
                    let negated = chars.next_if_eq(&'^').is_some();
                    let mut ranges = Vec::new();
                    while ranges.is_empty() || chars.next_if_eq(&']').is_none() {
                        let low = class_char(&mut chars)?;
                        let high =
                            if chars.next_if_eq(&'-').is_some() { class_char(&mut chars)? } else { low };
                        ranges.push((low, high));
                    }
                    Token::Class { negated, ranges }
                }
                c => Token::Literal(c),
            });
        }
        Some(Self(tokens))
    }

    /// Whether the whole text matches; `None` if finding out takes more steps than `work`, which they are taken from.
    pub(super) fn matches(&self, text: &str, work: &mut u64) -> Option<bool> {
        let text: Vec<char> = text.chars().collect();
        let (mut token, mut at) = (0, 0);
        // Where the last star stands, and how far it has reached. Earlier stars need not be tried again.
        let mut star: Option<(usize, usize)> = None;
        loop {
            *work = work.checked_sub(1)?;
            match self.0.get(token) {
                Some(Token::Star) => {
                    star = Some((token, at));
                    token += 1;
                    continue;
                }
                Some(one) if text.get(at).is_some_and(|&c| one.accepts(c)) => {
                    token += 1;
                    at += 1;
                    continue;
                }
                None if at == text.len() => return Some(true),
                _ => {}
            }
            let Some((star_token, reached)) = star else { return Some(false) };
            if text.get(reached).is_none_or(|&c| c == '/') {
                return Some(false);
            }
            star = Some((star_token, reached + 1));
            (token, at) = (star_token + 1, reached + 1);
        }
    }
}

impl Token {
    fn accepts(&self, c: char) -> bool {
        match self {
            Self::Star => false,
            Self::AnyOne => c != '/',
            Self::Literal(literal) => *literal == c,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|&(low, high)| low <= c && c <= high) != *negated
            }
        }
    }
}

fn class_char(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
    match chars.next()? {
        '-' | ']' => None,
        '\\' => chars.next(),
        c => Some(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_go_matches_them() {
        let cases = [
            ("abc", "abc", true),
            ("*", "abc", true),
            ("*c", "abc", true),
            ("a*", "a", true),
            ("a*", "ab/c", false),
            ("a*/b", "abc/b", true),
            ("a*b*c*d*e*/f", "axbxcxdxe/f", true),
            ("a*b*c*d*e*/f", "axbxcxdxexxx/fff", false),
            ("a*b?c*x", "abxbbxdbxebxczzx", true),
            ("ab[c]", "abc", true),
            ("ab[b-d]", "abc", true),
            ("ab[^c]", "abc", false),
            ("ab[^e-g]", "abc", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "ab", false),
            ("a???b", "aäöüb", true),
            ("[a-ζ]*", "α", true),
            ("a?b", "a/b", false),
            ("a*b", "a/b", false),
            ("[\\]a]", "]", true),
            ("[x\\-]", "-", true),
            ("[]a]", "]", false),
            ("[-]", "-", false),
            ("[x-]", "x", false),
            ("[", "a", false),
            ("a[", "a", false),
            ("*x", "xxx", true),
            ("[!a]", "!", true),
            ("a\\", "a", false),
            ("", "", true),
            ("a*c", "abcbc", true),
        ];
        for (pattern, text, expected) in cases {
            let matched =
                Glob::parse(pattern).is_some_and(|glob| glob.matches(text, &mut 1000) == Some(true));
            assert_eq!(matched, expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let glob = Glob::parse(&"*a".repeat(500)).expect("is a pattern");
        assert_eq!(glob.matches(&"a".repeat(499), &mut 300_000), Some(false));
        assert_eq!(glob.matches(&"b".repeat(10_000), &mut 30_000), Some(false));
        assert_eq!(glob.matches(&"b".repeat(10_000), &mut 9_000), None);
    }
}
