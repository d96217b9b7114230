//! `set-project-id`: gives a package the setter `project-id`, and Config Connector resources their project.

use std::collections::{HashMap, HashSet};

use loggia_krm::{Kptfile, Resource, ResourceList};
use loggia_yaml::{Node, Pair, ScalarStyle};

use crate::kyaml::data;
use crate::limits;
use crate::{Failure, Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "set-project-id",
    purpose: "Set the Google Cloud project of a package and its resources",
    role: Role::Mutator,
    manual: include_str!("set_project_id.md"),
    guarded: false,
    versions: &[Version {
        tags: &["latest", "unstable", "v0.2", "v0.2.0"],
        framework: Framework::KyamlTwice,
        run: Run::List(run),
    }],
};

const SETTER: &str = "project-id";
const ANNOTATION: &str = "cnrm.cloud.google.com/project-id";
/// What is added to a pipeline that has no setters yet.
const IMAGE: &str = "gcr.io/kpt-fn/apply-setters:v0.2";

/// Where a Kptfile keeps the values of its setters.
enum Place {
    /// In the mutator at this position.
    Inline(usize),
    /// In another file.
    File(String),
    /// Nowhere yet.
    Missing,
}

fn run(list: &mut ResourceList) -> Result<(), Failure> {
    let project = data::of_config(list).remove(SETTER).unwrap_or_default();
    set_setters(&mut list.items, &project)
        .map_err(|error| Failure::kyaml_twice(&format!("failed to set project-id setter: {error}")))?;
    for item in list.items.iter_mut().filter(|item| is_config_connector(item.api_version())) {
        if item.annotation(ANNOTATION).is_none() {
            annotate(item, &project).map_err(|error| {
                let text = "failed to set project-id annotation: failed to set project-id annotation";
                Failure::kyaml_twice(&format!("{text}: {error}"))
            })?;
        }
    }
    Ok(())
}

fn set_setters(items: &mut [Resource], project: &str) -> Result<(), String> {
    let mut kptfiles = Vec::new();
    for (at, item) in items.iter().enumerate().filter(|(_, item)| item.kind() == "Kptfile") {
        let kptfile = Kptfile::from_resource(item, "")
            .map_err(|error| format!("failed to find Kptfile: failed to read Kptfile: {error}"))?;
        kptfiles.push((at, kptfile));
    }
    if kptfiles.is_empty() {
        let advice = "please include --include-meta-resources flag if a Kptfile is present";
        return Err(format!("failed to find Kptfile: unable to find Kptfile, {advice}"));
    }
    let mut by_path: HashMap<String, usize> = HashMap::new();
    for (at, item) in items.iter().enumerate() {
        by_path.entry(item.path().to_owned()).or_insert(at);
    }
    let mut filled = HashSet::new();
    for (at, kptfile) in kptfiles {
        limits::produce(project.len())?;
        let place = place_of_setters(&kptfile, items[at].node())
            .map_err(|error| format!("error updating Kptfile: {error}"))?;
        match place {
            Place::Inline(position) => {
                let mutator = items[at].node_mut().at_mut(&["pipeline", "mutators", &position.to_string()]);
                if let Some(mutator) = mutator {
                    fill_in(mutator.entry_mapping("configMap"), project);
                }
            }
            Place::File(path) => {
                let found = by_path.get(&path).copied().ok_or_else(|| {
                    format!("error updating Kptfile: failed to find setter file: file {path} doesn't exist, please ensure the file specified in \"configPath\" exists and retry")
                })?;
                if !filled.insert(path) {
                    continue;
                }
                let file = &mut items[found];
                let known = data::of(file.node()).remove(SETTER).unwrap_or_default();
                if known.is_empty() {
                    let data = file.node_mut().entry_mapping("data");
                    restyle(data);
                    fill_in(data, project);
                }
            }
            Place::Missing => {
                let pair = |key: &str, value| Pair { key: Node::verbatim(key), value };
                let data = Node::from_pairs(vec![pair(SETTER, Node::string(project))]);
                let mutator =
                    Node::from_pairs(vec![pair("image", Node::string(IMAGE)), pair("configMap", data)]);
                items[at].node_mut().entry_mapping("pipeline").entry_sequence("mutators").push(mutator);
            }
        }
    }
    Ok(())
}

fn place_of_setters(kptfile: &Kptfile, root: &Node) -> Result<Place, String> {
    let written = root.at(&["pipeline", "mutators"]).map(Node::items).unwrap_or_default();
    let functions = kptfile.pipeline.iter().flat_map(|pipeline| &pipeline.mutators);
    let found = functions
        .zip(written)
        .enumerate()
        .find(|(_, (function, _))| function.image.contains("apply-setters"));
    match found {
        None => Ok(Place::Missing),
        Some((at, (_, mutator))) if mutator.get("configMap").is_some_and(Node::is_mapping) => {
            Ok(Place::Inline(at))
        }
        Some((_, (function, _))) if !function.config_path.is_empty() => {
            Ok(Place::File(function.config_path.clone()))
        }
        Some(_) => {
            Err("unable to find `ConfigMap` or `configPath` as the `functionConfig` for apply-setters"
                .to_owned())
        }
    }
}

/// Sets the setter unless it has a value.
fn fill_in(data: &mut Node, project: &str) {
    if data.get(SETTER).and_then(Node::scalar).is_none_or(str::is_empty) {
        data.set(SETTER, Node::string_for_field(project));
    }
}

fn is_config_connector(api_version: &str) -> bool {
    let is_word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    api_version
        .split_once(".cnrm.cloud.google.com/")
        .is_some_and(|(service, version)| is_word(service) && is_word(version) && service != "core")
}

fn annotate(item: &mut Resource, project: &str) -> Result<(), loggia_krm::WrongKind> {
    if let Some(annotations) = item.node_mut().at_mut(&["metadata", "annotations"]) {
        restyle(annotations);
    }
    item.set_annotation(ANNOTATION, project)
}

/// Writes every value anew, as a string that says so only where it must: the original rebuilds the mapping.
fn restyle(entries: &mut Node) {
    for pair in entries.pairs_mut().into_iter().flatten() {
        let text = pair.value.scalar_text().cloned().unwrap_or_default();
        let mut value = Node::string_for_field(text);
        if value.scalar().is_some_and(|text| text.contains('\n')) {
            value.set_scalar_style(ScalarStyle::Literal);
        }
        value.fill_comments_from(&pair.value);
        pair.value = value;
    }
}
