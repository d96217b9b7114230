//! The Kptfile: from `v1alpha1` or `v1alpha2` to `v1`.

use std::collections::BTreeMap;

use loggia_krm::{Resource, path};
use loggia_yaml::{Node, Pair};

use super::comments::Definitions;
use super::{Report, SETTERS};
use crate::kyaml::fields::{file_of, raw_text};

const NEWEST: &str = "kpt.dev/v1";
/// What a Kptfile of the first version may have.
const KNOWN: [&str; 9] = [
    "apiVersion",
    "kind",
    "metadata",
    "upstream",
    "packageMetadata",
    "dependencies",
    "openAPI",
    "functions",
    "inventory",
];

/// A function of the pipeline.
pub(super) struct Step {
    pub(super) image: String,
    pub(super) config_path: String,
}

/// Brings a Kptfile up to date; `functions` are those that resources of the package configure.
pub(super) fn fix(item: &mut Resource, functions: Vec<Step>, report: &mut Report) -> Result<(), String> {
    let file = file_of(item).to_owned();
    match item.api_version() {
        NEWEST => {
            let message = format!("This package is already fixed as it is on latest apiVersion {NEWEST}");
            report.note(&file, message);
            Ok(())
        }
        version if version.contains("v1alpha2") => from_second(item, &file, report),
        _ => from_first(item, &file, functions, report),
    }
}

/// Setters that stand in the Kptfile move into a file of their own.
fn from_second(item: &mut Resource, file: &str, report: &mut Report) -> Result<(), String> {
    item.set_api_version(NEWEST).map_err(|error| error.to_string())?;
    report.note(file, format!("Updated apiVersion to {NEWEST}"));
    let package = path::folder(file);
    let mutators = item.node_mut().at_mut(&["pipeline", "mutators"]).and_then(Node::items_mut);
    for mutator in mutators.into_iter().flatten() {
        let applies =
            mutator.get_str("image").is_some_and(|image| image.contains("gcr.io/kpt-fn/apply-setters:"));
        let setters: BTreeMap<String, String> = mutator
            .get("configMap")
            .map_or(&[][..], Node::pairs)
            .iter()
            .map(|pair| (raw_text(&pair.key).to_owned(), raw_text(&pair.value).to_owned()))
            .collect();
        if applies && !setters.is_empty() {
            report.add_setters(package, &setters)?;
            mutator.remove("configMap");
            mutator.set("configPath", Node::string(SETTERS));
            report.note(&path::inside(package, SETTERS), "Moved setters from configMap to configPath");
        }
    }
    Ok(())
}

fn from_first(
    item: &mut Resource,
    file: &str,
    functions: Vec<Step>,
    report: &mut Report,
) -> Result<(), String> {
    let old = item.node().clone();
    let unknown = old.pairs().iter().map(|pair| raw_text(&pair.key)).find(|key| !KNOWN.contains(key));
    if let Some(key) = unknown {
        return Err(format!(
            "please make sure the package has a valid 'v1alpha1' Kptfile: field {key} not found in type v1alpha1.KptFile"
        ));
    }
    let setters = Definitions::of(&old).setters()?;
    let mut new = Node::from_pairs(
        old.pairs().iter().filter(|pair| KNOWN[1..3].contains(&raw_text(&pair.key))).cloned().collect(),
    );
    new.insert_pair(0, pair("apiVersion", Node::string(NEWEST)));
    let given = |key: &str| old.get(key).filter(|part| !part.is_null());

    let info = given("packageMetadata").map(info);
    if info.is_some() {
        report.note(file, "Transformed \"packageMetadata\" to \"info\"");
    }
    if let Some(upstream) = given("upstream") {
        let kind = picked(upstream, &[("type", "type")]);
        let git = upstream.get("git").cloned().unwrap_or_default();
        let place = [("repo", "repo"), ("directory", "directory"), ("ref", "ref"), ("commit", "commit")];
        let mut fetched = kind.clone();
        fetched.push_pair(pair("git", picked(&git, place.get(..3).unwrap_or_default())));
        fetched.push_pair(pair("updateStrategy", Node::string("resource-merge")));
        let mut lock = kind;
        lock.push_pair(pair("git", picked(&git, &place)));
        new.push_pair(pair("upstream", fetched));
        new.push_pair(pair("upstreamLock", lock));
        report.note(file, "Transformed \"upstream\" to \"upstream\" and \"upstreamLock\"");
    }
    if let Some(info) = info {
        new.push_pair(pair("info", info));
    }

    for Step { image, .. } in &functions {
        report.note(
            file,
            format!(
                "Added {} to mutators list, please move it to validators section if it is a validator function",
                loggia_go::quote(image)
            ),
        );
    }
    let mut steps = functions;
    if !setters.is_empty() {
        report.add_setters(path::folder(file), &setters)?;
        let image = "gcr.io/kpt-fn/apply-setters:v0.2".to_owned();
        steps.insert(0, Step { image, config_path: SETTERS.to_owned() });
        report.note(file, "Transformed \"openAPI\" definitions to \"apply-setters\" function");
    }
    new.push_pair(pair("pipeline", pipeline(&steps)));
    if let Some(inventory) = given("inventory") {
        let fields = ["namespace", "name", "inventoryID", "labels", "annotations"];
        new.push_pair(pair("inventory", picked(inventory, &fields.map(|field| (field, field)))));
    }
    *item.node_mut() = new;
    Ok(())
}

fn pair(key: &str, value: Node) -> Pair {
    Pair { key: Node::verbatim(key), value }
}

/// Fields of a mapping under other names; what is empty is left out.
fn picked(from: &Node, fields: &[(&str, &str)]) -> Node {
    let mut into = Node::mapping();
    for (old, new) in fields {
        let value = from.get(old).filter(|value| !value.is_null() && !is_empty(value));
        if let Some(value) = value {
            into.push_pair(pair(new, value.clone()));
        }
    }
    into
}

fn is_empty(value: &Node) -> bool {
    value.scalar().map_or_else(|| value.is_empty(), str::is_empty)
}

fn info(metadata: &Node) -> Node {
    let mut metadata = metadata.clone();
    if let Some(email) = metadata.get("email").filter(|email| !is_empty(email)).cloned() {
        metadata.replace("email", Node::from_items(vec![email]));
    }
    let fields = [
        ("url", "site"),
        ("email", "emails"),
        ("license", "license"),
        ("shortDescription", "description"),
        ("tags", "keywords"),
        ("man", "man"),
    ];
    picked(&metadata, &fields)
}

fn pipeline(steps: &[Step]) -> Node {
    let step = |Step { image, config_path }: &Step| {
        let mut step = Node::mapping();
        if !image.is_empty() {
            step.push_pair(pair("image", Node::string(image.as_str())));
        }
        step.push_pair(pair("configPath", Node::string(config_path.as_str())));
        step
    };
    if steps.is_empty() {
        Node::mapping()
    } else {
        Node::from_pairs(vec![pair("mutators", steps.iter().map(step).collect())])
    }
}
