//! `apply-replacements`: copies values from fields of one resource to fields of others.

mod config;
mod identity;
mod selector;
mod structured;
mod target;

use std::rc::Rc;

use loggia_krm::{Resource, ResourceList};
use loggia_yaml::{Kind, Node};

use self::config::{Options, Replacement, Select, Source, Target};
use self::identity::Pattern;
use self::selector::Selector;
use self::target::Matching;
use crate::kustomize::resource_map::Id;
use crate::kyaml::fields::MAX_DEPTH;
use crate::kyaml::lookup;
use crate::limits::{self, OverLimit};
use crate::sdk::object::Object;
use crate::sdk::report;
use crate::{Failure, Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "apply-replacements",
    purpose: "Copy the value of a field to fields of other resources",
    role: Role::Mutator,
    manual: include_str!("apply_replacements.md"),
    guarded: false,
    versions: &[
        Version {
            tags: &["latest", "unstable", "v0.1"],
            framework: Framework::Sdk,
            run: Run::List(|list| run(list, Rules::Patterns)),
        },
        Version {
            tags: &["v0.1.2"],
            framework: Framework::Sdk,
            run: Run::List(|list| run(list, Rules::Strict)),
        },
        Version {
            tags: &["v0.1.1"],
            framework: Framework::Sdk,
            run: Run::List(|list| run(list, Rules::Lenient)),
        },
        Version {
            tags: &["v0.1.0"],
            framework: Framework::Sdk,
            run: Run::List(|list| run(list, Rules::First)),
        },
    ],
};

/// The rules of kustomize that a version has, from old to new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rules {
    /// As [`Rules::Lenient`], and a missing config is one of the wrong kind.
    First,
    /// A path leads to one field, and to a missing one silently.
    Lenient,
    /// A path may lead to many fields, and must lead to one; there are literal sources.
    Strict,
    /// Targets are selected by regular expressions; a path may go on inside text that is YAML or JSON.
    Patterns,
}

const DEFAULT_PATH: &str = "metadata.name";

fn run(list: &mut ResourceList, rules: Rules) -> Result<(), Failure> {
    // A copy of the items costs a counter each; nothing of a failed run stays.
    let before = list.items.clone();
    let applied = replacements(list.function_config.as_ref(), rules).and_then(|replacements| {
        let mut names = Names::default();
        replacements.into_iter().try_for_each(|replacement| apply(list, &mut names, replacement, rules))
    });
    applied.map_err(|error| {
        list.items = before;
        report::append(list, [report::error(error)]);
        Failure::sdk_results()
    })
}

fn replacements(config: Option<&Node>, rules: Rules) -> Result<Vec<Replacement>, String> {
    const KIND: &str = "ApplyReplacements";
    const API_VERSION: &str = "fn.kpt.dev/v1alpha1";
    let config = config.filter(|config| !config.is_empty());
    if config.is_none() && rules > Rules::First {
        return Err("FunctionConfig is missing. Expect `ApplyReplacements`".to_owned());
    }
    let nothing = Node::mapping();
    let config = config.unwrap_or(&nothing);
    let (kind, api_version) = (Object(config).kind(), Object(config).api_version());
    if kind != KIND || api_version != API_VERSION {
        return Err(format!(
            "received functionConfig of kind {kind} and apiVersion {api_version}, only functionConfig of kind {KIND} and apiVersion {API_VERSION} is supported"
        ));
    }
    config::decode(config, rules)
        .map_err(|error| format!("unable to convert functionConfig to replacements:\n{error}"))
}

/// What every item is called. Reading that for each replacement would be most of the work.
#[derive(Default)]
struct Names(Vec<Option<Ids>>);

/// The names of one item, or why they cannot be read.
type Ids = Rc<Result<Vec<Id>, String>>;

impl Names {
    fn of(&mut self, at: usize, item: &Resource) -> Result<Ids, OverLimit> {
        limits::work(8)?;
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        let known = self.0[at].get_or_insert_with(|| Rc::new(Id::all_of(item)));
        limits::work(known.as_ref().as_ref().map_or(0, Vec::len))?;
        Ok(Rc::clone(known))
    }

    /// An item may have another name from now on.
    fn forget(&mut self, at: usize) {
        self.0[at] = None;
    }
}

