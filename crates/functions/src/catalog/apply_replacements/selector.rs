//! Label selectors: `app=web,tier in (a, b),!old`, in the syntax and with the errors of Kubernetes.

use std::collections::BTreeSet;

use loggia_go::quote;

/// All of these must hold.
#[derive(Debug)]
pub(crate) struct Selector(Vec<Requirement>);

#[derive(Debug)]
struct Requirement {
    key: String,
    operator: Operator,
    values: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    Missing,
    Greater,
    Less,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    text: String,
    /// A name or a word, not a symbol.
    is_name: bool,
}

impl Selector {
    /// Reads a selector; an empty one selects everything.
    ///
    /// # Errors
    /// In the words of Kubernetes.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        parser.requirements().map(Self)
    }

    /// Whether labels or annotations satisfy it.
    pub(crate) fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| requirement.matches(get(&requirement.key)))
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = || self.values.first().and_then(|bound| number(bound));
        let compared = |order: fn(&i64, &i64) -> bool| {
            value.and_then(number).zip(bound()).is_some_and(|(value, bound)| order(&value, &bound))
        };
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::Missing => value.is_none(),
            Operator::Greater => compared(i64::gt),
            Operator::Less => compared(i64::lt),
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", ",", "(", ")", ">", "<"];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches([' ', '\t', '\r', '\n']);
    while !rest.is_empty() {
        let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
        let length = match symbol {
            Some(symbol) => symbol.len(),
            None => {
                rest.find([' ', '\t', '\r', '\n', '=', '!', ',', '(', ')', '>', '<']).unwrap_or(rest.len())
            }
        };
        tokens.push(Token { text: rest[..length].to_owned(), is_name: symbol.is_none() });
        rest = rest[length..].trim_start_matches([' ', '\t', '\r', '\n']);
    }
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> (&str, bool) {
        self.tokens.get(self.at).map_or(("", false), |token| (token.text.as_str(), token.is_name))
    }

    fn next(&mut self) -> (String, bool) {
        let (text, is_name) = self.peek();
        let token = (text.to_owned(), is_name);
        self.at += 1;
        token
    }

    fn ended(&self) -> bool {
        self.at >= self.tokens.len()
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                ("", false) => return Ok(requirements),
                (_, true) | ("!", _) => {
                    let requirement = self
                        .requirement()
                        .map_err(|error| format!("unable to parse requirement: {error}"))?;
                    requirements.push(requirement);
                    match self.next() {
                        (text, false) if text.is_empty() => return Ok(requirements),
                        (text, false) if text == "," => match self.peek() {
                            (_, true) | ("!", _) => {}
                            (found, _) => {
                                return Err(format!("found '{found}', expected: identifier after ','"));
                            }
                        },
                        (found, _) => {
                            return Err(format!("found '{found}', expected: ',' or 'end of string'"));
                        }
                    }
                }
                (found, _) => {
                    return Err(format!("found '{found}', expected: !, identifier, or 'end of string'"));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut operator = None;
        let (mut key, mut is_name) = self.next();
        if key == "!" {
            operator = Some(Operator::Missing);
            (key, is_name) = self.next();
        }
        if !is_name {
            return Err(format!("found '{key}', expected: identifier"));
        }
        check_key(&key)?;
        if operator.is_none() && (self.ended() || self.peek() == (",", false)) {
            operator = Some(Operator::Exists);
        }
        if let Some(operator) = operator {
            return Ok(Requirement { key, operator, values: BTreeSet::new() });
        }
        let (word, _) = self.next();
        let operator = match word.as_str() {
            "in" | "=" | "==" => Operator::In,
            "notin" | "!=" => Operator::NotIn,
            ">" => Operator::Greater,
            "<" => Operator::Less,
            found => return Err(format!("found '{found}', expected: '=', '!=', '==', 'in', notin'")),
        };
        let values = if matches!(word.as_str(), "in" | "notin") { self.set()? } else { self.value()? };
        if matches!(operator, Operator::Greater | Operator::Less)
            && values.iter().any(|value| value.parse::<i64>().is_err())
        {
            return Err("for 'Gt', 'Lt' operators, the value must be an integer".to_owned());
        }
        values.iter().try_for_each(|value| check_value(&key, value))?;
        Ok(Requirement { key, operator, values })
    }

    /// `(a, b)`.
    fn set(&mut self) -> Result<BTreeSet<String>, String> {
        let (open, _) = self.next();
        if open != "(" {
            return Err(format!("found '{open}' expected: '('"));
        }
        match self.peek() {
            (_, true) | (",", _) => {
                let values = self.names()?;
                match self.next() {
                    (close, _) if close == ")" => Ok(values),
                    (found, _) => Err(format!("found '{found}', expected: ')'")),
                }
            }
            (")", _) => {
                self.at += 1;
                Ok(BTreeSet::from([String::new()]))
            }
            (found, _) => Err(format!("found '{found}', expected: ',', ')' or identifier")),
        }
    }

    fn names(&mut self) -> Result<BTreeSet<String>, String> {
        let mut names = BTreeSet::new();
        loop {
            match self.next() {
                (name, true) => {
                    names.insert(name);
                    match self.peek() {
                        (",", _) => {}
                        (")", _) => return Ok(names),
                        (found, _) => return Err(format!("found '{found}', expected: ',' or ')'")),
                    }
                }
                (comma, _) if comma == "," => {
                    if names.is_empty() {
                        names.insert(String::new());
                    }
                    match self.peek() {
                        (")", _) => {
                            names.insert(String::new());
                            return Ok(names);
                        }
                        (",", _) => {
                            self.at += 1;
                            names.insert(String::new());
                        }
                        _ => {}
                    }
                }
                (found, _) => return Err(format!("found '{found}', expected: ',', or identifier")),
            }
        }
    }

    fn value(&mut self) -> Result<BTreeSet<String>, String> {
        if self.ended() || self.peek() == (",", false) {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.next() {
            (value, true) => Ok(BTreeSet::from([value])),
            (found, _) => Err(format!("found '{found}', expected: identifier")),
        }
    }
}

/// What names are made of, and what a message says of it.
const NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                         alphanumeric character";

/// A name, perhaps with a domain before a slash.
fn check_key(key: &str) -> Result<(), String> {
    let name_rule = format!(
        "{NAME_RULE} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{NAME}')"
    );
    let mut faults = Vec::new();
    let mut parts = key.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => Some(name),
        (Some(domain), Some(name), None) => {
            faults.extend(domain_fault(domain).map(|fault| format!("prefix part {fault}")));
            Some(name)
        }
        _ => None,
    };
    match name {
        None => faults.push(format!(
            "a qualified name {name_rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )),
        Some(name) => {
            match name.len() {
                0 => faults.push("name part must be non-empty".to_owned()),
                64.. => faults.push("name part must be no more than 63 characters".to_owned()),
                _ => {}
            }
            if !is_name(name) {
                faults.push(format!("name part {name_rule}"));
            }
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    Err(format!("invalid label key {}: {}", quote(key), faults.join("; ")))
}

fn check_value(key: &str, value: &str) -> Result<(), String> {
    let mut faults = Vec::new();
    if value.len() > 63 {
        faults.push("must be no more than 63 characters".to_owned());
    }
    if !value.is_empty() && !is_name(value) {
        let rule = NAME_RULE.strip_prefix("must ").unwrap_or(NAME_RULE);
        faults.push(format!(
            "a valid label must be an empty string or {rule} (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({NAME})?')"
        ));
    }
    if faults.is_empty() {
        return Ok(());
    }
    Err(format!("invalid label value: {}: at key: {}: {}", quote(value), quote(key), faults.join("; ")))
}

fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    ends(text.bytes().next()) && ends(text.bytes().last()) && text.bytes().all(inner)
}

fn domain_fault(domain: &str) -> Option<String> {
    const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        label.bytes().next().is_some_and(is_alphanumeric)
            && label.bytes().last().is_some_and(is_alphanumeric)
            && label.bytes().all(|byte| is_alphanumeric(byte) || byte == b'-')
    };
    if domain.is_empty() {
        return Some("must be non-empty".to_owned());
    }
    if domain.len() > 253 {
        return Some("must be no more than 253 characters".to_owned());
    }
    (!domain.split('.').all(is_label)).then(|| {
        format!(
            "a DNS-1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{LABEL}(\\.{LABEL})*')"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str) -> bool {
        let labels = [("app", "web"), ("tier", "2"), ("example.com/x", "")];
        let get = |key: &str| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        Selector::parse(selector).expect(selector).matches(get)
    }

    #[test]
    fn a_selector_selects() {
        for selector in [
            "",
            "app",
            "app=web",
            "app==web,tier!=3",
            "app in (web, db)",
            "app notin (db)",
            "!old",
            "tier>1",
            "tier<3,app",
            "example.com/x=",
            "example.com/x in ()",
            "none!=x",
            " app = web ",
        ] {
            assert!(matches(selector), "{selector}");
        }
        for selector in ["old", "app=db", "app!=web", "!app", "tier>2", "app in (db)", "app>1", "app in ()"] {
            assert!(!matches(selector), "{selector}");
        }
    }

    #[test]
    fn what_is_no_selector_is_refused_in_known_words() {
        let cases = [
            ("a b", "unable to parse requirement: found 'b', expected: '=', '!=', '==', 'in', notin'"),
            ("a,", "found '', expected: identifier after ','"),
            ("=a", "found '=', expected: !, identifier, or 'end of string'"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a>b", "unable to parse requirement: for 'Gt', 'Lt' operators, the value must be an integer"),
        ];
        for (selector, expected) in cases {
            assert_eq!(Selector::parse(selector).expect_err(selector), expected);
        }
        assert!(Selector::parse("a=b/c").expect_err("a slash").contains("invalid label value: \"b/c\""));
    }
}
