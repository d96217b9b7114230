//! Which resources a constraint is about: its `spec.match`.

use loggia_krm::Resource;
use loggia_yaml::Node;

/// A resource and, if the list holds it, its namespace.
pub(super) struct Subject<'a> {
    pub(super) item: &'a Resource,
    pub(super) namespace: Option<&'a Resource>,
}

/// What a constraint asks of a resource. Everything that is not given holds.
#[derive(Default)]
pub(super) struct Match {
    kinds: Vec<(Vec<String>, Vec<String>)>,
    scope: String,
    namespaces: Vec<String>,
    excluded_namespaces: Vec<String>,
    labels: Option<Selector>,
    namespace_labels: Option<Selector>,
    name: String,
    source: String,
}

/// A label selector.
struct Selector {
    labels: Vec<(String, String)>,
    expressions: Vec<Expression>,
}

struct Expression {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

// === impl Match ===

impl Match {
    pub(super) fn new(node: Option<&Node>) -> Result<Self, String> {
        let Some(node) = node.filter(|node| !node.is_null()) else { return Ok(Self::default()) };
        let text = |key| node.get_str(key).unwrap_or_default().to_owned();
        if !node.is_mapping() {
            return Err(format!(
                "invalid Constraint: .spec.match.labelSelector accessor error: {} is of the type string, expected \
                 map[string]interface{{}}",
                node.scalar().unwrap_or_default()
            ));
        }
        for key in ["kinds", "namespaces", "excludedNamespaces"] {
            if node.get(key).is_some_and(|list| !list.is_sequence()) {
                return Err(format!(
                    "schema validation failed: [].spec.match.{key}: Invalid value: \"string\": spec.match.{key} in body \
                     must be of type array: \"string\""
                ));
            }
        }
        let source = text("source");
        if !matches!(source.as_str(), "" | "All" | "Generated" | "Original") {
            return Err(format!(
                "schema validation failed: [].spec.match.source: Unsupported value: \"{source}\": supported values: \
                 \"All\", \"Generated\", \"Original\""
            ));
        }
        let kinds = node.get("kinds").map_or(&[][..], Node::items);
        Ok(Self {
            kinds: kinds.iter().map(|kind| (texts(kind, "apiGroups"), texts(kind, "kinds"))).collect(),
            scope: text("scope"),
            namespaces: texts(node, "namespaces"),
            excluded_namespaces: texts(node, "excludedNamespaces"),
            labels: node.get("labelSelector").map(Selector::new).transpose()?,
            namespace_labels: node.get("namespaceSelector").map(Selector::new).transpose()?,
            name: text("name"),
            source,
        })
    }

    /// How many values a resource may be compared with.
    pub(super) fn size(&self) -> usize {
        let kinds: usize = self.kinds.iter().map(|(groups, kinds)| groups.len() + kinds.len()).sum();
        let selectors = self.labels.iter().chain(&self.namespace_labels);
        let selected = selectors.map(|selector| {
            let values: usize =
                selector.expressions.iter().map(|expression| 1 + expression.values.len()).sum();
            selector.labels.len() + values
        });
        kinds + self.namespaces.len() + self.excluded_namespaces.len() + selected.sum::<usize>()
    }

    pub(super) fn matches(&self, subject: &Subject<'_>) -> Result<bool, String> {
        Ok(self.is_of_kind(subject)
            && self.is_in_scope(subject)
            && self.is_in_namespaces(subject)
            && self.labels.as_ref().is_none_or(|labels| labels.selects(subject.item))
            && self.is_in_selected_namespace(subject)?
            && self.has_name(subject)
            && matches!(self.source.as_str(), "" | "All" | "Original"))
    }

    fn is_of_kind(&self, subject: &Subject<'_>) -> bool {
        let has =
            |set: &[String], text: &str| set.is_empty() || set.iter().any(|one| one == "*" || one == text);
        self.kinds.is_empty()
            || self
                .kinds
                .iter()
                .any(|(groups, kinds)| has(kinds, subject.item.kind()) && has(groups, subject.item.group()))
    }

    /// Whatever is not a namespace itself counts as being in one, if only in one without a name.
    fn is_in_scope(&self, subject: &Subject<'_>) -> bool {
        match self.scope.as_str() {
            "Cluster" => subject.is_namespace(),
            "Namespaced" => !subject.is_namespace(),
            _ => true,
        }
    }

