//! Between YAML and the values of a program.
//!
//! [`Reader`] remembers the node of every dict and list it makes. [`Writer`] starts from that node, so that
//! whatever a program left alone comes back as it was written, wherever the program has put it.

use std::collections::HashMap;

use loggia_yaml::{Kind, Node, Pair, Resolved, Tag, natural_order};
use starlark::values::dict::{AllocDict, DictRef};
use starlark::values::float::UnpackFloat;
use starlark::values::list::{AllocList, ListRef};
use starlark::values::tuple::TupleRef;
use starlark::values::{Heap, UnpackValue, Value, ValueIdentity};

use crate::limits;

/// Nesting; the stack has an end, and values may hold themselves.
const MAX_DEPTH: usize = 1_000;
/// Nodes of one run, in or out. Aliases and shared values multiply.
const MAX_NODES: usize = 20_000_000;

/// Makes values of nodes.
pub(super) struct Reader<'v> {
    heap: Heap<'v>,
    origins: HashMap<ValueIdentity<'v>, Node>,
    count: usize,
    /// How many aliases lead to the node at hand. What is behind one is made anew each time, and counted.
    aliases: usize,
}

/// Makes nodes of values.
pub(super) struct Writer<'v> {
    origins: HashMap<ValueIdentity<'v>, Node>,
    count: usize,
    /// Whether what is made goes into the list.
    is_output: bool,
}

// === impl Reader ===

impl<'v> Reader<'v> {
    pub(super) fn new(heap: Heap<'v>) -> Self {
        Self { heap, origins: HashMap::new(), count: 0, aliases: 0 }
    }

    pub(super) fn resource_list(
        &mut self,
        items: &[Node],
        config: Option<&Node>,
    ) -> Result<Value<'v>, String> {
        let items = items.iter().map(|item| self.value(item, 0)).collect::<Result<Vec<_>, _>>()?;
        let heap = self.heap;
        let mut fields = vec![
            ("apiVersion", heap.alloc("config.kubernetes.io/v1")),
            ("kind", heap.alloc("ResourceList")),
            ("items", heap.alloc(AllocList(items))),
        ];
        if let Some(config) = config {
            // What a program takes from its config is new among the items.
            let known = std::mem::take(&mut self.origins);
            fields.push(("functionConfig", self.value(config, 0)?));
            self.origins = known;
        }
        Ok(heap.alloc(AllocDict(fields)))
    }

    /// The document that `ctx.open_api` holds.
    pub(super) fn open_api(&self) -> Result<Value<'v>, String> {
        let document = crate::schemas::document();
        let document: serde_json::Value =
            serde_json::from_str(&document).map_err(|error| error.to_string())?;
        Ok(self.heap.alloc(document))
    }

    pub(super) fn value(&mut self, node: &Node, depth: usize) -> Result<Value<'v>, String> {
        check(depth, &mut self.count)?;
        if self.aliases > 0 {
            limits::produce(16 + node.scalar().map_or(0, str::len))?;
        }
        match node.kind() {
            Kind::Alias => match node.alias_target() {
                Some(target) => {
                    self.aliases += 1;
                    let value = self.value(target, depth + 1);
                    self.aliases -= 1;
                    value
                }
                None => {
                    Err(format!("anchor '{}' value contains itself", node.alias_name().unwrap_or_default()))
                }
            },
            Kind::Scalar => Ok(self.scalar(node)),
            Kind::Sequence => {
                let items = node.items().iter().map(|item| self.value(item, depth + 1));
                let items = items.collect::<Result<Vec<_>, _>>()?;
                Ok(self.remember(self.heap.alloc(AllocList(items)), node))
            }
            Kind::Mapping => {
                let mut fields: Vec<(Value<'v>, Value<'v>)> = Vec::with_capacity(node.len());
                let mut merged = Vec::new();
                for pair in node.pairs() {
                    if pair.key.tag() == Tag::Merge {
                        self.aliases += 1;
                        self.merged(&pair.value, &mut merged, depth + 1)?;
                        self.aliases -= 1;
                    } else {
                        fields.push((self.value(&pair.key, depth + 1)?, self.value(&pair.value, depth + 1)?));
                    }
                }
                if !merged.is_empty() {
                    // What `<<` brings in comes first, the last of it before all, so that the mapping's own keys win.
                    fields = merged.into_iter().rev().flatten().chain(fields).collect();
                }
                Ok(self.remember(self.heap.alloc(AllocDict(fields)), node))
            }
        }
    }

    /// The entries of the mappings that `<<` brings in.
    fn merged(
        &mut self,
        source: &Node,
        merged: &mut Vec<Vec<(Value<'v>, Value<'v>)>>,
        depth: usize,
    ) -> Result<(), String> {
        check(depth, &mut self.count)?;
        let source = source.alias_target().unwrap_or(source);
        for part in source.items() {
            self.merged(part, merged, depth + 1)?;
        }
        if source.is_mapping() {
            let value = self.value(source, depth)?;
            merged.extend(DictRef::from_value(value).map(|dict| dict.iter().collect()));
        }
        Ok(())
    }

    fn remember(&mut self, value: Value<'v>, node: &Node) -> Value<'v> {
        self.origins.insert(value.identity(), node.clone());
        value
    }

    fn scalar(&self, node: &Node) -> Value<'v> {
        match node.resolved() {
            Some(Resolved::Null) => Value::new_none(),
            Some(Resolved::Bool(value)) => Value::new_bool(value),
            Some(Resolved::Int(value)) => self.heap.alloc(value),
            Some(Resolved::Uint(value)) => self.heap.alloc(value),
            Some(Resolved::Float(value)) => self.heap.alloc(value),
            _ => self.heap.alloc(node.scalar().unwrap_or_default()),
        }
    }
}

