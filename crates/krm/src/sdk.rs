//! A `ResourceList` as the Go SDK for functions reads it, and its words for what it refuses.
//!
//! The rules are those of `ParseResourceList` (krm-functions-sdk, `go/fn/resourcelist.go`). Functions built on
//! the SDK read their input with it, and Porch's wrapper server checks a function's output with it. Where the
//! SDK refuses an alias or panics on it, the alias is followed here.
//!
//! This module walks the tree and uses no serde: the small static server in function pods links it.

use std::collections::BTreeMap;
use std::fmt;

use loggia_go::quote;
use loggia_yaml::{Kind, Node, ParseOptions};

use crate::resource::{follow, text};
use crate::results::{FieldRef, FileRef, ResourceRef, ResultItem, Results, Severity, value_text};
use crate::unmarshal;

/// Why some bytes are not a `ResourceList`. Displayed in the SDK's words; [`Error::location`] adds the line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// They are not YAML.
    #[error("failed to parse input bytes: failed to parse input bytes: {0}")]
    Yaml(loggia_yaml::Error),
    /// A document is not a mapping.
    #[error("failed to parse input bytes: failed to extract objects: {0}")]
    Document(NotAMapping),
    /// There is not exactly one document.
    #[error("failed to parse input bytes: expected exactly one object, got {0}")]
    Count(usize),
    /// The document is of another kind.
    #[error("input was of unexpected kind {}; expected ResourceList", quote(.0))]
    Kind(String),
    /// `functionConfig` is not a mapping.
    #[error("failed when tried to get functionConfig: wrong type, got: {}", variant(.0.found))]
    FunctionConfig(Misfit),
    /// `items` is not a sequence.
    #[error("failed when tried to get items: incorrect type, was {}", variant(.0.found))]
    Items(Misfit),
    /// An item is not a mapping.
    #[error("failed to extract objects from items: {0}")]
    Item(NotAMapping),
    /// Results do not fit their type; one text for each misfit.
    #[error("{}\nfailed to decode results", unmarshal::errors(.0))]
    Results(Vec<String>),
}

/// A node of the wrong kind.
#[derive(Clone, Copy, Debug)]
pub struct Misfit {
    found: Kind,
    line: u32,
}

/// A node that should be a mapping. Displayed with go-yaml's number of its kind, as the SDK does.
#[derive(Clone, Copy, Debug)]
pub struct NotAMapping(Misfit);

/// Reads one `ResourceList` and checks its kind, `functionConfig` and `items`, but not its results.
///
/// # Errors
/// Where the SDK fails, except for aliases.
pub fn read(bytes: &[u8]) -> Result<Node, Error> {
    let documents = loggia_yaml::parse_all_with(bytes, ParseOptions::default()).map_err(Error::Yaml)?;
    for document in &documents {
        must_be_mapping(&document.root).map_err(Error::Document)?;
    }
    let count = documents.len();
    let [document] = <[loggia_yaml::Document; 1]>::try_from(documents).map_err(|_| Error::Count(count))?;
    check(&document.root)?;
    Ok(document.root)
}

/// The results of a `ResourceList`; none if it has no list of them.
///
/// # Errors
/// As [`read`], and if a result does not fit its type.
pub fn results(bytes: &[u8]) -> Result<Results, Error> {
    let list = read(bytes)?;
    let mut decoder = Decoder::default();
    let results = field(&list, "results").map_or(&[][..], Node::items);
    let results = results.iter().map(|result| decoder.result(follow(result))).collect();
    if decoder.misfits.is_empty() { Ok(results) } else { Err(Error::Results(decoder.misfits)) }
}

fn check(list: &Node) -> Result<(), Error> {
    let kind = field(list, "kind").and_then(Node::as_str).unwrap_or_default();
    if kind != "ResourceList" {
        return Err(Error::Kind(kind.to_owned()));
    }
    if let Some(config) = field(list, "functionConfig").filter(|config| !config.is_mapping()) {
        return Err(Error::FunctionConfig(Misfit::of(config)));
    }
    let Some(items) = field(list, "items") else { return Ok(()) };
    if !items.is_sequence() {
        return Err(Error::Items(Misfit::of(items)));
    }
    items.items().iter().try_for_each(must_be_mapping).map_err(Error::Item)
}

fn field<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    node.get(key).map(follow)
}

fn must_be_mapping(node: &Node) -> Result<(), NotAMapping> {
    let found = follow(node).kind();
    if found == Kind::Mapping { Ok(()) } else { Err(NotAMapping(Misfit { found, line: node.line() })) }
}

