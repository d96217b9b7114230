//! `set-annotations`: annotations on all resources and on the templates in them.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use loggia_krm::{FieldRef, FileRef, Resource, ResourceList, ResultItem, Results};
use loggia_yaml::{Node, node_to_string};

use crate::config::Mismatch;
use crate::failure::Failure;
use crate::field_spec::{FieldSpec, Leaf};
use crate::{Framework, Function, Role, Version, config, kustomize, report};

pub(crate) static FUNCTION: Function = Function {
    name: "set-annotations",
    purpose: "Set annotations on all resources and their templates",
    role: Role::Mutator,
    manual: include_str!("set_annotations.md"),
    guarded: false,
    versions: &[
        Version { tags: &["latest", "unstable", "v0.1.5"], framework: Framework::Kyaml, run },
        Version {
            tags: &["v0.1.0", "v0.1.1", "v0.1.2", "v0.1.3", "v0.1.4"],
            framework: Framework::Kyaml,
            run: run_without_results,
        },
    ],
};

/// Where annotations go unless the config says more.
static DEFAULTS: LazyLock<Vec<FieldSpec>> = LazyLock::new(|| {
    const TEMPLATE: &str = "spec/template/metadata/annotations";
    let table = [
        (("", "", ""), "metadata/annotations"),
        (("", "v1", "ReplicationController"), TEMPLATE),
        (("", "", "Deployment"), TEMPLATE),
        (("", "", "ReplicaSet"), TEMPLATE),
        (("", "", "DaemonSet"), TEMPLATE),
        (("", "", "StatefulSet"), TEMPLATE),
        (("batch", "", "Job"), TEMPLATE),
        (("batch", "", "CronJob"), "spec/jobTemplate/metadata/annotations"),
        (("batch", "", "CronJob"), "spec/jobTemplate/spec/template/metadata/annotations"),
    ];
    table.iter().map(|(gvk, path)| FieldSpec::new(*gvk, path, true)).collect()
});

#[derive(Debug, Default)]
struct Config {
    annotations: BTreeMap<String, String>,
    field_specs: Option<Vec<FieldSpec>>,
    additional_annotation_fields: Option<Vec<FieldSpec>>,
}

/// File, index and field of what was set, with the values.
type Places = HashMap<(String, String, String), BTreeMap<String, String>>;

fn run(list: &mut ResourceList) -> Result<(), Failure> {
    match set(list) {
        Ok(places) => {
            list.set_results(&results(places));
            Ok(())
        }
        Err(message) => {
            let results = Results(vec![report::error(message)]);
            list.set_results(&results);
            Err(Failure::kyaml_results(&results))
        }
    }
}

fn run_without_results(list: &mut ResourceList) -> Result<(), Failure> {
    match set(list) {
        Ok(_) => Ok(()),
        Err(message) => {
            let results = Results(vec![report::error(message)]);
            report::set_named(list, FUNCTION.name, &results);
            Err(Failure::kyaml(results.to_string().replacen(": ", " : ", 1)))
        }
    }
}

fn set(list: &mut ResourceList) -> Result<Places, String> {
    let config = Config::read(list.function_config.as_ref())
        .map_err(|cause| format!("failed to configure function: {cause}"))?;
    kustomize::check(list).map_err(|cause| format!("failed to run function: {cause}"))?;
    let mut places = Places::new();
    let specs: Vec<&FieldSpec> =
        config.additional_annotation_fields.iter().flatten().chain(DEFAULTS.iter()).collect();
    for item in &mut list.items {
        set_on(item, &config.annotations, &specs, &mut places)
            .map_err(|cause| format!("failed to run function: failed to run transformer: {cause}"))?;
    }
    Ok(places)
}

fn set_on(
    item: &mut Resource,
    annotations: &BTreeMap<String, String>,
    specs: &[&FieldSpec],
    places: &mut Places,
) -> Result<(), String> {
    let (file, index) = (item.path().to_owned(), item.index().to_owned());
    for (key, value) in annotations {
        // The original makes one node of the value and puts it everywhere, so quotes found once go on.
        let mut entry = Node::string_for_field(value.clone());
        for spec in specs {
            spec.apply(item, Leaf::Mapping, &mut |node, names| {
                let place = (file.clone(), index.clone(), names.join("."));
                places.entry(place).or_default().insert(key.clone(), value.clone());
                set_entry(node, key, &mut entry, names)
            })?;
        }
    }
    Ok(())
}