    fn is_in_namespaces(&self, subject: &Subject<'_>) -> bool {
        let name = if subject.is_namespace() { subject.item.name() } else { subject.item.namespace() };
        let listed = |list: &[String]| list.iter().any(|pattern| matches_wildcard(pattern, name));
        (self.namespaces.is_empty() || listed(&self.namespaces)) && !listed(&self.excluded_namespaces)
    }

    fn is_in_selected_namespace(&self, subject: &Subject<'_>) -> Result<bool, String> {
        let Some(selector) = &self.namespace_labels else { return Ok(true) };
        if subject.is_namespace() {
            return Ok(selector.selects(subject.item));
        }
        match subject.namespace {
            Some(namespace) => Ok(selector.selects(namespace)),
            None if matches!(subject.item.namespace(), "" | "default") => {
                Ok(selector.selects_nothing_labelled())
            }
            None => Err(format!(
                "unable to match constraints: error matching the requested object: {} :failed to run Match criteria: \
                 namespace selector for namespace-scoped object but missing Namespace",
                subject.item.name()
            )),
        }
    }

    fn has_name(&self, subject: &Subject<'_>) -> bool {
        let generated =
            subject.item.node().at(&["metadata", "generateName"]).and_then(Node::as_str).unwrap_or_default();
        self.name.is_empty()
            || matches_wildcard(&self.name, subject.item.name())
            || (!generated.is_empty() && matches_generated(&self.name, generated))
    }
}

// === impl Subject ===

impl Subject<'_> {
    fn is_namespace(&self) -> bool {
        self.item.kind() == "Namespace" && self.item.group().is_empty()
    }
}

// === impl Selector ===

impl Selector {
    fn new(node: &Node) -> Result<Self, String> {
        let labels = node.get("matchLabels").map_or(&[][..], Node::pairs);
        let labels = labels.iter().filter_map(|pair| {
            Some((pair.key.scalar()?.to_owned(), pair.value.scalar().unwrap_or_default().to_owned()))
        });
        let expressions = node.get("matchExpressions").map_or(&[][..], Node::items);
        Ok(Self {
            labels: labels.collect(),
            expressions: expressions.iter().enumerate().map(Expression::new).collect::<Result<_, _>>()?,
        })
    }

    fn selects(&self, item: &Resource) -> bool {
        self.labels.iter().all(|(key, value)| item.label(key) == Some(value))
            && self.expressions.iter().all(|expression| expression.holds(item.label(&expression.key)))
    }

    /// Whether it selects something without labels.
    fn selects_nothing_labelled(&self) -> bool {
        self.labels.is_empty() && self.expressions.iter().all(|expression| expression.holds(None))
    }
}

impl Expression {
    fn new((at, node): (usize, &Node)) -> Result<Self, String> {
        let place = format!("invalid Constraint: spec.labelSelector.matchExpressions[{at}]");
        let operator = match node.get_str("operator").unwrap_or_default() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => {
                return Err(format!(
                    "{place}.operator: Invalid value: \"{other}\": not a valid selector operator"
                ));
            }
        };
        let values = texts(node, "values");
        if matches!(operator, Operator::In | Operator::NotIn) && values.is_empty() {
            return Err(format!(
                "{place}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
            ));
        }
        Ok(Self { key: node.get_str("key").unwrap_or_default().to_owned(), operator, values })
    }

    fn holds(&self, label: Option<&str>) -> bool {
        let listed = label.is_some_and(|label| self.values.iter().any(|value| value == label));
        match self.operator {
            Operator::In => listed,
            Operator::NotIn => !listed,
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
        }
    }
}

/// `*` at either end stands for anything.
fn matches_wildcard(pattern: &str, text: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(rest), Some(_)) => text.contains(rest.strip_suffix('*').unwrap_or(rest)),
        (Some(suffix), None) => text.ends_with(suffix),
        (None, Some(prefix)) => text.starts_with(prefix),
        (None, None) => text == pattern,
    }
}

/// What will be appended to a generated name is not known, so only a prefix can match.
fn matches_generated(pattern: &str, generated: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(rest), Some(_)) => generated.contains(rest.strip_suffix('*').unwrap_or(rest)),
        (None, Some(prefix)) => generated.starts_with(prefix),
        _ => false,
    }
}

fn texts(node: &Node, key: &str) -> Vec<String> {
    node.get(key).map_or(&[][..], Node::items).iter().filter_map(Node::scalar).map(str::to_owned).collect()
}