/// Decodes results as go-yaml does: in the order of the document, recording every misfit. Null leaves a field
/// as it is, and keys that are not known are ignored.
#[derive(Default)]
struct Decoder {
    misfits: Vec<String>,
}

// === impl Decoder ===

impl Decoder {
    fn result(&mut self, node: &Node) -> ResultItem {
        let mut item = ResultItem::default();
        for (key, value) in self.fields(node, "fn.Result") {
            match key {
                "message" => item.message = self.string(value),
                "severity" => {
                    let word = Some(self.string(value)).filter(|word| !word.is_empty());
                    item.severity = word.map(|word| Severity::from(word.as_str()));
                }
                "resourceRef" => item.resource_ref = Some(self.resource_ref(value)),
                "field" => item.field = Some(self.field_ref(value)),
                "file" => item.file = Some(self.file_ref(value)),
                "tags" => item.tags = self.tags(value),
                _ => {}
            }
        }
        item
    }

    fn resource_ref(&mut self, node: &Node) -> ResourceRef {
        let mut reference = ResourceRef::default();
        for (key, value) in self.fields(node, "fn.ResourceRef") {
            match key {
                "apiVersion" => reference.api_version = self.string(value),
                "kind" => reference.kind = self.string(value),
                "name" => reference.name = self.string(value),
                "namespace" => reference.namespace = self.string(value),
                _ => {}
            }
        }
        reference
    }

    fn field_ref(&mut self, node: &Node) -> FieldRef {
        let mut field = FieldRef::default();
        for (key, value) in self.fields(node, "fn.Field") {
            match key {
                "path" => field.path = self.string(value),
                "currentValue" => field.current_value = value_text(value),
                "proposedValue" => field.proposed_value = value_text(value),
                _ => {}
            }
        }
        field
    }

    fn file_ref(&mut self, node: &Node) -> FileRef {
        let mut file = FileRef::default();
        for (key, value) in self.fields(node, "fn.File") {
            match key {
                "path" => file.path = self.string(value),
                "index" => file.index = self.integer(value),
                _ => {}
            }
        }
        file
    }

    fn tags(&mut self, node: &Node) -> BTreeMap<String, String> {
        self.expect_mapping(node, "map[string]string");
        let pairs = node.pairs().iter();
        pairs.map(|pair| (self.string(follow(&pair.key)), self.string(follow(&pair.value)))).collect()
    }

    /// The entries of a mapping that have a value.
    fn fields<'a>(
        &mut self,
        node: &'a Node,
        type_name: &str,
    ) -> impl Iterator<Item = (&'a str, &'a Node)> + use<'a> {
        self.expect_mapping(node, type_name);
        let pairs = node.pairs().iter().map(|pair| (text(&pair.key), follow(&pair.value)));
        pairs.filter(|(_, value)| !value.is_null())
    }

    fn expect_mapping(&mut self, node: &Node, type_name: &str) {
        if !node.is_mapping() && !node.is_null() {
            self.misfit(node, type_name);
        }
    }

    /// A scalar of any type fits a string.
    fn string(&mut self, node: &Node) -> String {
        if !node.is_scalar() {
            self.misfit(node, "string");
        }
        text(node).to_owned()
    }

    fn integer(&mut self, node: &Node) -> i64 {
        node.as_i64().unwrap_or_else(|| {
            self.misfit(node, "int");
            0
        })
    }

    fn misfit(&mut self, node: &Node, type_name: &str) {
        self.misfits.push(unmarshal::misfit(node, type_name));
    }
}

// === impl Error ===

impl Error {
    /// Where the misfit is, to be appended to the SDK's words; empty if they say it or it is not known.
    #[must_use]
    pub fn location(&self) -> String {
        match self {
            Self::Yaml(error) => match error.line() {
                Some(line) if !error.to_string().contains("line ") => format!(" (line {line})"),
                _ => String::new(),
            },
            Self::Document(NotAMapping(Misfit { found, line }))
            | Self::Item(NotAMapping(Misfit { found, line })) => {
                format!(" (line {line}: {} where a mapping belongs)", noun(*found))
            }
            Self::FunctionConfig(misfit) | Self::Items(misfit) => format!(" (line {})", misfit.line),
            Self::Count(_) | Self::Kind(_) | Self::Results(_) => String::new(),
        }
    }
}

impl Misfit {
    fn of(node: &Node) -> Self {
        Self { found: node.kind(), line: node.line() }
    }
}

impl fmt::Display for NotAMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = match self.0.found {
            Kind::Sequence => 2,
            Kind::Mapping => 4,
            Kind::Scalar => 8,
            Kind::Alias => 16,
        };
        write!(f, "unhandled node kind {number}")
    }
}

