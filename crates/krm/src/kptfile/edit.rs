//! A Kptfile's text and its types side by side: changes of the one become small changes of the other.

use std::collections::{HashMap, VecDeque};

use loggia_yaml::{
    Document, EmitOptions, Fidelity, Kind, Node, Pair, ScalarStyle, SequenceStyle, detect_sequence_style,
    node_to_string, to_node, to_string_with,
};

use super::{Condition, Kptfile, KptfileError, RenderStatus, Status};
use crate::mend;
use crate::resource::{Resource, text};

/// A Kptfile that keeps what people wrote: comments, order, quotes and fields that an edit does not change.
#[derive(Clone, Debug)]
pub struct KptfileDocument {
    document: Document,
    sequences: SequenceStyle,
    kptfile: Kptfile,
}

impl KptfileDocument {
    /// Reads a text strictly; see [`Kptfile::parse`].
    ///
    /// # Errors
    /// If it is of another type, does not fit the schema or is not YAML.
    pub fn parse(source: &str, folder: &str) -> Result<Self, KptfileError> {
        let resource = Kptfile::parse_resource(source, folder)?;
        let kptfile = Kptfile::from_resource(&resource, folder)?;
        Ok(Self { document: resource.into_document(), sequences: detect_sequence_style(source), kptfile })
    }

    /// Takes a resource that is a Kptfile.
    ///
    /// # Errors
    /// If it is of another type or does not fit the schema.
    pub fn from_resource(resource: &Resource, folder: &str) -> Result<Self, KptfileError> {
        let kptfile = Kptfile::from_resource(resource, folder)?;
        Ok(Self { document: resource.document().clone(), sequences: resource.sequence_style(), kptfile })
    }

    /// What it says.
    #[must_use]
    pub fn kptfile(&self) -> &Kptfile {
        &self.kptfile
    }

    /// The text with every change so far.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        to_string_with(
            [&self.document],
            EmitOptions { sequences: self.sequences, fidelity: Fidelity::Faithful },
        )
    }

    /// The text as kpt writes it anew, schema order, wide sequences and quotes where needed, but with the
    /// comments that people wrote.
    #[must_use]
    pub fn to_canonical_yaml(&self) -> String {
        self.rewritten(|_, _| {})
    }

    /// The text as kpt saves a function in it: as [`KptfileDocument::to_canonical_yaml`], but with the fields in
    /// the order that people gave them.
    #[must_use]
    pub fn to_ordered_yaml(&self) -> String {
        self.rewritten(mend::restore_order)
    }

    fn rewritten(&self, arrange: impl Fn(&Node, &mut Node)) -> String {
        let root = to_node(&self.kptfile).expect("strings, numbers and maps of strings always fit");
        let mut document = Document { root, ..self.document.clone() };
        mend::restore_comments(&self.document.root, &mut document.root);
        arrange(&self.document.root, &mut document.root);
        let wide = EmitOptions { sequences: SequenceStyle::Wide, fidelity: Fidelity::Faithful };
        to_string_with([&document], wide)
    }

    /// Changes the types, and in the text just what differs. Entries of lists are told apart by what names
    /// them: a condition by its type, a function by its name, image or command.
    pub fn edit(&mut self, change: impl FnOnce(&mut Kptfile)) {
        let before = self.kptfile.clone();
        change(&mut self.kptfile);
        if before == self.kptfile {
            return;
        }
        let [old, new] = [&before, &self.kptfile]
            .map(|side| to_node(side).expect("strings, numbers and maps of strings always fit"));
        update(&mut self.document.root, &old, &new);
    }

    /// Sets a condition as a render does: the former one of the same type goes, the new one comes last.
    pub fn set_condition(&mut self, condition: Condition) {
        self.edit(|kptfile| {
            let conditions = &mut kptfile.status.get_or_insert_default().conditions;
            conditions.retain(|other| other.condition_type != condition.condition_type);
            conditions.push(condition);
        });
    }

    /// Replaces what the last render did; `None` removes it.
    pub fn set_render_status(&mut self, render_status: Option<RenderStatus>) {
        self.edit(|kptfile| {
            if render_status.is_some() || kptfile.status.is_some() {
                kptfile.status.get_or_insert_default().render_status = render_status;
            }
            if kptfile.status.as_ref().is_some_and(|status| *status == Status::default()) {
                kptfile.status = None;
            }
        });
    }
}

