//! Regular expressions as Go reads them, run by the `regex` crate.
//!
//! Both engines find the same matches; they differ in syntax. [`compile`] reads an expression by Go's rules,
//! fails in Go's words, and writes it in the other's. What is translated:
//!
//! - `\d`, `\s`, `\w` and `\b` are ASCII;
//! - inside a class `[`, `&&`, `--` and `~~` have no meaning of their own;
//! - `\Q…\E`, octal escapes, `\p{^…}`, and a `{` that begins no count;
//! - names of groups are dropped, as Go allows one name for several groups.

mod expression;

use std::collections::HashSet;
use std::rc::Rc;

use regex::Regex;

pub(crate) use self::expression::{Expression, forget};

/// Go's limit for a count.
const MAX_REPEAT: u32 = 1000;
const MAX_DEPTH: usize = 1000;

/// Compiles an expression in Go's syntax.
///
/// # Errors
/// Go's text.
pub(crate) fn compile(expression: &str) -> Result<Rc<Expression>, String> {
    let translated = Translator::new(expression)
        .run()
        .map_err(|(what, part)| format!("error parsing regexp: {what}: `{part}`"))?;
    Expression::shared(&translated)
        .map_err(|_| format!("error parsing regexp: expression too large: `{expression}`"))
}

type Failed<'a> = (&'static str, &'a str);

struct Translator<'a> {
    whole: &'a str,
    rest: &'a str,
    out: String,
    /// For each open group, whether something precedes that can be repeated.
    open: Vec<bool>,
    repeatable: bool,
    /// Whether a `:]` is still to come, until it is known that there is none.
    has_posix_end: bool,
    /// Unicode classes that are known to exist.
    classes: HashSet<String>,
}

impl<'a> Translator<'a> {
    fn new(whole: &'a str) -> Self {
        Self {
            whole,
            rest: whole,
            out: String::new(),
            open: Vec::new(),
            repeatable: false,
            has_posix_end: true,
            classes: HashSet::new(),
        }
    }

    fn run(mut self) -> Result<String, Failed<'a>> {
        let mut last_repeat: Option<&'a str> = None;
        while let Some(first) = self.rest.chars().next() {
            let mut repeat = None;
            match first {
                '(' => self.open_group()?,
                ')' => {
                    self.open.pop().ok_or(("unexpected )", self.whole))?;
                    self.take(1);
                    self.push_atom(")");
                }
                '|' => {
                    self.take(1);
                    self.out.push('|');
                    self.repeatable = false;
                }
                '*' | '+' | '?' => {
                    let before = self.rest;
                    self.take(1);
                    self.repeat(before, last_repeat)?;
                    repeat = Some(before);
                }
                '{' => match count(self.rest) {
                    None => {
                        self.take(1);
                        self.push_atom("\\{");
                    }
                    Some((length, least, most)) => {
                        let before = self.rest;
                        self.take(length);
                        if least.max(most.unwrap_or(0)) > MAX_REPEAT || most.is_some_and(|most| most < least)
                        {
                            return Err(("invalid repeat count", &before[..length]));
                        }
                        self.repeat(before, last_repeat)?;
                        repeat = Some(before);
                    }
                },
                '[' => self.class()?,
                '\\' => self.escape()?,
                '^' | '$' | '.' => {
                    let part = self.take(1);
                    self.push_atom(part);
                }
                character => {
                    self.take(character.len_utf8());
                    self.push_literal(character);
                }
            }
            last_repeat = repeat;
        }
        if self.open.is_empty() { Ok(self.out) } else { Err(("missing closing )", self.whole)) }
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn push_atom(&mut self, text: &str) {
        self.out.push_str(text);
        self.repeatable = true;
    }

    fn push_literal(&mut self, character: char) {
        push_character(&mut self.out, character);
        self.repeatable = true;
    }

