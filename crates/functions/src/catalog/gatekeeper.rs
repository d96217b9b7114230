//! `gatekeeper`: holds the resources against the policies among them.
//!
//! Policies are ConstraintTemplates with Rego and constraints that use them. [`template`] compiles the former,
//! [`matching`] says which resources a constraint is about.

mod matching;
mod template;

use std::collections::BTreeMap;

use loggia_go::quote;
use loggia_krm::{FileRef, Resource, ResourceList, ResultItem, Results, Severity};
use loggia_yaml::Node;
use regorus::Value;

use self::matching::{Match, Subject};
use self::template::Template;
use crate::limits;
use crate::{Failure, Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "gatekeeper",
    purpose: "Check the resources against Gatekeeper policies",
    role: Role::Validator,
    manual: include_str!("gatekeeper.md"),
    guarded: true,
    versions: &[
        Version { tags: &["latest"], framework: Framework::Kyaml, run: Run::List(|list| run(list, NEWEST)) },
        // `unstable` is the tag of another registry, whose last build is as old.
        Version {
            tags: &["unstable", "v0.2.1", "v0.2"],
            framework: Framework::Kyaml,
            run: Run::List(|list| run(list, Rules { refuses_unknown: false, ..NEWEST })),
        },
        Version {
            tags: &["v0.2.0", "v0.1.3", "v0.1.2", "v0.1.1"],
            framework: Framework::Kyaml,
            run: Run::List(|list| {
                run(list, Rules { refuses_unknown: false, template_versions: &["v1beta1", "v1alpha1"] })
            }),
        },
    ],
};

/// What versions differ in.
#[derive(Clone, Copy)]
struct Rules {
    template_versions: &'static [&'static str],
    /// Whether a parameter that its template does not know makes a constraint invalid.
    refuses_unknown: bool,
}

const NEWEST: Rules = Rules { template_versions: &["v1", "v1beta1", "v1alpha1"], refuses_unknown: true };
const CONSTRAINTS: &str = "constraints.gatekeeper.sh";
const STACK: usize = 64 << 20;
const TEMPLATES: &str = "templates.gatekeeper.sh";

/// Rego nests deeper than callers' stacks allow, so it gets one of its own.
fn run(list: &mut ResourceList, rules: Rules) -> Result<(), Failure> {
    if let Some(item) = list.items.iter().find(|item| item.kind().is_empty()) {
        let json: String =
            compact_json(item.node()).map_err(|error| Failure { stderr: format!("{error}\n") })?;
        let stderr =
            format!("error unmarshaling JSON: while decoding JSON: Object 'Kind' is missing in '{json}'\n");
        return Err(Failure { stderr });
    }
    let items = list.items.clone();
    let outcome = match limits::on_thread("gatekeeper", STACK, move || review(&items, rules)) {
        Ok(ended) => ended.unwrap_or_else(|_| Err("the Rego engine broke down on these policies".to_owned())),
        Err(error) => Err(format!("no thread for the Rego engine: {error}")),
    };
    report(list, outcome)
}

fn compact_json(node: &Node) -> Result<String, String> {
    let json = json_of(node)?;
    let mut value: serde_json::Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    value.sort_all_objects();
    Ok(value.to_string())
}

fn report(list: &mut ResourceList, outcome: Result<Vec<ResultItem>, String>) -> Result<(), Failure> {
    let mut results =
        Results(outcome.unwrap_or_else(|message| vec![ResultItem::new(Severity::Error, message)]));
    results.sort();
    list.set_results(&results);
    if results.has_errors() { Err(Failure { stderr: text(&results) }) } else { Ok(()) }
}

/// The results as kyaml before 0.13 prints them: always with a place for the field.
fn text(results: &Results) -> String {
    let line = |item: &ResultItem| {
        let reference = item.resource_ref.clone().unwrap_or_default();
        let parts = [reference.api_version, reference.kind, reference.namespace, reference.name];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let severity = item.severity.as_ref().map_or("info", Severity::as_str);
        let space = if parts.is_empty() { "" } else { " " };
        format!("[{severity}]{space}{} : {}", parts.join("/"), item.message)
    };
    results.0.iter().map(line).collect::<Vec<_>>().join("\n\n") + "\n"
}

/// A constraint, ready to be asked.
struct Constraint {
    name: String,
    matching: Match,
    parameters: Value,
    severity: Severity,
    template: usize,
}

