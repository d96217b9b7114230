//! `kubeval`: the older validator, which fails on kinds it does not know.

use loggia_krm::{FieldRef, FileRef, Resource, ResourceList, ResultItem, Results, Severity};
use loggia_yaml::Node;
use serde_json::Value;

use crate::limits;
use crate::schemas::{Checker, Fault, Location, Patterns, Problem, Search, Settings, Strictness, flat};
use crate::{Failure, Framework, Function, Role, Run, SchemaFiles, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "kubeval",
    purpose: "Check resources against the schemas of their kinds, which must be known",
    role: Role::Validator,
    manual: include_str!("kubeval.md"),
    guarded: false,
    versions: &[Version {
        tags: &["latest", "unstable", "v0.3.0", "v0.3", "v0.2.1", "v0.2.0", "v0.2"],
        framework: Framework::TypeScript,
        run: Run::WithSchemas(run),
    }],
};

/// What the config says.
struct Config {
    location: Option<String>,
    additional_locations: Vec<String>,
    ignore_missing: bool,
    skip_kinds: Vec<String>,
    strictness: Strictness,
}

fn run(list: &mut ResourceList, files: &dyn SchemaFiles) -> Result<(), Failure> {
    let results = validate(list, files).map_err(|stderr| Failure { stderr })?;
    let failed = results.has_errors();
    list.set_results(&results);
    if failed { Err(Failure { stderr: String::new() }) } else { Ok(()) }
}

fn validate(list: &ResourceList, files: &dyn SchemaFiles) -> Result<Results, String> {
    let config = Config::new(list.function_config.as_ref())?;
    let settings = Settings {
        locations: config.locations()?,
        items: &list.items,
        kubernetes_version: None,
        strictness: config.strictness,
    };
    let search = Search::new(settings, files)?;
    let patterns = Patterns::default();
    let checker = Checker { catalog: &search.catalog, strictness: config.strictness, patterns: &patterns };
    let mut results = Vec::new();
    for item in list.items.iter().filter(|item| !config.skip_kinds.iter().any(|kind| kind == item.kind())) {
        limits::work(1 + config.skip_kinds.len())?;
        // The package's own file came with a schema that says little more than that it is one.
        if item.kind() == "Kptfile" && item.group() == "kpt.dev" {
            continue;
        }
        match search.schema(item.api_version(), item.kind())? {
            Some(schema) => {
                let mut problems = flat(checker.check(&schema, item.node()));
                // This library looks at all of an object's fields before it goes into any.
                problems.sort_by_key(|problem| {
                    !matches!(problem.fault, Fault::Additional(_) | Fault::Missing(_))
                });
                let common = limits::size_of(&result(item, None, String::new()));
                for (field, message) in problems.iter().flat_map(messages) {
                    limits::produce(common)?;
                    limits::push(&mut results, result(item, field, message))?;
                }
                if limits::blame(item) {
                    break;
                }
            }
            None if config.ignore_missing => {}
            None => limits::push(&mut results, result(item, None, missing(item)))?,
        }
    }
    Ok(Results(results))
}

fn missing(item: &Resource) -> String {
    format!(
        "Validating arbitrary CRDs is not supported yet. You can skip them by setting ignore_missing_schemas or \
         skip_kinds in the function config:\nFailed initializing schema {}",
        item.kind()
    )
}

fn result(item: &Resource, field: Option<String>, message: String) -> ResultItem {
    ResultItem {
        resource_ref: Some(item.into()),
        field: field.map(|path| FieldRef { path, ..FieldRef::default() }),
        file: Some(FileRef { path: item.path().to_owned(), index: item.index().parse().unwrap_or_default() }),
        ..ResultItem::new(Severity::Error, message)
    }
}

/// The field and text of each complaint about a problem.
fn messages(problem: &Problem) -> Vec<(Option<String>, String)> {
    let path = if problem.path.is_empty() { "(root)".to_owned() } else { problem.path.join(".") };
    let here = |text: String| vec![(Some(path.clone()), text)];
    match &problem.fault {
        Fault::Type { got, want } => {
            let got = if *got == "number" { "integer" } else { got };
            let want = if want.len() == 1 { want[0].clone() } else { format!("[{}]", want.join(",")) };
            here(format!("Invalid type. Expected: {want}, given: {got}"))
        }
        Fault::Missing(names) => {
            names.iter().map(|name| (Some(name.clone()), format!("{name} is required"))).collect()
        }
        Fault::Additional(names) => names
            .iter()
            .map(|name| (Some(name.clone()), format!("Additional property {name} is not allowed")))
            .collect(),
        Fault::Enum(allowed) => {
            let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
            here(format!("{path} must be one of the following: {}", allowed.join(", ")))
        }
        Fault::OneOf(_) => here("Must validate one and only one schema (oneOf)".to_owned()),
        Fault::AnyOf => here("Must validate at least one schema (anyOf)".to_owned()),
        Fault::AllOf => here("Must validate all the schemas (allOf)".to_owned()),
        Fault::Not => here("Must not validate the schema (not)".to_owned()),
        Fault::Size(keyword, _, want) => here(format!("{keyword} is {want}")),
        Fault::Bound(keyword, _, want) => here(format!("{keyword} is {want}")),
        Fault::Pattern { want, .. } => here(format!("Does not match pattern '{want}'")),
        Fault::Format { name, .. } => here(format!("Does not match format '{name}'")),
        Fault::Group(_) | Fault::Reference(_) => Vec::new(),
        Fault::Never => here("False always fails validation".to_owned()),
        Fault::Equal(first, second) => here(format!("array items[{first},{second}] must be unique")),
    }
}

// === impl Config ===

impl Config {
    fn new(node: Option<&Node>) -> Result<Self, String> {
        let data = |key: &str| node.and_then(|node| node.at(&["data", key])).filter(|value| !value.is_null());
        let flag = |key: &str| match data(key).and_then(Node::scalar) {
            None => Ok(false),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(format!("`{key}` must be `true` or `false`, not `{other}`")),
        };
        let text = |key: &str| data(key).and_then(Node::scalar).unwrap_or_default();
        let list = |key: &str| text(key).split(',').map(|part| part.trim().to_owned()).collect::<Vec<_>>();
        let is_there = |text: &String| !text.is_empty();
        Ok(Self {
            location: Some(text("schema_location").to_owned()).filter(is_there),
            additional_locations: list("additional_schema_locations").into_iter().filter(is_there).collect(),
            ignore_missing: flag("ignore_missing_schemas")?,
            skip_kinds: list("skip_kinds"),
            strictness: if flag("strict")? { Strictness::Strict } else { Strictness::Lax },
        })
    }

    /// Where to look, in order: what the package itself defines comes first, and Kubernetes unless a location stands in
    /// for it.
    fn locations(&self) -> Result<Vec<Location>, String> {
        let first = self.location.as_deref().map_or(Ok(Location::Kubernetes), Location::parse)?;
        let others = self.additional_locations.iter().map(|text| Location::parse(text));
        [Ok(Location::Package), Ok(first)].into_iter().chain(others).collect()
    }
}

#[cfg(test)]
mod tests;
