//! The customary order of fields, and of lists in which order means nothing.

use std::collections::HashMap;
use std::sync::LazyLock;

use loggia_yaml::Node;

use super::Path;
use crate::kyaml::fields::raw_text;

/// What comes first, in this order, wherever it occurs. The rest follows by name.
static KNOWN: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
    let names = "
        name generateName namespace clusterName apiVersion kind metadata type labels annotations spec
        status stringData data binaryData parallelism completions backoffLimit replicas selector
        manualSelector template ttlSecondsAfterFinished volumeClaimTemplates service serviceName
        podManagementPolicy updateStrategy strategy minReadySeconds revision revisionHistoryLimit paused
        progressDeadlineSeconds restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds
        dnsPolicy serviceAccountName serviceAccount automountServiceAccountToken nodeName hostNetwork
        hostPID hostIPC shareProcessNamespace hostname subdomain schedulerName priorityClassName
        priority runtimeClassName enableServiceLinks nodeSelector hostAliases initContainers containers
        volumes imagePullSecrets affinity tolerations dnsConfig readinessGates image command args
        workingDir ports envFrom env resources volumeMounts volumeDevices livenessProbe readinessProbe
        lifecycle terminationMessagePath terminationMessagePolicy imagePullPolicy securityContext stdin
        stdinOnce tty clusterIP externalIPs loadBalancerIP loadBalancerSourceRanges externalName
        externalTrafficPolicy sessionAffinity protocol port targetPort hostPort containerPort hostIP
        readOnly mountPath subPath subPathExpr mountPropagation value valueFrom fieldRef
        resourceFieldRef configMapKeyRef secretKeyRef prefix configMapRef secretRef
    ";
    names.split_whitespace().enumerate().map(|(at, name)| (name, at)).collect()
});

/// The resources whose lists are sorted: any of these kinds at any of these versions.
const KINDS: [&str; 7] = [
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "ReplicaSet",
    "StatefulSet",
    "ValidatingWebhookConfiguration",
];
const VERSIONS: [&str; 8] = [
    "apps/v1",
    "apps/v1beta1",
    "apps/v1beta2",
    "batch/v1",
    "batch/v1beta1",
    "extensions/v1beta1",
    "v1",
    "admissionregistration.k8s.io/v1",
];

/// What a field is sorted by: known names come before all others.
pub(crate) fn of(key: &str) -> (usize, &str) {
    KNOWN.get(key).map_or((usize::MAX, key), |at| (*at, ""))
}

/// Whether some lists of such a resource are sorted.
pub(super) fn is_list_sorted(api_version: &str, kind: &str) -> bool {
    KINDS.contains(&kind) && VERSIONS.contains(&api_version)
}

/// Sorts a list if it is one of those whose order means nothing.
pub(super) fn sort_list(items: &mut [Node], path: Path<'_>) {
    if path.is(&["spec", "template", "spec", "containers"]) {
        items.sort_by(|a, b| name_of(a).cmp(name_of(b)));
    } else if path.is(&["webhooks", "rules", "operations"]) {
        items.sort_by(|a, b| raw_text(a).cmp(raw_text(b)));
    }
}

fn name_of(container: &Node) -> &str {
    container.get("name").map_or("", raw_text)
}
