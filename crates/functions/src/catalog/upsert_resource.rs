//! `upsert-resource`: puts the resource it is configured with in the place of its equals, or at the end.

use std::collections::{BTreeMap, HashMap};

use loggia_krm::annotation::{INDEX, PATH};
use loggia_krm::{Resource, ResourceId, ResourceList};
use loggia_yaml::{Kind, Node, Pair, Tag};

use crate::kyaml::lookup;
use crate::limits;
use crate::{Failure, Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "upsert-resource",
    purpose: "Add a resource, or replace the one that has its name",
    role: Role::Generator,
    manual: include_str!("upsert_resource.md"),
    guarded: false,
    versions: &[
        Version {
            tags: &["latest", "unstable", "v0.2", "v0.2.0", "v0.2.1", "v0.2.2", "v0.2.3"],
            framework: Framework::KyamlTwice,
            run: Run::List(|list| run(list, Abilities::Lists)),
        },
        Version {
            tags: &["v0.1", "v0.1.0"],
            framework: Framework::KyamlTwice,
            run: Run::List(|list| run(list, Abilities::One)),
        },
    ],
};

/// What a version can take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Abilities {
    /// A `List` of resources, and a path to go to.
    Lists,
    /// One resource.
    One,
}

const TARGET_PATH: &str = "config.kubernetes.io/target-path";
/// They say that a resource configures a function in the way of older versions.
const FUNCTION_KEYS: [&str; 2] = ["config.kubernetes.io/function", "config.k8s.io/function"];

fn run(list: &mut ResourceList, abilities: Abilities) -> Result<(), Failure> {
    let config = list.function_config.clone().unwrap_or_default();
    upsert_all(&mut list.items, config, abilities)
        .map_err(|error| Failure::kyaml_twice(&format!("failed to upsert resource: {error}")))
}

fn upsert_all(items: &mut Vec<Resource>, config: Node, abilities: Abilities) -> Result<(), String> {
    let config = Resource::new(config);
    check(&config)?;
    let mut places = Places::default();
    if config.kind() != "List" || abilities == Abilities::One {
        return upsert(items, &mut places, &config, abilities);
    }
    let inputs = config.node().get("items").map(Node::items).unwrap_or_default();
    inputs.iter().try_for_each(|input| upsert(items, &mut places, &Resource::new(input.clone()), abilities))
}

/// Where the items are that may be replaced. Replacing one does not move it.
#[derive(Default)]
struct Places {
    by_id: HashMap<ResourceId, Vec<usize>>,
    /// How many items were looked at.
    known: usize,
    /// The first item that cannot be told.
    fault: Option<usize>,
}

impl Places {
    /// Looks at the items that are new.
    fn learn(&mut self, items: &[Resource]) {
        for (at, item) in items.iter().enumerate().skip(self.known) {
            self.known = at + 1;
            if check(item).is_err() {
                self.fault.get_or_insert(at);
            } else if !FUNCTION_KEYS
                .iter()
                .any(|key| item.annotation(key).is_some_and(|value| !value.is_empty()))
            {
                self.by_id.entry(item.id()).or_default().push(at);
            }
        }
    }
}

fn upsert(
    items: &mut Vec<Resource>,
    places: &mut Places,
    input: &Resource,
    abilities: Abilities,
) -> Result<(), String> {
    check(input)?;
    places.learn(items);
    let target = match abilities {
        Abilities::Lists => input.annotation(TARGET_PATH).unwrap_or_default(),
        Abilities::One => "",
    };
    let mut replaced = false;
    let alike = places.by_id.get(&input.id()).map_or(&[][..], Vec::as_slice);
    limits::work(alike.len().saturating_mul(16))?;
    for &at in alike.iter().take_while(|at| places.fault.is_none_or(|fault| **at < fault)) {
        let Some(item) = items.get_mut(at) else { break };
        if target.is_empty() || target == item.path() {
            limits::produce(
                64 + input.annotations().map(|(key, value)| key.len() + value.len()).sum::<usize>(),
            )?;
            let mut annotations = own_annotations(input, abilities);
            for (key, value) in [(PATH, item.path()), (INDEX, item.index())] {
                annotations.insert(key.to_owned(), value.to_owned());
            }
            annotations.retain(|key, value| !(value.is_empty() && [PATH, INDEX].contains(&key.as_str())));
            *item = with_annotations(input, annotations)?;
            replaced = true;
        }
    }
    if let Some(fault) = places.fault {
        return items.get(fault).map_or(Ok(()), check);
    }
    if !replaced {
        let mut annotations = own_annotations(input, abilities);
        annotations.remove(PATH);
        annotations.remove(INDEX);
        if !target.is_empty() {
            annotations.insert(PATH.to_owned(), target.to_owned());
        }
        items.push(with_annotations(input, annotations)?);
    }
    Ok(())
}

/// Fails if there is nothing to tell what a resource is.
fn check(resource: &Resource) -> Result<(), String> {
    let present = |node: &Node, key: &str| {
        node.get(key)
            .is_some_and(|value| value.tag() != Tag::Null && (value.is_scalar() || !value.is_empty()))
    };
    let node = resource.node();
    let metadata = node.get("metadata");
    let known = ["apiVersion", "kind"].iter().any(|key| present(node, key))
        || ["name", "namespace", "labels", "annotations"]
            .iter()
            .any(|key| metadata.is_some_and(|metadata| present(metadata, key)));
    if known { Ok(()) } else { Err("missing Resource metadata".to_owned()) }
}

/// The annotations that go with the resource wherever it goes.
fn own_annotations(input: &Resource, abilities: Abilities) -> BTreeMap<String, String> {
    let is_own =
        |key: &str| !(FUNCTION_KEYS.contains(&key) || key == TARGET_PATH && abilities == Abilities::Lists);
    let own = input.annotations().filter(|(key, _)| is_own(key));
    own.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// A copy with these annotations and no others, at the end of its metadata.
fn with_annotations(input: &Resource, annotations: BTreeMap<String, String>) -> Result<Resource, String> {
    let mut resource = input.clone();
    let Some(metadata) = lookup::make(resource.node_mut(), &["metadata"], Kind::Mapping)? else {
        return Ok(resource);
    };
    lookup::expect_kind(metadata, Kind::Mapping)?;
    metadata.remove("annotations");
    if !annotations.is_empty() {
        let pair = |(key, value)| Pair { key: Node::verbatim(key), value: Node::string_for_field(value) };
        metadata.push_pair(Pair {
            key: Node::verbatim("annotations"),
            value: annotations.into_iter().map(pair).collect(),
        });
    }
    Ok(resource)
}