/// Makes a tree say what `new` says where that differs from `old`, which it says now. The types decide how deep
/// trees are, so recursing is fine.
fn update(node: &mut Node, old: &Node, new: &Node) {
    if old.same_value(new) {
        return;
    }
    match (node.kind(), new.kind()) {
        (Kind::Mapping, Kind::Mapping) => update_mapping(node, old, new),
        (Kind::Sequence, Kind::Sequence) => update_sequence(node, old, new),
        _ => {
            let mut value = new.clone();
            value.fill_comments_from(node);
            if is_quoted(node) && value.scalar().is_some_and(|text| !text.contains('\n')) {
                value.set_scalar_style(node.scalar_style());
            }
            *node = value;
        }
    }
}

fn is_quoted(node: &Node) -> bool {
    matches!(node.scalar_style(), ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted)
}

fn update_mapping(node: &mut Node, old: &Node, new: &Node) {
    let (former, wanted) = (by_key(old), by_key(new));
    node.retain_pairs(|pair| {
        let key = text(&pair.key);
        wanted.contains_key(key) || !former.contains_key(key)
    });
    let Some(pairs) = node.pairs_mut() else { return };
    let mut places: HashMap<String, usize> = HashMap::with_capacity(pairs.len());
    for (at, pair) in pairs.iter().enumerate() {
        places.entry(text(&pair.key).to_owned()).or_insert(at);
    }
    // A new field goes behind the one that the schema has before it: how many stay before it, and in which order.
    let mut added: Vec<(usize, Pair)> = Vec::new();
    let mut behind = 0;
    let missing = Node::default();
    for pair in new.pairs() {
        let key = text(&pair.key);
        match places.get(key).and_then(|&at| Some((at, pairs.get_mut(at)?))) {
            Some((at, found)) => {
                update(&mut found.value, former.get(key).copied().unwrap_or(&missing), &pair.value);
                behind = at + 1;
            }
            None => added.push((behind, Pair { key: pair.key.clone(), value: pair.value.clone() })),
        }
    }
    if added.is_empty() {
        return;
    }
    added.sort_by_key(|(behind, _)| *behind);
    let mut added = added.into_iter().peekable();
    let old_pairs = std::mem::take(pairs);
    for (at, pair) in old_pairs.into_iter().enumerate() {
        while let Some((_, new)) = added.next_if(|(behind, _)| *behind == at) {
            pairs.push(new);
        }
        pairs.push(pair);
    }
    pairs.extend(added.map(|(_, new)| new));
}

/// The values of a mapping; of equal keys the first counts.
fn by_key(node: &Node) -> HashMap<&str, &Node> {
    node.pairs().iter().rev().map(|pair| (text(&pair.key), &pair.value)).collect()
}

fn update_sequence(node: &mut Node, old: &Node, new: &Node) {
    let mut rest: Vec<Option<(Node, &Node)>> = match node.items_mut() {
        Some(items) => std::mem::take(items).into_iter().zip(old.items()).map(Some).collect(),
        None => return,
    };
    // What has the same identity is taken in order.
    let mut places: HashMap<Identity, VecDeque<usize>> = HashMap::new();
    for (at, item) in old.items().iter().enumerate().take(rest.len()) {
        places.entry(identity(item)).or_default().push_back(at);
    }
    let mut items = Vec::with_capacity(new.len());
    for value in new.items() {
        let at = places.get_mut(&identity(value)).and_then(VecDeque::pop_front);
        items.push(match at.and_then(|at| rest.get_mut(at)?.take()) {
            Some((mut item, old)) => {
                update(&mut item, old, value);
                item
            }
            None => value.clone(),
        });
    }
    if let Some(slot) = node.items_mut() {
        *slot = items;
    }
}

/// What an entry of a list is about: the key that names it and the name, or all that it says.
type Identity = (Option<&'static str>, String);

fn identity(entry: &Node) -> Identity {
    const KEYS: [&str; 5] = ["name", "type", "conditionType", "image", "exec"];
    match KEYS.into_iter().find_map(|key| Some((key, entry.get(key)?))) {
        Some((key, name)) => (Some(key), text(name).to_owned()),
        None if entry.is_scalar() => (None, text(entry).to_owned()),
        None => (None, node_to_string(entry)),
    }
}