fn apply(
    list: &mut ResourceList,
    names: &mut Names,
    replacement: Replacement,
    rules: Rules,
) -> Result<(), String> {
    let Replacement { source, source_value, targets } = replacement;
    let Some(targets) = targets.filter(|_| source.is_some() || source_value.is_some()) else {
        return Err("replacements must specify a source and at least one target".to_owned());
    };
    let value = match (source, source_value) {
        (Some(_), Some(_)) => return Err("value and resource selectors are mutually exclusive".to_owned()),
        (Some(source), None) => source_of(list, names, &source, rules)?,
        (None, value) => Node::verbatim(value.unwrap_or_default()),
    };
    let size = value.text_size(limits::output_left().saturating_add(1));
    targets.into_iter().try_for_each(|target| apply_to(list, names, (&value, size), target, rules))
}

// === sources ===

fn source_of(list: &ResourceList, names: &mut Names, source: &Source, rules: Rules) -> Result<Node, String> {
    let mut found = None;
    for (at, item) in list.items.iter().enumerate() {
        let ids = names.of(at, item)?;
        let ids = ids.as_ref().as_ref().map_err(|error| match rules {
            Rules::Strict | Rules::Patterns => format!("error getting node IDs: {error}"),
            Rules::First | Rules::Lenient => error.clone(),
        })?;
        if ids.iter().any(|id| id.is_selected_by(&source.id)) && found.replace(item).is_some() {
            return Err(format!("multiple matches for selector {source}"));
        }
    }
    let item = found.ok_or_else(|| format!("nothing selected by {source}"))?;
    let path = if source.field_path.is_empty() { DEFAULT_PATH } else { &source.field_path };
    let parts = target::split(path);
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let node = lookup::get(item.node(), &parts).map_err(|error| match rules {
        Rules::Strict | Rules::Patterns => format!("error looking up replacement source: {error}"),
        Rules::First | Rules::Lenient => error,
    })?;
    let Some(node) = node.filter(|node| node.is_scalar() && !node.is_null() || !node.is_empty()) else {
        let source = match rules {
            Rules::Strict | Rules::Patterns => source.id.to_string(),
            Rules::First | Rules::Lenient => {
                Source { field_path: path.to_owned(), ..source.clone() }.to_string()
            }
        };
        return Err(format!("fieldPath `{path}` is missing for replacement source {source}"));
    };
    refined(node, source.options.as_ref())
}

/// The part of a value that the options ask for.
fn refined(node: &Node, options: Option<&Options>) -> Result<Node, String> {
    let Some(options) = options.filter(|options| !options.delimiter.is_empty()) else {
        return Ok(node.clone());
    };
    let text = node.scalar().ok_or(NO_SCALAR)?;
    let part =
        usize::try_from(options.index).ok().and_then(|index| text.split(&options.delimiter).nth(index));
    let part =
        part.ok_or_else(|| format!("options.index {} is out of bounds for value {text}", options.index))?;
    let mut node = node.clone();
    node.set_scalar(part);
    Ok(node)
}

const NO_SCALAR: &str = "delimiter option can only be used with scalar nodes";

// === targets ===

