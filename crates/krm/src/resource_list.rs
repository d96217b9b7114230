//! [`ResourceList`]: what travels between an orchestrator and a function, and other streams of resources.

use std::collections::HashSet;

use loggia_yaml::{
    EmitOptions, Fidelity, Kind, Node, Pair, SequenceStyle, node_to_string_with, node_to_string_within,
};

use crate::annotation::{INDEX, LEGACY_INDEX, SEQUENCE_INDENT};
use crate::document::{self, Reading, Stream, StreamError, StreamErrorKind};
use crate::resource::{Resource, text};
use crate::results::{Results, ResultsError};

/// Resources with a function's config and its results.
#[derive(Clone, Debug, Default)]
pub struct ResourceList {
    /// What the items were wrapped in; nothing if they came as plain documents.
    pub wrapping: Option<Wrapping>,
    /// The resources.
    pub items: Vec<Resource>,
    /// What the function is configured with.
    pub function_config: Option<Node>,
    /// The results as the function wrote them. [`ResourceList::results`] reads them.
    pub results: Option<Node>,
    /// What the function prints to standard error although it succeeds. Not part of the list's text.
    pub printed: String,
}

/// The type of the object around the items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapping {
    /// `config.kubernetes.io/v1`, or an older version.
    pub api_version: String,
    /// `ResourceList` or `List`.
    pub kind: String,
}

/// How to read a stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamOptions {
    /// Record the sequence style of plain documents, so that writing them restores it.
    pub sequence_style: bool,
}

// === impl Wrapping ===

impl Default for Wrapping {
    fn default() -> Self {
        Self { api_version: "config.kubernetes.io/v1".to_owned(), kind: "ResourceList".to_owned() }
    }
}

// === impl ResourceList ===

impl ResourceList {
    /// A list of the current version.
    #[must_use]
    pub fn new(items: Vec<Resource>) -> Self {
        Self {
            wrapping: Some(Wrapping::default()),
            items,
            function_config: None,
            results: None,
            printed: String::new(),
        }
    }

    /// Reads a stream.
    ///
    /// A single document of kind `ResourceList` or `List`, whatever its version, that has `items` or
    /// `functionConfig` is unwrapped. Any other documents are the items themselves and get their position
    /// as index.
    ///
    /// # Errors
    /// If the stream is not YAML, or an item is not a mapping.
    pub fn parse(bytes: &[u8], options: StreamOptions) -> Result<Self, StreamError> {
        let reading = Reading { sequence_style: options.sequence_style, ..Reading::default() };
        match document::read_stream(bytes, &reading, &is_list)? {
            Stream::List(root) => Self::from_node(root)
                .map_err(|error| StreamError { line: error.line(), kind: StreamErrorKind::Malformed(error) }),
            Stream::Resources(items) => Ok(Self { items, ..Self::default() }),
        }
    }

    /// Unwraps a list that is parsed already; fields other than items, config and results are left out.
    ///
    /// # Errors
    /// If aliases that lead from one item into another come to more text than a list may have.
    pub fn from_node(mut root: Node) -> Result<Self, loggia_yaml::Error> {
        let text_of = |key| root.get(key).map(text).unwrap_or_default().to_owned();
        let wrapping = Wrapping { api_version: text_of("apiVersion"), kind: text_of("kind") };
        let mut expansion = Expansion::default();
        let mut take = |key| root.remove(key).map(|pair| expansion.item(pair.value)).transpose();
        let function_config = take("functionConfig")?;
        let results = take("results")?;
        let items = root.remove("items").map(|pair| pair.value).unwrap_or_default();
        let mut items = items.alias_target().cloned().unwrap_or(items);
        let items = items.items_mut().map(std::mem::take).unwrap_or_default();
        let items = items.into_iter().map(|item| expansion.item(item).map(Resource::new));
        let items = items.collect::<Result<_, _>>()?;
        Ok(Self { wrapping: Some(wrapping), items, function_config, results, printed: String::new() })
    }

    /// Writes the list, with all annotations; plain documents if that is what was read, and then without those
    /// of readers.
    #[must_use]
    pub fn emit(&self) -> String {
        self.emit_with(Fidelity::Faithful)
    }

    /// [`ResourceList::emit`], down to the original's mistakes if asked for.
    #[must_use]
    pub fn emit_with(&self, fidelity: Fidelity) -> String {
        match &self.wrapping {
            Some(wrapping) => {
                let options = EmitOptions { sequences: SequenceStyle::Compact, fidelity };
                node_to_string_with(&self.to_node(wrapping, fidelity), options)
            }
            None => self.emit_documents(fidelity),
        }
    }

    /// [`ResourceList::emit`], unless that takes more than `limit` bytes. Little more than that is ever held.
    #[must_use]
    pub fn emit_within(&self, limit: usize) -> Option<String> {
        let fidelity = Fidelity::Faithful;
        match &self.wrapping {
            Some(wrapping) => {
                let options = EmitOptions { sequences: SequenceStyle::Compact, fidelity };
                node_to_string_within(&self.to_node(wrapping, fidelity), options, limit)
            }
            None => document::write_within(self.items.clone(), "", fidelity, limit).ok()?,
        }
    }

