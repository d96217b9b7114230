//! Comments that name setters: `# {"$kpt-set":"name"}` becomes `# kpt-set: ${name}`.

use std::collections::{BTreeMap, BTreeSet};

use loggia_yaml::{Kind, Node, from_str};

use crate::kyaml::fields::{MAX_DEPTH, raw_text};
use crate::limits;

const PREFIX: &str = "io.k8s.cli.";
/// How many substitutions may stand in each other.
const MAX_NESTED: usize = 100;

/// What an early Kptfile defines: setters, and texts that setters are put into.
#[derive(Default)]
pub(super) struct Definitions(BTreeMap<String, Node>);

impl Definitions {
    pub(super) fn of(kptfile: &Node) -> Self {
        let definitions = kptfile.at(&["openAPI", "definitions"]).map_or(&[][..], Node::pairs);
        Self(definitions.iter().map(|pair| (raw_text(&pair.key).to_owned(), pair.value.clone())).collect())
    }

    /// The names and values of all setters.
    pub(super) fn setters(&self) -> Result<BTreeMap<String, String>, String> {
        let mut setters = BTreeMap::new();
        for (key, definition) in &self.0 {
            if !key.starts_with(&format!("{PREFIX}setters.")) {
                continue;
            }
            let Some(setter) = definition.at(&["x-k8s-cli", "setter"]).filter(|setter| !setter.is_null())
            else {
                return Err(format!("missing x-k8s-cli.setter for {key}"));
            };
            let items: Vec<&str> =
                setter.get("listValues").map_or(&[][..], Node::items).iter().map(raw_text).collect();
            let value = if items.is_empty() {
                text(setter, "value").to_owned()
            } else {
                format!("[{}]", items.join(", "))
            };
            setters.insert(text(setter, "name").to_owned(), value);
        }
        Ok(setters)
    }

    /// The pattern that a definition stands for; nothing if it is not there or no setter's.
    fn pattern(
        &self,
        key: &str,
        visited: &mut BTreeSet<String>,
        depth: usize,
    ) -> Result<Option<String>, String> {
        let Some(extension) = self.0.get(key).and_then(|definition| definition.get("x-k8s-cli")) else {
            return Ok(None);
        };
        if let Some(setter) = extension.get("setter") {
            // A setter that chooses from a list is put into patterns by what it has chosen.
            let chosen = setter.at(&["enumValues", text(setter, "value")]).filter(|_| !visited.is_empty());
            return Ok(Some(match chosen {
                Some(chosen) => raw_text(chosen).to_owned(),
                None => format!("${{{}}}", text(setter, "name")),
            }));
        }
        let Some(substitution) = extension.get("substitution") else { return Ok(None) };
        let name = text(substitution, "name");
        if !visited.insert(name.to_owned()) {
            return Err(format!("cyclic substitution detected with name {name}"));
        }
        if depth >= MAX_NESTED {
            return Err(format!("substitutions refer to each other more than {MAX_NESTED} deep"));
        }
        limits::work(64)?;
        let mut pattern = text(substitution, "pattern").to_owned();
        for value in substitution.get("values").map_or(&[][..], Node::items) {
            let Some(reference) = value.get_str("ref").filter(|reference| !reference.is_empty()) else {
                return Err(format!("missing reference on substitution {name}"));
            };
            let key = reference.rsplit('/').next().unwrap_or_default();
            let Some(part) = self.pattern(key, visited, depth + 1)? else {
                return Err(format!("object has no key {}", loggia_go::quote(key)));
            };
            pattern = limits::replaced(&pattern, text(value, "marker"), &part)?;
        }
        Ok(Some(pattern))
    }

    /// The pattern that an old comment stands for.
    fn pattern_of(&self, comment: &str) -> Result<Option<String>, String> {
        let comment = comment.trim_start_matches('#').trim();
        if !comment.starts_with('{') {
            return Ok(None);
        }
        let Ok(fields) = from_str::<BTreeMap<String, String>>(comment) else { return Ok(None) };
        let named = fields.get("$kpt-set").or_else(|| fields.get("$openapi"));
        let keys: Vec<String> = match (named, fields.get("$ref")) {
            (Some(name), _) => {
                ["setters", "substitutions"].map(|kind| format!("{PREFIX}{kind}.{name}")).into()
            }
            (None, Some(reference)) => vec![reference.rsplit('/').next().unwrap_or_default().to_owned()],
            (None, None) => return Ok(None),
        };
        match keys.iter().find(|key| self.0.contains_key(*key)) {
            Some(key) => self.pattern(key, &mut BTreeSet::new(), 0),
            None => Ok(None),
        }
    }
}

fn text<'a>(node: &'a Node, key: &str) -> &'a str {
    node.get(key).map_or("", raw_text)
}

/// Writes the comments of a resource anew.
pub(super) fn fix(root: &mut Node, definitions: &Definitions) -> Result<(), String> {
    visit(root, definitions, 0)
}

fn visit(node: &mut Node, definitions: &Definitions, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Ok(());
    }
    match node.kind() {
        Kind::Mapping => {
            for pair in node.pairs_mut().into_iter().flatten() {
                if pair.value.is_sequence()
                    && let Some(name) = list_setter(pair.key.comments().line)
                {
                    let comment = format!("# kpt-set: ${{{name}}}");
                    pair.key.set_line_comment(comment);
                }
                visit(&mut pair.value, definitions, depth + 1)?;
            }
        }
        Kind::Sequence => {
            for item in node.items_mut().into_iter().flatten() {
                visit(item, definitions, depth + 1)?;
            }
        }
        Kind::Scalar => {
            let comments = node.comments();
            let comment = if comments.line.is_empty() { comments.head } else { comments.line };
            if let Some(pattern) = definitions.pattern_of(comment)? {
                limits::produce(pattern.len())?;
                node.set_line_comment(format!("# kpt-set: {pattern}"));
            }
        }
        Kind::Alias => {}
    }
    Ok(())
}

/// The setter that an old comment on a list names.
fn list_setter(comment: &str) -> Option<&str> {
    let marks = ["# {\"$kpt-set\":\"", "# {\"$ref\":\"#/definitions/io.k8s.cli."];
    let rest = marks.iter().find_map(|mark| comment.strip_prefix(mark))?;
    let name = rest.strip_suffix("\"}").unwrap_or(rest);
    Some(name.strip_prefix("setters.").unwrap_or(name))
}
