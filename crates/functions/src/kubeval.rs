//! `kubeval`: the older validator, which fails on kinds it does not know.

use loggia_krm::{FieldRef, FileRef, Resource, ResourceList, ResourceRef, ResultItem, Results, Severity};
use loggia_yaml::Node;
use serde_json::Value;

use crate::schemas::{Catalog, Checker, Fault, Problem, Strictness, flat};
use crate::{Failure, Framework, Function, Role, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "kubeval",
    purpose: "Check resources against the schemas of their kinds, which must be known",
    role: Role::Validator,
    manual: include_str!("kubeval.md"),
    guarded: false,
    versions: &[Version {
        tags: &["latest", "unstable", "v0.3.0", "v0.3", "v0.2.1", "v0.2.0", "v0.2"],
        framework: Framework::TypeScript,
        run,
    }],
};

/// What the config says.
struct Config {
    ignore_missing: bool,
    skip_kinds: Vec<String>,
    strictness: Strictness,
}

fn run(list: &mut ResourceList) -> Result<(), Failure> {
    let results = validate(list).map_err(|stderr| Failure { stderr })?;
    let failed = results.has_errors();
    list.set_results(&results);
    if failed { Err(Failure { stderr: String::new() }) } else { Ok(()) }
}

fn validate(list: &ResourceList) -> Result<Results, String> {
    let config = Config::new(list.function_config.as_ref())?;
    let mut catalog = Catalog::new(None)?;
    catalog.add_custom(&list.items)?;
    let checker = Checker { catalog: &catalog, strictness: config.strictness };
    let mut results = Vec::new();
    for item in list.items.iter().filter(|item| !config.skip_kinds.iter().any(|kind| kind == item.kind())) {
        match catalog.schema(item.api_version(), item.kind()) {
            // The package's own file came with a schema that says little more than that it is one.
            _ if item.kind() == "Kptfile" && item.group() == "kpt.dev" => {}
            Some(schema) => {
                let mut problems = flat(checker.check(&schema, item.node()));
                // This library looks at all of an object's fields before it goes into any.
                problems.sort_by_key(|problem| {
                    !matches!(problem.fault, Fault::Additional(_) | Fault::Missing(_))
                });
                results.extend(
                    problems.iter().flat_map(messages).map(|(field, message)| result(item, field, message)),
                );
            }
            None if config.ignore_missing => {}
            None => results.push(result(item, None, missing(item))),
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
        resource_ref: Some(reference(item)),
        field: field.map(|path| FieldRef { path, ..FieldRef::default() }),
        file: Some(FileRef { path: item.path().to_owned(), index: item.index().parse().unwrap_or_default() }),
        ..ResultItem::new(Severity::Error, message)
    }
}

fn reference(item: &Resource) -> ResourceRef {
    ResourceRef {
        api_version: item.api_version().to_owned(),
        kind: item.kind().to_owned(),
        name: item.name().to_owned(),
        namespace: item.namespace().to_owned(),
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
        Fault::Group(_) => Vec::new(),
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
        for key in ["schema_location", "additional_schema_locations"] {
            if let Some(location) = data(key).and_then(Node::scalar) {
                return Err(format!(
                    "`{key}: {location}`: a built-in function reads no files and no network; it has the schemas of \
                     Kubernetes and takes those of custom resources from the package"
                ));
            }
        }
        let kinds = data("skip_kinds").and_then(Node::scalar).unwrap_or_default();
        Ok(Self {
            ignore_missing: flag("ignore_missing_schemas")?,
            skip_kinds: kinds.split(',').map(|kind| kind.trim().to_owned()).collect(),
            strictness: if flag("strict")? { Strictness::Strict } else { Strictness::Lax },
        })
    }
}

#[cfg(test)]
mod tests;
