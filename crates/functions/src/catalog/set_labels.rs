//! `set-labels`: labels on all resources, and on the selectors and templates that go with them.

mod kustomize;

use std::collections::{BTreeMap, HashSet};

use loggia_krm::{Resource, ResourceList, ResultItem, Results};
use loggia_yaml::Node;

use crate::failure::Failure;
use crate::limits;
use crate::sdk::config::{self, Mismatch, RunnerConfig};
use crate::sdk::object::{self, Object, Owner, Unmatched};
use crate::sdk::report;
use crate::{Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "set-labels",
    purpose: "Set labels on all resources, their selectors and templates",
    role: Role::Mutator,
    manual: include_str!("set_labels.md"),
    guarded: false,
    versions: &[
        Version { tags: &["latest", "unstable"], framework: Framework::Sdk, run: Run::List(run) },
        Version {
            tags: &["v0.2.0", "v0.2.1", "v0.2.2", "v0.2.3", "v0.2.4", "v0.2.5"],
            framework: Framework::Sdk,
            run: Run::List(run_0_2),
        },
        Version { tags: &["v0.1.5", "v0.1"], framework: Framework::OldKyaml, run: Run::List(kustomize::run) },
    ],
};

/// What to set, and how much of it was looked at.
struct Setter {
    labels: BTreeMap<String, String>,
    /// Whether what selects by labels gets them too.
    selectors: bool,
    count: usize,
}

/// Whether missing keys are added.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Created,
    LeftOut,
}

fn run(list: &mut ResourceList) -> Result<(), Failure> {
    set(list, true)
}

fn run_0_2(list: &mut ResourceList) -> Result<(), Failure> {
    set(list, false)
}

fn set(list: &mut ResourceList, with_options: bool) -> Result<(), Failure> {
    let mut results = Vec::new();
    let setter = match read_config(list.function_config.as_ref(), with_options) {
        Ok(setter) => setter,
        Err(message) => {
            report::append(list, [report::error(message)]);
            return Err(Failure::sdk_results());
        }
    };
    if setter.is_none() {
        results.push(report::info("`FunctionConfig` is not given"));
    }
    let passed = set_all(list, setter, &mut results);
    let failed = !passed || Results(results.clone()).has_errors();
    report::append(list, results);
    if failed { Err(Failure::sdk_results()) } else { Ok(()) }
}

fn set_all(list: &mut ResourceList, setter: Option<Setter>, results: &mut Vec<ResultItem>) -> bool {
    let is_target = |item: &Resource| !Object::of(item).is_local_config();
    if !list.items.iter().any(is_target) {
        results.push(report::info("no input resources"));
        return true;
    }
    let Some(mut setter) = setter.filter(|setter| {
        let config = list.function_config.as_ref().map(Object);
        config.is_some_and(|config| match (config.kind(), config.name()) {
            ("ConfigMap", "function-input") => !setter.labels.is_empty(),
            (kind, name) => !kind.is_empty() || !name.is_empty(),
        })
    }) else {
        return false;
    };
    if setter.labels.is_empty() {
        results.push(report::warning("no `labels` arguments are given in FunctionConfig"));
        return true;
    }
    for item in list.items.iter_mut().filter(|item| is_target(item)) {
        if let Err(unmatched) = setter.visit(item.node_mut()) {
            results.push(report::error(unmatched.to_string()));
        }
        if limits::blame(item) {
            break;
        }
    }
    results.push(report::info(format!("set {} labels in total", setter.count)));
    true
}

