//! `set-labels` up to 0.1.5: kustomize's common labels, on every resource whatever it is for.

use std::sync::LazyLock;

use loggia_krm::{Resource, ResourceList};

use super::FUNCTION;
use crate::failure::Failure;
use crate::kustomize::entries::{self, Config, Dialect};
use crate::kustomize::field_spec::FieldSpec;
use crate::kustomize::resource_map;
use crate::kyaml::outcome::conclude_quietly;
use crate::limits;

const DIALECT: Dialect = Dialect {
    kinds: ["SetLabels", "SetLabelConfig"],
    entries: "labels",
    fields: "additionalLabelFields",
    refusal: "`functionConfig` must be either a `ConfigMap` or `SetLabels`",
    empty: "input label list cannot be empty",
};

/// Where labels go unless the config says more.
static DEFAULTS: LazyLock<Vec<FieldSpec>> = LazyLock::new(|| {
    const SELECTOR: &str = "spec/selector/matchLabels";
    const TEMPLATE: &str = "spec/template/metadata/labels";
    const TOPOLOGY: &str = "spec/template/spec/topologySpreadConstraints/labelSelector/matchLabels";
    const CONTROLLER: (&str, &str, &str) = ("", "v1", "ReplicationController");
    const STATEFUL_SET: (&str, &str, &str) = ("apps", "", "StatefulSet");
    const JOB: (&str, &str, &str) = ("batch", "", "Job");
    const CRON_JOB: (&str, &str, &str) = ("batch", "", "CronJob");
    const POLICY: (&str, &str, &str) = ("networking.k8s.io", "", "NetworkPolicy");
    let mut specs = Vec::new();
    let mut add = |gvk, path: &str, create| specs.push(FieldSpec::new(gvk, path, create));
    add(("", "", ""), "metadata/labels", true);
    add(("", "v1", "Service"), "spec/selector", true);
    add(CONTROLLER, "spec/selector", true);
    add(CONTROLLER, TEMPLATE, true);
    for gvk in [("", "", "Deployment"), ("", "", "ReplicaSet"), ("", "", "DaemonSet"), STATEFUL_SET] {
        add(gvk, SELECTOR, true);
        add(gvk, TEMPLATE, true);
    }
    for gvk in [("apps", "", "Deployment"), STATEFUL_SET] {
        for affinity in ["podAffinity", "podAntiAffinity"] {
            for term in [
                "preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm",
                "requiredDuringSchedulingIgnoredDuringExecution",
            ] {
                let path = format!("spec/template/spec/affinity/{affinity}/{term}/labelSelector/matchLabels");
                add(gvk, &path, false);
            }
        }
        add(gvk, TOPOLOGY, false);
    }
    add(STATEFUL_SET, "spec/volumeClaimTemplates[]/metadata/labels", true);
    add(JOB, SELECTOR, false);
    add(JOB, TEMPLATE, true);
    add(CRON_JOB, "spec/jobTemplate/spec/selector/matchLabels", false);
    add(CRON_JOB, "spec/jobTemplate/metadata/labels", true);
    add(CRON_JOB, "spec/jobTemplate/spec/template/metadata/labels", true);
    add(("policy", "", "PodDisruptionBudget"), SELECTOR, false);
    add(POLICY, "spec/podSelector/matchLabels", false);
    add(POLICY, "spec/ingress/from/podSelector/matchLabels", false);
    add(POLICY, "spec/egress/to/podSelector/matchLabels", false);
    specs
});

pub(super) fn run(list: &mut ResourceList) -> Result<(), Failure> {
    let config = Config::read(list.function_config.as_ref(), &DIALECT);
    let outcome = resource_map::run_early(list, config, apply);
    conclude_quietly(list, FUNCTION.name, outcome)
}

fn apply(items: &mut [Resource], config: &Config) -> Result<(), String> {
    let specs: Vec<&FieldSpec> = config.fields.iter().chain(DEFAULTS.iter()).collect();
    for item in items {
        let set = entries::set(item, &config.entries, &specs, &mut |_, _, _| {});
        limits::blame(item);
        set.map_err(|cause| format!("failed to run transformer: {cause}"))?;
    }
    Ok(())
}