fn review(items: &[Resource], rules: Rules) -> Result<Vec<ResultItem>, String> {
    let is = |item: &Resource, group: &str, versions: &[&str]| {
        item.group() == group && versions.contains(&item.version())
    };
    let mut templates = Vec::new();
    let mut kinds = BTreeMap::new();
    for item in items
        .iter()
        .filter(|item| item.kind() == "ConstraintTemplate" && is(item, TEMPLATES, rules.template_versions))
    {
        let template =
            Template::new(item).map_err(|error| format!("adding template \"{}\": {error}", item.name()))?;
        kinds.insert(template.kind.clone(), templates.len());
        templates.push(template);
    }
    let mut constraints = Vec::new();
    for item in items.iter().filter(|item| item.group() == CONSTRAINTS) {
        let constraint = Constraint::new(item, &kinds, &templates, rules)
            .map_err(|error| format!("adding constraint \"{}\": {error}", item.name()))?;
        constraints.extend(constraint);
    }
    let values = items.iter().map(object).collect::<Result<Vec<_>, _>>()?;
    let inventory = inventory(items, &values)?;
    for template in &mut templates {
        template.set_inventory(&inventory)?;
    }
    let namespaces: BTreeMap<&str, &Resource> = items
        .iter()
        .filter(|item| item.api_version() == "v1" && item.kind() == "Namespace")
        .map(|item| (item.name(), item))
        .collect();

    let mut results = Vec::new();
    for (item, value) in items.iter().zip(&values) {
        let subject = Subject { item, namespace: namespaces.get(item.namespace()).copied() };
        for constraint in &constraints {
            limits::work(16 + constraint.matching.size())?;
            // A constraint that cannot tell whether it is about the resource rejects it.
            let messages = match constraint.matching.matches(&subject) {
                Ok(true) => {
                    limits::work(512)?;
                    let input = input(item, value, &constraint.parameters)?;
                    templates[constraint.template]
                        .violations(input)
                        .map_err(|error| reviewing(item, &error))?
                }
                Ok(false) => Vec::new(),
                Err(message) => vec![message],
            };
            for message in messages {
                limits::push(&mut results, violation(item, constraint, &message)?)?;
            }
        }
    }
    Ok(results)
}

fn reviewing(item: &Resource, error: &str) -> String {
    let (kind, namespace, name) = (group_version_kind(item), item.namespace(), item.name());
    format!("reviewing {kind} {namespace}/{name}: admission.k8s.gatekeeper.sh: Rego: {error}\n\n")
}

fn violation(item: &Resource, constraint: &Constraint, message: &str) -> Result<ResultItem, String> {
    let annotation = |key| item.annotation(key);
    let index = annotation("config.kubernetes.io/index")
        .or_else(|| annotation("internal.config.kubernetes.io/index"));
    let path =
        annotation("config.kubernetes.io/path").or_else(|| annotation("internal.config.kubernetes.io/path"));
    let file = match path {
        Some(path) => {
            let index = index.unwrap_or("0");
            let index = index
                .parse()
                .map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", quote(index)))?;
            Some(FileRef { path: path.to_owned(), index })
        }
        None => None,
    };
    Ok(ResultItem {
        resource_ref: Some(item.into()),
        file,
        ..ResultItem::new(
            constraint.severity.clone(),
            format!("{message}\nviolatedConstraint: {}", constraint.name),
        )
    })
}

// === impl Constraint ===

impl Constraint {
    /// Nothing if the constraint is not for this point of enforcement.
    fn new(
        item: &Resource,
        kinds: &BTreeMap<String, usize>,
        templates: &[Template],
        rules: Rules,
    ) -> Result<Option<Self>, String> {
        let Some(&template) = kinds.get(item.kind()) else {
            let template = item.kind().to_lowercase();
            return Err(format!("missing ConstraintTemplate: template \"{template}\" not found"));
        };
        if item.name().is_empty() {
            return Err("invalid Constraint: missing metadata.name".to_owned());
        }
        let version = item.version();
        if !matches!(version, "v1alpha1" | "v1beta1") {
            return Err(format!(
                "invalid Constraint: unsupported version \"{version}\" for Constraint \"{}\"; supported versions: \
                 map[v1alpha1:true v1beta1:true]",
                item.name()
            ));
        }
        let spec = item.node().get("spec");
        let field = |key| spec.and_then(|spec| spec.get(key));
        let severity = match field("enforcementAction").and_then(Node::as_str).unwrap_or("deny") {
            "dryrun" => Severity::Info,
            "warn" => Severity::Warning,
            "scoped" if !field("scopedEnforcementActions").is_some_and(is_for_gator) => return Ok(None),
            _ => Severity::Error,
        };
        let parameters = field("parameters").map_or_else(|| Ok(Value::new_object()), value_of)?;
        let matching = Match::new(field("match"))?;
        let unknown =
            field("parameters").map(|parameters| templates[template].unknown_parameters(parameters));
        if let Some(unknown) = unknown.filter(|unknown| rules.refuses_unknown && !unknown.is_empty()) {
            return Err(format!("invalid Constraint: unknown fields: [{}]", unknown.join(" ")));
        }
        Ok(Some(Self { name: item.name().to_owned(), matching, parameters, severity, template }))
    }
}

