//! `set-namespace` as it was up to 0.4.1: 0.3.1 replaces one namespace, 0.4.0 and 0.4.1 replace them all.
//!
//! Neither knows where a resource came from. 0.4 has a table of what belongs into a namespace; 0.3 takes
//! what has one.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use loggia_go::quote;
use loggia_krm::{Resource, ResourceList};
use loggia_yaml::Node;

use super::config::PACKAGE_CONTEXT;
use super::{API_SERVICE, CONVERSION_SERVICE};
use crate::failure::Failure;
use crate::limits;
use crate::sdk::depends_on::{DEPENDS_ON, Reference};
use crate::sdk::object::{self, Object};
use crate::sdk::{report, scope};

const NAMESPACE: [&str; 2] = ["metadata", "namespace"];

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// 0.3: the one namespace of a package is replaced.
    One,
    /// 0.4: every namespace is.
    All,
}

/// A field is of another type than the function insists on; the path with slashes.
#[derive(Debug)]
struct Broken(String);

/// Why a config cannot be used.
enum Refusal {
    Message(String),
    Broken(Broken),
}

/// What to do.
struct Config {
    namespace: String,
    matcher: String,
}

/// Runs as 0.4.0 and 0.4.1 do.
pub(super) fn run_0_4(list: &mut ResourceList) -> Result<(), Failure> {
    let broken = |list: &mut ResourceList, broken: Broken| {
        report::append(list, [report::error(broken.to_string())]);
        Err(Failure::sdk(broken))
    };
    let config = match Config::read(list.function_config.as_ref(), Rules::All) {
        Ok(config) => config,
        Err(Refusal::Broken(cause)) => return broken(list, cause),
        Err(Refusal::Message(message)) => {
            report::append(list, [report::error(message)]);
            return Err(Failure::sdk_results());
        }
    };
    let (mut old, mut count) = (BTreeSet::new(), 0);
    let visited = visit_all(&mut list.items, Rules::All, &mut |current| {
        if current == config.namespace {
            return current;
        }
        old.insert(current);
        count += 1;
        config.namespace.clone()
    });
    let visited = match visited {
        Ok(visited) => visited,
        Err(cause) => return broken(list, cause),
    };
    update_depends_on(&mut list.items, &visited, &config.namespace, |namespace| old.contains(namespace));
    let new = quote(&config.namespace);
    let result = match (duplicate(&list.items), count) {
        (Some(message), _) => report::error(message),
        (None, 0) => report::info(format!("all namespaces are already {new}. no value changed")),
        (None, count) => {
            let old: Vec<String> = old.iter().map(|old| format!("\"{old}\"")).collect();
            report::info(format!("namespace {} updated to {new}, {count} value(s) changed", old.join(",")))
        }
    };
    report::append(list, [result]);
    Ok(())
}

/// Runs as 0.3.1 does, which says nothing on standard error whatever happens, and forgets results from before.
pub(super) fn run_0_3(list: &mut ResourceList) -> Result<(), Failure> {
    list.results = None;
    let ended = |list: &mut ResourceList, message: String| {
        report::append(list, [report::error(message)]);
        Err(Failure::kyaml(""))
    };
    let config = match Config::read(list.function_config.as_ref(), Rules::One) {
        Ok(config) => config,
        Err(Refusal::Broken(cause)) => return ended(list, cause.to_string()),
        Err(Refusal::Message(message)) => {
            let result = report::error_about(message, list.function_config.as_ref());
            report::append(list, [result]);
            return Ok(());
        }
    };
    let result = match replace_one(&mut list.items, &config) {
        Ok(Ok(())) => report::info("namespace updated"),
        Ok(Err(message)) => report::error(message),
        Err(message) => return ended(list, message),
    };
    report::append(list, [result]);
    Ok(())
}

/// Replaces the one namespace. Inside is what is wrong with the package, outside what ends the original.
fn replace_one(items: &mut [Resource], config: &Config) -> Result<Result<(), String>, String> {
    let mut found = BTreeSet::new();
    visit_all(items, Rules::One, &mut |current| {
        found.extend(Some(current.clone()).filter(|current| !current.is_empty()));
        current
    })
    .map_err(|broken| broken.to_string())?;
    let mut objects: BTreeMap<String, usize> = BTreeMap::new();
    for object in items.iter().map(Object::of).filter(|object| is_namespace(*object)) {
        if !object.is_local_config() && !object.name().is_empty() {
            *objects.entry(object.name().to_owned()).or_default() += 1;
        }
    }
    let old = match config.only_namespace(&objects, &found) {
        Ok(old) => old.ok_or("panic with runtime error: index out of range [0] with length 0")?,
        Err(message) => return Ok(Err(message)),
    };
    let visited = visit_all(items, Rules::One, &mut |current| {
        if !current.is_empty() && current == old { config.namespace.clone() } else { current }
    })
    .map_err(|broken| broken.to_string())?;
    update_depends_on(items, &visited, &config.namespace, |namespace| namespace == old);
    Ok(Ok(()))
}

