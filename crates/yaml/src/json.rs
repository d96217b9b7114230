//! A tree as JSON, for resources kept in `*.json` files: two spaces, sorted keys, a final newline.

use crate::de::{Budget, follow_alias, merged_pairs, resolve_by_tag};
use crate::error::Error;
use crate::node::{Kind, Node, Tag};
use crate::number::format_json;
use crate::resolve::{Resolved, canonical_timestamp};

/// How many collections may be inside each other.
const MAX_DEPTH: usize = 1_000;

/// The most bytes of a text. Indentation and aliases make it grow beyond the size of its tree.
const MAX_LENGTH: usize = 256 << 20;

/// Writes a node as indented JSON.
///
/// Keys are sorted by bytes, non-ASCII text stays, `<`, `>`, `&` and the Unicode line separators are
/// escaped. Comments and styles are lost.
///
/// # Errors
/// On infinities and not-a-number, keys below the root that are not strings, a key that occurs twice,
/// aliases beyond the limits, more than 1,000 collections inside each other, or a text of more than 256 MiB: every
/// line is indented by its depth, so the text grows with the square of it.
pub fn to_json(node: &Node) -> Result<String, Error> {
    write(node, true, MAX_LENGTH)
}

/// [`to_json`] with another limit on the length of the text.
///
/// # Errors
/// As [`to_json`].
pub fn to_json_within(node: &Node, limit: usize) -> Result<String, Error> {
    write(node, true, limit)
}

/// Writes a node as JSON on one line, without spaces, for programs to read.
///
/// # Errors
/// As [`to_json`], if the text would be longer than `limit`.
pub fn to_compact_json(node: &Node, limit: usize) -> Result<String, Error> {
    write(node, false, limit)
}

fn write(node: &Node, indented: bool, limit: usize) -> Result<String, Error> {
    let budget = Budget::default();
    let mut out = String::new();
    let mut stack = vec![Step::Value { node, in_alias: false }];
    let mut depth = 0;
    while let Some(step) = stack.pop() {
        if out.len() > limit {
            return Err(Error::new(format!("json: exceeded max length of {limit}")));
        }
        match step {
            Step::Value { node, in_alias } => {
                write_value(node, in_alias, &budget, &mut out, &mut stack, &mut depth)?;
            }
            Step::Entry { key, first } => {
                if !first {
                    out.push(',');
                }
                if indented {
                    break_line(&mut out, depth);
                }
                if let Some(key) = key {
                    write_string(key, &mut out);
                    out.push_str(if indented { ": " } else { ":" });
                }
            }
            Step::Close(bracket) => {
                depth -= 1;
                if indented {
                    break_line(&mut out, depth);
                }
                out.push(bracket);
            }
        }
    }
    if indented {
        out.push('\n');
    }
    Ok(out)
}

enum Step<'a> {
    Value { node: &'a Node, in_alias: bool },
    Entry { key: Option<&'a str>, first: bool },
    Close(char),
}

fn break_line(out: &mut String, depth: usize) {
    out.push('\n');
    for _ in 0..depth {
        out.push_str("  ");
    }
}

fn descend(depth: &mut usize) -> Result<(), Error> {
    *depth += 1;
    if *depth > MAX_DEPTH {
        return Err(Error::new(format!("json: exceeded max depth of {MAX_DEPTH}")));
    }
    Ok(())
}

fn write_value<'a>(
    mut node: &'a Node,
    mut in_alias: bool,
    budget: &Budget,
    out: &mut String,
    stack: &mut Vec<Step<'a>>,
    depth: &mut usize,
) -> Result<(), Error> {
    budget.spend(in_alias)?;
    while node.kind() == Kind::Alias {
        node = follow_alias(node)?;
        in_alias = true;
        budget.spend(true)?;
    }
    match node.kind() {
        Kind::Scalar | Kind::Alias => {
            budget.copy(node.scalar().unwrap_or_default(), in_alias)?;
            return write_scalar(node, out);
        }
        Kind::Sequence if node.is_empty() => out.push_str("[]"),
        Kind::Sequence => {
            out.push('[');
            descend(depth)?;
            stack.push(Step::Close(']'));
            for (at, item) in node.items().iter().enumerate().rev() {
                stack.push(Step::Value { node: item, in_alias });
                stack.push(Step::Entry { key: None, first: at == 0 });
            }
        }
        Kind::Mapping => {
            let mut pairs = merged_pairs(node, budget)?;
            if *depth > 0 && pairs.iter().any(|(key, _)| key.tag() != Tag::Str && key.tag() != Tag::None) {
                return Err(Error::new("json: unsupported type: map[interface {}]interface {}"));
            }
            pairs.sort_by(|(a, _), (b, _)| a.scalar().cmp(&b.scalar()));
            if pairs.is_empty() {
                out.push_str("{}");
                return Ok(());
            }
            out.push('{');
            descend(depth)?;
            stack.push(Step::Close('}'));
            for (at, (key, value)) in pairs.iter().enumerate().rev() {
                stack.push(Step::Value { node: value, in_alias });
                stack.push(Step::Entry { key: Some(key.scalar().unwrap_or_default()), first: at == 0 });
            }
        }
    }
    Ok(())
}

