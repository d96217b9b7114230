//! What a function wrote, as far as an evaluator looks at it.
//!
//! The rules and the words are those of the library that Porch's wrapper server reads lists with. Where
//! that says less than it knows, the line is added.

use std::collections::BTreeMap;
use std::fmt;

use loggia_go::quote;
use loggia_yaml::{Kind, Node, ParseOptions, node_to_string};

/// One structured result of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionResult {
    pub message: String,
    pub severity: String,
    pub resource_ref: ResourceRef,
    pub field_path: String,
    /// What the field holds; YAML if it is no scalar.
    pub current_value: String,
    /// What it should hold; YAML if it is no scalar.
    pub proposed_value: String,
    pub file_path: String,
    pub file_index: i64,
    pub tags: BTreeMap<String, String>,
}

/// The resource that a result is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRef {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
}

/// Why some output is no `ResourceList`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to parse input bytes: failed to parse input bytes: {}{}", .0, line_if_missing(.0))]
    Yaml(loggia_yaml::Error),
    #[error("failed to parse input bytes: failed to extract objects: {0}")]
    Document(NotAMapping),
    #[error("failed to parse input bytes: expected exactly one object, got {0}")]
    Count(usize),
    #[error("input was of unexpected kind {}; expected ResourceList", quote(.0))]
    Kind(String),
    #[error("failed when tried to get {field}: {verb} {} (line {line})", go_type(*.found))]
    Field { field: &'static str, verb: &'static str, found: Kind, line: u32 },
    #[error("failed to extract objects from items: {0}")]
    Item(NotAMapping),
    #[error("yaml: unmarshal errors:\n  {}\nfailed to decode results", .0.join("\n  "))]
    Results(Vec<String>),
}

/// Something else where a mapping belongs.
#[derive(Debug)]
pub struct NotAMapping {
    found: Kind,
    line: u32,
}

/// Checks that some output is one `ResourceList` and gives its results.
pub fn results(output: &[u8]) -> Result<Vec<FunctionResult>, Error> {
    let documents = loggia_yaml::parse_all_with(output, ParseOptions::default()).map_err(Error::Yaml)?;
    for document in &documents {
        must_be_mapping(&document.root).map_err(Error::Document)?;
    }
    let [document] = documents.as_slice() else { return Err(Error::Count(documents.len())) };
    let list = followed(&document.root);
    let kind = field(list, "kind").and_then(Node::as_str).unwrap_or_default();
    if kind != "ResourceList" {
        return Err(Error::Kind(kind.to_owned()));
    }
    if let Some(config) = field(list, "functionConfig").filter(|config| !config.is_mapping()) {
        let (found, line) = (config.kind(), config.line());
        return Err(Error::Field { field: "functionConfig", verb: "wrong type, got:", found, line });
    }
    if let Some(items) = field(list, "items") {
        if !items.is_sequence() {
            let (found, line) = (items.kind(), items.line());
            return Err(Error::Field { field: "items", verb: "incorrect type, was", found, line });
        }
        for item in items.items() {
            must_be_mapping(item).map_err(Error::Item)?;
        }
    }
    decode(field(list, "results").map_or(&[], Node::items))
}

/// The node itself, or what it stands for.
fn followed(mut node: &Node) -> &Node {
    while let Some(target) = node.alias_target() {
        node = target;
    }
    node
}

fn field<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    node.get(key).map(followed)
}

fn must_be_mapping(node: &Node) -> Result<(), NotAMapping> {
    let target = followed(node);
    match target.is_mapping() {
        true => Ok(()),
        false => Err(NotAMapping { found: target.kind(), line: node.line() }),
    }
}

fn decode(results: &[Node]) -> Result<Vec<FunctionResult>, Error> {
    let mut decoder = Decoder::default();
    let decoded = results.iter().map(|result| decoder.result(followed(result))).collect();
    match decoder.complaints.is_empty() {
        true => Ok(decoded),
        false => Err(Error::Results(decoder.complaints)),
    }
}

/// Reads results and remembers what does not fit.
#[derive(Default)]
struct Decoder {
    complaints: Vec<String>,
}

// === impl Decoder ===