    /// Writes the items as plain documents, each in its own sequence style, without path, index and style.
    #[must_use]
    pub fn emit_documents(&self, fidelity: Fidelity) -> String {
        // Without a file name nothing becomes JSON, and YAML cannot fail.
        document::write(self.items.clone(), "", fidelity).unwrap_or_default()
    }

    fn to_node(&self, wrapping: &Wrapping, fidelity: Fidelity) -> Node {
        let pair = |key: &str, value: Node| Pair { key: Node::verbatim(key), value };
        let items = match fidelity {
            Fidelity::Exact => self.items.iter().map(|item| item.node().clone()).collect(),
            Fidelity::Faithful => self.items.iter().map(with_header).collect(),
        };
        let mut pairs = vec![
            pair("apiVersion", Node::verbatim(wrapping.api_version.as_str())),
            pair("kind", Node::verbatim(wrapping.kind.as_str())),
            pair("items", items),
        ];
        pairs.extend(self.function_config.clone().map(|config| pair("functionConfig", config)));
        pairs.extend(self.results.clone().map(|results| pair("results", results)));
        Node::from_pairs(pairs)
    }

    /// The results, in either of the shapes in use.
    ///
    /// # Errors
    /// If it is neither a list of results nor a mapping that holds one.
    pub fn results(&self) -> Result<Results, ResultsError> {
        self.results.as_ref().map_or_else(|| Ok(Results::default()), Results::from_node)
    }

    /// Sets the results as a list; without any, the field is removed.
    pub fn set_results(&mut self, results: &Results) {
        self.results = (!results.is_empty()).then(|| results.to_node());
    }

    /// Removes index and sequence style, which only plain documents get while reading.
    pub fn remove_stream_annotations(&mut self) {
        for item in &mut self.items {
            item.retain_annotations(|key| !matches!(key, INDEX | LEGACY_INDEX | SEQUENCE_INDENT));
        }
    }
}

/// The original loses the comment above a document.
fn with_header(item: &Resource) -> Node {
    let mut item = item.clone();
    item.fold_header();
    item.into_document().root
}

fn is_list(root: &Node) -> bool {
    matches!(root.get("kind").map(text), Some("ResourceList" | "List"))
        && (root.contains_key("items") || root.contains_key("functionConfig"))
}

/// Replaces aliases to what lies outside an item by a copy of it: written to a file of its own, the item would
/// refer to nothing. What the copies of all items come to is limited.
#[derive(Default)]
struct Expansion {
    /// The anchors that the item at hand has.
    anchors: HashSet<String>,
    /// Bytes of text that were copied, about.
    copied: usize,
}

impl Expansion {
    /// The most bytes of text that copies may come to.
    const MAX_COPIED: usize = 8 << 20;
    /// This recurses, and the stack is finite.
    const MAX_DEPTH: usize = 200;

    fn item(&mut self, mut item: Node) -> Result<Node, loggia_yaml::Error> {
        self.anchors.clear();
        let mut aliased = false;
        let mut waiting = vec![&item];
        while let Some(node) = waiting.pop() {
            if !node.anchor().is_empty() {
                self.anchors.insert(node.anchor().to_owned());
            }
            aliased |= node.kind() == Kind::Alias;
            waiting.extend(node.items());
            waiting.extend(node.pairs().iter().flat_map(|pair| [&pair.key, &pair.value]));
        }
        if aliased {
            self.expand(&mut item, 0)?;
        }
        Ok(item)
    }

    /// Copies hold anchors of their own, which later aliases may then refer to.
    fn expand(&mut self, node: &mut Node, depth: usize) -> Result<(), loggia_yaml::Error> {
        if depth > Self::MAX_DEPTH {
            return Ok(());
        }
        if let Some(name) = node.alias_name() {
            if self.anchors.contains(name) {
                return Ok(());
            }
            let Some(target) = node.alias_target().cloned() else { return Ok(()) };
            self.copied += target.text_size(Self::MAX_COPIED);
            if self.copied >= Self::MAX_COPIED {
                return Err(serde::de::Error::custom("document contains excessive aliasing"));
            }
            self.anchors.insert(name.to_owned());
            let is_complete = !has_alias(&target);
            *node = target;
            if is_complete {
                // It stays shared with the original until somebody writes to it.
                return Ok(());
            }
        }
        if let Some(items) = node.items_mut() {
            items.iter_mut().try_for_each(|item| self.expand(item, depth + 1))
        } else if let Some(pairs) = node.pairs_mut() {
            pairs.iter_mut().try_for_each(|pair| {
                self.expand(&mut pair.key, depth + 1)?;
                self.expand(&mut pair.value, depth + 1)
            })
        } else {
            Ok(())
        }
    }
}

