//! Setters: comments such as `# kpt-set: ${image}:${tag}` that say where a field's value comes from.
//!
//! The text behind `kpt-set:` is a pattern: literal text with references to setters by name. What
//! apply-setters, create-setters and list-setters have in common is here.

use loggia_krm::Resource;
use loggia_yaml::{Node, Pair};

use crate::kyaml::fields;

/// What a setter's comment begins with, to the space.
const MARK: &str = "# kpt-set: ";

/// The pattern in a line comment; empty or no setter's comment at all gives nothing.
pub(crate) fn pattern(comment: &str) -> Option<&str> {
    comment.strip_prefix(MARK).map(str::trim).filter(|pattern| !pattern.is_empty())
}

/// The line comment of a list, which stands on the key in block style and behind the bracket in flow style.
pub(crate) fn list_comment(pair: &Pair) -> &str {
    let holder = if pair.value.is_flow() { &pair.value } else { &pair.key };
    holder.comments().line
}

/// Whether a resource has any setter's comment, so that it is worth a closer look.
pub(crate) fn has_setters(resource: &Resource) -> bool {
    fields::any(resource.node(), |node| node.comments().line.starts_with(MARK))
}

/// The references of a pattern in order, each as it stands: `${image}`.
pub(crate) fn references(pattern: &str) -> Vec<&str> {
    pieces(pattern).1
}

/// The name in a reference.
pub(crate) fn name(reference: &str) -> &str {
    let reference = reference.trim();
    let reference = reference.strip_prefix("${").unwrap_or(reference);
    reference.strip_suffix('}').unwrap_or(reference)
}

/// A pattern as literal text, one piece more than there are references, and the references between.
pub(crate) fn pieces(pattern: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut literals, mut references) = (Vec::new(), Vec::new());
    let mut rest = pattern;
    while let Some(start) = rest.find("${")
        && let Some(length) = rest[start..].find('}')
    {
        let end = start + length + 1;
        literals.push(&rest[..start]);
        references.push(&rest[start..end]);
        rest = &rest[end..];
    }
    literals.push(rest);
    (literals, references)
}

/// The names and values that make the pattern out of a value: every reference stands for as much text of one
/// line as can be, the first before all others. Nothing if it does not match or a reference would be empty.
pub(crate) fn derive<'a>(pattern: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    let (literals, references) = pieces(pattern);
    // Of two references side by side the second would be empty.
    if literals.iter().skip(1).rev().skip(1).any(|literal| literal.is_empty()) {
        return Vec::new();
    }
    let Some(texts) = value.split('\n').find_map(|line| split_by(&literals, line)) else {
        return Vec::new();
    };
    if texts.iter().any(|text| text.is_empty()) {
        return Vec::new();
    }
    references.iter().map(|reference| name(reference)).zip(texts).collect()
}

/// The texts between the literals, if a line has these in order. The first literal is taken where it first
/// occurs and all others as late as they fit: that is what greedy matching comes to.
fn split_by<'a>(literals: &[&str], line: &'a str) -> Option<Vec<&'a str>> {
    let (first, others) = literals.split_first()?;
    let line = &line[line.find(first)? + first.len()..];
    let mut end = line.len();
    let mut found = Vec::with_capacity(others.len());
    for literal in others.iter().rev() {
        let at = line[..end].rfind(literal)?;
        found.push((at, at + literal.len()));
        end = at;
    }
    let mut from = 0;
    let texts = found.into_iter().rev().map(|(at, end)| &line[std::mem::replace(&mut from, end)..at]);
    Some(texts.collect())
}

/// The texts of a list's items in the order of the alphabet; what is not a scalar has none.
pub(crate) fn sorted_items(list: &Node) -> Vec<&str> {
    let mut texts: Vec<&str> = list.items().iter().map(fields::raw_text).collect();
    texts.sort_unstable();
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_comment_with_the_mark_holds_a_pattern() {
        assert_eq!(pattern("# kpt-set: ${a} "), Some("${a}"));
        for comment in ["", "# kpt-set:${a}", "#kpt-set: ${a}", "# kpt-set:  ", "# about kpt-set: ${a}"] {
            assert_eq!(pattern(comment), None, "{comment}");
        }
    }

    #[test]
    fn values_are_derived_as_a_greedy_expression_would() {
        let cases = [
            ("${image}:${tag}", "nginx:1.7", &[("image", "nginx"), ("tag", "1.7")][..]),
            ("${image}:${tag}", "host:80/nginx:1.7", &[("image", "host:80/nginx"), ("tag", "1.7")]),
            ("a.${s}.${d}.${t}", "my-a.dev.example.com", &[("s", "dev"), ("d", "example"), ("t", "com")]),
            ("x-${a}", "y\nx-1\nx-2", &[("a", "1")]),
            ("x${a}x", "xxx", &[("a", "x")]),
            ("${a}${b}", "ab", &[]),
            ("${a}-b", "-b", &[]),
            ("${a}:${b}", "none", &[]),
            ("plain", "plain", &[]),
            ("${a}-${a}", "1-2", &[("a", "1"), ("a", "2")]),
            ("é${a}ü${b}", "éxüyüz", &[("a", "xüy"), ("b", "z")]),
        ];
        for (pattern, value, expected) in cases {
            assert_eq!(derive(pattern, value), expected, "{pattern} on {value}");
        }
    }

    #[test]
    fn a_reference_ends_at_the_first_brace() {
        assert_eq!(references("a${b}c${d${e}f}${g"), ["${b}", "${d${e}"]);
        assert_eq!(name(" ${a b} "), "a b");
        assert_eq!(name("a"), "a");
    }
}
