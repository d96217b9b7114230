//! Types are read as go-yaml reads them, and what does not fit is named with its line.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    name: String,
    replicas: u32,
    ratio: f64,
    enabled: bool,
    mode: Option<Mode>,
    labels: BTreeMap<String, String>,
    items: Vec<Item>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Fast,
    Slow,
    Timed { seconds: i64 },
}

#[derive(Debug, Deserialize, PartialEq)]
struct Item {
    id: i8,
}

fn message(text: &str) -> String {
    from_str::<Config>(text).expect_err(text).to_string()
}

#[test]
fn a_structure_is_read_with_nulls_as_zero_values() {
    let text = "name: 5\nreplicas: 0x10\nratio: 1\nenabled: yes\nmode: fast\nlabels:\n  a: true\nitems: [{id: 1e2}]\n";
    let expected = Config {
        name: "5".into(),
        replicas: 16,
        ratio: 1.0,
        enabled: true,
        mode: Some(Mode::Fast),
        labels: BTreeMap::from([("a".into(), "true".into())]),
        items: vec![Item { id: 100 }],
    };
    assert_eq!(from_str::<Config>(text), Ok(expected));
    let nulls = "name:\nreplicas: ~\nratio: null\nenabled:\nmode:\nlabels:\nitems:\n";
    assert_eq!(from_str::<Config>(nulls), Ok(Config::default()));
    assert_eq!(from_str::<Config>(""), Ok(Config::default()));
}

#[test]
fn variants_with_content_are_mappings_of_one_key() {
    let config: Config = from_str("mode: {timed: {seconds: 3}}").expect("valid");
    assert_eq!(config.mode, Some(Mode::Timed { seconds: 3 }));
}

#[test]
fn what_does_not_fit_is_named_with_its_line() {
    for (text, expected) in [
        ("name: x\nreplicas: many\n", "line 2: invalid type: string \"many\", expected u32"),
        ("items:\n- id: 300\n", "line 2: invalid value: integer `300`, expected i8"),
        ("ratio: 1\nreplicas: 1.5\n", "line 2: invalid type: floating point `1.5`, expected u32"),
        ("items:\n- {}\n", "line 2: missing field `id`"),
        ("mode: odd\n", "line 1: unknown variant `odd`, expected one of `fast`, `slow`, `timed`"),
        ("labels: []\n", "line 1: invalid type: sequence, expected a map"),
    ] {
        assert_eq!(message(text), format!("yaml: unmarshal errors:\n  {expected}"), "{text:?}");
    }
    assert_eq!(message("replicas: !!int x\n"), "yaml: cannot decode !!str `x` as a !!int");
    let unknown = message("name: x\nfoo: 1\n");
    assert!(unknown.contains("line 2: unknown field `foo`, expected one of"), "{unknown}");
}

#[test]
fn keys_that_occur_twice_are_refused() {
    assert_eq!(
        message("name: a\nlabels: {}\nname: b\n"),
        "yaml: unmarshal errors:\n  line 3: mapping key \"name\" already defined at line 1"
    );
}

#[test]
fn merge_keys_give_what_the_mapping_lacks() {
    type Maps = BTreeMap<String, BTreeMap<String, i64>>;
    let text = "a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc:\n  <<: [*a, *b]\n  x: 9\n";
    let maps: Maps = from_str(text).expect("valid");
    let expected = BTreeMap::from([("x".into(), 9), ("y".into(), 2), ("z".into(), 4)]);
    assert_eq!(maps["c"], expected);
    let error = from_str::<Maps>("a:\n  <<: 1\n").expect_err("no mapping");
    assert!(error.to_string().contains("map merge requires map or sequence of maps as the value"), "{error}");
}

#[test]
fn aliases_are_followed_within_limits() {
    let lists: BTreeMap<String, Vec<i64>> = from_str("a: &x [1, 2]\nb: *x\n").expect("valid");
    assert_eq!(lists["b"], [1, 2]);
    let error = from_str::<Vec<Vec<i64>>>("&x [*x]").expect_err("endless");
    assert!(error.to_string().contains("anchor 'x' value contains itself"), "{error}");
}

#[test]
fn binary_values_are_decoded() {
    let texts: Vec<String> = from_str("- !!binary aGVsbG8=\n- !!binary |\n  aGVs\n  bG8h\n").expect("valid");
    assert_eq!(texts, ["hello", "hello!"]);
    assert!(from_str::<Vec<String>>("- !!binary a\n").is_err());
}

#[test]
fn a_null_key_does_not_hide_a_merged_key_without_text() {
    let node =
        crate::parse_first("base: &base {'': 1, ~: 2}\nall:\n  ? \n  : 3\n  <<: *base\n").expect("valid");
    let root = node.expect("a document").root;
    let all: BTreeMap<Option<String>, i64> = from_node(root.get("all").expect("present")).expect("decodes");
    assert_eq!(all, BTreeMap::from([(None, 3), (Some(String::new()), 1)]));
}