fn apply_to(
    list: &mut ResourceList,
    names: &mut Names,
    value: (&Node, usize),
    mut target: Target,
    rules: Rules,
) -> Result<(), String> {
    let select = target.select.take().ok_or("target must specify resources to select")?;
    if target.field_paths.is_empty() {
        target.field_paths.push(DEFAULT_PATH.to_owned());
    }
    let pattern = Pattern::new(&select.id, rules)?;
    let reject =
        target.reject.iter().map(|reject| Pattern::new(&reject.id, rules)).collect::<Result<Vec<_>, _>>()?;
    let wanted = Attributes::new(&select);
    let unwanted: Vec<Attributes> =
        target.reject.iter().filter(|reject| reject.names_attributes()).map(Attributes::new).collect();
    for (at, item) in list.items.iter_mut().enumerate() {
        let ids = names.of(at, item)?;
        let ids = ids.as_ref().as_ref().map_err(Clone::clone)?;
        if !wanted.match_those_of(item)? || any_matches(&unwanted, item)? {
            continue;
        }
        limits::work(reject.len())?;
        let rejected = |ids: &[Id]| -> Result<bool, OverLimit> {
            for (pattern, _) in reject.iter().zip(&target.reject).filter(|(_, reject)| !reject.id.is_empty())
            {
                if pattern.matches_any(ids)? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        let chosen = match rules {
            Rules::Strict | Rules::Patterns => !rejected(ids)? && pattern.matches_any(ids)?,
            Rules::First | Rules::Lenient => {
                let mut chosen = false;
                for id in ids {
                    chosen |= pattern.matches(id)? && !rejected(std::slice::from_ref(id))?;
                }
                chosen
            }
        };
        if chosen {
            let copied = copy_to(item.node_mut(), value, &target, rules);
            names.forget(at);
            limits::blame(item);
            copied?;
        }
    }
    Ok(())
}

/// The labels and annotations that a selector asks for. What is wrong with them shows once they are needed.
struct Attributes {
    annotations: Result<Selector, String>,
    labels: Result<Selector, String>,
}

impl Attributes {
    fn new(select: &Select) -> Self {
        Self { annotations: Selector::parse(&select.annotations), labels: Selector::parse(&select.labels) }
    }

    fn match_those_of(&self, item: &Resource) -> Result<bool, String> {
        let annotations = self.annotations.as_ref().map_err(Clone::clone)?;
        let labels = self.labels.as_ref().map_err(Clone::clone)?;
        Ok(annotations.matches(|key| item.annotation(key)) && labels.matches(|key| item.label(key)))
    }
}

fn any_matches(unwanted: &[Attributes], item: &Resource) -> Result<bool, String> {
    for attributes in unwanted {
        if attributes.match_those_of(item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn copy_to(
    root: &mut Node,
    (value, size): (&Node, usize),
    target: &Target,
    rules: Rules,
) -> Result<(), String> {
    let options = target.options.as_ref();
    let create = options.filter(|options| options.create).map(|_| value.kind());
    for path in &target.field_paths {
        let parts = target::split(path);
        limits::work(1 + path.len())?;
        if parts.len() > MAX_DEPTH {
            return Err(format!("a field path has {} parts; at most {MAX_DEPTH} are followed", parts.len()));
        }
        if rules < Rules::Strict {
            limits::produce(size)?;
            copy_to_one(root, value, &parts, options, create)?;
            continue;
        }
        if rules == Rules::Patterns && structured::set(root, value, &parts, create).is_ok() {
            continue;
        }
        let verb = if create.is_some() { "find or create" } else { "find" };
        let missing = format!("unable to {verb} field {} in replacement target", loggia_go::quote(path));
        let matching = Matching { create, into_text: rules == Rules::Patterns };
        let mut fault = None;
        let count = matching
            .visit(root, &parts, &mut |node| {
                if fault.is_none() {
                    let produced = limits::produce(size).map_err(String::from);
                    fault = produced.and_then(|()| set_field(node, value, options)).err();
                }
            })
            .map_err(|error| format!("{missing}: {error}"))?;
        match (count, fault) {
            (0, _) => return Err(missing),
            (_, Some(fault)) => return Err(fault),
            (_, None) => {}
        }
    }
    Ok(())
}

fn copy_to_one(
    root: &mut Node,
    value: &Node,
    parts: &[String],
    options: Option<&Options>,
    create: Option<Kind>,
) -> Result<(), String> {
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    if create.is_none() && lookup::get(root, &parts)?.is_none() {
        return Ok(());
    }
    let Some(field) = lookup::make(root, &parts, create.unwrap_or(Kind::Scalar))? else { return Ok(()) };
    let mut value = value.clone();
    if let Some(text) = joined(field, &value, options)? {
        value.set_scalar(text);
    }
    replace(field, value);
    Ok(())
}

/// A scalar takes over the text alone, so that its type and its quotes stay; anything else is replaced.
fn set_field(field: &mut Node, value: &Node, options: Option<&Options>) -> Result<(), String> {
    let text = joined(field, value, options)?;
    if field.is_scalar() {
        field.set_scalar(text.unwrap_or_else(|| value.scalar().unwrap_or_default().to_owned()));
    } else {
        replace(field, value.clone());
    }
    Ok(())
}

/// A field's text with the part replaced that the options name.
fn joined(field: &Node, value: &Node, options: Option<&Options>) -> Result<Option<String>, String> {
    let Some(Options { delimiter, index, .. }) = options.filter(|options| !options.delimiter.is_empty())
    else {
        return Ok(None);
    };
    let mut parts: Vec<&str> = field.scalar().ok_or(NO_SCALAR)?.split(delimiter.as_str()).collect();
    let value = if value.is_null() { "" } else { value.scalar().unwrap_or_default() };
    match usize::try_from(*index) {
        Err(_) => parts.insert(0, value),
        Ok(index) => match parts.get_mut(index) {
            Some(part) => *part = value,
            None => parts.push(value),
        },
    }
    let length = parts.iter().map(|part| part.len() + delimiter.len()).sum();
    limits::produce_instead(length, field.scalar().map_or(0, str::len))?;
    Ok(Some(parts.join(delimiter)))
}

fn replace(field: &mut Node, mut value: Node) {
    value.fill_comments_from(field);
    *field = value;
}