// === impl Writer ===

impl<'v> Writer<'v> {
    pub(super) fn new(reader: Reader<'v>) -> Self {
        Self { origins: reader.origins, count: 0, is_output: true }
    }

    /// For values that come from nowhere but the program.
    pub(super) fn fresh() -> Self {
        Self { origins: HashMap::new(), count: 0, is_output: false }
    }

    /// The items a program leaves in its list.
    pub(super) fn items(&mut self, list: Value<'v>, input: &[Node]) -> Result<Vec<Node>, String> {
        let items = DictRef::from_value(list).and_then(|list| list.get_str("items"));
        let Some(items) = items.filter(|items| !items.is_none()) else {
            return Err("wrong Node Kind for  expected: SequenceNode was MappingNode: value: {}".to_owned());
        };
        let Some(values) = elements(items) else {
            let node = self.node(items, None, 0)?;
            let (kind, text) = (kind_name(&node), limits::written(&node)?);
            return Err(format!(
                "wrong Node Kind for  expected: SequenceNode was {kind}: value: {{{}}}",
                text.trim_end()
            ));
        };
        let known: HashMap<String, &Node> =
            input.iter().filter_map(|node| Some((identifier(node)?, node))).collect();
        values.into_iter().map(|value| self.item(value, &known)).collect()
    }

    /// An item is the resource it was made of, or the one whose mark it carries.
    fn item(&mut self, value: Value<'v>, known: &HashMap<String, &Node>) -> Result<Node, String> {
        let has_history = self.origins.contains_key(&value.identity());
        let origin =
            if has_history { None } else { identifier_of(value).and_then(|id| known.get(id)).copied() };
        let node = self.node(value, origin, 0)?;
        if !node.is_mapping() {
            let kind = if node.is_sequence() { 2 } else { 8 };
            return Err(format!("failed to extract objects: unhandled node kind {kind}"));
        }
        Ok(node)
    }

