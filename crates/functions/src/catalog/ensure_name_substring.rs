//! `ensure-name-substring`: a prefix or suffix for all names, and for what refers to them.

mod config;
mod references;

use std::collections::HashSet;

use loggia_krm::{Resource, ResourceList};
use loggia_yaml::Node;

use self::config::{Config, Mode};
use crate::failure::Failure;
use crate::kustomize::field_spec::{FieldSpec, Leaf};
use crate::kustomize::resource_map::{self, Id};
use crate::limits::{self, OverLimit};
use crate::sdk::depends_on::{DEPENDS_ON, Reference};
use crate::sdk::object;
use crate::{Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "ensure-name-substring",
    purpose: "Make sure that names have a prefix or suffix",
    role: Role::Mutator,
    manual: include_str!("ensure_name_substring.md"),
    guarded: false,
    versions: &[
        Version {
            tags: &["latest"],
            framework: Framework::Kyaml,
            run: Run::List(|list| run(list, Rules::Newest)),
        },
        Version {
            tags: &["unstable", "v0.2.0", "v0.2.1"],
            framework: Framework::Kyaml,
            run: Run::List(|list| run(list, Rules::Forgetful)),
        },
        Version {
            tags: &["v0.1.1", "v0.1.0", "v0.1"],
            framework: Framework::OldKyaml,
            run: Run::List(|list| run(list, Rules::First)),
        },
    ],
};

/// Versions that differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    Newest,
    /// Up to 2025: where resources are is lost.
    Forgetful,
    /// 0.1: besides, `depends-on` annotations stay, and the Kptfile is a resource like any other.
    First,
}

const NAME: &str = "metadata/name";

fn run(list: &mut ResourceList, rules: Rules) -> Result<(), Failure> {
    let config = Config::read(list.function_config.as_ref())
        .map_err(|cause| Failure::kyaml(format!("failed to load the `functionConfig`: {cause}")))?;
    resource_map::check(list)
        .map_err(|cause| Failure::kyaml(format!("failed to convert items to resource map: {cause}")))?;
    let before: Vec<Id> = list.items.iter().map(Id::of).collect();
    rename(&mut list.items, &before, &config, rules)
        .map_err(|cause| Failure::kyaml(format!("failed to transform name substring: {cause}")))?;
    references::fix(&mut list.items, &before)
        .map_err(|cause| Failure::kyaml(format!("failed to fix name back reference: {cause}")))?;
    if rules != Rules::Newest {
        list.items.iter_mut().for_each(forget_place);
    }
    Ok(())
}

/// kustomize takes the notes on where a resource is for its own and removes them, so the host finds new places
/// for all resources, files included that nothing was done to.
fn forget_place(item: &mut Resource) {
    use loggia_krm::annotation::{INDEX, LEGACY_INDEX, LEGACY_PATH, PATH, SEQUENCE_INDENT};
    for key in [PATH, LEGACY_PATH, INDEX, LEGACY_INDEX, SEQUENCE_INDENT] {
        item.remove_annotation(key);
    }
}

fn rename(items: &mut [Resource], before: &[Id], config: &Config, rules: Rules) -> Result<(), String> {
    let known: HashSet<(&str, &str, &str)> =
        before.iter().map(|id| (id.group.as_str(), id.kind.as_str(), id.name.as_str())).collect();
    let name = FieldSpec::new(("", "", ""), NAME, false);
    for item in items.iter_mut().filter(|item| !is_skipped(item, rules)) {
        limits::work(1 + config.fields.len())?;
        if limits::blame(item) {
            break;
        }
        for spec in std::iter::once(&name).chain(&config.fields) {
            if !spec.selects(item) || contains(item, spec, &config.substring)? {
                continue;
            }
            spec.apply(item, Leaf::Scalar, &mut |node, _| edit(node, config))?;
            let depends_on = item
                .annotation(DEPENDS_ON)
                .filter(|_| rules != Rules::First)
                .and_then(Reference::parse)
                .filter(|reference| known.contains(&(reference.group, reference.kind, reference.name)));
            if let Some(reference) = depends_on {
                limits::produce(config.substring.len())?;
                let name = config.edited(reference.name);
                let new = Reference { name: &name, ..reference }.to_string();
                let _ = object::set_string(item.node_mut(), &["metadata", "annotations", DEPENDS_ON], &new);
            }
        }
    }
    Ok(())
}

fn is_skipped(item: &Resource, rules: Rules) -> bool {
    match item.kind() {
        "CustomResourceDefinition" | "Namespace" => true,
        "APIService" => item.group() == "apiregistration.k8s.io",
        "Kptfile" => rules != Rules::First && item.group() == "kpt.dev",
        _ => false,
    }
}

fn contains(item: &Resource, spec: &FieldSpec, substring: &str) -> Result<bool, OverLimit> {
    if spec.path == NAME {
        return Ok(item.name().contains(substring));
    }
    let path: Vec<&str> = spec.path.split('/').collect();
    let text = item.node().at(&path).map(limits::written).transpose()?;
    limits::work(text.as_ref().map_or(0, String::len))?;
    Ok(text.is_some_and(|text| text.contains(substring)))
}

fn edit(node: &mut Node, config: &Config) -> Result<(), String> {
    let Some(text) = node.scalar() else {
        return Err("wrong node kind: expected ScalarNode".to_owned());
    };
    limits::produce(config.substring.len())?;
    let mut new = Node::verbatim(config.edited(text));
    new.set_style_of(node);
    new.fill_comments_from(node);
    *node = new;
    Ok(())
}

impl Config {
    fn edited(&self, name: &str) -> String {
        match self.mode {
            Mode::Prepend => format!("{}{name}", self.substring),
            Mode::Append => format!("{name}{}", self.substring),
        }
    }
}
