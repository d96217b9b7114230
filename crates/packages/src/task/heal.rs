//! Healing: what clients lose of a package when they replace its contents, put back.
//!
//! A client that reads resources into types and writes them again loses comments, key order and the way of
//! indenting. A client that edits text, or trees with comments, loses nothing by accident. Which one it was shows
//! in each resource: if some comment of the old one is still there, those that are gone were removed on purpose,
//! except at a value that changed, where editing may have taken the comment along.

use std::collections::{HashMap, HashSet};

use loggia_krm::annotation::SEQUENCE_INDENT;
use loggia_krm::{Files, Resource, mend};
use loggia_yaml::{Kind, Node, Text};

use super::{is_yaml, read_file, write_file};

/// Marks of templates, which are not comments.
const TEMPLATE_MARKS: [&str; 2] = ["#@", "#!"];

/// Nothing that people write nests deeper, and the stack has an end.
const MAX_DEPTH: usize = 200;

/// Puts back into new contents what they lost of the old ones. A file that lost nothing keeps its bytes.
pub(super) fn heal(old: &Files, new: &mut Files) -> Result<(), String> {
    let mut donors = None;
    for (path, content) in new.iter_mut().filter(|(path, _)| is_yaml(path)) {
        if old.get(path) == Some(content) {
            continue;
        }
        let mut package = read_file(path, content).map_err(|error| error.to_string())?;
        let donors = donors.get_or_insert_with(|| Donors::of(old));
        let mut healed = false;
        for resource in &mut package.resources {
            for at in donors.of_resource(resource) {
                let Some(donor) = donors.take(at) else { continue };
                healed |= donate(donor, resource).map_err(|error| format!("{path}: {error}"))?;
            }
        }
        if healed && let Some(text) = write_file(package, path)? {
            *content = text;
        }
    }
    Ok(())
}

/// Old resources by type and name.
struct Donors {
    resources: Vec<Resource>,
    /// How often each was used.
    uses: Vec<usize>,
    /// Those of a type and name, as positions in `resources`.
    by_key: HashMap<[String; 4], Vec<usize>>,
    /// Those among them of one file.
    by_file: HashMap<([String; 4], String), Vec<usize>>,
}

impl Donors {
    /// A package has few resources of one type and name. Where there are very many, old or new, comparing each with
    /// each would take too long, so only some are.
    const MOST: usize = 8;

    /// Old files that cannot be read contribute nothing, so that they can be replaced.
    fn of(old: &Files) -> Self {
        let packages = old.iter().filter(|(path, _)| is_yaml(path));
        let packages = packages.filter_map(|(path, content)| read_file(path, content).ok());
        let resources: Vec<Resource> = packages.flat_map(|package| package.resources).collect();
        let mut by_key: HashMap<_, Vec<usize>> = HashMap::new();
        let mut by_file: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, resource) in resources.iter().enumerate() {
            by_key.entry(key(resource)).or_default().push(at);
            by_file.entry((key(resource), resource.path().to_owned())).or_default().push(at);
        }
        Self { uses: vec![0; resources.len()], resources, by_key, by_file }
    }

    /// Those of the same file come first.
    fn of_resource(&self, resource: &Resource) -> Vec<usize> {
        let (key, path) = (key(resource), resource.path().to_owned());
        let all = self.by_key.get(&key).map_or(&[][..], Vec::as_slice);
        let same = self.by_file.get(&(key, path)).map_or(&[][..], Vec::as_slice);
        let others = all
            .iter()
            .take(Self::MOST * Self::MOST)
            .filter(|at| self.resources[**at].path() != resource.path());
        same.iter().chain(others).copied().take(Self::MOST).collect()
    }

    /// The donor, if it was not used too often.
    fn take(&mut self, at: usize) -> Option<&Resource> {
        let uses = self.uses.get_mut(at)?;
        *uses += 1;
        if *uses > Self::MOST { None } else { self.resources.get(at) }
    }
}