/// Reads the config; nothing if none is given, and the original's message if it cannot be read.
fn read_config(config: Option<&Node>, with_options: bool) -> Result<Option<Setter>, String> {
    let (labels, selectors) = match config::for_runner(config, "SetLabels")? {
        RunnerConfig::Absent => return Ok(None),
        RunnerConfig::Data(data) => (data, true),
        RunnerConfig::Own(config) => {
            let undecodable = |field: &str, Mismatch { found, expected }| {
                format!(
                    "unable to convert object to *setlabels.SetLabels with error: json: cannot unmarshal \
                     {found} into Go struct field SetLabels.{field} of type {expected}"
                )
            };
            let labels = config::json_string_map(config.get("labels"))
                .map_err(|mismatch| undecodable("labels", mismatch))?;
            let option = config.at(&["options", "setSelectorLabels"]).filter(|_| with_options);
            (labels, option.and_then(Node::as_bool).unwrap_or(true))
        }
    };
    Ok(Some(Setter { labels, selectors, count: 0 }))
}

// === impl Setter ===

impl Setter {
    fn visit(&mut self, root: &mut Node) -> Result<(), Unmatched> {
        let owner = Owner::of(root);
        self.update(root, &owner, &["metadata", "labels"], Missing::Created)?;
        if self.selectors {
            self.visit_selectors(root, &owner)?;
        }
        let kinds = Kinds::of(Object(root));
        let Some(spec) = object::get_mut(root, "spec") else { return Ok(()) };
        let owner = owner.at("spec");
        if kinds.template
            && let Some(template) = object::get_mut(spec, "template")
            && self.visit_template(template, &owner.at("template")).is_err()
        {
            // As in the original, the rest of the resource stays unchanged and no result reports it.
            return Ok(());
        }
        if kinds.job_template
            && let Some(job) = object::get_mut(spec, "jobTemplate")
        {
            self.visit_job(job, &owner.at("jobTemplate"))?;
        }
        if kinds.claims {
            self.visit_claims(spec, &owner)?;
        }
        if kinds.rules {
            self.visit_rules(spec)?;
        }
        Ok(())
    }

    fn visit_selectors(&mut self, root: &mut Node, owner: &Owner) -> Result<(), Unmatched> {
        let object = Object(root);
        let is = |group, version, kind| object.is_gvk(group, version, kind);
        let plain = is("", "v1", "Service") || is("", "v1", "ReplicationController");
        let policy = is("networking.k8s.io", "", "NetworkPolicy");
        let selecting = if is("", "", "Deployment")
            || is("", "", "ReplicaSet")
            || is("", "", "DaemonSet")
            || is("apps", "", "StatefulSet")
        {
            Some(Missing::Created)
        } else if is("batch", "", "Job") || is("policy", "", "PodDisruptionBudget") {
            Some(Missing::LeftOut)
        } else {
            None
        };
        if plain {
            self.update(root, owner, &["spec", "selector"], Missing::Created)?;
        }
        if let Some(missing) = selecting {
            self.update(root, owner, &["spec", "selector", "matchLabels"], missing)?;
        }
        if policy {
            self.update(root, owner, &["spec", "podSelector", "matchLabels"], Missing::LeftOut)?;
        }
        Ok(())
    }

    fn visit_template(&mut self, template: &mut Node, owner: &Owner) -> Result<(), Unmatched> {
        self.update(template, owner, &["metadata", "labels"], Missing::Created)?;
        let Some(spec) = object::get_mut(template, "spec") else { return Ok(()) };
        // The original looks for affinity terms one level too high and never finds any.
        self.update_each(spec, "topologySpreadConstraints", &["labelSelector", "matchLabels"])
    }

    fn visit_job(&mut self, job: &mut Node, owner: &Owner) -> Result<(), Unmatched> {
        self.update(job, owner, &["metadata", "labels"], Missing::Created)?;
        let Some(spec) = object::get_mut(job, "spec") else { return Ok(()) };
        let owner = owner.at("spec");
        self.update(spec, &owner, &["selector", "matchLabels"], Missing::LeftOut)?;
        match object::get_mut(spec, "template") {
            Some(template) => self.visit_template(template, &owner.at("template")),
            None => Ok(()),
        }
    }

