//! kustomize's field specs: which resources, which path, and whether to make what is missing.

use std::cell::Cell;

use loggia_krm::Resource;
use loggia_yaml::{Kind, Node, Tag, from_node, node_to_string};
use serde::Deserialize;

use crate::kustomize::resource_map::Id;
use crate::limits;

/// Paths and lists within lists go no deeper: the walk is recursive and the stack is finite.
const MAX_DEPTH: usize = 500;

/// Where to set something. Empty selectors match all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct FieldSpec {
    pub group: String,
    pub version: String,
    pub kind: String,
    /// Names between slashes; `\/` is a slash in a name, `[]` behind a name marks a sequence.
    pub path: String,
    /// Make what is missing on the way.
    pub create: bool,
}

/// What stands at the end of a path if it has to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaf {
    Mapping,
    Scalar,
    /// Nothing is ever made.
    Never,
}

/// Changes the node at the end of a path; it is also told the names on the way there.
pub(crate) type Set<'a> = dyn FnMut(&mut Node, &[&str]) -> Result<(), String> + 'a;

impl FieldSpec {
    /// A spec of a table.
    pub(crate) fn new((group, version, kind): (&str, &str, &str), path: &str, create: bool) -> Self {
        let own = str::to_owned;
        Self { group: own(group), version: own(version), kind: own(kind), path: own(path), create }
    }

    /// The specs of a function's config, at their field or at the one that was called `fieldSpecs`.
    ///
    /// # Errors
    /// With the original's message if they cannot be read, or if both are there; `renamed` is what it calls the new.
    pub(crate) fn of_config(config: &Resource, field: &str, renamed: &str) -> Result<Vec<Self>, String> {
        let specs = |key: &str| -> Result<Option<Vec<Self>>, String> {
            let node = config.node().get(key).filter(|specs| !specs.is_null());
            node.map(from_node).transpose().map_err(|error| undecodable(config, &error.to_string()))
        };
        match (specs("fieldSpecs")?, specs(field)?) {
            (Some(_), Some(_)) => {
                Err(format!("`fieldSpecs` has been deprecated, please rename it to `{renamed}`"))
            }
            (old, new) => Ok(new.or(old).unwrap_or_default()),
        }
    }

    /// Whether group, version and kind are those of the resource.
    pub(crate) fn selects(&self, resource: &Resource) -> bool {
        let (group, version) = split_api_version(resource.api_version());
        let matches = |selector: &str, own: &str| selector.is_empty() || selector == own;
        matches(&self.kind, resource.kind()) && matches(&self.group, group) && matches(&self.version, version)
    }

    /// Calls `set` on every node at the path.
    ///
    /// # Errors
    /// With kustomize's text if something on the way is neither mapping nor sequence, or `set` fails.
    pub(crate) fn apply(&self, resource: &mut Resource, leaf: Leaf, set: &mut Set<'_>) -> Result<(), String> {
        if !self.selects(resource) {
            return Ok(());
        }
        let path = split_path(&self.path);
        limits::work(1 + self.path.len() / 16)?;
        if path.len() > MAX_DEPTH {
            return Err(format!("a field path has {} parts; at most {MAX_DEPTH} are followed", path.len()));
        }
        let walk =
            Walk { path: &path, create: self.create && leaf != Leaf::Never, leaf, level: Cell::new(0) };
        walk.visit(resource.node_mut(), 0, set).map_err(|cause| {
            let id = Id::of(resource);
            format!("considering field '{}' of object {id}: {cause}", self.path)
        })
    }
}

/// A config that cannot be read, in the words of the functions on kustomize.
pub(crate) fn undecodable(config: &Resource, cause: &str) -> String {
    let text = loggia_go::quote(&node_to_string(config.node()));
    format!("failed to unmarshal config {text}: error unmarshaling JSON: while decoding JSON: {cause}")
}

/// `apps/v1` as `apps` and `v1`; the core group is empty.
pub(crate) fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// The names of a path.
fn split_path(path: &str) -> Vec<String> {
    let mut parts = path.split('/');
    let mut names: Vec<String> = parts.next().map(str::to_owned).into_iter().collect();
    let mut leading = names.first().is_some_and(String::is_empty);
    for part in parts {
        match names.last_mut() {
            Some(last) if leading => part.clone_into(last),
            Some(last) if last.ends_with('\\') => {
                last.pop();
                last.push('/');
                last.push_str(part);
            }
            _ => names.push(part.to_owned()),
        }
        leading = false;
    }
    names
}

/// A walk down a path.
struct Walk<'a> {
    path: &'a [String],
    create: bool,
    leaf: Leaf,
    /// How many lists the walk is in.
    level: Cell<usize>,
}

impl Walk<'_> {
    fn visit(&self, node: &mut Node, depth: usize, set: &mut Set<'_>) -> Result<(), String> {
        let Some(name) = self.path.get(depth) else {
            let names: Vec<&str> = self.path.iter().map(|name| name.trim_end_matches("[]")).collect();
            return set(node, &names);
        };
        if node.tag() == Tag::Null {
            return Ok(());
        }
        match node.kind() {
            Kind::Sequence => self.visit_items(node, depth, set),
            Kind::Mapping => self.visit_field(node, name, depth, set),
            Kind::Scalar | Kind::Alias => Err("expected sequence or mapping node".to_owned()),
        }
    }

    fn visit_items(&self, node: &mut Node, depth: usize, set: &mut Set<'_>) -> Result<(), String> {
        let level = self.level.get() + 1;
        if level > MAX_DEPTH {
            return Err(format!("lists are nested more than {MAX_DEPTH} deep"));
        }
        self.level.set(level);
        let items = node.items_mut().into_iter().flatten();
        for item in items {
            self.visit(item, depth, set).map_err(|cause| {
                let rest = self.path.get(depth..).unwrap_or_default().join(" ");
                if limits::produce(rest.len() + cause.len() / 8).is_err() {
                    return String::new();
                }
                format!("visit traversal on path: [{rest}]: {cause}")
            })?;
        }
        self.level.set(level - 1);
        Ok(())
    }

    fn visit_field(
        &self,
        node: &mut Node,
        name: &str,
        depth: usize,
        set: &mut Set<'_>,
    ) -> Result<(), String> {
        let (field, is_sequence) = match name.strip_suffix("[]") {
            Some(field) => (field, true),
            None => (name, false),
        };
        if field.is_empty() {
            return Err("cannot set or create an empty field name".to_owned());
        }
        let last = depth + 1 == self.path.len();
        if self.create && !is_sequence {
            self.make(node, field, last);
        }
        match node.get_mut(field) {
            Some(value) => self.visit(value, depth + 1, set),
            None => Ok(()),
        }
    }

    /// Makes a field that is missing or null.
    fn make(&self, node: &mut Node, field: &str, last: bool) {
        if node.get(field).is_some_and(|value| value.tag() != Tag::Null) {
            return;
        }
        if last && self.leaf == Leaf::Scalar {
            node.set(field, Node::string_as_read(""));
        } else {
            node.entry_mapping(field);
        }
    }
}
