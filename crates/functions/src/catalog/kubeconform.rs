//! `kubeconform`: checks resources against the schemas of their kinds.

use loggia_krm::annotation;
use loggia_krm::{FieldRef, FileRef, Resource, ResourceList, ResourceRef, ResultItem, Severity};
use loggia_yaml::Node;
use serde_json::Value;

use crate::limits;
use crate::schemas::{Checker, Fault, Location, Patterns, Search, Settings, Strictness};
use crate::sdk::object::Object;
use crate::{Failure, Framework, Function, Role, Run, SchemaFiles, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "kubeconform",
    purpose: "Check resources against the schemas of their kinds",
    role: Role::Validator,
    manual: include_str!("kubeconform.md"),
    guarded: false,
    versions: &[Version {
        tags: &["latest", "unstable", "v0.1.3", "v0.1.2", "v0.1"],
        framework: Framework::Sdk,
        run: Run::WithSchemas(run),
    }],
};

/// What the config says.
struct Config {
    locations: Vec<String>,
    skip_kinds: Vec<String>,
    strictness: Strictness,
    kubernetes_version: String,
}

fn run(list: &mut ResourceList, files: &dyn SchemaFiles) -> Result<(), Failure> {
    let outcome = validate(list, files);
    let failed = |text: &str| Failure { stderr: format!("failed to evaluate function: {text}") };
    let found = outcome.map_err(|error| failed(&error))?;
    if found.is_empty() {
        return Ok(());
    }
    let mut results = list.results().unwrap_or_default();
    results.0.extend(found);
    list.set_results(&results);
    Err(failed("error: function failure"))
}

fn validate(list: &ResourceList, files: &dyn SchemaFiles) -> Result<Vec<ResultItem>, String> {
    let config = Config::new(list.function_config.as_ref());
    let settings = Settings {
        locations: config.locations()?,
        items: &list.items,
        kubernetes_version: Some(config.kubernetes_version.as_str()).filter(|version| !version.is_empty()),
        strictness: config.strictness,
    };
    let search = Search::new(settings, files)?;
    let patterns = Patterns::default();
    let checker = Checker { catalog: &search.catalog, strictness: config.strictness, patterns: &patterns };
    let mut results = Vec::new();
    for item in list.items.iter().filter(|item| has_signature(item.node())) {
        let (api_version, kind) = (item.api_version(), item.kind());
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let full =
            if group.is_empty() { format!("{version}/{kind}") } else { format!("{group}/{version}/{kind}") };
        limits::work(1 + config.skip_kinds.len())?;
        if config.skip_kinds.iter().any(|skipped| skipped == kind || *skipped == full) {
            continue;
        }
        let Some(schema) = search.schema(api_version, kind)? else { continue };
        let problems = checker.check(&schema, item.node());
        let common = limits::size_of(&result(item, "", ""));
        for problem in problems {
            limits::produce(common)?;
            let (field, message) = (problem.path.join(".").replace('/', "."), message(&problem.fault));
            limits::push(&mut results, result(item, &field, &message))?;
        }
        if limits::blame(item) {
            break;
        }
    }
    Ok(results)
}

/// Whether the tool can tell what the object is. It reports others apart, and the
/// original does not read that report.
fn has_signature(node: &Node) -> bool {
    let is_scalar = |node: Option<&Node>| node.is_none_or(Node::is_scalar);
    match node.get("metadata") {
        None => true,
        Some(metadata) if metadata.is_mapping() => {
            ["name", "namespace", "generateName"].iter().all(|key| is_scalar(metadata.get(key)))
        }
        Some(metadata) => metadata.is_null(),
    }
}

/// A problem of a resource, at a field.
fn result(item: &Resource, field: &str, message: &str) -> ResultItem {
    let object = Object::of(item);
    // The functions SDK knows the newer spelling only.
    let index = match object.annotation(annotation::INDEX) {
        "" => -1,
        text => text.parse().unwrap_or_default(),
    };
    ResultItem {
        resource_ref: Some(ResourceRef {
            api_version: object.api_version().to_owned(),
            kind: object.kind().to_owned(),
            name: object.name().to_owned(),
            namespace: object.namespace().to_owned(),
        }),
        field: Some(FieldRef { path: field.to_owned(), ..FieldRef::default() }),
        file: Some(FileRef { path: object.annotation(annotation::PATH).to_owned(), index }),
        ..ResultItem::new(Severity::Error, message)
    }
}