    /// The node of a value; `origin` is what stood in its place if the value itself has no history.
    pub(super) fn node(
        &mut self,
        value: Value<'v>,
        origin: Option<&Node>,
        depth: usize,
    ) -> Result<Node, String> {
        check(depth, &mut self.count)?;
        let size = 2 + value.unpack_str().map_or(0, str::len);
        if self.is_output {
            limits::produce(size)?;
        } else {
            limits::work(1 + size / 8)?;
        }
        if let Some(scalar) = scalar(value)? {
            return Ok(origin.map_or_else(|| scalar.clone(), |origin| keep_scalar(&scalar, origin)));
        }
        let own = self.origins.get(&value.identity()).cloned();
        let alias = origin.filter(|origin| origin.kind() == Kind::Alias).cloned();
        let origin = own.or_else(|| origin.map(|origin| origin.alias_target().unwrap_or(origin).clone()));
        let node = if let Some(values) = elements(value) {
            self.sequence(values, origin.filter(Node::is_sequence), depth)?
        } else if let Some(dict) = DictRef::from_value(value) {
            let pairs: Vec<_> = dict.iter().collect();
            self.mapping(&pairs, origin.filter(Node::is_mapping), depth)?
        } else {
            return Err(unsupported(value));
        };
        match alias {
            Some(alias) if alias.alias_target().is_some_and(|target| target.same_value(&node)) => Ok(alias),
            _ => Ok(node),
        }
    }

    fn sequence(
        &mut self,
        values: Vec<Value<'v>>,
        origin: Option<Node>,
        depth: usize,
    ) -> Result<Node, String> {
        let old = origin.as_ref().map_or(&[][..], Node::items);
        let mut items = Vec::with_capacity(values.len());
        for (at, value) in values.into_iter().enumerate() {
            items.push(self.node(value, old.get(at).filter(|old| self.fits(value, old)), depth + 1)?);
        }
        Ok(match origin {
            Some(mut node) => {
                if let Some(slot) = node.items_mut() {
                    *slot = items;
                }
                node
            }
            None => Node::from_items(items),
        })
    }

    /// Whether an old item may lend its comments: a mapping of the same name, a scalar of the same text.
    fn fits(&self, value: Value<'v>, old: &Node) -> bool {
        if self.origins.contains_key(&value.identity()) {
            return false;
        }
        match DictRef::from_value(value) {
            Some(dict) => {
                let name = dict.get_str("name").and_then(Value::unpack_str);
                name == old.get_str("name")
            }
            None => scalar(value).ok().flatten().is_some_and(|scalar| scalar.scalar() == old.scalar()),
        }
    }

    fn mapping(
        &mut self,
        entries: &[(Value<'v>, Value<'v>)],
        origin: Option<Node>,
        depth: usize,
    ) -> Result<Node, String> {
        // Keys that `<<` brought in have no pair here, so such a mapping is written anew.
        let origin = origin.filter(|node| node.pairs().iter().all(|pair| pair.key.tag() != Tag::Merge));
        let old = origin.as_ref().map_or(&[][..], Node::pairs);
        let position: HashMap<&str, usize> =
            old.iter().enumerate().filter_map(|(at, pair)| Some((pair.key.scalar()?, at))).collect();
        let mut kept: Vec<Option<Pair>> = vec![None; old.len()];
        let mut added = Vec::new();
        for &(key, value) in entries {
            let key = scalar(key)?.ok_or_else(|| unsupported(key))?;
            match key.scalar().and_then(|text| position.get(text)) {
                Some(&at) => {
                    let value = self.node(value, Some(&old[at].value), depth + 1)?;
                    kept[at] = Some(Pair { key: old[at].key.clone(), value });
                }
                None => added.push(Pair { key, value: self.node(value, None, depth + 1)? }),
            }
        }
        added.sort_by(|a, b| natural_order(&a.key, &b.key));
        let pairs: Vec<Pair> = kept.into_iter().flatten().chain(added).collect();
        Ok(match origin {
            Some(mut node) => {
                if let Some(slot) = node.pairs_mut() {
                    *slot = pairs;
                }
                node
            }
            None => Node::from_pairs(pairs),
        })
    }
}

fn check(depth: usize, count: &mut usize) -> Result<(), String> {
    *count += 1;
    if depth > MAX_DEPTH {
        return Err(format!("values are nested more than {MAX_DEPTH} deep, or hold themselves"));
    }
    if *count > MAX_NODES {
        return Err(format!("more than {MAX_NODES} values"));
    }
    Ok(())
}

