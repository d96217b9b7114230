//! Loggia as the tests see it: it answers the oracle's questions through the crate's public interface.

use std::collections::BTreeMap;

use loggia_yaml::{
    Document, EmitOptions, Emitter, Fidelity, Kind, Node, Pair, ParseOptions, ScalarStyle, SequenceStyle,
    detect_sequence_style, from_node, node_to_string_with, parse_all_with, parse_first_with, to_node,
    to_string_with,
};

use crate::oracle::Answer;
use crate::values::{Value, quote};

/// Answers what the oracle answers. `faithful:…` is ours alone: the default mode instead of the exact one.
pub(crate) fn ask(mode: &str, texts: &[&[u8]]) -> Answer {
    let words: Vec<&str> = mode.split(':').collect();
    let answer = match words[..] {
        ["nodes", style] => {
            parse(texts[0]).map(|documents| to_string_with(&documents, exact(sequences(style))))
        }
        ["faithful", style] => parse(texts[0]).map(|documents| emit(&documents, sequences(style))),
        ["dump"] => parse(texts[0]).map(|documents| dump(&documents)),
        ["values"] => values(texts[0]),
        ["seqindent"] => Ok(sequence_style(texts[0]).to_owned()),
        ["roundtrip"] => roundtrip(texts[0]),
        ["marshal"] => marshal(texts),
        ["setter"] => set(texts),
        ["scalar", tag, style, place] => scalar(texts[0], tag, style, place),
        _ => panic!("unknown mode `{mode}`"),
    };
    match answer {
        Ok(text) => Answer::Text(text.into_bytes()),
        Err(error) => Answer::Error(error),
    }
}

/// Every document of a stream, read as the original reads.
pub(crate) fn parse(text: &[u8]) -> Result<Vec<Document>, String> {
    parse_all_with(text, READING).map_err(|error| error.to_string())
}

/// Writes documents in the default mode.
pub(crate) fn emit(documents: &[Document], sequences: SequenceStyle) -> String {
    to_string_with(documents, EmitOptions { sequences, fidelity: Fidelity::Faithful })
}

/// The values of every document, a line each.
pub(crate) fn values(text: &[u8]) -> Result<String, String> {
    let mut out = String::new();
    for document in parse(text)? {
        let value: Value = from_node(&document.root).map_err(|error| error.to_string())?;
        value.canonical(&mut out);
        out.push('\n');
    }
    Ok(out)
}

const READING: ParseOptions = ParseOptions { exact: true, unique_keys: false };

fn exact(sequences: SequenceStyle) -> EmitOptions {
    EmitOptions { sequences, fidelity: Fidelity::Exact }
}

fn sequences(style: &str) -> SequenceStyle {
    if style == "wide" { SequenceStyle::Wide } else { SequenceStyle::Compact }
}

fn utf8(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("this mode is asked about text only")
}

fn sequence_style(text: &[u8]) -> &'static str {
    match detect_sequence_style(utf8(text)) {
        SequenceStyle::Compact => "compact",
        SequenceStyle::Wide => "wide",
    }
}

// --- files ---

/// A file read and written as part of a package, as far as that is this crate's business: the text is cut at its separator
/// lines, each part keeps its own sequence style, and empty parts vanish.
fn roundtrip(text: &[u8]) -> Result<String, String> {
    let text = utf8(text).replace("\r\n", "\n");
    let mut emitter = Emitter::new(exact(SequenceStyle::Compact));
    for part in parts(&text) {
        let document = parse_first_with(part.as_bytes(), READING)
            .map_err(|error| format!("MalformedYAMLError: {error}"))?;
        if let Some(document) = document.filter(|document| !document.is_empty()) {
            emitter.set_sequences(detect_sequence_style(&part));
            emitter.document(&document);
        }
    }
    Ok(emitter.finish())
}

fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if number > 0 && line.starts_with("---") && line.ends_with('\n') {
            parts.push(String::new());
        } else {
            parts.last_mut().expect("there is always one part").push_str(line);
        }
    }
    parts
}

// --- strings ---

fn marshal(texts: &[&[u8]]) -> Result<String, String> {
    let map: BTreeMap<&str, &str> = texts.chunks(2).map(|pair| (utf8(pair[0]), utf8(pair[1]))).collect();
    let node = to_node(&map).map_err(|error| error.to_string())?;
    Ok(node_to_string_with(&node, exact(SequenceStyle::Compact)))
}

