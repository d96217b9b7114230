//! Results: what functions report about resources, for one call and for a whole run.

use std::collections::BTreeMap;
use std::fmt;

use loggia_yaml::{
    EmitOptions, Fidelity, Node, Pair, SequenceStyle, Tag, node_to_string, node_to_string_with, to_node,
};
use serde::{Deserialize, Serialize};

use crate::resource::{Resource, follow, text};

/// The severity of a result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Something is wrong.
    Error,
    /// Something may be wrong.
    Warning,
    /// For your information.
    Info,
    /// Any other word, as the function wrote it.
    Other(String),
}

/// One message of a function, with the resource, field and file it is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResultItem {
    /// The message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Displayed as `info` if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// The resource it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_ref: Option<ResourceRef>,
    /// The field it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<FieldRef>,
    /// The file it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileRef>,
    /// Further values by name, which tools may set and read.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// Points at a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceRef {
    /// Its apiVersion.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Its kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// Points at a field of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldRef {
    /// Where it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The current value; YAML text if it is not a scalar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_value: Option<String>,
    /// The value that the function proposes; YAML text if it is not a scalar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposed_value: Option<String>,
}

/// Points at a resource by its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileRef {
    /// The file's path within the package.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The place among the resources of the file; 0 is not written.
    #[serde(skip_serializing_if = "is_zero")]
    pub index: i64,
}

/// The results of one call of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Results(pub Vec<ResultItem>);

/// One call of a function in the results of a run: what ran, its exit code, standard error and results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FunctionResult {
    /// The image that ran.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// The command that ran.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub exec: String,
    /// What it wrote to standard error.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// 0 if it succeeded.
    pub exit_code: i32,
    /// Its results.
    #[serde(skip_serializing_if = "Results::is_empty")]
    pub results: Results,
}

/// The results of a whole run: the content of `results.yaml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FunctionResultList {
    /// 0, or 1 if anything failed.
    pub exit_code: i32,
    /// One entry for each call, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<FunctionResult>,
}

/// Why a `results` field cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ResultsError {
    /// It is neither a list nor a mapping with one in `items`.
    #[error("results: expected a list, or a mapping with `items`, but got {found}")]
    NoList {
        /// What it is.
        found: &'static str,
    },
    /// A result does not fit.
    #[error("results[{index}]: {cause}")]
    Item {
        /// Which one, counted from 0.
        index: usize,
        /// What about it.
        cause: loggia_yaml::Error,
    },
}

fn is_zero(index: &i64) -> bool {
    *index == 0
}

// === impl Severity ===

impl Severity {
    /// The word for it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
            Self::Other(word) => word,
        }
    }

    fn rank(severity: Option<&Self>) -> u8 {
        match severity {
            Some(Self::Error) => 0,
            Some(Self::Warning) => 1,
            Some(Self::Info) => 2,
            Some(Self::Other(_)) | None => 3,
        }
    }
}