fn elements(value: Value<'_>) -> Option<Vec<Value<'_>>> {
    ListRef::from_value(value)
        .map(|list| list.content().to_vec())
        .or_else(|| TupleRef::from_value(value).map(|tuple| tuple.content().to_vec()))
}

/// The node of a scalar; nothing for other values.
fn scalar(value: Value<'_>) -> Result<Option<Node>, String> {
    if value.is_none() {
        return Ok(Some(Node::null()));
    }
    if let Some(value) = value.unpack_bool() {
        return Ok(Some(Node::bool(value)));
    }
    if let Some(value) = value.unpack_str() {
        return Ok(Some(Node::string(value)));
    }
    match value.get_type() {
        "int" => match i64::unpack_value(value) {
            Ok(Some(value)) => Ok(Some(Node::int(value))),
            _ => Err(format!("{value} out of range (want value in signed 64-bit range)")),
        },
        "float" => Ok(UnpackFloat::unpack_value(value).ok().flatten().map(|value| Node::float(value.0))),
        _ => Ok(None),
    }
}

/// The old scalar if it means the same, otherwise the new one with the old one's comments.
fn keep_scalar(scalar: &Node, origin: &Node) -> Node {
    let old = origin.alias_target().unwrap_or(origin);
    let same = old.is_scalar()
        && match (scalar.resolved(), old.resolved()) {
            (Some(Resolved::Str), Some(Resolved::Str | Resolved::Timestamp)) => {
                scalar.scalar() == old.scalar()
            }
            (Some(Resolved::Int(new)), Some(Resolved::Float(old))) => new as f64 == old,
            (new, old) => new == old,
        };
    if same {
        return origin.clone();
    }
    let mut scalar = scalar.clone();
    scalar.fill_comments_from(origin);
    scalar
}

fn unsupported(value: Value<'_>) -> String {
    match value.get_type() {
        "set" => "sets aren't yet supported".to_owned(),
        "function" => "unrecognized starlark type: *starlark.Function".to_owned(),
        "range" => "unrecognized starlark type: starlark.rangeValue".to_owned(),
        "struct" | "namespace" => "unrecognized starlark type: *starlarkstruct.Struct".to_owned(),
        "bytes" => "unrecognized starlark type: starlark.Bytes".to_owned(),
        other => format!("unrecognized starlark type: {other}"),
    }
}

const IDENTIFIERS: [&str; 2] = ["internal.config.kubernetes.io/id", "config.k8s.io/id"];

/// The mark that an orchestrator sets to know a resource again.
fn identifier(node: &Node) -> Option<String> {
    let annotations = node.at(&["metadata", "annotations"])?;
    IDENTIFIERS.iter().find_map(|key| annotations.get(key)?.scalar()).map(str::to_owned)
}

/// The same of a value.
fn identifier_of<'v>(value: Value<'v>) -> Option<&'v str> {
    let field = |value: Value<'v>, key: &str| DictRef::from_value(value)?.get_str(key);
    let annotations = field(field(value, "metadata")?, "annotations")?;
    IDENTIFIERS.iter().find_map(|key| field(annotations, key)?.unpack_str())
}

/// Counts a value that is about to be written, and fails if it is nested too deep or holds itself.
pub(super) fn measure(value: Value<'_>) -> Result<(), String> {
    Writer::fresh().measured(value, 0)
}

impl<'v> Writer<'v> {
    fn measured(&mut self, value: Value<'v>, depth: usize) -> Result<(), String> {
        check(depth, &mut self.count)?;
        limits::work(1 + value.unpack_str().map_or(0, str::len) / 8)?;
        if let Some(values) = elements(value) {
            values.into_iter().try_for_each(|value| self.measured(value, depth + 1))
        } else if let Some(dict) = DictRef::from_value(value) {
            let values: Vec<_> = dict.iter().flat_map(|(key, value)| [key, value]).collect();
            values.into_iter().try_for_each(|value| self.measured(value, depth + 1))
        } else {
            Ok(())
        }
    }
}

fn kind_name(node: &Node) -> &'static str {
    match node.kind() {
        Kind::Mapping => "MappingNode",
        Kind::Sequence => "SequenceNode",
        Kind::Scalar => "ScalarNode",
        Kind::Alias => "AliasNode",
    }
}
