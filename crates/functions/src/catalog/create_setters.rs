//! `create-setters`: adds setter comments to the fields whose values contain those of the setters.

use std::collections::{HashMap, HashSet};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use loggia_go::quote;
use loggia_krm::{FieldRef, FileRef, ResourceList, ResultItem};
use loggia_yaml::{Kind, Node, Pair, parse_first};

use crate::kyaml::fields::{self, Visitor};
use crate::kyaml::outcome::{Shape, conclude};
use crate::kyaml::{data, setters};
use crate::limits::{self, OverLimit};
use crate::{Failure, Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "create-setters",
    purpose: "Add setter comments to the fields that hold the setters' values",
    role: Role::Mutator,
    manual: include_str!("create_setters.md"),
    guarded: false,
    versions: &[
        Version {
            tags: &["latest", "unstable", "v0.1"],
            framework: Framework::KyamlTwice,
            run: Run::List(|list| run(list, Annotations::OfUsers)),
        },
        Version {
            tags: &["v0.1.0"],
            framework: Framework::KyamlTwice,
            run: Run::List(|list| run(list, Annotations::All)),
        },
    ],
};

/// Which annotations may get a comment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Annotations {
    /// Not those whose key says that tools made them.
    OfUsers,
    /// All but those of readers.
    All,
}

struct Creation {
    /// Finds the texts of the setters: at each place the longest that fits.
    scalars: AhoCorasick,
    /// What stands for each of these texts.
    references: Vec<String>,
    /// The name of the first setter with these items, sorted.
    lists: HashMap<Vec<String>, String>,
    annotations: Annotations,
    file: FileRef,
    results: Vec<ResultItem>,
}

fn run(list: &mut ResourceList, annotations: Annotations) -> Result<(), Failure> {
    let outcome = create(list, annotations);
    conclude(list, Shape::List, outcome, |error| format!("failed to create setters: {error}"))
}

fn create(list: &mut ResourceList, annotations: Annotations) -> Result<Vec<ResultItem>, String> {
    let mut creation = Creation::from_config(list, annotations)?;
    for item in &mut list.items {
        if !creation.concerns(item.node()) {
            continue;
        }
        creation.file = FileRef { path: fields::file_of(item).to_owned(), index: 0 };
        let visited = fields::visit(item.node_mut(), &mut creation);
        limits::blame(item);
        visited?;
    }
    if creation.results.is_empty() {
        return Err("no matches for the input list of setters".to_owned());
    }
    Ok(creation.results)
}

// === impl Creation ===

impl Creation {
    fn from_config(list: &ResourceList, annotations: Annotations) -> Result<Self, String> {
        let data = data::of_config(list);
        if data.is_empty() {
            return Err("config map cannot be empty".to_owned());
        }
        let (mut scalars, mut lists) = (Vec::new(), HashMap::new());
        for (name, value) in data {
            let parsed = parse_first(&value).ok().flatten().ok_or("parsing error")?.root;
            match parsed.kind() {
                Kind::Sequence => {
                    let items = setters::sorted_items(&parsed).into_iter().map(str::to_owned).collect();
                    lists.entry(items).or_insert(name);
                }
                Kind::Scalar => scalars.push((value, format!("${{{name}}}"))),
                Kind::Mapping | Kind::Alias => {}
            }
        }
        scalars.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        // Of equal texts the first counts.
        let mut seen = HashSet::new();
        scalars.retain(|(value, _)| seen.insert(value.clone()));
        let (texts, references): (Vec<String>, Vec<String>) = scalars.into_iter().unzip();
        let scalars = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::NoncontiguousNFA))
            .build(&texts)
            .map_err(|error| error.to_string())?;
        Ok(Self { scalars, references, lists, annotations, file: FileRef::default(), results: Vec::new() })
    }

    /// Whether anything in a resource may change; looking first spares a copy of what is shared.
    fn concerns(&self, root: &Node) -> bool {
        fields::any(root, |node| match node.kind() {
            Kind::Sequence => self.setter_of(&setters::sorted_items(node)).is_some(),
            _ => self.holds_scalar(fields::raw_text(node)),
        })
    }

    fn holds_scalar(&self, text: &str) -> bool {
        self.scalars.is_match(text)
    }

    /// The setter whose list has the same items.
    fn setter_of(&self, items: &[&str]) -> Option<&str> {
        if self.lists.is_empty() {
            return None;
        }
        let items: Vec<String> = items.iter().map(|item| (*item).to_owned()).collect();
        self.lists.get(&items).map(String::as_str)
    }

    /// The text with every setter's value replaced by a reference: at each place the longest that fits.
    fn parametrize(&self, text: &str) -> Result<Option<String>, OverLimit> {
        let mut pattern = String::new();
        let mut end = 0;
        for found in self.scalars.find_iter(text) {
            let reference = self.references.get(found.pattern().as_usize()).map_or("", String::as_str);
            limits::produce(reference.len() + found.start() - end)?;
            pattern.push_str(&text[end..found.start()]);
            pattern.push_str(reference);
            end = found.end();
        }
        if end == 0 {
            return Ok(None);
        }
        pattern.push_str(&text[end..]);
        Ok((pattern != text).then_some(pattern))
    }

    fn add_result(&mut self, comment: &str, value: &str, path: &str) -> Result<(), OverLimit> {
        limits::produce(path.len() + self.file.path.len())?;
        limits::push(
            &mut self.results,
            ResultItem {
                message: format!(
                    "Added line comment {} for field with value {}",
                    quote(comment),
                    quote(value)
                ),
                field: Some(FieldRef { path: path.to_owned(), ..FieldRef::default() }),
                file: Some(self.file.clone()),
                ..ResultItem::default()
            },
        )
    }
}

impl Visitor for Creation {
    fn list(&mut self, pair: &mut Pair, path: &str) -> Result<(), String> {
        let items = setters::sorted_items(&pair.value);
        let setter = self.setter_of(&items).map(str::to_owned);
        // Items and non-empty lists can carry comments in block style only.
        let becomes_block = pair.value.is_flow()
            && (items.iter().any(|item| self.holds_scalar(item)) || setter.is_some() && !items.is_empty());
        let commented =
            setter.map(|name| (format!("kpt-set: ${{{name}}}"), format!("[{}]", items.join(" "))));
        if becomes_block {
            pair.value.set_flow(false);
        }
        let Some((comment, value)) = commented else { return Ok(()) };
        let holder = if pair.value.is_flow() { &mut pair.value } else { &mut pair.key };
        holder.set_line_comment(format!("# {comment}"));
        Ok(self.add_result(&comment, &value, path)?)
    }

    fn scalar(&mut self, node: &mut Node, path: &str) -> Result<(), String> {
        let text = fields::raw_text(node);
        if text.contains('\n') || self.annotations == Annotations::OfUsers && is_tool_annotation(path) {
            return Ok(());
        }
        let Some(pattern) = self.parametrize(text)? else { return Ok(()) };
        let (comment, text) = (format!("kpt-set: {pattern}"), text.to_owned());
        node.set_line_comment(format!("# {comment}"));
        Ok(self.add_result(&comment, &text, path)?)
    }
}

fn is_tool_annotation(path: &str) -> bool {
    ["annotations.internal.config.kubernetes.io", "annotations.config.kubernetes.io"]
        .iter()
        .any(|prefix| path.match_indices(prefix).any(|(at, _)| at == 0 || path.as_bytes()[at - 1] == b'.'))
}