impl Decoder {
    fn result(&mut self, result: &Node) -> FunctionResult {
        if !self.expect_mapping(result, "fn.Result") {
            return FunctionResult::default();
        }
        let reference = self.part(result, "resourceRef", "fn.ResourceRef");
        let place = self.part(result, "field", "fn.Field");
        let file = self.part(result, "file", "fn.File");
        let tags = self.part(result, "tags", "map[string]string").map_or(&[][..], Node::pairs);
        let tags = tags
            .iter()
            .map(|pair| (self.text(Some(followed(&pair.key))), self.text(Some(followed(&pair.value)))))
            .collect();
        let text = |decoder: &mut Self, node: Option<&Node>, key| {
            decoder.text(node.and_then(|node| field(node, key)))
        };
        FunctionResult {
            message: self.text(field(result, "message")),
            severity: self.text(field(result, "severity")),
            resource_ref: ResourceRef {
                api_version: text(self, reference, "apiVersion"),
                kind: text(self, reference, "kind"),
                name: text(self, reference, "name"),
                namespace: text(self, reference, "namespace"),
            },
            field_path: text(self, place, "path"),
            current_value: value(place, "currentValue"),
            proposed_value: value(place, "proposedValue"),
            file_path: text(self, file, "path"),
            file_index: self.number(file.and_then(|file| field(file, "index"))),
            tags,
        }
    }

    /// A part that is itself a mapping.
    fn part<'a>(&mut self, result: &'a Node, key: &str, type_name: &str) -> Option<&'a Node> {
        field(result, key).filter(|part| self.expect_mapping(part, type_name))
    }

    /// Nothing at all is as good as an empty mapping.
    fn expect_mapping(&mut self, node: &Node, type_name: &str) -> bool {
        if !node.is_mapping() && !node.is_null() {
            self.complain(node, type_name);
        }
        node.is_mapping()
    }

    fn text(&mut self, node: Option<&Node>) -> String {
        match node {
            Some(node) if node.is_null() => String::new(),
            Some(node) => node.scalar().map_or_else(
                || {
                    self.complain(node, "string");
                    String::new()
                },
                ToOwned::to_owned,
            ),
            None => String::new(),
        }
    }

    fn number(&mut self, node: Option<&Node>) -> i64 {
        match node {
            Some(node) if !node.is_null() => node.as_i64().unwrap_or_else(|| {
                self.complain(node, "int");
                0
            }),
            _ => 0,
        }
    }

    fn complain(&mut self, node: &Node, type_name: &str) {
        let value = match node.scalar() {
            Some(text) if text.len() > 10 => format!(" `{}...`", text.chars().take(7).collect::<String>()),
            Some(text) => format!(" `{text}`"),
            None => String::new(),
        };
        let (line, tag) = (node.line(), node.tag_text());
        self.complaints.push(format!("line {line}: cannot unmarshal {tag}{value} into {type_name}"));
    }
}

/// A value of any type as text.
fn value(place: Option<&Node>, key: &str) -> String {
    match place.and_then(|place| field(place, key)).filter(|value| !value.is_null()) {
        Some(value) => value.scalar().map_or_else(|| node_to_string(value).trim().to_owned(), str::to_owned),
        None => String::new(),
    }
}

// === impl Error ===

/// The name that the original's type has for such a node.
fn go_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Mapping => "*internal.MapVariant",
        Kind::Sequence => "*internal.SliceVariant",
        Kind::Scalar | Kind::Alias => "*internal.scalarVariant",
    }
}

fn line_if_missing(error: &loggia_yaml::Error) -> String {
    match error.line() {
        Some(line) if !error.to_string().contains("line ") => format!(" (line {line})"),
        _ => String::new(),
    }
}

impl fmt::Display for NotAMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, what) = match self.found {
            Kind::Sequence => (2, "a sequence"),
            Kind::Mapping => (4, "a mapping"),
            Kind::Scalar => (8, "a scalar"),
            Kind::Alias => (16, "an alias"),
        };
        write!(f, "unhandled node kind {number} (line {}: {what} where a mapping belongs)", self.line)
    }
}

// === impl FunctionResult ===

impl fmt::Display for FunctionResult {
    /// `[SEVERITY] APIVERSION/KIND/NAMESPACE/NAME FIELDPATH: MESSAGE`, less what is missing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, severity, resource_ref, field_path, .. } = self;
        let severity = if severity.is_empty() { "info" } else { severity };
        let ResourceRef { api_version, kind, name, namespace } = resource_ref;
        let parts: Vec<_> = [api_version, kind, namespace, name]
            .into_iter()
            .filter(|part| !part.is_empty())
            .map(String::as_str)
            .collect();
        write!(f, "[{severity}]")?;
        if !parts.is_empty() {
            write!(f, " {}", parts.join("/"))?;
        }
        if !field_path.is_empty() {
            write!(f, " {field_path}")?;
        }
        write!(f, ": {message}")
    }
}
