//! `set-namespace`: one namespace for all resources, and for what refers to it.
//!
//! The current behaviour is here; `set_namespace/` has what older versions did instead.

mod config;
mod kustomize;
mod legacy;
mod origin;

use std::collections::{BTreeSet, HashSet};

use loggia_go::quote;
use loggia_krm::{Resource, ResourceList, ResultItem};
use loggia_yaml::Node;

use self::config::Config;
use self::origin::Origin;
use crate::failure::Failure;
use crate::limits;
use crate::sdk::depends_on::{DEPENDS_ON, Reference};
use crate::sdk::object::{self, DEFAULT_NAMESPACE, Object, UNKNOWN_NAMESPACE, Unmatched};
use crate::sdk::{report, scope};
use crate::{Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "set-namespace",
    purpose: "Set the namespace of all resources",
    role: Role::Mutator,
    manual: include_str!("set_namespace.md"),
    guarded: false,
    versions: &[
        Version {
            tags: &["latest"],
            framework: Framework::Sdk,
            run: Run::List(|list| set(list, Rules::Newest)),
        },
        Version {
            tags: &["v0.4.5"],
            framework: Framework::Sdk,
            run: Run::List(|list| set(list, Rules::Lenient)),
        },
        // The tag of another registry, whose last build has the sources of 2025.
        Version {
            tags: &["unstable"],
            framework: Framework::Sdk,
            run: Run::List(|list| set(list, Rules::Origins)),
        },
        Version { tags: &["v0.4.1", "v0.4.0"], framework: Framework::Sdk, run: Run::List(legacy::run_0_4) },
        Version { tags: &["v0.3.1"], framework: Framework::Sdk, run: Run::List(legacy::run_0_3) },
        Version {
            tags: &["v0.2.0", "v0.2"],
            framework: Framework::OldKyaml,
            run: Run::List(kustomize::run_0_2),
        },
        Version {
            tags: &["v0.1.4", "v0.1"],
            framework: Framework::OldKyaml,
            run: Run::List(kustomize::run_0_1),
        },
    ],
};

const CONVERSION_SERVICE: [&str; 5] = ["spec", "conversion", "webhook", "clientConfig", "service"];
const API_SERVICE: [&str; 2] = ["spec", "service"];

/// Versions that differ in what they insist on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// A bad config is a failure, and only a service that is named gets a namespace.
    Newest,
    /// A bad config is no more than a result, and every definition and API service gets a service's namespace.
    Lenient,
    /// As [`Rules::Lenient`]; and what comes from upstream must come from one namespace.
    Origins,
}

/// What becomes of the namespaces, and what there is to say about it.
struct Change<'a> {
    config: &'a Config,
    rules: Rules,
    infos: Vec<ResultItem>,
    count: usize,
    old: BTreeSet<String>,
}

fn set(list: &mut ResourceList, rules: Rules) -> Result<(), Failure> {
    let config = match Config::read(list.function_config.as_ref()) {
        Ok(config) => config,
        Err(message) => {
            let result = report::error_about(message, list.function_config.as_ref());
            report::append(list, [result]);
            return if rules == Rules::Newest { Err(Failure::sdk_results()) } else { Ok(()) };
        }
    };
    let mut infos = Vec::new();
    if rules == Rules::Origins {
        match origin::survey(&list.items, config.matcher.is_some()) {
            Ok(warnings) => infos = warnings,
            Err(message) => {
                report::append(list, [report::error(message)]);
                return Ok(());
            }
        }
    }
    let targets = dependency_targets(&list.items);
    let mut change = Change { config: &config, rules, infos, count: 0, old: BTreeSet::new() };
    visit_cluster_scoped(&mut list.items, &mut change).map_err(Failure::sdk)?;
    visit_namespaced(&mut list.items, &mut change);
    let Change { infos: mut results, count, old, .. } = change;
    let new = quote(&config.namespace);
    results.push(report::info(match count {
        0 => format!("all matching namespaces are already {new}. no value changed"),
        _ => format!("namespace {} updated to {new}, {count} value(s) changed", bracketed(&old)),
    }));
    let (count, old) = update_depends_on(&mut list.items, &targets, &config);
    results.push(report::info(match count {
        0 => "all `depends-on` annotations are up-to-date. no `namespace` changed".to_owned(),
        _ => {
            let old = bracketed(&old);
            format!("`depends-on` annotation namespace {old} updated to {new}, {count} value(s) changed")
        }
    }));
    report::append(list, results);
    Ok(())
}

/// As Go prints a list: `[a b]`.
fn bracketed(words: &BTreeSet<String>) -> String {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    format!("[{}]", words.join(" "))
}

fn considered(items: &mut [Resource]) -> impl Iterator<Item = &mut Resource> {
    items.iter_mut().filter(|item| !Object::of(item).is_local_config())
}

// === impl Change ===