    /// An operator has been taken off `before`; perhaps a `?` follows that makes it reluctant.
    fn repeat(&mut self, before: &'a str, last_repeat: Option<&'a str>) -> Result<(), Failed<'a>> {
        if self.rest.starts_with('?') {
            self.take(1);
        }
        let part = |start: &'a str| &start[..start.len() - self.rest.len()];
        if let Some(last) = last_repeat {
            return Err(("invalid nested repetition operator", part(last)));
        }
        if !self.repeatable {
            return Err(("missing argument to repetition operator", part(before)));
        }
        let operator = part(before);
        self.out.push_str(operator);
        Ok(())
    }

    fn open_group(&mut self) -> Result<(), Failed<'a>> {
        if self.open.len() >= MAX_DEPTH {
            return Err(("expression nests too deeply", self.whole));
        }
        if !self.rest.starts_with("(?") {
            self.take(1);
            self.out.push('(');
            self.open.push(self.repeatable);
            self.repeatable = false;
            return Ok(());
        }
        let names = ["(?P<", "(?<"].iter().find(|start| self.rest.starts_with(**start));
        if let Some(start) = names {
            let end = self.rest.find('>').ok_or(("invalid named capture", self.rest))?;
            let group = self.take(end + 1);
            let name = &group[start.len()..end];
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err(("invalid named capture", group));
            }
            self.out.push('(');
            self.open.push(self.repeatable);
            self.repeatable = false;
            return Ok(());
        }
        self.flags()
    }

    /// `(?flags)` or `(?flags:`.
    fn flags(&mut self) -> Result<(), Failed<'a>> {
        let start = self.rest;
        self.take(2);
        let (mut negative, mut seen) = (false, false);
        while let Some(flag) = self.rest.chars().next() {
            self.take(flag.len_utf8());
            let part = &start[..start.len() - self.rest.len()];
            match flag {
                'i' | 'm' | 's' | 'U' => seen = true,
                '-' if !negative => (negative, seen) = (true, false),
                ':' | ')' if !negative || seen => {
                    if flag == ':' {
                        self.open.push(self.repeatable);
                        self.repeatable = false;
                    }
                    // The `regex` crate has no syntax for an empty set of flags.
                    self.out.push_str(if part == "(?)" { "" } else { part });
                    return Ok(());
                }
                _ => return Err(("invalid or unsupported Perl syntax", part)),
            }
        }
        Err(("missing closing )", self.whole))
    }

    fn escape(&mut self) -> Result<(), Failed<'a>> {
        let kind = self.rest.as_bytes().get(1).copied();
        match kind {
            Some(b'A') => self.atom_for(2, "\\A"),
            Some(b'b') => self.atom_for(2, "(?-u:\\b)"),
            Some(b'B') => self.atom_for(2, "(?-u:\\B)"),
            Some(b'z') => self.atom_for(2, "\\z"),
            Some(b'C') => return Err(("invalid escape sequence", self.take(2))),
            Some(b'Q') => {
                self.take(2);
                let literal = match self.rest.find("\\E") {
                    Some(end) => {
                        let literal = self.take(end);
                        self.take(2);
                        literal
                    }
                    None => self.take(self.rest.len()),
                };
                literal.chars().for_each(|character| self.push_literal(character));
            }
            _ => {
                if let Some(class) = self.named_class()? {
                    self.push_atom(&format!("[{class}]"));
                } else {
                    let character = self.escaped_character()?;
                    self.push_literal(character);
                }
            }
        }
        Ok(())
    }

    fn atom_for(&mut self, length: usize, text: &str) {
        self.take(length);
        self.push_atom(text);
    }

    /// `\d` and the like or `\pN`, as it stands inside brackets.
    fn named_class(&mut self) -> Result<Option<String>, Failed<'a>> {
        let class = match self.rest.as_bytes().get(1) {
            Some(b'd') => "0-9",
            Some(b'D') => "[^0-9]",
            Some(b's') => "\\t\\n\\f\\r ",
            Some(b'S') => "[^\\t\\n\\f\\r ]",
            Some(b'w') => "0-9A-Za-z_",
            Some(b'W') => "[^0-9A-Za-z_]",
            Some(b'p' | b'P') => return self.unicode_class().map(Some),
            _ => return Ok(None),
        };
        self.take(2);
        Ok(Some(class.to_owned()))
    }

    fn unicode_class(&mut self) -> Result<String, Failed<'a>> {
        let bad = "invalid character class range";
        let mut negative = self.rest.as_bytes()[1] == b'P';
        let after = &self.rest[2..];
        let Some(first) = after.chars().next() else { return Err((bad, self.rest)) };
        let length = match first {
            '{' => after.find('}').ok_or((bad, self.rest))? + 1,
            letter => letter.len_utf8(),
        };
        let part = self.take(2 + length);
        let mut name = part[2..].trim_start_matches('{').trim_end_matches('}');
        if let Some(positive) = name.strip_prefix('^') {
            (name, negative) = (positive, !negative);
        }
        if name == "Any" {
            return Ok(if negative { "[^\\x{0}-\\x{10FFFF}]".into() } else { "\\x{0}-\\x{10FFFF}".into() });
        }
        let class = format!("\\{}{{{name}}}", if negative { 'P' } else { 'p' });
        let known = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !known || !self.classes.contains(&class) && Regex::new(&class).is_err() {
            return Err((bad, part));
        }
        self.classes.insert(class.clone());
        Ok(class)
    }

    fn escaped_character(&mut self) -> Result<char, Failed<'a>> {
        let start = self.rest;
        self.take(1);
        let Some(kind) = self.rest.chars().next() else {
            return Err(("trailing backslash at end of expression", ""));
        };
        self.take(kind.len_utf8());
        let plain = match kind {
            '0'..='7' => self.octal(kind),
            'x' => self.hexadecimal(),
            'a' => Some('\x07'),
            'f' => Some('\x0c'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\x0b'),
            other => other.is_ascii_punctuation().then_some(other),
        };
        let plain = plain.or((kind.is_ascii() && !kind.is_ascii_alphanumeric()).then_some(kind));
        plain.ok_or_else(|| ("invalid escape sequence", &start[..start.len() - self.rest.len()]))
    }

    fn octal(&mut self, first: char) -> Option<char> {
        let is_octal = |rest: &str| rest.bytes().next().is_some_and(|byte| matches!(byte, b'0'..=b'7'));
        // A single digit other than 0 would be a reference to a group, which there is not.
        if first != '0' && !is_octal(self.rest) {
            return None;
        }
        let mut value = first.to_digit(8)?;
        for _ in 0..2 {
            if is_octal(self.rest) {
                value = value * 8 + self.take(1).parse::<u32>().ok()?;
            }
        }
        char::from_u32(value)
    }

    fn hexadecimal(&mut self) -> Option<char> {
        if !self.rest.starts_with('{') {
            let digits = self.rest.get(..2).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
            let Some(digits) = digits else {
                // What is named in the error ends where reading ended.
                let first = self.rest.chars().next()?;
                self.take(first.len_utf8());
                if first.is_ascii_hexdigit()
                    && let Some(second) = self.rest.chars().next()
                {
                    self.take(second.len_utf8());
                }
                return None;
            };
            self.take(2);
            return char::from_u32(u32::from_str_radix(digits, 16).ok()?);
        }
        self.take(1);
        let mut value = 0_u32;
        let mut digits = 0;
        while let Some(character) = self.rest.chars().next() {
            self.take(character.len_utf8());
            match character.to_digit(16) {
                Some(digit) => value = value * 16 + digit,
                None => return (character == '}' && digits > 0).then(|| char::from_u32(value)).flatten(),
            }
            digits += 1;
            if value > 0x10_FFFF {
                return None;
            }
        }
        None
    }

    fn class(&mut self) -> Result<(), Failed<'a>> {
        let start = self.rest;
        self.take(1);
        let mut class = String::from("[");
        if self.rest.starts_with('^') {
            self.take(1);
            class.push('^');
        }
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            let posix = self.rest.strip_prefix("[:").filter(|_| self.has_posix_end);
            let end = posix.and_then(|rest| rest.find(":]"));
            self.has_posix_end &= posix.is_none() || end.is_some();
            if let Some(end) = end {
                let part = self.take(end + 4);
                if !POSIX.contains(&part[2..2 + end].trim_start_matches('^')) || part[2..].starts_with("^^") {
                    return Err(("invalid character class range", part));
                }
                class.push_str(part);
                continue;
            }
            if self.rest.starts_with('\\')
                && let Some(named) = self.named_class()?
            {
                class.push_str(&named);
                continue;
            }
            let range = self.rest;
            let low = self.class_character(start)?;
            push_character(&mut class, low);
            if self.rest.starts_with('-') && self.rest.len() >= 2 && !self.rest.starts_with("-]") {
                self.take(1);
                let high = self.class_character(start)?;
                if high < low {
                    return Err(("invalid character class range", &range[..range.len() - self.rest.len()]));
                }
                class.push('-');
                push_character(&mut class, high);
            }
        }
        self.take(1);
        class.push(']');
        self.push_atom(&class);
        Ok(())
    }

    fn class_character(&mut self, class: &'a str) -> Result<char, Failed<'a>> {
        match self.rest.chars().next() {
            None => Err(("missing closing ]", class)),
            Some('\\') => self.escaped_character(),
            Some(character) => {
                self.take(character.len_utf8());
                Ok(character)
            }
        }
    }
}