    fn visit_claims(&mut self, spec: &mut Node, owner: &Owner) -> Result<(), Unmatched> {
        const CLAIMS: &str = "volumeClaimTemplates";
        if object::get(spec, CLAIMS).is_some_and(|claims| !claims.is_sequence()) {
            return Err(Unmatched { expected: "struct {}", ..owner.unmatched_string(&[CLAIMS]) });
        }
        for claim in elements(spec, CLAIMS) {
            let owner = Owner::default();
            self.update(claim, &owner, &["metadata", "labels"], Missing::Created)?;
            self.update(claim, &owner, &["selector", "matchLabels"], Missing::LeftOut)?;
        }
        Ok(())
    }

    fn visit_rules(&mut self, spec: &mut Node) -> Result<(), Unmatched> {
        for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
            for rule in elements(spec, rules) {
                self.update_each(rule, peers, &["podSelector", "matchLabels"])?;
            }
        }
        Ok(())
    }

    fn update_each(&mut self, parent: &mut Node, key: &str, path: &[&str]) -> Result<(), Unmatched> {
        elements(parent, key)
            .iter_mut()
            .try_for_each(|element| self.update(element, &Owner::default(), path, Missing::LeftOut))
    }

    fn update(
        &mut self,
        node: &mut Node,
        owner: &Owner,
        path: &[&str],
        missing: Missing,
    ) -> Result<(), Unmatched> {
        // Keys are looked for one by one, so those of a large mapping are found by a table first.
        let known: Option<HashSet<&str>> = (self.labels.len() > MANY).then(|| {
            let mapping = object::value(node, path).ok().flatten();
            mapping.map_or(&[][..], Node::pairs).iter().filter_map(|pair| pair.key.scalar()).collect()
        });
        let is_new: Vec<bool> = match &known {
            Some(known) => self.labels.keys().map(|key| !known.contains(key.as_str())).collect(),
            None => vec![false; self.labels.len()],
        };
        for ((key, value), is_new) in self.labels.iter().zip(is_new) {
            let full = [path, &[key.as_str()]].concat();
            let unmatched = || owner.unmatched_string(&full);
            let holder = object::value(node, path).map_err(|_| unmatched())?;
            let appends = is_new && holder.is_some_and(Node::is_mapping);
            if appends && missing == Missing::Created {
                if limits::produce(key.len() + value.len()).is_err() {
                    return Ok(());
                }
                object::append_string(node, path, key, value).map_err(|_| unmatched())?;
            } else if !appends {
                // An end without a mapping or a key that is there: both are looked at in full.
                if limits::work(1 + holder.map_or(0, Node::len) / 8).is_err() {
                    return Ok(());
                }
                let old = object::string(node, &full).map_err(|_| unmatched())?;
                let set = old.map_or(missing == Missing::Created, |old| old != value);
                if set {
                    if limits::produce(key.len() + value.len()).is_err() {
                        return Ok(());
                    }
                    object::set_string(node, &full, value).map_err(|_| unmatched())?;
                }
            }
            self.count += 1;
        }
        Ok(())
    }
}

/// More labels than this are looked up by a table.
const MANY: usize = 16;

/// The elements of a sequence of mappings, for editing.
fn elements<'a>(parent: &'a mut Node, key: &str) -> &'a mut [Node] {
    if object::mappings(parent, key).is_empty() {
        return &mut [];
    }
    object::get_mut(parent, key).and_then(Node::items_mut).map_or(&mut [], Vec::as_mut_slice)
}

/// Which parts a resource of its kind has.
struct Kinds {
    template: bool,
    job_template: bool,
    claims: bool,
    rules: bool,
}

impl Kinds {
    fn of(object: Object<'_>) -> Self {
        let is = |group, version, kind| object.is_gvk(group, version, kind);
        let claims = is("apps", "", "StatefulSet");
        Self {
            template: claims
                || is("", "v1", "ReplicationController")
                || is("", "", "Deployment")
                || is("", "", "ReplicaSet")
                || is("", "", "DaemonSet")
                || is("batch", "", "Job"),
            job_template: is("batch", "", "CronJob"),
            claims,
            rules: is("networking.k8s.io", "", "NetworkPolicy"),
        }
    }
}
