//! Editing keeps what surrounds the edit, and trees are cheap and safe to hold.

use super::*;
use crate::{Error, Fidelity, Resolved, node_to_string, parse_first, to_string};

fn root(text: &str) -> Node {
    parse_first(text).expect(text).expect("a document").root
}

#[test]
fn nodes_stay_small() {
    assert!(size_of::<Node>() <= 48, "{}", size_of::<Node>());
    assert!(size_of::<Text>() <= 16, "{}", size_of::<Text>());
}

#[test]
fn trees_cross_threads() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Node>();
    check::<Document>();
}

#[test]
fn a_replaced_value_keeps_its_comment_and_its_quotes() {
    let mut root = root("a: 'x' # why\nb: 2\n");
    root.set("a", Node::string("y"));
    root.set("c", Node::int(3));
    assert_eq!(node_to_string(&root), "a: 'y' # why\nb: 2\nc: 3\n");
}

#[test]
fn replace_takes_the_new_value_as_it_is() {
    let mut root = root("a: 'x' # why\n");
    let old = root.replace("a", Node::string("z"));
    assert_eq!(old.and_then(|old| old.as_str().map(str::to_owned)).as_deref(), Some("x"));
    assert_eq!(node_to_string(&root), "a: z\n");
}

#[test]
fn removing_a_key_leaves_the_others_alone() {
    let mut root = root("# h\na: 1\nb: 2 # l\nc: 3\n");
    assert!(root.remove("b").is_some());
    assert!(root.remove("b").is_none());
    assert_eq!(node_to_string(&root), "# h\na: 1\nc: 3\n");
}

#[test]
fn paths_lead_through_mappings_and_sequences() {
    let mut root = root("a:\n  b:\n  - c: 1\n  - c: 2\n");
    assert_eq!(root.at(&["a", "b", "1", "c"]).and_then(Node::as_i64), Some(2));
    assert!(root.at(&["a", "b", "9", "c"]).is_none());
    root.at_mut(&["a", "b", "0"]).expect("there").set("d", Node::bool(true));
    assert_eq!(node_to_string(&root), "a:\n  b:\n  - c: 1\n    d: true\n  - c: 2\n");
}

#[test]
fn missing_collections_are_made_on_the_way() {
    let mut root = root("kind: X\nmetadata:\n");
    root.entry_mapping("metadata").entry_mapping("labels").set("a", Node::string("b"));
    root.entry_sequence("items").push(Node::string("x"));
    assert_eq!(node_to_string(&root), "kind: X\nmetadata:\n  labels:\n    a: b\nitems:\n- x\n");
}

#[test]
fn a_clone_is_independent_of_the_original() {
    let mut root = root("a: {b: 1}\n");
    let before = root.clone();
    root.at_mut(&["a"]).expect("there").set("b", Node::int(2));
    assert_eq!(node_to_string(&before), "a: {b: 1}\n");
    assert_eq!(node_to_string(&root), "a: {b: 2}\n");
}

#[test]
fn strings_get_quotes_by_the_rule_that_is_asked_for() {
    let written = |node: Node| node_to_string(&node).trim_end().to_owned();
    for (text, marshalled, field, as_read) in [
        ("x", "x", "x", "x"),
        ("", "\"\"", "\"\"", "\"\""),
        ("5", "\"5\"", "\"5\"", "\"5\""),
        ("yes", "\"yes\"", "\"yes\"", "yes"),
        ("12:30:45", "\"12:30:45\"", "12:30:45", "12:30:45"),
        ("a: b", "'a: b'", "\"a: b\"", "'a: b'"),
        ("#a", "'#a'", "\"#a\"", "'#a'"),
        ("a\nb", "|-\n  a\n  b", "|-\n  a\n  b", "|-\n  a\n  b"),
    ] {
        assert_eq!(written(Node::string(text)), marshalled, "{text:?} marshalled");
        assert_eq!(written(Node::string_for_field(text)), field, "{text:?} for a field");
        assert_eq!(written(Node::string_as_read(text)), as_read, "{text:?} as read");
    }
    assert_eq!(written(Node::single_quoted("x")), "'x'");
    assert_eq!(written(Node::verbatim("5")), "5");
    assert_eq!(written(Node::float(1.0)), "1");
}

#[test]
fn scalars_are_seen_as_what_they_mean() {
    let root = root(
        "a: 1\nb: '1'\nc: yes\nd: ~\ne: 1.5\nf: TRUE\ng: !!str 7\nh: !!float 7\ni: 18446744073709551615\n",
    );
    let get = |key: &str| root.get(key).expect(key);
    assert_eq!((get("a").as_i64(), get("a").as_str()), (Some(1), None));
    assert_eq!((get("b").as_i64(), get("b").as_str()), (None, Some("1")));
    assert_eq!((get("c").as_bool(), get("c").as_str()), (None, Some("yes")));
    assert!(get("d").is_null() && !get("c").is_null());
    assert_eq!(get("e").as_f64(), Some(1.5));
    assert_eq!(get("f").as_bool(), Some(true));
    assert_eq!(root.get_str("g"), Some("7"));
    assert_eq!(get("h").resolved(), Some(Resolved::Float(7.0)));
    assert_eq!(get("i").as_u64(), Some(u64::MAX));
}

#[test]
fn comments_fill_only_empty_slots() {
    let from = root("# h\na: 1 # l\n");
    let mut into = root("a: 1 # mine\n");
    let pair = into.pair_mut("a").expect("there");
    pair.key.fill_comments_from(&from.pairs()[0].key);
    pair.value.fill_comments_from(&from.pairs()[0].value);
    assert_eq!(node_to_string(&into), "# h\na: 1 # mine\n");
}

#[test]
fn a_key_that_occurs_twice_is_found_with_its_place() {
    let error: Error = root("a: 1\nb:\n  x: 1\n  y: 2\n  x: 3\n").check_unique_keys().expect_err("twice");
    assert_eq!(
        error.to_string(),
        "yaml: unmarshal errors:\n  line 5: mapping key \"x\" already defined at line 3"
    );
    assert_eq!((error.line(), error.column()), (Some(5), Some(3)));
    assert!(root("a: 1\nb: {a: 1}\n").check_unique_keys().is_ok());
}

#[test]
fn deep_trees_are_cloned_written_compared_and_dropped_on_a_small_stack() {
    let work = || {
        let depth = 9_999;
        let flow = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let block = "- ".repeat(depth) + "x\n";
        let keys: String = (0..depth).map(|_| "{a: ").chain(["1"]).chain((0..depth).map(|_| "}")).collect();
        for text in [flow, block, keys] {
            let document = parse_first(&text).expect("valid").expect("there");
            let copy = document.clone();
            assert_eq!(to_string([&document]).len(), to_string([&copy]).len());
            assert!(document.root.same_value(&copy.root));
            assert!(document.root.check_unique_keys().is_ok());
        }
        let options = crate::EmitOptions { fidelity: Fidelity::Exact, ..Default::default() };
        let mut tower = Node::sequence();
        for _ in 0..100_000 {
            tower = Node::from_items(vec![tower]);
        }
        tower.set_flow(true);
        assert_eq!(crate::node_to_string_with(&tower, options).len(), 200_003);
    };
    let thread = std::thread::Builder::new().stack_size(128 * 1024).spawn(work).expect("a thread");
    thread.join().expect("no overflow");
}