/// The SDK's type for a node of this kind, as `%T` prints it.
fn variant(kind: Kind) -> &'static str {
    match kind {
        Kind::Mapping => "*internal.MapVariant",
        Kind::Sequence => "*internal.SliceVariant",
        Kind::Scalar | Kind::Alias => "*internal.scalarVariant",
    }
}

fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Sequence => "a sequence",
        Kind::Mapping => "a mapping",
        Kind::Scalar => "a scalar",
        Kind::Alias => "an alias",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(list: &str) -> Error {
        results(list.as_bytes()).expect_err(list)
    }

    /// The words are the same whether or not a caller adds the line.
    #[test]
    fn what_is_not_a_list_is_refused_in_the_sdks_words() {
        let cases = [
            (
                "a: [",
                "failed to parse input bytes: failed to parse input bytes: yaml: line 1: did not find expected node content",
                "",
            ),
            (
                "a: *x",
                "failed to parse input bytes: failed to parse input bytes: yaml: unknown anchor 'x' referenced",
                " (line 1)",
            ),
            (
                "- a",
                "failed to parse input bytes: failed to extract objects: unhandled node kind 2",
                " (line 1: a sequence where a mapping belongs)",
            ),
            ("", "failed to parse input bytes: expected exactly one object, got 0", ""),
            ("a: b\n---\na: b\n", "failed to parse input bytes: expected exactly one object, got 2", ""),
            ("kind: a\u{200b}'b", "input was of unexpected kind \"a\\u200b'b\"; expected ResourceList", ""),
            (
                "kind: ResourceList\nfunctionConfig: []",
                "failed when tried to get functionConfig: wrong type, got: *internal.SliceVariant",
                " (line 2)",
            ),
            (
                "kind: ResourceList\nitems: {}",
                "failed when tried to get items: incorrect type, was *internal.MapVariant",
                " (line 2)",
            ),
            (
                "kind: ResourceList\nitems:\n- a: b\n- c\n",
                "failed to extract objects from items: unhandled node kind 8",
                " (line 4: a scalar where a mapping belongs)",
            ),
        ];
        for (list, words, location) in cases {
            let error = error(list);
            assert_eq!((error.to_string().as_str(), error.location().as_str()), (words, location), "{list}");
        }
    }

    #[test]
    fn every_misfit_of_every_result_is_reported() {
        let error = error(
            "kind: ResourceList\nresults:\n- text\n- message: [a]\n  tags: {k: []}\n- file: {index: größer als}\n  field: x\n",
        );
        assert_eq!(
            error.to_string(),
            "yaml: unmarshal errors:
  line 3: cannot unmarshal !!str `text` into fn.Result
  line 4: cannot unmarshal !!seq into string
  line 5: cannot unmarshal !!seq into string
  line 6: cannot unmarshal !!str `größe...` into int
  line 7: cannot unmarshal !!str `x` into fn.Field
failed to decode results"
        );
        assert_eq!(error.location(), "");
    }

    #[test]
    fn null_is_as_good_as_nothing() {
        let read = results(b"kind: ResourceList\nresults:\n-\n- {message: , severity: , resourceRef: , field: , file: , tags: }\n").expect("is a list");
        assert_eq!(read.0, [ResultItem::default(), ResultItem::default()]);
        assert_eq!(results(b"kind: ResourceList\nresults: {a: b}").expect("is a list"), Results::default());
    }

    #[test]
    fn a_result_is_read_whole() {
        let read = results(
            b"kind: ResourceList\nresults:\n- message: bad\n  severity: error\n  resourceRef: {apiVersion: apps/v1, kind: D, name: n, namespace: ns}\n  field: {path: spec, currentValue: 1, proposedValue: {a: 2}}\n  file: {path: f.yaml, index: 3}\n  tags: {k: 5}\n",
        )
        .expect("is a list");
        let [item] = read.0.as_slice() else { panic!("{read:?}") };
        assert_eq!(item.to_string(), "[error] apps/v1/D/ns/n spec: bad");
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            item.field,
            Some(FieldRef { path: "spec".into(), current_value: text("1"), proposed_value: text("{a: 2}") })
        );
        assert_eq!(item.file, Some(FileRef { path: "f.yaml".into(), index: 3 }));
        assert_eq!(item.tags, BTreeMap::from([("k".to_owned(), "5".to_owned())]));
    }

    #[test]
    fn aliases_are_followed() {
        let list = "kind: ResourceList\nmine: [&a {kind: A}]\nitems: &items [*a]\nfunctionConfig: *a\nresults:\n- &r {message: m}\n- *r\n";
        assert_eq!(results(list.as_bytes()).expect("is a list").to_string(), "[info]: m\n\n[info]: m");
    }
}
