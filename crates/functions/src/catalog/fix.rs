//! `fix`: turns a package of kpt's first versions into one of today's.
//!
//! [`kptfile`] writes the Kptfile anew, [`comments`] the comments that name setters.

mod comments;
mod kptfile;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use loggia_krm::{FileRef, Resource, ResourceList, ResultItem, path};
use loggia_yaml::{Node, Pair, parse_first};

use self::comments::Definitions;
use self::kptfile::Step;
use crate::kyaml::fields::{file_of, raw_text};
use crate::kyaml::outcome::{Shape, conclude};
use crate::limits::{self, OverLimit};
use crate::{Failure, Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "fix",
    purpose: "Bring a package of an early kpt up to date",
    role: Role::Mutator,
    manual: include_str!("fix.md"),
    guarded: false,
    versions: &[Version {
        tags: &["latest", "unstable"],
        framework: Framework::OldKyamlTwice,
        run: Run::List(run),
    }],
};

const KPTFILE: &str = "Kptfile";
const SETTERS: &str = "setters.yaml";
/// They say that a resource configures a function, and which.
const FUNCTION_KEYS: [&str; 2] = ["config.kubernetes.io/function", "config.k8s.io/function"];
const INVENTORY: &str = "cli-utils.sigs.k8s.io/inventory-id";

/// What was done.
#[derive(Default)]
struct Report {
    results: Vec<ResultItem>,
    /// Configs for setters, which become resources of their own.
    setters: Vec<Resource>,
}

fn run(list: &mut ResourceList) -> Result<(), Failure> {
    let outcome = fix(&mut list.items);
    conclude(list, Shape::Named(FUNCTION.name), outcome, |error| format!("failed to fix package: {error}"))
}

fn fix(items: &mut Vec<Resource>) -> Result<Vec<ResultItem>, String> {
    let packages: BTreeSet<String> = items
        .iter()
        .map(file_of)
        .filter(|file| path::base_name(file) == KPTFILE)
        .map(|file| path::folder(file).to_owned())
        .collect();
    let definitions: BTreeMap<String, Definitions> = items
        .iter()
        .filter(|item| item.kind() == KPTFILE)
        .map(|item| (path::folder(file_of(item)).to_owned(), Definitions::of(item.node())))
        .collect();
    if definitions.is_empty() {
        let text =
            "Kptfile not found in directory tree, make sure you specify '--include-meta-resources' flag";
        return Err(text.to_owned());
    }
    let mut configured = configured(items, &packages)?;
    let mut report = Report::default();
    for at in 0..items.len() {
        let Some(item) = items.get(at) else { break };
        let file = file_of(item).to_owned();
        if item.kind() == KPTFILE {
            let own = configured.remove(path::folder(&file)).unwrap_or_default();
            let steps = functions_in(items, path::folder(&file), &own);
            if let Some(item) = items.get_mut(at) {
                kptfile::fix(item, steps, &mut report)?;
            }
        } else if item.label(INVENTORY).is_some_and(|id| !id.is_empty()) {
            report.note(
                &file,
                "Please refer to https://googlecontainertools.github.io/kpt/reference/live/alpha/, this package is using \
                 \"inventory-object\"",
            );
        } else if let Some(definitions) =
            package_of(&file, &packages)?.and_then(|package| definitions.get(package))
            && let Some(item) = items.get_mut(at)
        {
            let fixed = comments::fix(item.node_mut(), definitions);
            limits::blame(item);
            fixed?;
        }
    }
    items.extend(report.setters);
    Ok(report.results)
}

/// The resources that configure a function, by package.
fn configured(
    items: &[Resource],
    packages: &BTreeSet<String>,
) -> Result<HashMap<String, Vec<usize>>, OverLimit> {
    let mut configured: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, item) in items.iter().enumerate() {
        let file = file_of(item);
        let is_config = FUNCTION_KEYS.iter().any(|key| item.annotation(key).is_some());
        if is_config
            && path::base_name(file) != KPTFILE
            && let Some(package) = package_of(file, packages)?
        {
            configured.entry(package.to_owned()).or_default().push(at);
        }
    }
    Ok(configured)
}

/// The functions that a package's own resources configure. Such a resource goes to the top of its package.
fn functions_in(items: &mut [Resource], package: &str, own: &[usize]) -> Vec<Step> {
    let mut steps = Vec::new();
    for at in own {
        let Some(item) = items.get_mut(*at) else { continue };
        let Some(spec) = FUNCTION_KEYS.iter().find_map(|key| item.annotation(key)) else { continue };
        let Ok(Some(spec)) = parse_first(spec) else { continue };
        let image = spec.root.at(&["container", "image"]).map_or("", raw_text).to_owned();
        let config_path = format!("{}.yaml", item.name());
        // Metadata that can hold the annotation can hold a path as well.
        let _ = item.set_path(path::inside(package, &config_path));
        FUNCTION_KEYS.iter().for_each(|key| item.remove_annotation(key));
        steps.push(Step { image, config_path });
    }
    steps
}

impl Report {
    fn note(&mut self, file: &str, message: impl Into<String>) {
        self.results.push(ResultItem {
            message: message.into(),
            file: Some(FileRef { path: file.to_owned(), index: 0 }),
            ..ResultItem::default()
        });
    }

    /// Keeps setters as a config beside the Kptfile.
    fn add_setters(&mut self, package: &str, setters: &BTreeMap<String, String>) -> Result<(), String> {
        let mut data: Vec<(&str, Node)> = Vec::new();
        for (name, value) in setters {
            data.push((name, setter_value(value)?));
        }
        data.sort_by(|(a, _), (b, _)| {
            crate::catalog::format::order_of(a).cmp(&crate::catalog::format::order_of(b))
        });
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: setters\n";
        let mut node = parse_first(text).map_err(|error| error.to_string())?.unwrap_or_default().root;
        let data = data.into_iter().map(|(name, value)| Pair { key: Node::verbatim(name), value });
        let data: Vec<Pair> = data.collect();
        if !data.is_empty() {
            node.replace("data", Node::from_pairs(data));
        }
        let mut config = Resource::new(node);
        let placed = config.set_path(path::inside(package, SETTERS)).and_then(|()| config.set_index(0));
        placed.map_err(|error| error.to_string())?;
        self.setters.push(config);
        Ok(())
    }
}

/// A setter's value: a list in brackets becomes one of lines.
fn setter_value(value: &str) -> Result<Node, String> {
    let failed = |error: &dyn std::fmt::Display| {
        let (value, error) = (loggia_go::quote(value), loggia_go::quote(&error.to_string()));
        format!("failed to parse the array node value {value} with error {error}")
    };
    if !value.starts_with('[') {
        return Ok(Node::string_for_field(value));
    }
    let list = parse_first(value).map_err(|error| failed(&error))?.unwrap_or_default().root;
    if !list.is_sequence() {
        return Ok(Node::string_for_field(value));
    }
    let mut list = list;
    list.set_flow(false);
    Ok(Node::string_with_style(loggia_yaml::node_to_string(&list), loggia_yaml::ScalarStyle::Literal))
}

/// The innermost package that a file is in.
fn package_of<'a>(file: &str, packages: &'a BTreeSet<String>) -> Result<Option<&'a str>, OverLimit> {
    let mut folder = path::folder(file);
    loop {
        limits::work(1 + folder.len() / 16)?;
        match packages.get(folder) {
            Some(package) => return Ok(Some(package)),
            None if folder.is_empty() => return Ok(None),
            None => folder = path::folder(folder),
        }
    }
}

#[cfg(test)]
mod tests;