fn write_scalar(node: &Node, out: &mut String) -> Result<(), Error> {
    let text = node.scalar().unwrap_or_default();
    match resolve_by_tag(node, text)? {
        Resolved::Null => out.push_str("null"),
        Resolved::Bool(value) => out.push_str(if value { "true" } else { "false" }),
        Resolved::Int(value) => out.push_str(&value.to_string()),
        Resolved::Uint(value) => out.push_str(&value.to_string()),
        Resolved::Float(value) if value.is_finite() => out.push_str(&format_json(value)),
        Resolved::Float(_) => return Err(Error::new(format!("json: unsupported value: {text}"))),
        Resolved::Timestamp => {
            write_string(&canonical_timestamp(text).unwrap_or_else(|| text.to_owned()), out);
        }
        Resolved::Str => write_string(text, out),
    }
    Ok(())
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0C' => out.push_str("\\f"),
            '\0'..='\x1F' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(yaml: &str) -> Result<String, Error> {
        to_json(&crate::parse_first(yaml)?.unwrap_or_default().root)
    }

    #[test]
    fn keys_are_sorted_and_every_element_has_a_line() {
        let yaml = "b: [1, {y: <é>}]\na: 1.50\nc: {}\nd: []\n\"1\": 0x10\n";
        let expected = "{\n  \"1\": 16,\n  \"a\": 1.5,\n  \"b\": [\n    1,\n    {\n      \"y\": \"\\u003cé\\u003e\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}\n";
        assert_eq!(json(yaml).expect("valid"), expected);
    }

    #[test]
    fn aliases_are_followed_and_merges_merged() {
        let yaml = "a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  k: 3\nc: *x\n";
        let text = json(yaml).expect("valid");
        assert!(text.contains("\"b\": {\n    \"k\": 3,\n    \"l\": 2\n  }"), "{text}");
    }

    #[test]
    fn what_json_cannot_say_is_an_error() {
        assert!(json("a: .nan").is_err());
        assert!(json("a: {1: 2}").is_err());
        assert_eq!(json("a: 2001-1-2").expect("valid"), "{\n  \"a\": \"2001-01-02T00:00:00Z\"\n}\n");
    }

    #[test]
    fn depth_is_limited_as_indentation_grows_with_it() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(json(&nested(MAX_DEPTH)).is_ok());
        let error = json(&nested(MAX_DEPTH + 1)).expect_err("too deep");
        assert_eq!(error.to_string(), "yaml: json: exceeded max depth of 1000");
        assert!(json(&format!("a: {}", nested(MAX_DEPTH))).is_err());
    }

    #[test]
    fn a_few_aliases_cannot_fill_the_memory() {
        let mut yaml = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let refs = vec![format!("*a{}", level - 1); 9].join(", ");
            yaml.push_str(&format!("a{level}: &a{level} [{refs}]\n"));
        }
        let error = json(&yaml).expect_err("too much");
        assert_eq!(error.to_string(), "yaml: document contains excessive aliasing");
    }
}
