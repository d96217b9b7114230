//! `format`: fields in their customary order, and quotes where a reader of YAML 1.1 would take a string for
//! something else.

mod order;

pub(crate) use self::order::of as order_of;

use std::collections::HashMap;
use std::rc::Rc;

use loggia_krm::{Resource, ResourceList};
use loggia_yaml::{Kind, Node, Resolved, ScalarStyle, Tag, reads_as_non_string, resolve};
use serde_json::Value;

use crate::kyaml::fields::{MAX_DEPTH, raw_text};
use crate::schemas::Catalog;
use crate::{Failure, Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "format",
    purpose: "Order fields and quote ambiguous strings",
    role: Role::Mutator,
    manual: include_str!("format.md"),
    guarded: false,
    versions: &[Version { tags: &["latest", "unstable"], framework: Framework::Kyaml, run: Run::List(run) }],
};

/// Says how a resource wants to be formatted: `standard`, or `none` for not at all.
const FORMATTING: [&str; 3] = ["metadata", "annotations", "config.kubernetes.io/formatting"];

/// Formats resources of one kind.
struct Formatter<'a> {
    catalog: &'a Catalog,
    /// Whether lists whose order means nothing are sorted.
    sorts_lists: bool,
}

/// The keys that lead to a value; items of a list are where the list is.
#[derive(Clone, Copy, Default)]
struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    key: &'a str,
    depth: usize,
}

fn run(list: &mut ResourceList) -> Result<(), Failure> {
    let failed = |cause: String| Failure::kyaml(format!("failed to format resources: {cause}"));
    let catalog = Catalog::new(None).map_err(failed)?;
    let mut schemas = HashMap::new();
    for item in &mut list.items {
        if !wants_formatting(item).map_err(failed)? {
            continue;
        }
        let node = item.node();
        let (Some(api_version), Some(kind)) = (node.get("apiVersion"), node.get("kind")) else { continue };
        let (api_version, kind) = (raw_text(api_version).to_owned(), raw_text(kind).to_owned());
        let formatter =
            Formatter { catalog: &catalog, sorts_lists: order::is_list_sorted(&api_version, &kind) };
        let schema: &Option<Rc<Value>> = schemas
            .entry((api_version, kind))
            .or_insert_with_key(|(api_version, kind)| catalog.exactly(api_version, kind));
        formatter.format(item.node_mut(), schema.as_deref(), Path::default());
    }
    Ok(())
}

fn wants_formatting(item: &Resource) -> Result<bool, String> {
    match item.node().at(&FORMATTING).map(raw_text) {
        None | Some("standard") => Ok(true),
        Some("none") => Ok(false),
        Some(other) => Err(format!("formatting annotation has illegal value {other}")),
    }
}

// === impl Formatter ===

impl Formatter<'_> {
    fn format(&self, node: &mut Node, schema: Option<&Value>, path: Path<'_>) {
        if path.depth > MAX_DEPTH {
            return;
        }
        if let Some(name) = schema.and_then(|schema| schema["$ref"].as_str()) {
            let definition = self.catalog.definition(name.rsplit('/').next().unwrap_or_default());
            return self.format(node, definition.as_deref(), path);
        }
        match node.kind() {
            Kind::Scalar => schema.into_iter().for_each(|schema| fit_quotes(node, schema)),
            Kind::Mapping => self.format_mapping(node, schema, path),
            Kind::Sequence => self.format_sequence(node, schema, path),
            Kind::Alias => {}
        }
    }

    fn format_mapping(&self, node: &mut Node, schema: Option<&Value>, path: Path<'_>) {
        let Some(pairs) = node.pairs_mut() else { return };
        pairs.sort_by(|a, b| order::of(raw_text(&a.key)).cmp(&order::of(raw_text(&b.key))));
        for pair in pairs {
            let key = raw_text(&pair.key);
            let schema = schema.and_then(|schema| field(schema, key));
            let path = Path { parent: Some(&path), key, depth: path.depth + 1 };
            self.format(&mut pair.value, schema, path);
        }
    }

    fn format_sequence(&self, node: &mut Node, schema: Option<&Value>, path: Path<'_>) {
        let Some(items) = node.items_mut() else { return };
        if self.sorts_lists {
            order::sort_list(items, path);
        }
        let schema = schema.filter(|schema| schema["type"] == "array").and_then(|schema| schema.get("items"));
        let path = Path { depth: path.depth + 1, ..path };
        items.iter_mut().for_each(|item| self.format(item, schema, path));
    }
}

// === impl Path ===

impl Path<'_> {
    /// Whether these are all the keys, from the top.
    fn is(&self, keys: &[&str]) -> bool {
        match keys.split_last() {
            Some((last, rest)) => *last == self.key && self.parent.is_some_and(|parent| parent.is(rest)),
            None => self.parent.is_none(),
        }
    }
}

/// The schema of a field; in a map all fields have the same.
fn field<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let known = schema.get("properties").and_then(|properties| properties.get(key));
    known.or_else(|| schema.get("additionalProperties").filter(|schema| schema.is_object()))
}

/// Quotes what the schema says is a string and YAML 1.1 says is not, and takes quotes off the other way round.
fn fit_quotes(scalar: &mut Node, schema: &Value) {
    let text = raw_text(scalar);
    // The original's reader makes no dates of what looks like one.
    let is_ambiguous = reads_as_non_string(text) && resolve(text) != Resolved::Timestamp;
    let Some(kind) = schema["type"].as_str().filter(|_| is_ambiguous) else { return };
    let is_quoted = matches!(scalar.scalar_style(), ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted);
    let tag = match kind {
        "string" if schema["format"] == "int-or-string" => return,
        "string" => Tag::Str,
        "boolean" => Tag::Bool,
        "integer" => Tag::Int,
        "number" => Tag::Float,
        _ => return,
    };
    if scalar.tag() == Tag::Null {
        return scalar.set_scalar_style(ScalarStyle::Plain);
    }
    match (tag, is_quoted) {
        (Tag::Str, false) => scalar.set_scalar_style(ScalarStyle::DoubleQuoted),
        (Tag::Str, true) | (_, false) => {}
        (_, true) => scalar.set_scalar_style(ScalarStyle::Plain),
    }
    scalar.set_tag(tag);
}
