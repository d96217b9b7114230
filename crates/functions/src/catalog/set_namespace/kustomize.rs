//! `set-namespace` 0.1 and 0.2: kustomize's namespace transformer, on everything that is not known to be cluster
//! scoped, custom resources and the Kptfile included.

use std::collections::HashSet;
use std::sync::LazyLock;

use loggia_krm::{Resource, ResourceList};
use loggia_yaml::Node;

use super::FUNCTION;
use crate::failure::Failure;
use crate::kustomize::field_spec::{FieldSpec, Leaf, undecodable};
use crate::kustomize::resource_map::{self, Id};
use crate::kyaml::data;
use crate::kyaml::outcome::conclude_quietly;
use crate::limits;
use crate::sdk::config;

/// Whose namespaces follow in bindings, beside that of the account `default`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subjects {
    None,
    /// Service accounts that are among the items: 0.2.
    Accounts,
}

/// What to set, and where beside the usual places.
struct Config {
    namespace: String,
    fields: Vec<FieldSpec>,
}

static NAMESPACE: LazyLock<FieldSpec> =
    LazyLock::new(|| FieldSpec::new(("", "", ""), "metadata/namespace", true));

/// Where namespaces are unless the config says more.
static DEFAULTS: LazyLock<Vec<FieldSpec>> = LazyLock::new(|| {
    vec![
        FieldSpec::new(("", "", "Namespace"), "metadata/name", true),
        FieldSpec::new(("apiregistration.k8s.io", "", "APIService"), "spec/service/namespace", true),
        FieldSpec::new(
            ("apiextensions.k8s.io", "", "CustomResourceDefinition"),
            "spec/conversion/webhook/clientConfig/service/namespace",
            false,
        ),
    ]
});

pub(super) fn run_0_1(list: &mut ResourceList) -> Result<(), Failure> {
    set(list, Subjects::None)
}

pub(super) fn run_0_2(list: &mut ResourceList) -> Result<(), Failure> {
    set(list, Subjects::Accounts)
}

fn set(list: &mut ResourceList, subjects: Subjects) -> Result<(), Failure> {
    let config = Config::read(list.function_config.as_ref());
    let outcome = resource_map::run_early(list, config, |items, config| apply(items, config, subjects));
    conclude_quietly(list, FUNCTION.name, outcome)
}

fn apply(items: &mut [Resource], config: &Config, subjects: Subjects) -> Result<(), String> {
    let is_account = |item: &&Resource| subjects == Subjects::Accounts && item.kind() == "ServiceAccount";
    let accounts: HashSet<String> =
        items.iter().filter(is_account).map(|item| item.name().to_owned()).collect();
    for item in items {
        set_on(item, config, &accounts).map_err(|cause| format!("failed to run transformer: {cause}"))?;
    }
    Ok(())
}

fn set_on(item: &mut Resource, config: &Config, accounts: &HashSet<String>) -> Result<(), String> {
    let mut write = |node: &mut Node, _: &[&str]| write(node, &config.namespace);
    if !Id::of(item).is_cluster_scoped() {
        NAMESPACE.apply(item, Leaf::Scalar, &mut write)?;
    }
    limits::work(config.fields.len())?;
    let is_binding = matches!(item.kind(), "RoleBinding" | "ClusterRoleBinding");
    for spec in config.fields.iter().chain(DEFAULTS.iter()) {
        let elsewhere = spec.path == NAMESPACE.path
            || (spec.path == "subjects" && matches!(&*spec.kind, "RoleBinding" | "ClusterRoleBinding"));
        if !elsewhere {
            spec.apply(item, Leaf::Scalar, &mut write)?;
        }
    }
    if is_binding && let Some(subjects) = item.node_mut().get_mut("subjects").and_then(Node::items_mut) {
        for subject in subjects {
            let name = subject.get_str("name").unwrap_or_default();
            let is_account = subject.get_str("kind") == Some("ServiceAccount") && accounts.contains(name);
            if name == "default" || is_account {
                let mut namespace = subject.get("namespace").cloned().unwrap_or_default();
                write(&mut namespace, &[])?;
                subject.replace("namespace", namespace);
            }
        }
    }
    Ok(())
}

fn write(node: &mut Node, namespace: &str) -> Result<(), String> {
    if !node.is_scalar() {
        let kind = if node.is_sequence() { "SequenceNode" } else { "MappingNode" };
        return Err(format!("wrong Node Kind for  expected: ScalarNode was {kind}"));
    }
    limits::produce(namespace.len())?;
    // As it stands, be it that this makes a number of it; only quotes that are there stay.
    let mut new = Node::verbatim(namespace);
    new.set_style_of(node);
    new.fill_comments_from(node);
    *node = new;
    Ok(())
}

// === impl Config ===

impl Config {
    fn read(config: Option<&Node>) -> Result<Self, String> {
        let resource = config.cloned().map(Resource::new).unwrap_or_default();
        let config = match (resource.api_version(), resource.kind()) {
            ("v1", "ConfigMap") => {
                let mut data = data::map(Some(resource.node()));
                Self { namespace: data.remove("namespace").unwrap_or_default(), fields: Vec::new() }
            }
            ("fn.kpt.dev/v1alpha1", "SetNamespace" | "SetNamespaceConfig") => {
                let namespace =
                    config::loose_string(resource.node().get("namespace")).map_err(|mismatch| {
                        let config::Mismatch { found, expected } = mismatch;
                        let field = "plugin.namespace";
                        let cause = format!(
                            "json: cannot unmarshal {found} into Go struct field {field} of type {expected}"
                        );
                        undecodable(&resource, &cause)
                    })?;
                // The name in the message is another function's, as in the original.
                let fields =
                    FieldSpec::of_config(&resource, "additionalNamespaceFields", "additionalLabelFields")?;
                Self { namespace, fields }
            }
            _ => return Err("`functionConfig` must be a `ConfigMap` or `SetNamespace`".to_owned()),
        };
        if config.namespace.is_empty() {
            Err("input namespace cannot be empty".to_owned())
        } else {
            Ok(config)
        }
    }
}
