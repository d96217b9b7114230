//! Entries of mappings by kustomize's field specs: what set-annotations does, and set-labels did.

use std::collections::{BTreeMap, HashSet};

use loggia_krm::Resource;
use loggia_yaml::{Node, Pair};

use crate::kustomize::field_spec::{self, FieldSpec, Leaf};
use crate::kyaml::data;
use crate::limits;
use crate::sdk::config::{self, Mismatch};

/// How a function's config is called, and what it says of a bad one.
pub(crate) struct Dialect {
    /// The config's own kinds, the older one last.
    pub(crate) kinds: [&'static str; 2],
    /// The field with the entries.
    pub(crate) entries: &'static str,
    /// The field with further places.
    pub(crate) fields: &'static str,
    pub(crate) refusal: &'static str,
    pub(crate) empty: &'static str,
}

/// What to set, and where beside the usual places.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) entries: BTreeMap<String, String>,
    pub(crate) fields: Vec<FieldSpec>,
}

impl Config {
    /// Reads the config; the error is the original's message.
    pub(crate) fn read(config: Option<&Node>, dialect: &Dialect) -> Result<Self, String> {
        let resource = config.cloned().map(Resource::new).unwrap_or_default();
        let config = match (resource.api_version(), resource.kind()) {
            ("v1", "ConfigMap") => Self { entries: data::map(Some(resource.node())), fields: Vec::new() },
            ("fn.kpt.dev/v1alpha1", kind) if dialect.kinds.contains(&kind) => {
                Self::decode(&resource, dialect)?
            }
            _ => return Err(dialect.refusal.to_owned()),
        };
        if config.entries.is_empty() { Err(dialect.empty.to_owned()) } else { Ok(config) }
    }

    fn decode(resource: &Resource, dialect: &Dialect) -> Result<Self, String> {
        let Dialect { entries, fields, .. } = *dialect;
        let decoded = config::loose_string_map(resource.node().get(entries)).map_err(|mismatch| {
            let Mismatch { found, expected } = mismatch;
            field_spec::undecodable(
                resource,
                &format!(
                    "json: cannot unmarshal {found} into Go struct field plugin.{entries} of type {expected}"
                ),
            )
        })?;
        Ok(Self { entries: decoded, fields: FieldSpec::of_config(resource, fields, fields)? })
    }
}

/// Sets entries of a resource, and tells where: key, value and the names on the way.
pub(crate) fn set(
    item: &mut Resource,
    entries: &BTreeMap<String, String>,
    specs: &[&FieldSpec],
    note: &mut dyn FnMut(&str, &str, &[&str]),
) -> Result<(), String> {
    limits::work(specs.len())?;
    if !specs.iter().any(|spec| spec.selects(item)) {
        return Ok(());
    }
    // The original makes one node of a value and puts it everywhere, so quotes found once go on.
    let mut nodes: Vec<(&String, &String, Node)> =
        entries.iter().map(|(key, value)| (key, value, Node::string_for_field(value.clone()))).collect();
    for spec in specs {
        spec.apply(item, Leaf::Mapping, &mut |node, names| set_entries(node, &mut nodes, names, note))?;
    }
    Ok(())
}

/// Sets entries of a mapping as kyaml's field setter does.
fn set_entries(
    node: &mut Node,
    entries: &mut [(&String, &String, Node)],
    names: &[&str],
    note: &mut dyn FnMut(&str, &str, &[&str]),
) -> Result<(), String> {
    /// More entries than this are looked up by a table.
    const MANY: usize = 16;
    let size = |(key, value, _): &(&String, &String, Node)| key.len() + value.len();
    limits::produce(entries.iter().map(size).sum())?;
    let known: Option<HashSet<String>> = (entries.len() > MANY)
        .then(|| node.pairs().iter().filter_map(|pair| pair.key.scalar().map(str::to_owned)).collect());
    for (key, value, entry) in entries {
        note(key, value, names);
        if !node.is_mapping() {
            let kind = if node.is_sequence() { "SequenceNode" } else { "ScalarNode" };
            let (place, contents) = (names.join("."), limits::written(node)?);
            let contents = contents.trim_end();
            return Err(format!(
                "wrong Node Kind for {place} expected: MappingNode was {kind}: value: {{{contents}}}"
            ));
        }
        if known.as_ref().is_some_and(|known| !known.contains(key.as_str())) {
            node.push_pair(Pair { key: Node::verbatim(key.as_str()), value: entry.clone() });
            continue;
        }
        limits::work(1 + node.len() / 8)?;
        if let Some(old) = node.get(key) {
            entry.set_style_of(old);
        }
        node.set(key, entry.clone());
    }
    Ok(())
}