const POSIX: &[&str] = &[
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

fn push_character(out: &mut String, character: char) {
    if character.is_ascii_punctuation() {
        out.push('\\');
    }
    out.push(character);
}

/// Length, least and most of a count such as `{2}`, `{2,}` or `{2,5}`.
fn count(text: &str) -> Option<(usize, u32, Option<u32>)> {
    let inner = text[1..].bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b',').count();
    let end = 1 + inner;
    if text.as_bytes().get(end) != Some(&b'}') {
        return None;
    }
    let inner = &text[1..end];
    let (least, most) = inner.split_once(',').unwrap_or((inner, inner));
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        // A number with a leading zero is none, one that is too long is too big.
        (plain && (digits == "0" || !digits.starts_with('0'))).then(|| digits.parse().unwrap_or(u32::MAX))
    };
    let most = if most.is_empty() && inner.contains(',') { None } else { Some(number(most)?) };
    Some((end + 1, number(least)?, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_in_the_words_of_go() {
        let cases = [
            ("a(b", "missing closing ): `a(b`"),
            ("a)b", "unexpected ): `a)b`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("(|+?)", "missing argument to repetition operator: `+?`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a+?{2}b", "invalid nested repetition operator: `+?{2}`"),
            ("[ab", "missing closing ]: `[ab`"),
            ("x[z-a]", "invalid character class range: `z-a`"),
            ("[[:nope:]]", "invalid character class range: `[:nope:]`"),
            (r"\y", r"invalid escape sequence: `\y`"),
            (r"\1", r"invalid escape sequence: `\1`"),
            (r"\pX", r"invalid character class range: `\pX`"),
            ("a\\", "trailing backslash at end of expression: ``"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?P<>a)", "invalid named capture: `(?P<>`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
        ];
        for (expression, expected) in cases {
            let error = compile(expression).expect_err(expression);
            assert_eq!(error, format!("error parsing regexp: {expected}"));
        }
    }

    #[test]
    fn classes_are_those_of_ascii() {
        let matches =
            |expression, text| compile(expression).expect(expression).is_match(text).expect("is little work");
        assert!(!matches(r"^\w$", "é") && matches(r"^\W$", "é") && !matches(r"^\d$", "٣"));
        assert!(matches(r"^[\w.-]+$", "a_1.-") && matches("^[[&&~~a]+$", "[&~a"));
        assert!(matches(r"^\Qa.b\E$", "a.b") && !matches(r"^\Qa.b\E$", "axb"));
        assert!(matches("^a{,2}$", "a{,2}") && matches("^{$", "{") && matches(r"^\101$", "A"));
        assert!(matches("(?P<x>a)(?P<x>b)", "ab") && matches(r"\bé", "aé"));
    }
}