impl Change<'_> {
    /// What a value becomes. `origin` is where the resource came from, if that is known.
    fn apply(&mut self, origin: &str, current: &str, short: impl FnOnce() -> String) -> String {
        if origin == UNKNOWN_NAMESPACE {
            return current.to_owned();
        }
        let current = if current.is_empty() { DEFAULT_NAMESPACE } else { current };
        if current == self.config.namespace || !self.selects(origin, current, short) {
            return current.to_owned();
        }
        if limits::produce(self.config.namespace.len()).is_err() {
            return current.to_owned();
        }
        self.old.insert(current.to_owned());
        self.count += 1;
        self.config.namespace.clone()
    }

    fn selects(&mut self, origin: &str, current: &str, short: impl FnOnce() -> String) -> bool {
        let Some(matcher) = &self.config.matcher else { return true };
        if matcher == origin {
            // What is too much ends the call.
            let _ = limits::push(
                &mut self.infos,
                report::info(format!("[{}] has matching origin {origin}", short())),
            );
        }
        matcher == origin || matcher == current
    }
}

// === visiting ===

fn visit_cluster_scoped(items: &mut [Resource], change: &mut Change<'_>) -> Result<(), Unmatched> {
    for item in considered(items).filter(|item| !scope::is_namespaced(Object::of(item))) {
        let object = Object::of(item);
        if object.is_gvk("", "v1", "Namespace") {
            let Some(origin) = Origin::of(object) else { continue };
            let name = change.apply(origin.name, object.name(), || object.short());
            // As in the original: metadata that is not a mapping stays as it is.
            let _ = object::set_string(item.node_mut(), &["metadata", "name"], &name);
        } else if object.is_gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition") {
            if change.rules != Rules::Newest || converts_by_service(object) {
                visit_service(item.node_mut(), &CONVERSION_SERVICE, change)?;
            }
        } else if object.is_gvk("apiregistration.k8s.io", "v1", "APIService") {
            if change.rules != Rules::Newest || names_service(object, &API_SERVICE) {
                visit_service(item.node_mut(), &API_SERVICE, change)?;
            }
        } else if matches!(object.kind(), "ClusterRoleBinding" | "RoleBinding") {
            visit_subjects(item.node_mut(), change);
        }
    }
    Ok(())
}

fn converts_by_service(object: Object<'_>) -> bool {
    object.text(&["spec", "conversion", "strategy"]) == "Webhook"
        && names_service(object, &CONVERSION_SERVICE)
}

fn names_service(object: Object<'_>, path: &[&str]) -> bool {
    matches!(object::string(object.0, &[path, &["name"]].concat()), Ok(Some(_)))
}

fn visit_service(root: &mut Node, path: &[&str], change: &mut Change<'_>) -> Result<(), Unmatched> {
    let path = [path, &["namespace"]].concat();
    let unmatched = object::Owner::of(root).unmatched_string(&path);
    let current = object::string(root, &path).map_err(|_| unmatched.clone())?.unwrap_or_default();
    let new = change.apply("", current, String::new);
    object::set_string(root, &path, &new).map_err(|_| unmatched)
}

fn visit_subjects(root: &mut Node, change: &mut Change<'_>) {
    if object::mappings(root, "subjects").is_empty() {
        return;
    }
    let subjects = object::get_mut(root, "subjects").and_then(Node::items_mut);
    for subject in subjects.into_iter().flatten() {
        if object::get(subject, "namespace").is_some() {
            let new = change.apply("", object::text(subject, &["namespace"]), String::new);
            let _ = object::set_string(subject, &["namespace"], &new);
        }
    }
}

fn visit_namespaced(items: &mut [Resource], change: &mut Change<'_>) {
    for item in considered(items).filter(|item| scope::is_namespaced(Object::of(item))) {
        let object = Object::of(item);
        let Some(origin) = Origin::of(object) else { continue };
        let namespace = change.apply(origin.namespace, object.namespace(), || object.short());
        let _ = object::set_string(item.node_mut(), &["metadata", "namespace"], &namespace);
    }
}

// === depends-on ===

/// What other resources may depend on, by reference, before anything changes.
fn dependency_targets(items: &[Resource]) -> HashSet<String> {
    let objects = items.iter().map(Object::of).filter(|object| !object.is_local_config());
    objects
        .filter_map(|object| {
            let namespace = scope::effective_namespace(object);
            let group = object.api_version().split_once('/').map_or("", |(group, _)| group);
            let (kind, name) = (object.kind(), object.name());
            let reference = Reference { group, namespace: Some(namespace), kind, name };
            (namespace != UNKNOWN_NAMESPACE).then(|| reference.to_string())
        })
        .collect()
}

fn update_depends_on(
    items: &mut [Resource],
    targets: &HashSet<String>,
    config: &Config,
) -> (usize, BTreeSet<String>) {
    let mut count = 0;
    let mut old = BTreeSet::new();
    for item in considered(items) {
        let Some(text) = item.annotation(DEPENDS_ON).filter(|text| targets.contains(*text)) else { continue };
        let Some(reference @ Reference { namespace: Some(namespace), .. }) = Reference::parse(text) else {
            continue;
        };
        let matches = config.matcher.as_deref().is_none_or(|matcher| matcher == namespace);
        if namespace == config.namespace || !matches {
            continue;
        }
        if limits::produce(config.namespace.len()).is_err() {
            break;
        }
        old.insert(namespace.to_owned());
        count += 1;
        let new = Reference { namespace: Some(&config.namespace), ..reference }.to_string();
        let _ = object::set_string(item.node_mut(), &["metadata", "annotations", DEPENDS_ON], &new);
    }
    (count, old)
}
