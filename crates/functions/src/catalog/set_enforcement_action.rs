//! `set-enforcement-action`: what all Gatekeeper constraints do about a violation.

use loggia_krm::{FileRef, Resource, ResourceList, ResultItem, Results};
use loggia_yaml::{Node, Tag, node_to_string};

use crate::failure::Failure;
use crate::kyaml::{data, outcome};
use crate::sdk::report;
use crate::{Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "set-enforcement-action",
    purpose: "Set the enforcement action of Gatekeeper constraints",
    role: Role::Mutator,
    manual: include_str!("set_enforcement_action.md"),
    guarded: false,
    versions: &[Version {
        tags: &["latest", "unstable", "v0.1.0"],
        framework: Framework::OldKyaml,
        run: Run::List(run),
    }],
};

const CONSTRAINT: &str = "constraints.gatekeeper.sh/v1beta1";

fn run(list: &mut ResourceList) -> Result<(), Failure> {
    let outcome =
        read_config(list.function_config.as_ref()).and_then(|action| set_all(&mut list.items, &action));
    let results = match &outcome {
        Ok(results) => results.clone(),
        Err(cause) => vec![report::error(format!("failed to process policies: {cause}"))],
    };
    outcome::set_named(list, FUNCTION.name, &Results(results));
    outcome.map(drop).map_err(Failure::kyaml)
}

fn read_config(config: Option<&Node>) -> Result<String, String> {
    let data = data::map(config);
    if data.len() != 1 {
        return Err("expecting exactly 1 enforcementAction as part of the ConfigMap".to_owned());
    }
    match data.get("enforcementAction").map(String::as_str) {
        Some(action @ ("deny" | "warn" | "dryrun")) => Ok(action.to_owned()),
        _ => Err("expected values for enforcementAction are [deny] or [warn] or [dryrun]".to_owned()),
    }
}

fn set_all(items: &mut [Resource], action: &str) -> Result<Vec<ResultItem>, String> {
    let is_constraint = |item: &&mut Resource| {
        item.api_version() == CONSTRAINT && !item.kind().is_empty() && !item.name().is_empty()
    };
    let mut results = Vec::new();
    for item in items.iter_mut().filter(is_constraint) {
        set(item.node_mut(), action)?;
        let path = item.path().to_owned();
        results.push(ResultItem {
            file: (!path.is_empty()).then_some(FileRef { path, index: 0 }),
            ..report::info(format!("Policy name: [{}]", item.name()))
        });
    }
    if results.is_empty() {
        return Ok(vec![report::warning(format!("Found no policy to set to [{action}]"))]);
    }
    results.insert(0, report::info(format!("Number of policies set to [{action}]: {}", results.len())));
    Ok(results)
}

fn set(root: &mut Node, action: &str) -> Result<(), String> {
    let Some(spec) = root.get_mut("spec") else {
        root.set("spec", Node::verbatim(""));
        return Err(wrong_kind("ScalarNode", ""));
    };
    if spec.tag() == Tag::Null {
        // As in the original: it counts, though nothing is set.
        return Ok(());
    }
    if spec.is_mapping() {
        spec.set("enforcementAction", Node::string_for_field(action));
        return Ok(());
    }
    let kind = if spec.is_sequence() { "SequenceNode" } else { "ScalarNode" };
    Err(wrong_kind(kind, node_to_string(spec).trim_end()))
}

fn wrong_kind(kind: &str, contents: &str) -> String {
    format!("wrong Node Kind for spec expected: MappingNode was {kind}: value: {{{contents}}}")
}
