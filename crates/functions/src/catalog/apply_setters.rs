//! `apply-setters`: puts values into the fields whose comments name their setters.

mod redaction;

use std::collections::{BTreeMap, HashSet};

use loggia_go::quote;
use loggia_krm::{FieldRef, FileRef, Resource, ResourceList, ResourceRef, ResultItem, Severity, annotation};
use loggia_yaml::{Node, Pair, ScalarStyle, Tag, parse_first};

use crate::kyaml::fields::{self, Visitor};
use crate::kyaml::outcome::{Shape, conclude};
use crate::kyaml::{data, setters};
use crate::limits::{self, OverLimit};
use crate::{Failure, Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "apply-setters",
    purpose: "Set the fields that setter comments point out",
    role: Role::Mutator,
    manual: include_str!("apply_setters.md"),
    guarded: false,
    versions: &[
        Version {
            tags: &["latest", "unstable"],
            framework: Framework::KyamlTwice,
            run: Run::List(|list| run(list, Report::Full)),
        },
        Version {
            tags: &["v0.2", "v0.2.0", "v0.2.1", "v0.2.2"],
            framework: Framework::OldKyamlTwice,
            run: Run::List(|list| run(list, Report::Short)),
        },
    ],
};

/// How much a result says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Report {
    /// The new value, the field and its file.
    Short,
    /// Also the resource, both values and a severity; what looks like a secret is left out.
    Full,
}

/// The setters that have a value.
struct Setters {
    values: BTreeMap<String, String>,
    /// The lengths that their names have.
    lengths: HashSet<usize>,
    /// The most closing braces in a name.
    braces: usize,
}

struct Setting<'a> {
    setters: &'a Setters,
    report: Report,
    /// What every result about the resource at hand has in common.
    about: ResultItem,
    results: Vec<ResultItem>,
}

fn run(list: &mut ResourceList, report: Report) -> Result<(), Failure> {
    let shape = match report {
        Report::Short => Shape::Named(FUNCTION.name),
        Report::Full => Shape::List,
    };
    let outcome = apply(list, report);
    conclude(list, shape, outcome, |error| format!("failed to apply setters: {error}"))
}

fn apply(list: &mut ResourceList, report: Report) -> Result<Vec<ResultItem>, String> {
    let setters = Setters::new(data::of_config(list));
    let mut setting =
        Setting { setters: &setters, report, about: ResultItem::default(), results: Vec::new() };
    for item in list.items.iter_mut().filter(|item| setters::has_setters(item)) {
        setting.about = about(item, report);
        let visited = fields::visit(item.node_mut(), &mut setting);
        limits::blame(item);
        visited?;
    }
    let mut results = setting.results;
    if results.is_empty() {
        results
            .push(ResultItem { message: "no matches for input setter(s)".into(), ..ResultItem::default() });
    }
    Ok(results)
}

fn about(item: &Resource, report: Report) -> ResultItem {
    match report {
        Report::Short => {
            let path = item.annotation(annotation::LEGACY_PATH).unwrap_or_default().to_owned();
            let file = (!path.is_empty()).then_some(FileRef { path, index: 0 });
            ResultItem { file, ..ResultItem::default() }
        }
        Report::Full => {
            let text = |path: &[&str]| item.node().at(path).map_or("", fields::raw_text).to_owned();
            ResultItem {
                severity: Some(Severity::Info),
                file: Some(FileRef { path: fields::file_of(item).to_owned(), index: 0 }),
                resource_ref: Some(ResourceRef {
                    // These are read as they are written, even null.
                    api_version: text(&["apiVersion"]),
                    kind: text(&["kind"]),
                    name: item.name().to_owned(),
                    namespace: item.namespace().to_owned(),
                }),
                ..ResultItem::default()
            }
        }
    }
}

// === impl Setters ===

impl Setters {
    fn new(values: BTreeMap<String, String>) -> Self {
        let braces = values.keys().map(|name| name.matches('}').count()).max().unwrap_or(0);
        Self { lengths: values.keys().map(String::len).collect(), values, braces }
    }

    /// The setters that a pattern refers to, by name. A name may be any text, so a reference ends at any brace that
    /// makes it one.
    fn named_in<'a>(&'a self, pattern: &str) -> Result<BTreeMap<&'a str, &'a str>, OverLimit> {
        let mut named = BTreeMap::new();
        for (start, mark) in pattern.match_indices("${") {
            let rest = &pattern[start + mark.len()..];
            for (end, _) in rest.match_indices('}').take(self.braces + 1) {
                limits::work(1 + end / 16)?;
                if self.lengths.contains(&end)
                    && let Some((name, value)) = self.values.get_key_value(&rest[..end])
                {
                    named.insert(name.as_str(), value.as_str());
                }
            }
        }
        Ok(named)
    }
}

