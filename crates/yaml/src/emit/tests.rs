//! The vectors of upstream's round trip, in both fidelities, and the laws of the emitter.

use super::*;
use crate::{ParseOptions, detect_sequence_style, parse_all_with};

fn round_trip(input: &str, fidelity: Fidelity) -> String {
    let reading = ParseOptions { exact: fidelity == Fidelity::Exact, ..ParseOptions::default() };
    let documents = parse_all_with(input.as_bytes(), reading).expect(input);
    let options = EmitOptions { sequences: detect_sequence_style(input), fidelity };
    to_string_with(&documents, options)
}

/// Input and upstream's output; an empty output means that the input comes back unchanged.
const VECTORS: &[(u32, &str, &str)] = &[
    (1, "a:\n    b:\n        c: 1\n", "a:\n  b:\n    c: 1\n"),
    (2, "a:\n  - 1\n  - 2\n", ""),
    (3, "a:\n- 1\n- 2\n", ""),
    (4, "a:\n    - 1\n", "a:\n- 1\n"),
    (5, "a:\n  - 1\nb:\n- 2\n", "a:\n  - 1\nb:\n  - 2\n"),
    (6, "a:\n- 1\nb:\n  - 2\n", "a:\n- 1\nb:\n- 2\n"),
    (7, "a:\n  -\n    k: v\n    l: w\n", "a:\n- k: v\n  l: w\n"),
    (8, "a:\n- - 1\n  - 2\n- - 3\n", ""),
    (9, "a:\n  - - 1\n    - 2\n", ""),
    (10, "a: [1,2 , {b:  c}]\n", "a: [1, 2, {b: c}]\n"),
    (11, "a: [\n  1,\n  2,\n]\n", "a: [1, 2]\n"),
    (13, "? a\n: b\n", "a: b\n"),
    (15, "a: !!str 1\nb: !t x\nc: ! y\n", "a: !!str 1\nb: !t x\nc: y\n"),
    (16, "a: x\n  y\n  z\n", "a: x y z\n"),
    (17, "a: x\n\n  y\n", "a: |-\n  x\n  y\n"),
    (18, "a: \"x\n  y\"\n", "a: \"x y\"\n"),
    (19, "a: 'x\n\n  y'\n", ""),
    (20, "a: yes\nb: 'no'\nc: \"on\"\n", ""),
    (21, "a: 0x1F\nb: 1_000\nc: 017\nd: 1.50\n", ""),
    (22, "a:\nb: ~\nc: null\nd: Null\n", ""),
    (23, "a: |\n    x\n      y\n    z\n", "a: |\n  x\n    y\n  z\n"),
    (24, "a: |-\n  x\nb: |+\n  y\n\nc: |\n  z\n", ""),
    (25, "a: |\n\n  x\n", "a: |2\n\n  x\n"),
    (26, "a: |\nb: 1\n", "a: \"\"\nb: 1\n"),
    (29, "a: >-\n  x\n  y\n", "a: >-\n  x y\n"),
    (31, "a: | # c\n  x\n", ""),
    (32, "# h\n\na: 1\n", ""),
    (33, "# h1\n\n# h2\n\na: 1\n", ""),
    (34, "\n\na: 1\n\n\nb: 2\n\n", "a: 1\nb: 2\n"),
    (35, "a: 1 # l\nb: 2   #  m \n", "a: 1 # l\nb: 2 #  m \n"),
    (36, "a: 1\n# f\n\nb: 2\n", ""),
    (37, "a: 1\n\n# h\nb: 2\n", "a: 1\n# h\nb: 2\n"),
    (38, "a: 1\n\n# h\n\nb: 2\n", "a: 1\n# h\nb: 2\n"),
    (39, "a: 1\n# f1\n\n# h2\nb: 2\n", ""),
    (40, "a:\n  b: 1\n  # f\nc: 2\n", ""),
    (41, "a:\n  b: 1\n# x\nc: 2\n", ""),
    (42, "a:\n  b: 1\n\n  # f\n\nc: 2\n", "a:\n  b: 1\n  # f\nc: 2\n"),
    (43, "a: # k\n  - 1\n", ""),
    (45, "a: # k\nb: 1\n", ""),
    (46, "a: # c\n  x\n", "a: x # c\n"),
    (47, "a:\n  # only\nb: 1\n", "a:\n# only\nb: 1\n"),
    (48, "a:\n  # h1\n  - 1 # l1\n  # h2\n  - 2\n", ""),
    (49, "a:\n  - 1\n  # f\nb: 2\n", ""),
    (50, "a:\n- 1\n# f\n\nb: 2\n", ""),
    (51, "a:\n  - b: 1\n    # f\n  - c: 2\n", ""),
    (52, "a:\n  - # h\n    b: 1\n", ""),
    (53, "a: [1, # x\n  2]\n", ""),
    (54, "a:\n  [\n    # h\n    1,\n    # f\n  ]\n", "a: [\n  # h\n  1,\n  # f\n]\n"),
    (55, "a: 1\n\n# end\n", ""),
    (56, "a:\n  b: 1\n  # e1\n# e2\n", ""),
    (57, "a: |\n  x\n\n# c\nb: 1\n", "a: |\n  x\n# c\nb: 1\n"),
    (58, "\"a:b\":\n    - x\nd:\n- z\n", "\"a:b\":\n- x\nd:\n- z\n"),
    (61, "---\n# c\na: 1\n", "# c\na: 1\n"),
];