impl From<&str> for Severity {
    fn from(word: &str) -> Self {
        match word {
            "error" => Self::Error,
            "warning" => Self::Warning,
            "info" => Self::Info,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Severity {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Severity {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|word| Self::from(word.as_str()))
    }
}

// === impl ResourceRef ===

impl From<&Resource> for ResourceRef {
    fn from(resource: &Resource) -> Self {
        Self {
            api_version: resource.api_version().to_owned(),
            kind: resource.kind().to_owned(),
            name: resource.name().to_owned(),
            namespace: resource.namespace().to_owned(),
        }
    }
}

// === impl ResultItem ===

impl ResultItem {
    /// A message of some severity and nothing else.
    #[must_use]
    pub fn new(severity: Severity, message: impl Into<String>) -> Self {
        Self { message: message.into(), severity: Some(severity), ..Self::default() }
    }

    /// The display form on one line: line breaks become spaces.
    #[must_use]
    pub fn to_line(&self) -> String {
        self.to_string().replace('\n', " ").trim().to_owned()
    }

    fn from_node(node: &Node) -> Result<Self, loggia_yaml::Error> {
        let mut item: Self = loggia_yaml::from_node(&readable(node))?;
        let metadata = node.at(&["resourceRef", "metadata"]).map(follow);
        if let Some(metadata) = metadata.filter(|metadata| metadata.is_mapping()) {
            let reference = item.resource_ref.get_or_insert_default();
            for (key, slot) in [("name", &mut reference.name), ("namespace", &mut reference.namespace)] {
                if let Some(value) = metadata.get(key).map(text).filter(|value| !value.is_empty()) {
                    value.trim().clone_into(slot);
                }
            }
        }
        if let Some(value) = node.at(&["field", "suggestedValue"]) {
            item.field.get_or_insert_default().proposed_value = value_text(value);
        }
        Ok(item)
    }

    /// What kyaml orders results by after file and severity: the parts as Go's `%s` prints them.
    fn sort_text(&self) -> String {
        let reference = match &self.resource_ref {
            Some(r) => format!("&{{{{{} {}}} {{{} {}}}}}", r.api_version, r.kind, r.name, r.namespace),
            None => "%!s(*yaml.ResourceIdentifier=<nil>)".to_owned(),
        };
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "%!s(<nil>)".to_owned());
        let field = match &self.field {
            Some(f) => format!("&{{{} {} {}}}", f.path, value(&f.current_value), value(&f.proposed_value)),
            None => "%!s(*framework.Field=<nil>)".to_owned(),
        };
        format!("resource-ref:{reference},field:{field},message:{}", self.message)
    }
}

/// `[severity] apiVersion/kind/namespace/name field.path: message`, without what is not given.
impl fmt::Display for ResultItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.severity.as_ref().unwrap_or(&Severity::Info))?;
        if let Some(ResourceRef { api_version, kind, name, namespace }) = &self.resource_ref {
            let parts = [api_version, kind, namespace, name];
            let parts: Vec<&str> =
                parts.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
            if !parts.is_empty() {
                write!(f, " {}", parts.join("/"))?;
            }
        }
        if let Some(field) = &self.field {
            write!(f, " {}", field.path)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// The result with its values as text, so that it reads into types.
fn readable(node: &Node) -> Node {
    let mut node = node.clone();
    if let Some(field) = node.get_mut("field").filter(|field| field.is_mapping()) {
        for key in ["currentValue", "proposedValue"] {
            if let Some(value) = field.get(key) {
                let value = value_text(value).map_or_else(Node::null, Node::string);
                field.replace(key, value);
            }
        }
    }
    node
}

/// A value of any type as text; YAML if it is not a scalar, and `None` for null.
pub(crate) fn value_text(value: &Node) -> Option<String> {
    let value = follow(value);
    match value.scalar() {
        Some(_) if value.tag() == Tag::Null => None,
        Some(text) => Some(text.to_owned()),
        None => Some(node_to_string(value).trim().to_owned()),
    }
}

// === impl Results ===

impl Results {
    /// Reads results in either shape in use: a list, or a mapping with the list in `items`. Names below
    /// `resourceRef.metadata` and `field.suggestedValue`, which older functions write, move to where they
    /// are now.
    ///
    /// # Errors
    /// If it is neither, or a result does not fit its type.
    pub fn from_node(node: &Node) -> Result<Self, ResultsError> {
        let mut node = follow(node);
        if let Some(items) = node.get("items").map(follow).filter(|items| !items.is_empty()) {
            node = items;
        }
        let says_nothing = |pair: &Pair| matches!(text(&pair.key), "name" | "items");
        if node.tag() == Tag::Null || (node.is_mapping() && node.pairs().iter().all(says_nothing)) {
            return Ok(Self::default());
        }
        if !node.is_sequence() {
            let found = if node.is_mapping() { "a mapping that has none" } else { "a scalar" };
            return Err(ResultsError::NoList { found });
        }
        let items = node.items().iter().enumerate();
        items
            .map(|(index, item)| {
                ResultItem::from_node(follow(item)).map_err(|cause| ResultsError::Item { index, cause })
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The results as a list.
    #[must_use]
    pub fn to_node(&self) -> Node {
        to_node(self).expect("strings, numbers and maps of strings always fit")
    }

    /// Whether there are no results.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether anything is of severity `error`.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|item| item.severity == Some(Severity::Error))
    }

    /// Sorts by file, index, severity and text, as functions do that promise an order.
    pub fn sort(&mut self) {
        self.0.sort_by_cached_key(|item| {
            let file = item.file.clone().unwrap_or_default();
            (file.path, file.index, Severity::rank(item.severity.as_ref()), item.sort_text())
        });
    }
}

/// One result a line, with an empty line between two.
impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if at == 0 { "" } else { "\n\n" })?;
        }
        Ok(())
    }
}