fn key(resource: &Resource) -> [String; 4] {
    [resource.api_version(), resource.kind(), resource.namespace(), resource.name()].map(str::to_owned)
}

/// Whether anything was put back.
fn donate(donor: &Resource, resource: &mut Resource) -> Result<bool, loggia_krm::WrongKind> {
    let text = |resource: &Resource| loggia_yaml::to_string([resource.document()]);
    let before = text(resource);
    let donor_text = text(donor);
    if TEMPLATE_MARKS.iter().any(|mark| before.contains(mark) || donor_text.contains(mark)) {
        return Ok(false);
    }
    if keeps_comments(donor, resource) {
        let mut rest = donor.node().clone();
        forget_unchanged(&mut rest, resource.node(), 0);
        mend::restore_comments(&rest, resource.node_mut());
    } else {
        mend::restore(donor, resource);
        if let Some(style) = donor.annotation(SEQUENCE_INDENT) {
            resource.set_reader_annotations(&[(SEQUENCE_INDENT, Text::from(style))])?;
        }
    }
    Ok(text(resource) != before)
}

/// Whether some comment of the old resource is still in the new one.
fn keeps_comments(old: &Resource, new: &Resource) -> bool {
    let known: HashSet<&str> = comments(old).into_iter().collect();
    !known.is_empty() && comments(new).into_iter().any(|comment| known.contains(comment))
}

fn comments(resource: &Resource) -> Vec<&str> {
    let document = resource.document();
    let mut found = vec![document.head_comment.as_str(), document.foot_comment.as_str()];
    let mut waiting = vec![resource.node()];
    while let Some(node) = waiting.pop() {
        let comments = node.comments();
        found.extend([comments.head, comments.line, comments.foot]);
        waiting.extend(node.items());
        waiting.extend(node.pairs().iter().flat_map(|pair| [&pair.key, &pair.value]));
    }
    found.retain(|comment| !comment.is_empty());
    found
}

/// Takes the comments off everything that is the same in the new resource: if they are missing there, somebody
/// removed them.
fn forget_unchanged(old: &mut Node, new: &Node, depth: usize) {
    old.clear_comments();
    if depth > MAX_DEPTH {
        return;
    }
    match (old.kind(), new.kind()) {
        (Kind::Mapping, Kind::Mapping) => {
            let values: HashMap<&str, &Node> =
                new.pairs().iter().rev().filter_map(|pair| Some((pair.key.scalar()?, &pair.value))).collect();
            for pair in old.pairs_mut().into_iter().flatten() {
                let value = pair.key.scalar().and_then(|key| values.get(key));
                let Some(value) = value.copied() else { continue };
                if pair.value.same_value(value) {
                    forget(&mut pair.key, 0);
                    forget(&mut pair.value, 0);
                } else if pair.value.kind() == value.kind() && !value.is_scalar() {
                    pair.key.clear_comments();
                    forget_unchanged(&mut pair.value, value, depth + 1);
                }
            }
        }
        (Kind::Sequence, Kind::Sequence) => {
            for (at, item) in old.items_mut().into_iter().flatten().enumerate() {
                if is_among(item, new.items(), at) {
                    forget(item, 0);
                } else if let Some(value) = new.items().get(at).filter(|value| value.is_mapping()) {
                    forget_unchanged(item, value, depth + 1);
                }
            }
        }
        _ => {}
    }
}

/// Comparing each with each is for lists that people write.
fn is_among(item: &Node, items: &[Node], at: usize) -> bool {
    const MANY: usize = 200;
    items.get(at).is_some_and(|other| other.same_value(item))
        || items.iter().take(MANY).any(|other| other.same_value(item))
}

fn forget(node: &mut Node, depth: usize) {
    node.clear_comments();
    if depth > MAX_DEPTH {
        return;
    }
    for pair in node.pairs_mut().into_iter().flatten() {
        forget(&mut pair.key, depth + 1);
        forget(&mut pair.value, depth + 1);
    }
    for item in node.items_mut().into_iter().flatten() {
        forget(item, depth + 1);
    }
}
