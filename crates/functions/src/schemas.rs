//! What valid Kubernetes objects look like, and what is wrong with the others.
//!
//! The definitions of several Kubernetes versions are part of the program, made by `e2e/schemas`: the [`Catalog`].
//! Others come from custom resource definitions ([`definitions`]) and from files of JSON schema ([`json`]). [`Search`]
//! finds the one for a resource, [`check`] holds a resource against it.

mod check;
mod definitions;
mod dialect;
pub(crate) mod files;
mod folder;
mod format;
mod json;
mod location;
mod search;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::OnceLock;

use serde_json::Value;

pub(crate) use self::check::{Checker, Fault, Patterns, Problem, Strictness, flat};
pub(crate) use self::definitions::Definitions;
pub(crate) use self::dialect::Dialect;
pub(crate) use self::location::Location;
pub(crate) use self::search::{Search, Settings};

static DEFINITIONS: &str = include_str!("schemas/kubernetes.tsv");

/// A definition as it is stored.
struct Line {
    /// The versions that have it, by position.
    versions: u32,
    name: &'static str,
    text: &'static str,
}

/// Everything that is stored, by name.
struct Index {
    versions: Vec<&'static str>,
    lines: Vec<Line>,
    /// The positions of the lines that are about a kind, in lower case.
    by_kind: HashMap<String, Vec<usize>>,
}

/// The definitions of one Kubernetes version.
pub(crate) struct Catalog {
    version: u32,
    parsed: RefCell<HashMap<&'static str, Option<Rc<Value>>>>,
}

/// The schema of a resource.
#[derive(Clone)]
pub(crate) struct Schema {
    pub(crate) root: Rc<Value>,
    pub(crate) dialect: Dialect,
}

// === impl Index ===

impl Index {
    fn get() -> &'static Self {
        static INDEX: OnceLock<Index> = OnceLock::new();
        INDEX.get_or_init(|| {
            let (header, rest) = DEFINITIONS.split_once('\n').unwrap_or_default();
            let versions = header.rsplit_once(": ").map_or("", |(_, versions)| versions);
            let line = |line: &'static str| {
                let mut parts = line.splitn(3, '\t');
                Some(Line { versions: parts.next()?.parse().ok()?, name: parts.next()?, text: parts.next()? })
            };
            let lines: Vec<Line> = rest.lines().filter_map(line).collect();
            let mut by_kind: HashMap<String, Vec<usize>> = HashMap::new();
            for (at, line) in lines.iter().enumerate() {
                if let Some((_, kind)) = line.name.rsplit_once('.') {
                    by_kind.entry(kind.to_ascii_lowercase()).or_default().push(at);
                }
            }
            Index { versions: versions.split(' ').collect(), lines, by_kind }
        })
    }

    /// The lines about a kind, whatever its case.
    fn about(&self, kind: &str) -> impl Iterator<Item = &Line> {
        let places = self.by_kind.get(&kind.to_ascii_lowercase()).map_or(&[][..], Vec::as_slice);
        places.iter().filter_map(|at| self.lines.get(*at))
    }

    fn find(&self, name: &str, version: u32) -> Option<&Line> {
        let from = self.lines.partition_point(|line| line.name < name);
        self.lines[from..]
            .iter()
            .take_while(|line| line.name == name)
            .find(|line| line.versions & version != 0)
    }
}

// === impl Catalog ===

impl Catalog {
    /// The catalog of a version such as `1.33`; of the newest if none is named.
    pub(crate) fn new(version: Option<&str>) -> Result<Self, String> {
        let versions = &Index::get().versions;
        let wanted = version.map(|version| version.trim_start_matches('v'));
        let is = |known: &str, wanted: &str| {
            let known = known.trim_start_matches('v');
            known == wanted || known.rsplit_once('.').is_some_and(|(minor, _)| minor == wanted)
        };
        let at = match wanted {
            None | Some("master") => versions.len().saturating_sub(1),
            Some(wanted) => versions.iter().position(|known| is(known, wanted)).ok_or_else(|| {
                format!("Kubernetes version `{wanted}` is not built in; there are {}", versions.join(", "))
            })?,
        };
        Ok(Self { version: 1 << at, parsed: RefCell::default() })
    }

    /// The schema of a kind. As files are named by the first label of the group only, `apps.example.com` finds what
    /// `apps` finds.
    pub(crate) fn schema(&self, api_version: &str, kind: &str) -> Option<Schema> {
        // Its definition holds itself, so there never was a file of it.
        if kind.eq_ignore_ascii_case("CustomResourceDefinition") {
            return None;
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
        let label = group.split('.').next().unwrap_or_default().to_lowercase();
        let suffix = format!(".{label}.{}.", version.to_lowercase());
        let line = Index::get().about(kind).find(|line| {
            line.versions & self.version != 0
                && line.name.contains(&suffix)
                && line.text.contains("x-kubernetes-group-version-kind")
        })?;
        self.definition(line.name).map(|root| Schema { root, dialect: Dialect::Kubernetes })
    }

    /// The schema of a kind at a version, if there is one for no other kind as well.
    pub(crate) fn exactly(&self, api_version: &str, kind: &str) -> Option<Rc<Value>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let only = format!(
            "\"x-kubernetes-group-version-kind\":[{}]",
            serde_json::json!({"group": group, "kind": kind, "version": version})
        );
        let line = Index::get().about(kind).find(|line| {
            let is_kind = line.name.rsplit_once('.').is_some_and(|(_, last)| last == kind);
            is_kind && line.versions & self.version != 0 && line.text.contains(&only)
        })?;
        self.definition(line.name)
    }

    /// A definition by its full name.
    pub(crate) fn definition(&self, name: &str) -> Option<Rc<Value>> {
        if let Some(known) = self.parsed.borrow().get(name) {
            return known.clone();
        }
        let line = Index::get().find(name, self.version)?;
        let value = serde_json::from_str(line.text).ok().map(Rc::new);
        self.parsed.borrow_mut().insert(line.name, value.clone());
        value
    }
}

/// The newest definitions as a document of their own: `{"definitions": {…}}`.
pub(crate) fn document() -> String {
    let index = Index::get();
    let newest = 1 << index.versions.len().saturating_sub(1);
    let lines = index.lines.iter().filter(|line| line.versions & newest != 0);
    let definitions: Vec<String> = lines.map(|line| format!("{:?}:{}", line.name, line.text)).collect();
    format!("{{\"swagger\":\"2.0\",\"definitions\":{{{}}}}}", definitions.join(","))
}

#[cfg(test)]
mod tests;
