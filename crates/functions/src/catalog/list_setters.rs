//! `list-setters`: says which setters a package has, with their values and how often they are used.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use loggia_krm::{Kptfile, Resource, ResourceList, ResultItem, Severity};
use loggia_yaml::{Node, Pair, node_to_string, parse_first};

use crate::kyaml::fields::{self, Visitor};
use crate::kyaml::outcome::{Shape, conclude};
use crate::kyaml::{data, setters};
use crate::limits;
use crate::{Failure, Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "list-setters",
    purpose: "List the setters of a package with their values",
    role: Role::Validator,
    manual: include_str!("list_setters.md"),
    guarded: false,
    versions: &[
        Version {
            tags: &["latest", "unstable", "v0.1"],
            framework: Framework::KyamlTwice,
            run: Run::List(|list| run(list, Absence::Warns)),
        },
        Version {
            tags: &["v0.1.0"],
            framework: Framework::OldKyamlTwice,
            run: Run::List(|list| run(list, Absence::Fails)),
        },
    ],
};

/// What a package without setters comes to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absence {
    Warns,
    Fails,
}

struct Scalar {
    value: String,
    /// The YAML type without its `!!`.
    kind: String,
    count: usize,
}

struct List {
    values: Vec<String>,
    count: usize,
}

#[derive(Default)]
struct Inventory {
    scalars: BTreeMap<String, Scalar>,
    lists: BTreeMap<String, List>,
}

fn run(list: &mut ResourceList, absence: Absence) -> Result<(), Failure> {
    let results = take_inventory(&list.items).map(|inventory| inventory.results());
    let outcome = results.and_then(|results| match (results.is_empty(), absence) {
        (true, Absence::Fails) => Err("no setters found".to_owned()),
        (true, Absence::Warns) => Ok(vec![ResultItem::new(Severity::Warning, "no setters found")]),
        (false, _) => Ok(results),
    });
    let shape = match absence {
        Absence::Warns => Shape::List,
        Absence::Fails => Shape::Named(FUNCTION.name),
    };
    conclude(list, shape, outcome, |error| format!("failed to list setters: {error}"))
}

fn take_inventory(items: &[Resource]) -> Result<Inventory, String> {
    let mut inventory = Inventory::default();
    for (name, value) in declared(items)? {
        inventory.declare(name, value);
    }
    for item in items.iter().filter(|item| setters::has_setters(item)) {
        // The copy shares its children until they are written to, and nothing is.
        fields::visit(&mut item.node().clone(), &mut inventory)?;
    }
    Ok(inventory)
}

/// The setters that the package's own Kptfile gives values to. What is missing on the way is no error.
fn declared(items: &[Resource]) -> Result<BTreeMap<String, String>, String> {
    let mut found = BTreeMap::new();
    let mut by_path: HashMap<&str, &Resource> = HashMap::new();
    for item in items {
        by_path.entry(item.path()).or_insert(item);
    }
    let Some(resource) = by_path.get("Kptfile").copied() else { return Ok(found) };
    let kptfile =
        Kptfile::from_resource(resource, "").map_err(|error| format!("unable to read Kptfile: {error}"))?;
    let mutators = resource.node().at(&["pipeline", "mutators"]).map(Node::items).unwrap_or_default();
    let functions = kptfile.pipeline.into_iter().flat_map(|pipeline| pipeline.mutators);
    for (function, written) in functions.zip(mutators) {
        if !function.image.contains("apply-setters") {
            continue;
        }
        if written.get("configMap").is_some_and(Node::is_mapping) {
            found.extend(function.config_map);
        } else if let Some(config) =
            by_path.get(function.config_path.as_str()).filter(|_| !function.config_path.is_empty())
        {
            limits::work(32 * config.node().get("data").map_or(1, Node::len))?;
            found.extend(data::of(config.node()));
        } else {
            return Ok(BTreeMap::new());
        }
    }
    Ok(found)
}

// === impl Inventory ===

impl Inventory {
    fn declare(&mut self, name: String, value: String) {
        let parsed = parse_first(&value).ok().flatten().map(|document| document.root);
        if let Some(items) = parsed.filter(Node::is_sequence) {
            let values = items.items().iter().map(|item| node_to_string(item).replace('\n', "")).collect();
            self.lists.insert(name, List { values, count: 0 });
        } else {
            self.scalars.insert(name, Scalar { value, kind: "str".to_owned(), count: 0 });
        }
    }

    /// One for each setter by name; of a name that is both, the list first.
    fn results(&self) -> Vec<ResultItem> {
        let lists = self.lists.iter().map(|(name, list)| (name, 0, list.to_string()));
        let scalars = self.scalars.iter().map(|(name, scalar)| (name, 1, scalar.to_string()));
        let mut entries: Vec<(&String, i32, String)> = lists.chain(scalars).collect();
        entries.sort_by_key(|(name, rank, _)| (*name, *rank));
        let message = |(name, _, rest): (&String, i32, String)| format!("Name: {name}, {rest}");
        let item = |message| ResultItem { message, ..ResultItem::default() };
        entries.into_iter().map(message).map(item).collect()
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value: {}, Type: {}, Count: {}", self.value, self.kind, self.count)
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value: [{}], Type: array, Count: {}", self.values.join(", "), self.count)
    }
}

impl Visitor for Inventory {
    fn list(&mut self, pair: &mut Pair, _: &str) -> Result<(), String> {
        if let Some(pattern) = setters::pattern(setters::list_comment(pair)) {
            let values = || setters::sorted_items(&pair.value).into_iter().map(str::to_owned).collect();
            let name = setters::name(pattern).to_owned();
            self.lists.entry(name).or_insert_with(|| List { values: values(), count: 0 }).count += 1;
        }
        Ok(())
    }

    fn scalar(&mut self, node: &mut Node, _: &str) -> Result<(), String> {
        let Some(pattern) = setters::pattern(node.comments().line) else { return Ok(()) };
        let tag = node.tag_text();
        let kind = tag.strip_prefix("!!").unwrap_or(tag);
        // Of a name that occurs twice in a pattern, the last value counts, once.
        let derived: BTreeMap<_, _> = setters::derive(pattern, fields::raw_text(node)).into_iter().collect();
        for (name, value) in derived {
            let scalar = self.scalars.entry(name.to_owned()).or_insert_with(|| Scalar {
                value: value.to_owned(),
                kind: kind.to_owned(),
                count: 0,
            });
            if scalar.kind == "str" {
                kind.clone_into(&mut scalar.kind);
            }
            scalar.count += 1;
        }
        Ok(())
    }
}