fn set(texts: &[&[u8]]) -> Result<String, String> {
    let mut documents = parse(texts[0])?;
    documents[0].root.set(utf8(texts[1]), Node::string_for_field(utf8(texts[2])));
    Ok(to_string_with(&documents, exact(SequenceStyle::Compact)))
}

/// A scalar made by a program, at some place of a small document.
fn scalar(value: &[u8], tag: &str, style: &str, place: &str) -> Result<String, String> {
    let style = match style {
        "2" => ScalarStyle::DoubleQuoted,
        "4" => ScalarStyle::SingleQuoted,
        "8" => ScalarStyle::Literal,
        "16" => ScalarStyle::Folded,
        _ => ScalarStyle::Plain,
    };
    let node = match tag {
        "-" => Node::verbatim(utf8(value)),
        _ => Node::string_with_style(utf8(value), style),
    };
    let pair = |key: Node, value: Node| Node::from_pairs(vec![Pair { key, value }]);
    let plain = Node::verbatim;
    let flow = |mut node: Node| {
        node.set_flow(true);
        node
    };
    let root = match place {
        "value" => pair(plain("k"), node),
        "key" => pair(node, plain("v")),
        "item" => Node::from_items(vec![node]),
        "nested" => pair(plain("m"), pair(plain("k"), node)),
        "flow" => pair(plain("k"), flow(Node::from_items(vec![node]))),
        "flowkey" => pair(plain("k"), flow(pair(node, plain("v")))),
        _ => return Err(format!("unknown place `{place}`")),
    };
    Ok(node_to_string_with(&root, exact(SequenceStyle::Compact)))
}

// --- nodes ---

/// The nodes in the oracle's `dump` form. Written without recursion, as documents may be deep.
fn dump(documents: &[Document]) -> String {
    let mut out = String::new();
    for document in documents {
        out.push_str("{\"kind\":\"document\"");
        field(&mut out, "head", &document.head_comment);
        field(&mut out, "foot", &document.foot_comment);
        out.push_str(",\"content\":[");
        dump_tree(&mut out, &document.root);
        out.push_str("]}\n");
    }
    out
}

enum Step<'a> {
    Node(&'a Node),
    Text(&'static str),
}

fn dump_tree(out: &mut String, root: &Node) {
    let mut steps = vec![Step::Node(root)];
    while let Some(step) = steps.pop() {
        match step {
            Step::Text(text) => out.push_str(text),
            Step::Node(node) => {
                dump_fields(out, node);
                let children: Vec<&Node> = node
                    .items()
                    .iter()
                    .chain(node.pairs().iter().flat_map(|pair| [&pair.key, &pair.value]))
                    .collect();
                if children.is_empty() {
                    out.push('}');
                    continue;
                }
                out.push_str(",\"content\":[");
                steps.push(Step::Text("]}"));
                for (at, child) in children.into_iter().enumerate().rev() {
                    steps.push(Step::Node(child));
                    if at > 0 {
                        steps.push(Step::Text(","));
                    }
                }
            }
        }
    }
}

fn dump_fields(out: &mut String, node: &Node) {
    let kind = match node.kind() {
        Kind::Mapping => "mapping",
        Kind::Sequence => "sequence",
        Kind::Scalar => "scalar",
        Kind::Alias => "alias",
    };
    out.push_str(&format!("{{\"kind\":\"{kind}\""));
    field(out, "tag", node.tag_text());
    let mut styles = Vec::new();
    if node.has_explicit_tag() {
        styles.push("tagged");
    }
    match node.scalar_style() {
        ScalarStyle::Plain => {}
        ScalarStyle::DoubleQuoted => styles.push("double"),
        ScalarStyle::SingleQuoted => styles.push("single"),
        ScalarStyle::Literal => styles.push("literal"),
        ScalarStyle::Folded => styles.push("folded"),
    }
    if node.is_flow() {
        styles.push("flow");
    }
    field(out, "style", &styles.join("+"));
    field(out, "anchor", node.anchor());
    field(out, "value", node.scalar().or_else(|| node.alias_name()).unwrap_or_default());
    let comments = node.comments();
    field(out, "head", comments.head);
    field(out, "line", comments.line);
    field(out, "foot", comments.foot);
    out.push_str(&format!(",\"at\":\"{}:{}\"", node.line(), node.column()));
}

fn field(out: &mut String, name: &str, value: &str) {
    if !value.is_empty() {
        out.push_str(&format!(",\"{name}\":"));
        quote(out, value);
    }
}
