//! Which resources have a namespace, as the SDK and kustomize know it: no network, no OpenAPI.

use crate::sdk::object::{DEFAULT_NAMESPACE, Object, UNKNOWN_NAMESPACE};

const NAMESPACED: &[(&str, &[&str])] = &[
    ("apps/v1", &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("autoscaling/v1", &["HorizontalPodAutoscaler", "Scale"]),
    ("autoscaling/v2beta1", &["HorizontalPodAutoscaler"]),
    ("autoscaling/v2beta2", &["HorizontalPodAutoscaler"]),
    ("batch/v1", &["CronJob", "Job"]),
    ("batch/v1beta1", &["CronJob"]),
    ("coordination.k8s.io/v1", &["Lease"]),
    ("coordination.k8s.io/v1beta1", &["Lease"]),
    ("discovery.k8s.io/v1", &["EndpointSlice"]),
    ("discovery.k8s.io/v1beta1", &["EndpointSlice"]),
    ("events.k8s.io/v1", &["Event"]),
    ("events.k8s.io/v1beta1", &["Event"]),
    ("extensions/v1beta1", &["Ingress"]),
    ("networking.k8s.io/v1", &["Ingress", "NetworkPolicy"]),
    ("networking.k8s.io/v1beta1", &["Ingress"]),
    ("policy/v1", &["PodDisruptionBudget"]),
    ("policy/v1beta1", &["PodDisruptionBudget"]),
    ("rbac.authorization.k8s.io/v1", &["Role", "RoleBinding"]),
    ("rbac.authorization.k8s.io/v1beta1", &["Role", "RoleBinding"]),
    ("storage.k8s.io/v1beta1", &["CSIStorageCapacity"]),
    (
        "v1",
        &[
            "ConfigMap",
            "Endpoints",
            "Event",
            "LimitRange",
            "PersistentVolumeClaim",
            "Pod",
            "PodAttachOptions",
            "PodExecOptions",
            "PodPortForwardOptions",
            "PodProxyOptions",
            "PodTemplate",
            "ReplicationController",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
            "ServiceProxyOptions",
        ],
    ),
];

const CLUSTER: &[(&str, &[&str])] = &[
    ("admissionregistration.k8s.io/v1", &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]),
    (
        "admissionregistration.k8s.io/v1beta1",
        &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
    ),
    ("apiextensions.k8s.io/v1", &["CustomResourceDefinition"]),
    ("apiextensions.k8s.io/v1beta1", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io/v1", &["APIService"]),
    ("apiregistration.k8s.io/v1beta1", &["APIService"]),
    ("certificates.k8s.io/v1", &["CertificateSigningRequest"]),
    ("certificates.k8s.io/v1beta1", &["CertificateSigningRequest"]),
    ("flowcontrol.apiserver.k8s.io/v1beta1", &["FlowSchema", "PriorityLevelConfiguration"]),
    ("networking.k8s.io/v1", &["IngressClass"]),
    ("networking.k8s.io/v1beta1", &["IngressClass"]),
    ("node.k8s.io/v1", &["RuntimeClass"]),
    ("node.k8s.io/v1beta1", &["RuntimeClass"]),
    ("policy/v1beta1", &["PodSecurityPolicy"]),
    ("rbac.authorization.k8s.io/v1", &["ClusterRole", "ClusterRoleBinding"]),
    ("rbac.authorization.k8s.io/v1beta1", &["ClusterRole", "ClusterRoleBinding"]),
    ("scheduling.k8s.io/v1", &["PriorityClass"]),
    ("scheduling.k8s.io/v1beta1", &["PriorityClass"]),
    ("storage.k8s.io/v1", &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"]),
    ("storage.k8s.io/v1beta1", &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"]),
    ("v1", &["ComponentStatus", "Namespace", "Node", "NodeProxyOptions", "PersistentVolume"]),
];

/// Whether a resource belongs into a namespace. What no table has does if it names one.
pub(crate) fn is_namespaced(object: Object<'_>) -> bool {
    let (api_version, kind) = (object.api_version(), object.kind());
    is_listed(NAMESPACED, api_version, kind)
        || (!is_listed(CLUSTER, api_version, kind) && object.has_namespace())
}

/// Whether it is certain that such resources have no namespace.
pub(crate) fn is_known_cluster_scoped(api_version: &str, kind: &str) -> bool {
    is_listed(CLUSTER, api_version, kind)
}

fn is_listed(table: &[(&str, &[&str])], api_version: &str, kind: &str) -> bool {
    table.iter().any(|(version, kinds)| *version == api_version && kinds.contains(&kind))
}

/// The namespace a resource has, would get, or `~C`.
pub(crate) fn effective_namespace<'a>(object: Object<'a>) -> &'a str {
    if object.has_namespace() {
        object.namespace()
    } else if is_namespaced(object) {
        DEFAULT_NAMESPACE
    } else {
        UNKNOWN_NAMESPACE
    }
}
