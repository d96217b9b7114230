//! [`ResourceList`]: what travels between an orchestrator and a function, and other streams of resources.

use loggia_yaml::{EmitOptions, Fidelity, Kind, Node, Pair, SequenceStyle, node_to_string_with};

use crate::annotation::{INDEX, LEGACY_INDEX, SEQUENCE_INDENT};
use crate::document::{self, Reading, Stream, StreamError};
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
            Stream::List(root) => Ok(Self::from_node(root)),
            Stream::Resources(items) => Ok(Self { items, ..Self::default() }),
        }
    }

    /// Unwraps a list that is parsed already; fields other than items, config and results are left out.
    #[must_use]
    pub fn from_node(mut root: Node) -> Self {
        let text_of = |key| root.get(key).map(text).unwrap_or_default().to_owned();
        let wrapping = Wrapping { api_version: text_of("apiVersion"), kind: text_of("kind") };
        let mut take = |key| root.remove(key).map(|pair| pair.value).map(expand_foreign_aliases);
        let function_config = take("functionConfig");
        let results = take("results");
        let items = root.remove("items").map(|pair| pair.value).unwrap_or_default();
        let mut items = items.alias_target().cloned().unwrap_or(items);
        let items = items.items_mut().map(std::mem::take).unwrap_or_default();
        let items = items.into_iter().map(expand_foreign_aliases).map(Resource::new).collect();
        Self { wrapping: Some(wrapping), items, function_config, results, printed: String::new() }
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

/// Replaces aliases to what lies outside this item by a copy of it: written to a file of its own, the item
/// would refer to nothing.
fn expand_foreign_aliases(mut item: Node) -> Node {
    let mut anchors = Vec::new();
    let mut aliased = false;
    let mut waiting = vec![&item];
    while let Some(node) = waiting.pop() {
        if !node.anchor().is_empty() {
            anchors.push(node.anchor().to_owned());
        }
        aliased |= node.kind() == Kind::Alias;
        waiting.extend(node.items());
        waiting.extend(node.pairs().iter().flat_map(|pair| [&pair.key, &pair.value]));
    }
    if aliased {
        expand(&mut item, &mut anchors, 0);
    }
    item
}

/// Copies hold anchors of their own, which later aliases may then refer to.
fn expand(node: &mut Node, anchors: &mut Vec<String>, depth: usize) {
    /// This recurses, and the stack is finite.
    const MAX_DEPTH: usize = 200;
    if depth > MAX_DEPTH {
        return;
    }
    if let Some(name) = node.alias_name() {
        if anchors.iter().any(|anchor| anchor == name) {
            return;
        }
        let Some(target) = node.alias_target().cloned() else { return };
        anchors.push(name.to_owned());
        *node = target;
    }
    if let Some(items) = node.items_mut() {
        items.iter_mut().for_each(|item| expand(item, anchors, depth + 1));
    } else if let Some(pairs) = node.pairs_mut() {
        for pair in pairs {
            expand(&mut pair.key, anchors, depth + 1);
            expand(&mut pair.value, anchors, depth + 1);
        }
    }
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
