//! Errors by their text and place, and where comments go.

use super::*;
use crate::node::Kind;

fn error(text: &str) -> (String, Option<u32>, Option<u32>) {
    let error = parse_all(text).expect_err(text);
    (error.to_string(), error.line(), error.column())
}

#[test]
fn syntax_errors_have_the_known_texts_and_their_true_places() {
    for (text, message, line, column) in [
        ("a: b: c\n", "yaml: mapping values are not allowed in this context", 1, 5),
        ("a: 1\nb: - x\n", "yaml: line 2: block sequence entries are not allowed in this context", 2, 4),
        ("a: 1\n b: 2\n", "yaml: line 2: mapping values are not allowed in this context", 2, 3),
        ("a:\n  - 1\n  b: 2\n", "yaml: line 1: did not find expected '-' indicator", 3, 3),
        ("a: 1\nb\n", "yaml: line 2: could not find expected ':'", 3, 1),
        ("a: [1, 2\nb: 3\n", "yaml: line 1: did not find expected ',' or ']'", 2, 2),
        ("a: {b: 1\nc: 3\n", "yaml: line 1: did not find expected ',' or '}'", 2, 2),
        ("a: 'x\n", "yaml: line 2: found unexpected end of stream", 2, 1),
        ("a: \"\\q\"\n", "yaml: found unknown escape character", 1, 5),
        ("a: @x\n", "yaml: found character that cannot start any token", 1, 4),
        ("a:\n\t- 1\n", "yaml: line 2: found character that cannot start any token", 2, 1),
        ("a: x\n\ty\n", "yaml: line 2: found a tab character that violates indentation", 2, 1),
        ("a: |\n \tx\n", "yaml: line 2: found a tab character where an indentation space is expected", 2, 2),
        ("a: !x!y z\n", "yaml: found undefined tag handle", 1, 4),
        ("a: &\n", "yaml: did not find expected alphabetic or numeric character", 1, 5),
        ("a: [,]\n", "yaml: did not find expected node content", 1, 5),
        ("a: *x\n", "yaml: unknown anchor 'x' referenced", 1, 4),
        ("a: |0\n", "yaml: found an indentation indicator equal to 0", 1, 5),
        ("a: 1\n...\nb: 2\n", "yaml: line 2: did not find expected <document start>", 3, 1),
        ("%FOO\n---\n", "yaml: found unknown directive name", 1, 5),
    ] {
        assert_eq!(error(text), (message.to_owned(), Some(line), Some(column)), "{text:?}");
    }
}

#[test]
fn an_error_shows_its_line_with_a_caret() {
    let text = "ok: 1\nnot ok: [1, 2\nx: 3\n";
    let error = parse_all(text).expect_err("unclosed");
    let shown = error.render("f.yaml", text);
    assert!(shown.starts_with("f.yaml:3:2: did not find expected ',' or ']'\n"), "{shown}");
    assert!(shown.ends_with("\n3 | x: 3\n  |  ^"), "{shown}");
}

#[test]
fn nesting_has_a_limit() {
    let message = "exceeded max depth of 10000";
    assert!(error(&"[".repeat(20_000)).0.contains(message));
    assert!(error(&"- ".repeat(20_000)).0.contains(message));
}

#[test]
fn keys_have_a_limit_of_1024_characters() {
    let key = "é".repeat(1024);
    assert!(parse_all(&format!("{key}: 1\n")).is_ok());
    assert!(error(&format!("{key}éé: 1\n")).0.contains("mapping values are not allowed in this context"));
}

#[test]
fn the_json_escape_of_a_slash_is_refused_only_when_exact() {
    let options = ParseOptions { exact: true, ..ParseOptions::default() };
    assert_eq!(parse_first("\"a\\/b\"").expect("valid").expect("there").root.as_str(), Some("a/b"));
    assert!(parse_all_with(b"\"a\\/b\"", options).is_err());
    assert!(parse_all("%YAML 1.2\n---\na: 1\n").is_ok());
    assert!(parse_all_with(b"%YAML 1.2\n---\na: 1\n", options).is_err());
}

#[test]
fn keys_that_occur_twice_are_refused_only_when_asked() {
    assert!(parse_all("a: 1\na: 2\n").is_ok());
    let options = ParseOptions { unique_keys: true, ..ParseOptions::default() };
    let error = parse_all_with(b"a: 1\na: 2\n", options).expect_err("twice");
    assert_eq!(
        error.to_string(),
        "yaml: unmarshal errors:\n  line 2: mapping key \"a\" already defined at line 1"
    );
}

#[test]
fn a_control_character_is_met_before_errors_in_its_neighbourhood() {
    let near = "a: b: c\n\u{1}";
    assert_eq!(error(near).0, "yaml: control characters are not allowed");
    let far = format!("a: b: c\n{}\u{1}", "#\n".repeat(600));
    assert_eq!(error(&far).0, "yaml: mapping values are not allowed in this context");
}

#[test]
fn text_that_stands_in_the_source_is_not_copied() {
    let document = parse_first("a: plain text\nb: \"quoted\"\nc: # note\n").expect("valid").expect("there");
    let [a, b, c] = document.root.pairs() else { panic!("three keys") };
    let start = a.key.scalar_text().expect("a key").as_ptr() as usize;
    for (text, offset) in [
        (a.value.scalar().expect("a scalar"), 3),
        (b.value.scalar().expect("a scalar"), 18),
        (c.key.comments().line, 29),
    ] {
        assert_eq!(text.as_ptr() as usize - start, offset, "{text}");
    }
}

#[test]
fn comments_go_above_behind_and_below() {
    let text = "# doc\n\n# head\na: 1 # line\n# foot\n\nb: # key\n  - x\n\n# end\n";
    let document = parse_first(text).expect("valid").expect("there");
    assert_eq!((&*document.head_comment, &*document.foot_comment), ("# doc", "# end"));
    let [a, b] = document.root.pairs() else { panic!("two keys") };
    assert_eq!((a.key.comments().head, a.key.comments().foot), ("# head", "# foot"));
    assert_eq!((a.value.comments().line, b.key.comments().line), ("# line", "# key"));
}

#[test]
fn aliases_know_what_they_stand_for_unless_it_holds_them() {
    let root = parse_first("a: &x [1, *x]\nb: *x\n").expect("valid").expect("there").root;
    let inner = &root.get("a").expect("a").items()[1];
    assert_eq!(
        (inner.kind(), inner.alias_name(), inner.alias_target().is_some()),
        (Kind::Alias, Some("x"), false)
    );
    let outer = root.get("b").expect("b");
    assert_eq!(outer.alias_target().map(Node::len), Some(2));
}

#[test]
fn positions_are_counted_in_characters_from_one() {
    let root = parse_first("é: [x, ü, y]\nb:\n  c: |\n    t\n").expect("valid").expect("there").root;
    let place = |node: &Node| (node.line(), node.column());
    assert_eq!(place(&root.get("é").expect("there").items()[2]), (1, 11));
    assert_eq!(place(root.at(&["b", "c"]).expect("there")), (3, 6));
}
