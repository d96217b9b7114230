//! Structures are written as go-yaml marshals them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::to_node;
use crate::node_to_string;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Result {
    severity: Severity,
    message: &'static str,
    line: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<&'static str>,
    ratio: f64,
    labels: BTreeMap<&'static str, bool>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Warning,
}

#[test]
fn fields_keep_their_order_and_maps_are_sorted() {
    let result = Result {
        severity: Severity::Warning,
        message: "a\nb",
        line: None,
        tags: vec!["yes", "x: y", "1", "plain"],
        ratio: 1e6,
        labels: BTreeMap::from([("a10", true), ("a2", false)]),
    };
    let expected = "severity: warning\nmessage: |-\n  a\n  b\nline: null\ntags:\n- \"yes\"\n- 'x: y'\n- \"1\"\n- plain\nratio: 1e+06\nlabels:\n  a2: false\n  a10: true\n";
    assert_eq!(node_to_string(&to_node(&result).expect("serializable")), expected);
}

#[test]
fn small_floats_print_their_own_digits() {
    assert_eq!(node_to_string(&to_node(&0.1_f32).expect("serializable")), "0.1\n");
}
