//! `search-replace`: finds fields by value or path and changes their values or comments.

mod glob;
mod path;

use std::collections::BTreeMap;
use std::rc::Rc;

use loggia_go::quote;
use loggia_krm::{FieldRef, FileRef, Resource, ResourceList, ResultItem};
use loggia_yaml::{Kind, Node, Pair, Tag};

use self::glob::Glob;
use self::path::PathPattern;
use crate::kyaml::fields::{self, Visitor};
use crate::kyaml::outcome::{Shape, conclude};
use crate::kyaml::{data, lookup};
use crate::limits::{self, OverLimit};
use crate::regexp::{self, Expression};
use crate::{Failure, Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "search-replace",
    purpose: "Find fields by value or path, and set their values or comments",
    role: Role::Mutator,
    manual: include_str!("search_replace.md"),
    guarded: false,
    versions: &[
        Version {
            tags: &["latest", "unstable", "v0.2", "v0.2.0", "v0.2.1", "v0.2.2", "v0.2.3"],
            framework: Framework::KyamlTwice,
            run: Run::List(|list| run(list, MATCHERS)),
        },
        Version {
            tags: &["v0.1", "v0.1.0", "v0.1.1"],
            framework: Framework::KyamlTwice,
            run: Run::List(|list| run(list, MATCHERS_WITHOUT_FILE)),
        },
    ],
};

/// The keys of the config, in the order of the message about a wrong one.
const MATCHERS: &[&str] =
    &["by-value", "by-file-path", "by-value-regex", "by-path", "put-value", "put-comment"];
const MATCHERS_WITHOUT_FILE: &[&str] = &["by-value", "by-value-regex", "by-path", "put-value", "put-comment"];

/// What to look for and what to do.
#[derive(Default)]
struct Search {
    by_value: String,
    by_regex: Option<Rc<Expression>>,
    by_path: String,
    path: Option<PathPattern>,
    by_file: Option<Glob>,
    put_value: String,
    put_comment: String,
    /// The file of the resource at hand.
    file: String,
    results: Vec<ResultItem>,
}

fn run(list: &mut ResourceList, matchers: &[&str]) -> Result<(), Failure> {
    let outcome = search(list, matchers);
    conclude(list, Shape::List, outcome, |error| {
        format!("failed to perform search-replace operation: {}", quote(error))
    })
}

fn search(list: &mut ResourceList, matchers: &[&str]) -> Result<Vec<ResultItem>, String> {
    let mut search = Search::from_config(data::of_config(list), matchers, !list.items.is_empty())?;
    let by_absolute_path = search.puts_by_absolute_path();
    for item in &mut list.items {
        limits::work(1)?;
        if search.by_file.as_ref().is_some_and(|glob| !glob.matches(fields::file_of(item))) {
            continue;
        }
        fields::file_of(item).clone_into(&mut search.file);
        let put = if by_absolute_path {
            search.put_at_path(item)
        } else if search.finds(item) {
            fields::visit(item.node_mut(), &mut search)
        } else {
            Ok(())
        };
        limits::blame(item);
        put?;
    }
    let mut results = search.results;
    if results.is_empty() {
        results.push(ResultItem { message: "no matches".to_owned(), ..ResultItem::default() });
    }
    Ok(results)
}

// === impl Search ===