fn message(fault: &Fault) -> String {
    match fault {
        Fault::Type { got, want } => format!("got {got}, want {}", in_order(want).join(" or ")),
        Fault::Enum(allowed) => match &allowed[..] {
            [one] => format!("value must be {}", display(one)),
            many => {
                format!("value must be one of {}", many.iter().map(display).collect::<Vec<_>>().join(", "))
            }
        },
        Fault::Missing(names) => match &names[..] {
            [one] => format!("missing property {}", quote(one)),
            many => format!("missing properties {}", quoted(many)),
        },
        Fault::Additional(names) => format!("additional properties {} not allowed", quoted(names)),
        Fault::OneOf(None) => "oneOf failed, none matched".to_owned(),
        Fault::OneOf(Some((first, second))) => format!("oneOf failed, subschemas {first}, {second} matched"),
        Fault::AnyOf => "anyOf failed".to_owned(),
        Fault::AllOf => "allOf failed".to_owned(),
        Fault::Not => "not failed".to_owned(),
        Fault::Size(keyword, got, want) => {
            format!("{keyword}: got {}, want {}", grouped(&got.to_string()), grouped(&want.to_string()))
        }
        Fault::Bound(keyword, got, want) => {
            format!("{keyword}: got {}, want {}", grouped(&got.to_string()), grouped(&want.to_string()))
        }
        Fault::Pattern { got, want } => format!("{} does not match pattern {}", quote(got), quote(want)),
        Fault::Format { got, name, reason } => format!("{} is not valid {name}: {reason}", quote(got)),
        Fault::Group(_) | Fault::Reference(_) => "validation failed".to_owned(),
        Fault::Never => "false schema".to_owned(),
        Fault::Equal(first, second) => format!("items at {first} and {second} are equal"),
    }
}

/// Types in the order of the library, not of the schema.
fn in_order(types: &[String]) -> Vec<&str> {
    let order = ["null", "boolean", "number", "integer", "string", "array", "object"];
    order.into_iter().filter(|name| types.iter().any(|one| one == name)).collect()
}

fn display(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Null => "<nil>".to_owned(),
        Value::Array(_) | Value::Object(_) => "value".to_owned(),
        other => other.to_string(),
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| quote(name)).collect::<Vec<_>>().join(", ")
}

/// Single quotes, with everything inside escaped as Go's `%q` does.
fn quote(text: &str) -> String {
    let mut out = String::from("'");
    for character in text.chars() {
        match character {
            '\'' => out.push_str("\\'"),
            '"' => out.push('"'),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('\'');
    out
}

/// Thousands apart, as the library prints numbers for English readers.
fn grouped(number: &str) -> String {
    let (sign, rest) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (whole, fraction) =
        rest.split_once('.').map_or((rest, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut out = String::from(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

// === impl Config ===

impl Config {
    fn new(node: Option<&Node>) -> Self {
        let text = |key: &str| {
            let own = node.and_then(|node| node.get_str(key)).filter(|text| !text.is_empty());
            let own = own.or_else(|| node.and_then(|node| node.at(&["data", key])).and_then(Node::as_str));
            own.unwrap_or_default().to_owned()
        };
        let list = |key: &str| -> Vec<String> {
            text(key).split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect()
        };
        let flag = |key: &str| {
            let own = node.and_then(|node| node.get(key)).and_then(Node::as_bool);
            own.unwrap_or_else(|| text(key).eq_ignore_ascii_case("true") || text(key) == "1")
        };
        let mut locations: Vec<String> =
            Some(text("schema_location")).filter(|one| !one.is_empty()).into_iter().collect();
        locations.extend(list("additional_schema_locations"));
        Self {
            locations,
            skip_kinds: list("skip_kinds"),
            strictness: if flag("strict") { Strictness::Strict } else { Strictness::Lax },
            kubernetes_version: text("kubernetes_version"),
        }
    }

    /// Where to look, in order. Kubernetes itself is left out only where files stand in for it, as with the original.
    fn locations(&self) -> Result<Vec<Location>, String> {
        let mut locations =
            self.locations.iter().map(|text| Location::parse(text)).collect::<Result<Vec<_>, _>>()?;
        if locations.iter().all(|location| *location == Location::Package) {
            locations.push(Location::Kubernetes);
        }
        Ok(locations)
    }
}

#[cfg(test)]
mod tests;