fn has_alias(node: &Node) -> bool {
    let mut waiting = vec![node];
    while let Some(node) = waiting.pop() {
        if node.kind() == Kind::Alias {
            return true;
        }
        waiting.extend(node.items());
        waiting.extend(node.pairs().iter().flat_map(|pair| [&pair.key, &pair.value]));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> ResourceList {
        ResourceList::parse(text.as_bytes(), StreamOptions::default()).expect("is a stream")
    }

    const LIST: &str = "apiVersion: config.kubernetes.io/v1
kind: ResourceList
items:
- # about cm
  apiVersion: v1
  kind: ConfigMap
  metadata:
    name: cm
    annotations:
      config.kubernetes.io/path: 'cm.yaml'
functionConfig:
  data: {k: v}
results:
- message: hello
  severity: warning
";

    #[test]
    fn a_list_comes_back_as_it_was() {
        let list = parse(LIST);
        assert_eq!(list.items[0].name(), "cm");
        assert_eq!(list.items[0].path(), "cm.yaml");
        assert_eq!(list.results().expect("a list").to_string(), "[warning]: hello");
        assert_eq!(list.emit(), LIST);
    }

    #[test]
    fn older_versions_and_plain_lists_keep_their_type() {
        for (api_version, kind) in [
            ("config.kubernetes.io/v1alpha1", "ResourceList"),
            ("config.kubernetes.io/v1beta1", "ResourceList"),
            ("v1", "List"),
        ] {
            let text = format!("apiVersion: {api_version}\nkind: {kind}\nitems:\n- kind: A\n");
            let list = parse(&text);
            assert_eq!(list.wrapping, Some(Wrapping { api_version: api_version.into(), kind: kind.into() }));
            assert_eq!(list.emit(), text);
        }
    }

    #[test]
    fn plain_documents_become_items_with_their_position() {
        let list =
            parse("kind: A\n---\nkind: B\nmetadata:\n  annotations:\n    config.kubernetes.io/index: '7'\n");
        assert_eq!(list.wrapping, None);
        assert_eq!(list.items[1].index(), "1");
        assert_eq!(list.emit(), "kind: A\n---\nkind: B\n");
    }

    #[test]
    fn a_list_among_other_documents_is_a_resource() {
        let list = parse("kind: List\nitems: []\n---\nkind: B\n");
        assert_eq!(list.items.len(), 2);
        assert_eq!(list.items[0].kind(), "List");
    }

    #[test]
    fn a_list_without_items_and_config_is_a_resource() {
        let list = parse("kind: ResourceList\nmetadata:\n  name: x\n");
        assert_eq!(list.items[0].name(), "x");
        assert_eq!(parse("kind: ResourceList\nfunctionConfig: {}\n").items.len(), 0);
        assert_eq!(parse("kind: ListOfThings\nitems: [a]\n").items.len(), 1);
    }

    #[test]
    fn nothing_is_an_empty_list() {
        assert!(parse("").items.is_empty());
        let mut list = ResourceList::new(Vec::new());
        assert_eq!(list.emit(), "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: []\n");
        list.set_results(&Results::default());
        assert!(list.results.is_none());
    }

    #[test]
    fn an_alias_to_another_item_becomes_a_copy() {
        let list = parse("kind: List\nitems:\n- a: &x {k: 1}\n- b: *x\n  c: *x\n- &y {d: 1}\n- *y\n");
        let texts: Vec<String> =
            list.items.iter().map(|item| loggia_yaml::node_to_string(item.node())).collect();
        assert_eq!(texts, ["a: &x {k: 1}\n", "b: &x {k: 1}\nc: *x\n", "&y {d: 1}\n", "&y {d: 1}\n"]);
    }

    #[test]
    fn items_that_are_an_alias_are_not_lost() {
        let list = parse("kind: List\nmine: &x [{kind: A}]\nitems: *x\n");
        assert_eq!(list.items.iter().map(Resource::kind).collect::<Vec<_>>(), ["A"]);
    }

    #[test]
    fn a_stream_that_is_no_yaml_is_an_error_with_its_line() {
        let error =
            ResourceList::parse(b"kind: List\nitems: [\n", StreamOptions::default()).expect_err("open");
        assert!(error.to_string().starts_with("MalformedYAMLError: yaml: "), "{error}");
        assert!(error.line.is_some());
    }

    #[test]
    fn the_sequence_style_is_recorded_on_request_only() {
        let text = b"kind: A\nlist:\n  - 1\n";
        let list = ResourceList::parse(text, StreamOptions { sequence_style: true }).expect("is a stream");
        assert_eq!(list.emit(), "kind: A\nlist:\n  - 1\n");
        let list = ResourceList::parse(text, StreamOptions::default()).expect("is a stream");
        assert_eq!(list.emit(), "kind: A\nlist:\n- 1\n");
    }
}