impl Search {
    fn from_config(
        mut data: BTreeMap<String, String>,
        matchers: &[&str],
        has_items: bool,
    ) -> Result<Self, String> {
        if let Some(key) = data.keys().find(|key| !matchers.contains(&key.as_str())) {
            let matchers: Vec<String> = matchers.iter().map(|matcher| quote(matcher)).collect();
            return Err(format!("invalid matcher {}, must be one of [{}]", quote(key), matchers.join(" ")));
        }
        let mut take = |key| data.remove(key).unwrap_or_default();
        let (by_value, by_regex, by_path, by_file) =
            (take("by-value"), take("by-value-regex"), take("by-path"), take("by-file-path"));
        if !by_value.is_empty() && !by_regex.is_empty() {
            return Err(r#"only one of ["by-value", "by-value-regex"] can be provided"#.to_owned());
        }
        let given = |text: String| (!text.is_empty()).then_some(text);
        Ok(Self {
            by_value,
            by_regex: given(by_regex).map(|expression| regexp::compile(&expression)).transpose()?,
            path: given(by_path.clone()).map(|path| PathPattern::new(&path)),
            by_path,
            // The original reads the pattern only when it holds a resource against it.
            by_file: given(by_file)
                .filter(|_| has_items)
                .map(|pattern| Glob::new(&pattern))
                .transpose()
                .map_err(|error| error.to_string())?,
            put_value: take("put-value"),
            put_comment: take("put-comment"),
            ..Self::default()
        })
    }

    /// Only a path to one certain field and a value are given: the field is set whether or not it is there.
    fn puts_by_absolute_path(&self) -> bool {
        self.by_value.is_empty()
            && self.by_regex.is_none()
            && !self.put_value.is_empty()
            && self.by_path.split('.').all(|part| !part.is_empty() && !part.contains(['*', '[']))
    }

    fn put_at_path(&mut self, item: &mut Resource) -> Result<(), String> {
        let path: Vec<&str> = self.by_path.split('.').collect();
        let Some((last, parents)) = path.split_last() else { return Ok(()) };
        if let Some(parent) = lookup::make(item.node_mut(), parents, Kind::Mapping)?
            && parent.tag() != Tag::Null
        {
            lookup::expect_kind(parent, Kind::Mapping)?;
            // A new field keeps its quotes; an old one gives it its own and thereby its type.
            let mut value = Node::string_for_field(self.put_value.as_str());
            value.set_tag(Tag::None);
            parent.set(last, value);
        }
        let (path, value) = (self.by_path.clone(), self.put_value.clone());
        limits::produce(value.len())?;
        self.add_result(path, &value)?;
        Ok(())
    }

    /// Looks without touching: most resources have nothing to be changed, and editing copies what is shared.
    fn finds(&self, item: &Resource) -> bool {
        if self.path.is_some() && (self.by_value.is_empty() && self.by_regex.is_none()) {
            return true;
        }
        fields::any(item.node(), |node| node.is_scalar() && self.value_matches(fields::raw_text(node)))
            || (!self.put_comment.is_empty() && self.path.is_some())
    }

    /// A text that is too much for the expression counts as one that matches, so that the call ends.
    fn value_matches(&self, value: &str) -> bool {
        (!self.by_value.is_empty() && self.by_value == value)
            || self.by_regex.as_ref().is_some_and(|regex| regex.is_match(value).unwrap_or(true))
    }

    fn matches(&self, value: &str, path: &str) -> bool {
        let by_any_value = !self.by_value.is_empty() || self.by_regex.is_some();
        (!by_any_value || self.value_matches(value))
            && match &self.path {
                Some(pattern) => pattern.matches(path),
                None => by_any_value,
            }
    }

    /// The text with `${1}` and so on replaced by what the expression's groups found in the field's value.
    fn fill_in(&self, text: &str, value: &str) -> Result<String, String> {
        let Some(regex) = &self.by_regex else { return Ok(text.to_owned()) };
        let mut filled = text.to_owned();
        if text.contains("${") && regex.has_groups() {
            let captures = regex.captures(value)?;
            for (number, group) in captures.iter().flat_map(|found| found.iter().enumerate()).skip(1) {
                let group = group.map_or("", |group| group.as_str());
                filled = limits::replaced(&filled, &format!("${{{number}}}"), group)?;
            }
        }
        if has_group(&filled) { Err("unable to resolve capture groups".to_owned()) } else { Ok(filled) }
    }

    fn add_result(&mut self, path: String, value: &str) -> Result<(), OverLimit> {
        let deed = if self.put_value.is_empty() && self.put_comment.is_empty() {
            "Matched field value"
        } else {
            "Mutated field value to"
        };
        limits::push(
            &mut self.results,
            ResultItem {
                message: format!("{deed} {}", quote(value)),
                field: Some(FieldRef { path, ..FieldRef::default() }),
                file: Some(FileRef { path: self.file.clone(), index: 0 }),
                ..ResultItem::default()
            },
        )
    }
}

/// Whether a text refers to a group by its number: `${1}`.
fn has_group(text: &str) -> bool {
    text.match_indices("${").any(|(at, mark)| {
        let rest = &text.as_bytes()[at + mark.len()..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        digits > 0 && rest.get(digits) == Some(&b'}')
    })
}

impl Visitor for Search {
    fn list(&mut self, pair: &mut Pair, path: &str) -> Result<(), String> {
        let concerned = !self.put_comment.is_empty()
            && !pair.value.is_empty()
            && self.path.as_ref().is_some_and(|pattern| pattern.matches(path));
        if concerned {
            limits::produce(self.put_comment.len())?;
            pair.key.set_line_comment(format!("# {}", self.put_comment));
            pair.value.set_flow(true);
            let text = limits::written(&pair.value);
            pair.value.set_flow(false);
            self.add_result(format!("{} # {}", self.by_path, self.put_comment), text?.trim())?;
        }
        Ok(())
    }

    fn scalar(&mut self, node: &mut Node, path: &str) -> Result<(), String> {
        let value = node.scalar_text().cloned().unwrap_or_default();
        if !self.matches(&value, path) {
            return Ok(());
        }
        // What cannot be filled in leaves nothing behind, as in the original, and then fails.
        if !self.put_comment.is_empty() {
            let comment = self.fill_in(&self.put_comment, &value);
            limits::produce(comment.as_ref().map_or(0, String::len))?;
            node.set_line_comment(comment.as_ref().map_or(String::new(), |comment| format!("# {comment}")));
            comment?;
        }
        if !self.put_value.is_empty() {
            let new = self.fill_in(&self.put_value, &value);
            limits::produce_instead(new.as_ref().map_or(0, String::len), value.len())?;
            node.set_scalar(new.as_deref().unwrap_or_default());
            new?;
            node.set_tag(Tag::None);
        }
        if !self.file.is_empty() {
            limits::produce(path.len())?;
            let text = limits::written(node)?;
            self.add_result(path.to_owned(), text.trim())?;
        }
        Ok(())
    }
}