impl FromIterator<ResultItem> for Results {
    fn from_iter<I: IntoIterator<Item = ResultItem>>(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}

// === impl FunctionResultList ===

impl FunctionResultList {
    /// The text of `results.yaml`.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let mut root = Node::mapping();
        for (key, value) in [("apiVersion", "kpt.dev/v1"), ("kind", "FunctionResultList")] {
            root.set(key, Node::string(value));
        }
        root.entry_mapping("metadata").set("name", Node::string("fnresults"));
        let rest = to_node(self).expect("strings, numbers and maps of strings always fit");
        for pair in rest.pairs() {
            root.push_pair(pair.clone());
        }
        let options = EmitOptions { sequences: SequenceStyle::Wide, fidelity: Fidelity::Faithful };
        node_to_string_with(&root, options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(yaml: &str) -> Results {
        let document = loggia_yaml::parse_first(yaml).expect("is YAML").expect("is there");
        Results::from_node(&document.root).expect("are results")
    }

    #[test]
    fn both_shapes_read_alike() {
        let list = results("- message: m\n  severity: error\n");
        assert_eq!(results("name: fn\nitems:\n- message: m\n  severity: error\n"), list);
        assert_eq!(results("{}"), Results::default());
        assert_eq!(results("name: fn\nitems: []\n"), Results::default());
    }

    #[test]
    fn what_older_functions_write_moves_to_its_place() {
        let read = results(
            "- message: m\n  resourceRef: {apiVersion: v1, kind: A, metadata: {name: n, namespace: s}}\n  field: {path: p, suggestedValue: {b: 1}}\n",
        );
        assert_eq!(read.to_string(), "[info] v1/A/s/n p: m");
        let field = read.0[0].field.as_ref().expect("is given");
        assert_eq!(field.proposed_value.as_deref(), Some("{b: 1}"));
    }

    #[test]
    fn values_are_kept_as_text_whatever_their_type() {
        let read = results(
            "- field: {path: p, currentValue: 5, proposedValue: [1, 2]}\n- field: {currentValue: ~}\n",
        );
        let field = read.0[0].field.as_ref().expect("is given");
        assert_eq!(field.current_value.as_deref(), Some("5"));
        assert_eq!(field.proposed_value.as_deref(), Some("[1, 2]"));
        assert_eq!(read.0[1].field, Some(FieldRef::default()));
    }

    #[test]
    fn the_display_form_leaves_out_what_is_not_given() {
        let mut item = ResultItem { message: "bad\nvalue".into(), ..ResultItem::default() };
        assert_eq!(item.to_line(), "[info]: bad value");
        item.severity = Some(Severity::from("odd"));
        item.resource_ref =
            Some(ResourceRef { kind: "A".into(), name: "n".into(), ..ResourceRef::default() });
        item.field = Some(FieldRef { path: "a.b".into(), ..FieldRef::default() });
        assert_eq!(item.to_string(), "[odd] A/n a.b: bad\nvalue");
    }

    #[test]
    fn what_is_no_result_is_refused() {
        let error = |yaml: &str| {
            let document = loggia_yaml::parse_first(yaml).expect("is YAML").expect("is there");
            Results::from_node(&document.root).expect_err("no results").to_string()
        };
        assert_eq!(error("text"), "results: expected a list, or a mapping with `items`, but got a scalar");
        assert_eq!(
            error("a: 1"),
            "results: expected a list, or a mapping with `items`, but got a mapping that has none"
        );
        assert!(error("- message: x\n- message: []\n").starts_with("results[1]: yaml: "));
    }

    #[test]
    fn sorting_is_by_file_then_severity_then_text() {
        let item = |path: &str, index, severity, message: &str| ResultItem {
            file: Some(FileRef { path: path.into(), index }),
            ..ResultItem::new(severity, message)
        };
        let mut results = Results(vec![
            item("b", 0, Severity::Error, "4"),
            item("a", 1, Severity::Error, "3"),
            item("a", 0, Severity::Info, "2"),
            item("a", 0, Severity::Warning, "1"),
            ResultItem::new(Severity::Info, "0"),
        ]);
        results.sort();
        let order: String = results.0.iter().map(|item| item.message.as_str()).collect();
        assert_eq!(order, "01234");
        assert!(results.has_errors());
    }

    #[test]
    fn a_run_is_written_as_kpt_writes_it() {
        let list = FunctionResultList {
            exit_code: 1,
            items: vec![FunctionResult {
                exec: "my-fn --strict".into(),
                stderr: "boom\n".into(),
                exit_code: 3,
                results: results(
                    "- message: bad value\n  severity: error\n  resourceRef: {apiVersion: v1, kind: ConfigMap, name: cfg}\n  field: {path: data.k}\n  file: {path: cfg.yaml, index: 0}\n",
                ),
                ..FunctionResult::default()
            }],
        };
        let expected = "apiVersion: kpt.dev/v1
kind: FunctionResultList
metadata:
  name: fnresults
exitCode: 1
items:
  - exec: my-fn --strict
    stderr: |
      boom
    exitCode: 3
    results:
      - message: bad value
        severity: error
        resourceRef:
          apiVersion: v1
          kind: ConfigMap
          name: cfg
        field:
          path: data.k
        file:
          path: cfg.yaml
";
        assert_eq!(list.to_yaml(), expected);
        let empty = FunctionResultList::default().to_yaml();
        assert!(empty.ends_with("exitCode: 0\n"), "{empty}");
    }
}
