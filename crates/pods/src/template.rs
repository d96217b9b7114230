//! What function pods and their Services look like before they get a name and an image.

use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::json;

use crate::names::{CONTAINER, PORT};

/// The version of the built-in templates, as pods carry it.
pub(crate) const INLINE_VERSION: &str = "inline-v1";

/// The largest that the programs in a pod may be together; those of Porch have about 60 MB.
const TOOLS_SIZE: &str = "128Mi";

/// A pod and a Service to be completed, and which edition of them this is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Template {
    pub(crate) pod: Pod,
    pub(crate) service: Service,
    pub(crate) version: String,
}

/// How far a function pod is restricted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodSecurity {
    /// As much as lets an image run that expects to be root.
    #[default]
    Baseline,
    /// Everything that the `restricted` level of Kubernetes asks for, and a read-only root file system.
    Restricted,
}

/// Why an object cannot be used as a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error("function pod template with key template does not exist in Configmap {0}")]
    NoPod(String),
    #[error("unable to decode function pod template: {0}")]
    InvalidPod(String),
    #[error("unable to decode function service template: {0}")]
    InvalidService(String),
    #[error("failed to find the {CONTAINER} container in the pod")]
    NoContainer,
}

// === impl Template ===

impl Template {
    /// The built-in templates, with the wrapper server of this image.
    pub(crate) fn inline(wrapper_image: &str) -> Self {
        Self { pod: inline_pod(wrapper_image), service: inline_service(), version: INLINE_VERSION.to_owned() }
    }

    /// Templates as people wrote them, in YAML or JSON. Without one for the Service, the built-in one does.
    pub(crate) fn given(pod: &str, service: Option<&str>, version: &str) -> Result<Self, Error> {
        let pod: Pod = loggia_yaml::from_str(pod).map_err(|error| Error::InvalidPod(error.to_string()))?;
        let service = match service {
            Some(text) => {
                loggia_yaml::from_str(text).map_err(|error| Error::InvalidService(error.to_string()))?
            }
            None => inline_service(),
        };
        Self { pod, service, version: version.to_owned() }.checked()
    }

    /// It is the built-in one.
    pub(crate) fn is_inline(&self) -> bool {
        self.version == INLINE_VERSION
    }

    /// A template must have a container for the function.
    pub(crate) fn checked(self) -> Result<Self, Error> {
        let mut containers = self.pod.spec.iter().flat_map(|spec| &spec.containers);
        if containers.any(|container| container.name == CONTAINER) {
            Ok(self)
        } else {
            Err(Error::NoContainer)
        }
    }
}

fn inline_pod(wrapper_image: &str) -> Pod {
    let mount = json!({ "name": "wrapper-server-tools", "mountPath": "/wrapper-server-tools" });
    // What runs as root needs none of what root may do: it reads a list and writes one.
    let context = json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } });
    let pod = json!({
        "metadata": {
            "annotations": { "cluster-autoscaler.kubernetes.io/safe-to-evict": "true" },
        },
        "spec": {
            "automountServiceAccountToken": false,
            // A variable for each Service of the namespace, which has one for each function pod.
            "enableServiceLinks": false,
            "securityContext": { "seccompProfile": { "type": "RuntimeDefault" } },
            "initContainers": [{
                "name": "copy-wrapper-server",
                "image": wrapper_image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["cp", "-a", "/home/nonroot/wrapper-server/.", "/wrapper-server-tools"],
                "securityContext": context,
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [mount],
            }],
            "containers": [{
                "name": CONTAINER,
                "image": "to-be-replaced",
                "command": ["/wrapper-server-tools/wrapper-server"],
                "env": [
                    { "name": "OTEL_METRICS_EXPORTER", "value": "prometheus" },
                    { "name": "OTEL_TRACES_EXPORTER", "value": "none" },
                    { "name": "OTEL_EXPORTER_PROMETHEUS_HOST", "value": "0.0.0.0" },
                ],
                // The runner asks the server itself and does not wait for these.
                "startupProbe": {
                    "grpc": { "port": PORT }, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 120,
                },
                "readinessProbe": {
                    "grpc": { "port": PORT }, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 3,
                },
                "securityContext": context,
                // The runner may not read logs. By this, the last lines of a crashed container are in its status.
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [mount],
            }],
            "volumes": [{ "name": "wrapper-server-tools", "emptyDir": { "sizeLimit": TOOLS_SIZE } }],
        },
    });
    serde_json::from_value(pod).unwrap_or_default()
}

fn inline_service() -> Service {
    let service = json!({
        "metadata": {
            "annotations": {
                "internal.kpt.dev/upstream-identifier": "|Service|porch-system|function-runner",
            },
        },
        "spec": {
            "type": "ClusterIP",
            "ports": [{ "port": PORT, "targetPort": PORT, "protocol": "TCP" }],
        },
    });
    serde_json::from_value(service).unwrap_or_default()
}