/// Sets an entry of a mapping as kyaml's field setter does.
fn set_entry(node: &mut Node, key: &str, entry: &mut Node, names: &[&str]) -> Result<(), String> {
    if !node.is_mapping() {
        let kind = if node.is_sequence() { "SequenceNode" } else { "ScalarNode" };
        let (place, contents) = (names.join("."), node_to_string(node));
        let contents = contents.trim_end();
        return Err(format!(
            "wrong Node Kind for {place} expected: MappingNode was {kind}: value: {{{contents}}}"
        ));
    }
    if let Some(old) = node.get(key) {
        entry.set_style_of(old);
    }
    node.set(key, entry.clone());
    Ok(())
}

fn results(places: Places) -> Results {
    if places.is_empty() {
        return Results(vec![ResultItem {
            message: "no annotations applied".into(),
            ..ResultItem::default()
        }]);
    }
    let mut results: Results = places
        .into_iter()
        .map(|((path, index, field), values)| ResultItem {
            message: format!("set annotations: {}", json_object(&values)),
            field: Some(FieldRef { path: field, ..FieldRef::default() }),
            file: Some(FileRef { path, index: index.parse().unwrap_or(0) }),
            ..ResultItem::default()
        })
        .collect();
    results.sort();
    results
}

/// As Go's encoder writes it: keys in order, no spaces.
fn json_object(values: &BTreeMap<String, String>) -> String {
    let members: Vec<String> =
        values.iter().map(|(key, value)| format!("{}:{}", json_string(key), json_string(value))).collect();
    format!("{{{}}}", members.join(","))
}

/// As Go's encoder writes it: what HTML minds is escaped too.
fn json_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out += "\\n",
            '\r' => out += "\\r",
            '\t' => out += "\\t",
            '\u{8}' => out += "\\b",
            '\u{c}' => out += "\\f",
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                out += &format!("\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out + "\""
}

// === impl Config ===

impl Config {
    fn read(config: Option<&Node>) -> Result<Self, String> {
        let resource = config.cloned().map(Resource::new).unwrap_or_default();
        let config = match (resource.api_version(), resource.kind()) {
            ("v1", "ConfigMap") => {
                Self { annotations: config::data_map(Some(resource.node())), ..Self::default() }
            }
            ("fn.kpt.dev/v1alpha1", "SetAnnotations" | "SetAnnotationConfig") => Self::decode(&resource)?,
            _ => return Err("`functionConfig` must be a `ConfigMap` or `SetAnnotations`".to_owned()),
        };
        if config.annotations.is_empty() {
            return Err("input annotation list cannot be empty".to_owned());
        }
        Ok(config)
    }

    fn decode(resource: &Resource) -> Result<Self, String> {
        let undecodable = |cause: String| {
            let text = loggia_go::quote(&node_to_string(resource.node()));
            format!(
                "failed to unmarshal config {text}: error unmarshaling JSON: while decoding JSON: {cause}"
            )
        };
        let annotations = config::json_string_map(resource.node().get("annotations")).map_err(|mismatch| {
            let Mismatch { found, expected } = mismatch;
            undecodable(format!(
                "json: cannot unmarshal {found} into Go struct field plugin.annotations of type {expected}"
            ))
        })?;
        let mut config = Self { annotations, ..Self::default() };
        let specs =
            |key: &str| resource.node().get(key).filter(|specs| !specs.is_null()).map(loggia_yaml::from_node);
        config.field_specs =
            specs("fieldSpecs").transpose().map_err(|error| undecodable(error.to_string()))?;
        config.additional_annotation_fields = specs("additionalAnnotationFields")
            .transpose()
            .map_err(|error| undecodable(error.to_string()))?;
        if config.additional_annotation_fields.is_some() && config.field_specs.is_some() {
            return Err("`fieldSpecs` has been deprecated, please rename it to `additionalAnnotationFields`"
                .to_owned());
        }
        config.additional_annotation_fields =
            config.additional_annotation_fields.or(config.field_specs.take());
        Ok(config)
    }
}