// === impl Config ===

impl Config {
    fn read(config: Option<&Node>, rules: Rules) -> Result<Self, Refusal> {
        let empty = Node::mapping();
        let config = config.unwrap_or(&empty);
        let text = |path: &[&str]| text(config, path).map_err(Refusal::Broken);
        let given = |value: String, name: &str| {
            if value.is_empty() {
                Err(Refusal::Message(format!("`{name}` should not be empty")))
            } else {
                Ok(value)
            }
        };
        let namespace = match (Object(config).api_version(), Object(config).kind()) {
            ("v1", "ConfigMap") => match text(&["data", "namespace"])? {
                namespace if !namespace.is_empty() => namespace,
                _ if Object(config).name() == PACKAGE_CONTEXT => {
                    given(text(&["data", "name"])?, "data.name")?
                }
                namespace => given(namespace, "data.namespace")?,
            },
            ("fn.kpt.dev/v1alpha1", "SetNamespace") => given(text(&["namespace"])?, "namespace")?,
            _ if rules == Rules::All && config.is_empty() => {
                let message = "FunctionConfig is missing. Expect `ConfigMap` or `SetNamespace`";
                return Err(Refusal::Message(message.to_owned()));
            }
            (version, kind) => {
                return Err(Refusal::Message(format!(
                    "unknown functionConfig Kind={kind} ApiVersion={version}, expect `SetNamespace` or `ConfigMap`"
                )));
            }
        };
        // It is read from there whatever the kind of the config.
        let matcher = if rules == Rules::One { text(&["data", "namespaceMatcher"])? } else { String::new() };
        Ok(Self { namespace, matcher })
    }

    /// The namespace that is replaced: the config's matcher, the name of the one `Namespace`, or the only one
    /// there is.
    fn only_namespace(
        &self,
        objects: &BTreeMap<String, usize>,
        found: &BTreeSet<String>,
    ) -> Result<Option<String>, String> {
        if !self.matcher.is_empty() {
            return if objects.is_empty() {
                Ok(Some(self.matcher.clone()))
            } else {
                Err("found Namespace objects from the input resources, you cannot use `namespaceMatcher` in \
                     FunctionConfig together with Namespace objects"
                    .to_owned())
            };
        }
        let mut counts = objects.iter();
        match (counts.next(), counts.next()) {
            (Some((name, 1)), None) => Ok(Some(name.clone())),
            (Some((name, _)), None) => {
                Err(format!("found more than one Namespace objects of the same name {name}"))
            }
            (Some(_), Some(_)) => {
                let counts: Vec<String> =
                    objects.iter().map(|(name, count)| format!("{name}:{count}")).collect();
                Err(format!(
                    "cannot accept more than one Namespace objects from the input resources, found map[{}]",
                    counts.join(" ")
                ))
            }
            (None, _) if found.len() > 1 => {
                let found: Vec<&str> = found.iter().map(String::as_str).collect();
                Err(format!(
                    "all input namespace-scoped resources should be under the same namespace but found different \
                     namespaces: {} ",
                    found.join(",")
                ))
            }
            (None, _) => Ok(found.first().cloned()),
        }
    }
}

// === impl Broken ===

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The backtick is the original's.
        write!(f, "SubObject has unmatched field type: `{}", self.0)
    }
}

// === visiting ===

/// What a namespace becomes.
type Change<'a> = dyn FnMut(String) -> String + 'a;

/// Visits all items, and tells which of them have a field that holds a namespace.
fn visit_all(items: &mut [Resource], rules: Rules, change: &mut Change<'_>) -> Result<Vec<bool>, Broken> {
    items.iter_mut().map(|item| visit(item, rules, change)).collect()
}