/// Input, what upstream makes of it, and what we make of it.
const DAMAGED_UPSTREAM: &[(u32, &str, &str, &str)] = &[
    (12, "a: {x: , y: 1}\n", "a: {x: '', y: 1}\n", "a: {x: , y: 1}\n"),
    (
        14,
        "a: &x {b: 1}\nc:\n  <<: *x\n",
        "a: &x {b: 1}\nc:\n  !!merge <<: *x\n",
        "a: &x {b: 1}\nc:\n  <<: *x\n",
    ),
    (27, "a: |\n  x \n  y\n", "a: \"x \\ny\\n\"\n", "a: |\n  x \n  y\n"),
    (28, "a: >\n  x\n  y\n\n  z\n", "a: >\n  x y\n\n  z\n\n", "a: >\n  x y\n\n  z\n"),
    (30, "a: >-\n  x\n    y\n  z\n", "a: >-\n  x\n\n    y\n  z\n", "a: >-\n  x\n    y\n  z\n"),
    (44, "a: # k\n  {b: 1}\n", "a: {b: 1}\n", "a: {b: 1} # k\n"),
    (70, "a: 😀\n", "a: \"\\U0001F600\"\n", "a: 😀\n"),
    (71, "a: !!set {x, y}\n", "a: !!set {x: '', y: ''}\n", "a: !!set {x: , y: }\n"),
    (72, "z: &x 1\na: # k\n  *x\nb: 1\n", "z: &x 1\na: *x\nb: 1 # k\n", "z: &x 1\na: *x # k\nb: 1\n"),
    (73, "a: |+\n  x\n\n# end\n", "a: |+\n  x\n\n\n# end\n", "a: |+\n  x\n\n# end\n"),
    (74, "a: [2001-01-01 1:2:3]\n", "a: ['2001-01-01 1:2:3']\n", "a: [2001-01-01 1:2:3]\n"),
    (75, "a: |2\n  \tx\n", "a: |\n  \tx\n", "a: |2\n  \tx\n"),
    (76, "a: [ # c\n  1]\n", "a: [1]\n", "a: [\n  # c\n  1]\n"),
    (77, "a: # k\n  x # v\n", "a: x # v\n", "# k\na: x # v\n"),
    (78, "a: 'x\n\n  y\n\n  '\n", "a: 'x\n\n  y\n\n'\n", "a: 'x\n\n  y\n\n  '\n"),
    (79, "a: |-\n  x\n   \n  y \n", "a: \"x\\n \\ny \"\n", "a: |-\n  x\n   \n  y \n"),
    (81, "a: !!null ''\n? !!null\n: b\n", "a: !!null ''\n!!null '': b\n", "a: !!null ''\n!!null '': b\n"),
    (
        82,
        "a: 'x\n\n  '\nb:\n- '\n\n\n  y'\n",
        "a: 'x\n\n'\nb:\n- '\n\n\n  y'\n",
        "a: 'x\n\n  '\nb:\n- '\n\n\n  y'\n",
    ),
    (80, "r:\n  # e\n  s\n# f\nx:\n", "r: s\n# f\nx:\n", "r: s\n# e\n# f\nx:\n"),
];

#[test]
fn documents_come_back_as_upstream_writes_them() {
    for &(number, input, output) in VECTORS {
        let output = if output.is_empty() { input } else { output };
        assert_eq!(round_trip(input, Fidelity::Exact), output, "vector {number}, exact");
        assert_eq!(round_trip(input, Fidelity::Faithful), output, "vector {number}, faithful");
    }
}

#[test]
fn known_damage_is_repeated_only_when_asked_for() {
    for &(number, input, exact, faithful) in DAMAGED_UPSTREAM {
        assert_eq!(round_trip(input, Fidelity::Exact), exact, "vector {number}, exact");
        assert_eq!(round_trip(input, Fidelity::Faithful), faithful, "vector {number}, faithful");
        assert_eq!(round_trip(faithful, Fidelity::Faithful), faithful, "vector {number}, again");
    }
}

#[test]
fn separators_of_unicode_are_escaped_unless_exact() {
    let node = Node::string_as_read("x\u{2028}y");
    let written = |fidelity| node_to_string_with(&node, EmitOptions { fidelity, ..EmitOptions::default() });
    assert_eq!(written(Fidelity::Exact), "'x\u{2028}  y'\n");
    assert_eq!(written(Fidelity::Faithful), "\"x\\Ly\"\n");
}

#[test]
fn documents_keep_their_own_sequence_style() {
    let documents = crate::parse_all("a:\n- 1\n---\nb:\n  - 2\n").expect("valid");
    let mut emitter = Emitter::new(EmitOptions::default());
    emitter.document(&documents[0]);
    emitter.set_sequences(SequenceStyle::Wide);
    emitter.document(&documents[1]);
    assert_eq!(emitter.finish(), "a:\n- 1\n---\nb:\n  - 2\n");
}

#[test]
fn long_lines_are_never_broken() {
    let text = format!("a: {}\nb: [{}]\n", "word ".repeat(500).trim_end(), vec!["item"; 500].join(", "));
    assert_eq!(round_trip(&text, Fidelity::Faithful), text);
}
