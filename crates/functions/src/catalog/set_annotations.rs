//! `set-annotations`: annotations on all resources and on the templates in them.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use loggia_krm::{FieldRef, FileRef, ResourceList, ResultItem, Results};

use crate::failure::Failure;
use crate::kustomize::entries::{self, Config, Dialect};
use crate::kustomize::field_spec::FieldSpec;
use crate::kustomize::resource_map;
use crate::kyaml::outcome::conclude_quietly;
use crate::limits;
use crate::sdk::report;
use crate::{Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "set-annotations",
    purpose: "Set annotations on all resources and their templates",
    role: Role::Mutator,
    manual: include_str!("set_annotations.md"),
    guarded: false,
    versions: &[
        Version { tags: &["latest", "unstable", "v0.1.5"], framework: Framework::Kyaml, run: Run::List(run) },
        Version {
            tags: &["v0.1.0", "v0.1.1", "v0.1.2", "v0.1.3", "v0.1.4"],
            framework: Framework::Kyaml,
            run: Run::List(run_without_results),
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

const DIALECT: Dialect = Dialect {
    kinds: ["SetAnnotations", "SetAnnotationConfig"],
    entries: "annotations",
    fields: "additionalAnnotationFields",
    refusal: "`functionConfig` must be a `ConfigMap` or `SetAnnotations`",
    empty: "input annotation list cannot be empty",
};

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
    let outcome = set(list).map(drop);
    conclude_quietly(list, FUNCTION.name, outcome)
}

fn set(list: &mut ResourceList) -> Result<Places, String> {
    let config = Config::read(list.function_config.as_ref(), &DIALECT)
        .map_err(|cause| format!("failed to configure function: {cause}"))?;
    resource_map::check(list).map_err(|cause| format!("failed to run function: {cause}"))?;
    let mut places = Places::new();
    let specs: Vec<&FieldSpec> = config.fields.iter().chain(DEFAULTS.iter()).collect();
    for item in &mut list.items {
        let (file, index) = (item.path().to_owned(), item.index().to_owned());
        let set = entries::set(item, &config.entries, &specs, &mut |key, value, names| {
            let length =
                file.len() + key.len() + value.len() + names.iter().map(|name| name.len()).sum::<usize>();
            // A place with many entries repeats its names for each of them.
            if limits::work(1 + length / 16).is_err() || limits::produce(key.len() + value.len()).is_err() {
                return;
            }
            let place = (file.clone(), index.clone(), names.join("."));
            places.entry(place).or_default().insert(key.to_owned(), value.to_owned());
        })
        .map_err(|cause| format!("failed to run function: failed to run transformer: {cause}"));
        if limits::blame(item) {
            break;
        }
        set?;
    }
    Ok(places)
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