// === impl Setting ===

impl Setting<'_> {
    /// Whether the pattern refers to any of the setters that have a value.
    fn concerns(&self, pattern: &str) -> Result<bool, OverLimit> {
        Ok(!self.setters.named_in(pattern)?.is_empty())
    }

    fn value_of(&self, name: &str) -> &str {
        self.setters.values.get(name).map_or("", String::as_str)
    }

    /// The pattern with every reference replaced, by what is given or else by what the field has now.
    fn fill_in(&self, pattern: &str, current: &str) -> Result<String, String> {
        let mut text = pattern.to_owned();
        for (name, value) in self.setters.named_in(pattern)? {
            text = limits::replaced(&text, &format!("${{{name}}}"), value)?;
        }
        if text.contains("${") {
            let mut derived = setters::derive(pattern, current);
            // Of a name that occurs twice, the last value counts.
            derived.reverse();
            for (name, value) in derived {
                text = limits::replaced(&text, &format!("${{{name}}}"), value)?;
            }
        }
        match setters::references(&text) {
            left if left.is_empty() => Ok(text),
            left => Err(format!("values for setters [{}] must be provided", left.join(" "))),
        }
    }

    fn add_result(&mut self, pattern: &str, path: &str, old: &str, new: &str) -> Result<(), OverLimit> {
        limits::produce(limits::size_of(&self.about) + path.len())?;
        let mut item = self.about.clone();
        match self.report {
            Report::Short => {
                item.message = format!("set field value to {}", quote(new));
                item.field =
                    (!path.is_empty()).then(|| FieldRef { path: path.to_owned(), ..FieldRef::default() });
            }
            Report::Full => {
                let names_secret = redaction::is_sensitive(path, pattern);
                let shown = |value| redaction::shown(value, names_secret);
                let new = shown(new);
                item.message = format!("set field value to {}", quote(&new));
                item.field = Some(FieldRef {
                    path: path.to_owned(),
                    current_value: Some(shown(old)),
                    proposed_value: Some(new),
                });
            }
        }
        limits::produce(item.message.len())?;
        self.results.push(item);
        Ok(())
    }
}

impl Visitor for Setting<'_> {
    fn list(&mut self, pair: &mut Pair, path: &str) -> Result<(), String> {
        let comment = setters::list_comment(pair).to_owned();
        let Some(pattern) = setters::pattern(&comment) else { return Ok(()) };
        if !self.concerns(pattern)? {
            return Ok(());
        }
        if setters::references(pattern).len() != 1 || !pattern.starts_with("${") || !pattern.ends_with('}') {
            return Err(format!("invalid setter pattern for array node: {}", quote(pattern)));
        }
        let value = self.value_of(setters::name(pattern)).to_owned();
        let old = match self.report {
            Report::Full => limits::written(&pair.value)?,
            Report::Short => String::new(),
        };
        limits::produce(value.len())?;
        set_list(pair, &value, &comment)?;
        Ok(self.add_result(pattern, path, &old, &value)?)
    }

    fn scalar(&mut self, node: &mut Node, path: &str) -> Result<(), String> {
        let Some(pattern) = setters::pattern(node.comments().line) else { return Ok(()) };
        if !self.concerns(pattern)? {
            return Ok(());
        }
        let pattern = pattern.to_owned();
        let old = node.scalar_text().cloned().unwrap_or_default();
        let new = self.fill_in(&pattern, &old)?;
        if new.is_empty() {
            node.set_scalar_style(ScalarStyle::DoubleQuoted);
        }
        limits::produce_instead(new.len(), old.len())?;
        node.set_scalar(new.as_str());
        node.set_tag(Tag::None);
        Ok(self.add_result(&pattern, path, &old, &new)?)
    }
}

/// An empty list is written `[]` with the comment behind it; any other as a block with the comment on the key.
fn set_list(pair: &mut Pair, value: &str, comment: &str) -> Result<(), String> {
    let mut items = Vec::new();
    if !value.is_empty() {
        let mut document = parse_first(value).ok().flatten();
        let parsed = document.as_mut().and_then(|document| document.root.items_mut());
        items = std::mem::take(parsed.ok_or_else(|| {
            format!("input to array setter must be an array of values, but found {}", quote(value))
        })?);
    }
    if let Some(old) = pair.value.items_mut() {
        *old = items;
    }
    pair.value.set_flow(value.is_empty());
    let (with, without) =
        if value.is_empty() { (&mut pair.value, &mut pair.key) } else { (&mut pair.key, &mut pair.value) };
    with.set_line_comment(comment);
    without.set_line_comment("");
    Ok(())
}
