//! `starlark`: runs a program that its user wrote over the resources.
//!
//! The program sees plain values. What it leaves alone keeps its comments, order and style, because [`value`]
//! knows which node each value came from. [`engine`] bounds what it can; the rest is up to the process around it.

mod dialect;
mod engine;
mod library;
mod message;
mod value;

use loggia_krm::{Resource, ResourceList, ResultItem, Results, Severity};
use loggia_yaml::Node;

use crate::{Failure, Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "starlark",
    purpose: "Run a Starlark program over the resources",
    role: Role::Mutator,
    manual: include_str!("starlark.md"),
    guarded: true,
    versions: &[
        Version {
            tags: &[
                "latest", "unstable", "v0.5.5", "v0.5.4", "v0.5.3", "v0.5.2", "v0.5.1", "v0.5", "v0.4.3",
                "v0.4.2", "v0.4.1", "v0.4",
            ],
            framework: Framework::Sdk,
            run: Run::List(run),
        },
        Version { tags: &["v0.5.0", "v0.4.0"], framework: Framework::Sdk, run: Run::List(run_misspelt) },
        Version {
            tags: &["v0.3.0", "v0.3", "v0.2.2", "v0.2.1", "v0.2.0", "v0.2"],
            framework: Framework::Kyaml,
            run: Run::List(run_legacy),
        },
    ],
};

/// What the function's config asks for.
struct Program {
    name: String,
    source: String,
}

/// How versions differ around the program.
struct Edition {
    /// The program's name if the config has none.
    default_name: &'static str,
    empty_config_map: &'static str,
    empty_starlark_run: &'static str,
    no_config: &'static str,
}

const CURRENT: Edition = Edition {
    default_name: "starlark-function-run",
    empty_config_map: "`source` must not be empty",
    empty_starlark_run: "`source` must not be empty",
    no_config: "FunctionConfig is missing. Expect `ConfigMap` or `StarlarkRun`",
};

const MISSPELT: Edition = Edition { default_name: "stalark-function-run", ..CURRENT };

const LEGACY: Edition = Edition {
    empty_config_map: "`data.source` must not be empty in `ConfigMap`",
    empty_starlark_run: "`source` in `StarlarkRun` must not be empty",
    no_config: "`functionConfig` must be either `ConfigMap` or `StarlarkRun`",
    ..MISSPELT
};

fn run(list: &mut ResourceList) -> Result<(), Failure> {
    run_sorted(list, &CURRENT)
}

fn run_misspelt(list: &mut ResourceList) -> Result<(), Failure> {
    run_sorted(list, &MISSPELT)
}

fn run_sorted(list: &mut ResourceList, edition: &Edition) -> Result<(), Failure> {
    let outcome = transform(list, edition);
    let printed = std::mem::take(&mut list.printed);
    outcome.map(|()| list.printed.clone_from(&printed)).map_err(|message| {
        list.set_results(&Results(vec![ResultItem::new(Severity::Error, message)]));
        Failure { stderr: format!("{printed}failed to evaluate function: error: function failure") }
    })
}

/// Up to 0.3 items keep their order, and the text of the result goes to standard error.
fn run_legacy(list: &mut ResourceList) -> Result<(), Failure> {
    transform(list, &LEGACY).map_err(|message| {
        let stderr = format!("{}[error] : {message}", std::mem::take(&mut list.printed));
        list.set_results(&Results(vec![ResultItem::new(Severity::Error, message)]));
        list.function_config = None;
        Failure { stderr }
    })
}

/// Runs the program; the items stay as they are if it fails.
fn transform(list: &mut ResourceList, edition: &Edition) -> Result<(), String> {
    let program = Program::from_config(list.function_config.as_ref(), edition)?;
    let nodes = list.items.iter().map(|item| item.node().clone()).collect();
    let input = engine::Input { program, items: nodes, function_config: list.function_config.clone() };
    let output = engine::run(input);
    list.printed = output.printed;
    list.items = output.items?.into_iter().map(Resource::new).collect();
    Ok(())
}

// === impl Program ===

impl Program {
    fn from_config(config: Option<&Node>, edition: &Edition) -> Result<Self, String> {
        let Some(config) = config.filter(|config| !config.is_null() && !config.is_empty()) else {
            return Err(edition.no_config.to_owned());
        };
        let text = |key| config.get_str(key).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let is = |a: &str, b: &str| a.is_empty() || b.is_empty() || a == b;
        let (source, empty) = if is(version, "v1") && is(kind, "ConfigMap") {
            let source = config.at(&["data", "source"]).map(string_of_config_map).transpose()?;
            (source, edition.empty_config_map)
        } else if is(group, "fn.kpt.dev") && is(version, "v1alpha1") && is(kind, "StarlarkRun") {
            let source = config.get("source").map(string_of_starlark_run).transpose()?;
            (source, edition.empty_starlark_run)
        } else {
            return Err(format!(
                "`functionConfig` must be either /v1, Kind=ConfigMap or fn.kpt.dev/v1alpha1, Kind=StarlarkRun, \
                 but we got: {group}/{version}, Kind={kind}"
            ));
        };
        let source = source.filter(|source| !source.is_empty()).ok_or(empty)?;
        let name = config.at(&["metadata", "name"]).and_then(Node::as_str).filter(|name| !name.is_empty());
        Ok(Self { name: name.unwrap_or(edition.default_name).to_owned(), source })
    }
}

fn string_of_config_map(node: &Node) -> Result<String, String> {
    string(node, "*v1.ConfigMap", "ConfigMap.data")
}

fn string_of_starlark_run(node: &Node) -> Result<String, String> {
    string(node, "*starlark.StarlarkRun", "StarlarkRun.source")
}

fn string(node: &Node, target: &str, field: &str) -> Result<String, String> {
    if node.is_null() {
        return Ok(String::new());
    }
    node.as_str().map(str::to_owned).ok_or_else(|| {
        let found = if node.is_mapping() {
            "object"
        } else if node.is_sequence() {
            "array"
        } else if node.as_bool().is_some() {
            "bool"
        } else {
            "number"
        };
        format!(
            "unable to convert object to {target} with error: json: cannot unmarshal {found} into Go struct field \
             {field} of type string"
        )
    })
}

#[cfg(test)]
mod tests;