/// Whether one of the scoped actions names the point at which resources are reviewed here.
fn is_for_gator(actions: &Node) -> bool {
    let names =
        actions.items().iter().filter_map(|action| action.get("enforcementPoints")).flat_map(Node::items);
    names.filter_map(|point| point.get_str("name")).any(|name| matches!(name, "*" | "gator.gatekeeper.sh"))
}

/// All items by place: `cluster/GROUP_VERSION/KIND/NAME` and `namespace/NAMESPACE/GROUP_VERSION/KIND/NAME`.
fn inventory(items: &[Resource], values: &[Value]) -> Result<Value, String> {
    let mut inventory = serde_json::Map::new();
    for (item, value) in items.iter().zip(values) {
        let (version, kind) = (item.api_version(), item.kind());
        for (what, part) in [("version", version), ("kind", kind)] {
            if part.is_empty() {
                return Err(format!(
                    "adding data of GVK \"{}\": admission.k8s.gatekeeper.sh: invalid request object: resource {} has no \
                     {what}\n",
                    group_version_kind(item),
                    item.name()
                ));
            }
        }
        let mut path =
            if item.namespace().is_empty() { vec!["cluster"] } else { vec!["namespace", item.namespace()] };
        path.extend([version, kind]);
        let mut place = &mut inventory;
        for part in path {
            let slot = place.entry(part).or_insert_with(|| serde_json::Value::Object(serde_json::Map::new()));
            match slot {
                serde_json::Value::Object(inner) => place = inner,
                _ => return Err("an inventory's place is taken".to_owned()),
            }
        }
        let json = value.to_json_str().map_err(|error| error.to_string())?;
        place.insert(item.name().to_owned(), serde_json::from_str(&json).map_err(|error| error.to_string())?);
    }
    let json = serde_json::json!({ "inventory": inventory }).to_string();
    Value::from_json_str(&json).map_err(|error| error.to_string())
}

fn group_version_kind(item: &Resource) -> String {
    let version = item.version();
    format!("{}/{version}, Kind={}", item.group(), item.kind())
}

/// What Rego sees: the request an API server would send, and the constraint's parameters.
fn input(item: &Resource, object: &Value, parameters: &Value) -> Result<Value, String> {
    let version = item.version();
    let mut review = serde_json::json!({
        "uid": "",
        "kind": { "group": item.group(), "version": version, "kind": item.kind() },
        "resource": { "group": "", "version": "", "resource": "" },
        "operation": "",
        "userInfo": {},
        "namespaceObject": {},
        "oldObject": null,
        "options": null,
    });
    for (key, text) in [("name", item.name()), ("namespace", item.namespace())] {
        if !text.is_empty() {
            review[key] = text.into();
        }
    }
    let mut review = Value::from_json_str(&review.to_string()).map_err(|error| error.to_string())?;
    let mut input = Value::new_object();
    review.as_object_mut().map_err(|error| error.to_string())?.insert("object".into(), object.clone());
    let fields = input.as_object_mut().map_err(|error| error.to_string())?;
    fields.insert("review".into(), review);
    fields.insert("parameters".into(), parameters.clone());
    Ok(input)
}

/// The resource as Rego sees it. A constraint that is in use has an action.
fn object(item: &Resource) -> Result<Value, String> {
    if item.group() != CONSTRAINTS || item.node().at(&["spec", "enforcementAction"]).is_some() {
        return value_of(item.node());
    }
    let mut node = item.node().clone();
    node.entry_mapping("spec").set("enforcementAction", Node::string("deny"));
    value_of(&node)
}

fn value_of(node: &Node) -> Result<Value, String> {
    Value::from_json_str(&json_of(node)?).map_err(|error| error.to_string())
}

/// A node as JSON. What aliases add to it is counted.
fn json_of(node: &Node) -> Result<String, String> {
    let own = node.text_size(usize::MAX / 8).saturating_mul(6);
    let json = loggia_yaml::to_compact_json(node, own.saturating_add(limits::output_left()));
    let json = json.map_err(|error| error.to_string())?;
    limits::produce(json.len().saturating_sub(own))?;
    Ok(json)
}

#[cfg(test)]
mod tests;