fn visit(item: &mut Resource, rules: Rules, change: &mut Change<'_>) -> Result<bool, Broken> {
    let object = Object::of(item);
    if object.is_local_config() {
        return Ok(false);
    }
    let kind = object.kind();
    let path: Option<Vec<&str>> = match (object.api_version(), kind) {
        _ if is_namespace(object) => Some(vec!["metadata", "name"]),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => {
            Some([&CONVERSION_SERVICE[..], &["namespace"]].concat())
        }
        ("apiregistration.k8s.io/v1", "APIService") => Some([&API_SERVICE[..], &["namespace"]].concat()),
        _ => None,
    };
    let is_binding = kind == "ClusterRoleBinding" || (rules == Rules::All && kind == "RoleBinding");
    let is_namespaced = match rules {
        Rules::One => path.is_none() && !is_binding && object.has_namespace(),
        Rules::All => scope::is_namespaced(object),
    };
    let root = item.node_mut();
    let mut visited = path.is_some() || is_namespaced;
    if let Some(path) = path {
        visit_field(root, &path, change)?;
    } else if is_binding {
        visited |= visit_subjects(root, change)?;
    }
    if is_namespaced {
        visit_field(root, &NAMESPACE, change)?;
    }
    Ok(visited)
}

fn is_namespace(object: Object<'_>) -> bool {
    (object.api_version(), object.kind()) == ("v1", "Namespace")
}

fn text(node: &Node, path: &[&str]) -> Result<String, Broken> {
    let value = object::string(node, path).map_err(|_| Broken(path.join("/")))?;
    Ok(value.unwrap_or_default().to_owned())
}

/// What is missing is made, be it that it stays empty.
fn visit_field(root: &mut Node, path: &[&str], change: &mut Change<'_>) -> Result<(), Broken> {
    let old = text(root, path)?;
    let length = old.len();
    let new = change(old);
    if limits::produce_instead(new.len(), length).is_err() {
        return Ok(());
    }
    object::set_string(root, path, &new).map_err(|_| Broken(path.join("/")))
}

fn visit_subjects(root: &mut Node, change: &mut Change<'_>) -> Result<bool, Broken> {
    const SUBJECTS: &str = "subjects";
    let Some(subjects) = object::get_mut(root, SUBJECTS) else {
        // The original writes the list back, also where there was none.
        root.entry_sequence(SUBJECTS).set_flow(true);
        return Ok(false);
    };
    if !subjects.is_sequence() || !subjects.items().iter().all(Node::is_mapping) {
        return Err(Broken(SUBJECTS.to_owned()));
    }
    let mut visited = false;
    for subject in subjects.items_mut().into_iter().flatten() {
        if object::get(subject, "namespace").is_some() {
            let new = change(object::text(subject, &["namespace"]).to_owned());
            object::set_string(subject, &["namespace"], &new).map_err(|_| Broken(SUBJECTS.to_owned()))?;
            visited = true;
        }
    }
    Ok(visited)
}

// === what is left to do ===

/// Follows into `depends-on` annotations of what was visited, on what was visited.
///
/// The original takes `v1` for the group of the core, so that references to its kinds stay.
fn update_depends_on(items: &mut [Resource], visited: &[bool], new: &str, is_old: impl Fn(&str) -> bool) {
    fn key(group: &str, kind: &str, name: &str) -> String {
        format!("{group}/{kind}/{name}")
    }
    let mut targets = HashSet::new();
    for object in items.iter().zip(visited).filter(|(_, visited)| **visited).map(|(item, _)| Object::of(item))
    {
        let version = object.api_version();
        let group = version.split_once('/').map_or(version, |(group, _)| group);
        targets.insert(key(group, object.kind(), object.name()));
    }
    for item in items.iter_mut().zip(visited).filter(|(_, visited)| **visited).map(|(item, _)| item) {
        let reference = item.annotation(DEPENDS_ON).and_then(Reference::parse);
        let Some(reference @ Reference { namespace: Some(namespace), group, kind, name }) = reference else {
            continue;
        };
        if targets.contains(&key(group, kind, name)) && is_old(namespace) {
            let text = Reference { namespace: Some(new), ..reference }.to_string();
            let _ = object::set_string(item.node_mut(), &["metadata", "annotations", DEPENDS_ON], &text);
        }
    }
}

/// The first item that is there twice.
fn duplicate(items: &[Resource]) -> Option<String> {
    let mut seen = HashSet::new();
    items.iter().map(Object::of).find_map(|object| {
        let (version, kind) = (object.api_version(), object.kind());
        let (namespace, name) = (object.namespace(), object.name());
        (!seen.insert((version, kind, namespace, name))).then(|| {
            format!(
                "duplicate Resource(apiVersion={version}, kind={kind}, Namespace={namespace}, Name={name})"
            )
        })
    })
}
