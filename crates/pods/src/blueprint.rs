//! From a template to the pod and the Service of one instance.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, EmptyDirVolumeSource, LocalObjectReference, Pod, PodSecurityContext, PodSpec,
    ResourceRequirements, SeccompProfile, SecurityContext, Service, ServiceSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use loggia_registry::Metadata;
use ring::digest::{SHA256, digest};

use crate::names::{
    self, CONTAINER, DIGEST, IMAGE, IMAGE_LABEL, OWNER, PORT, RECLAIM_AFTER, TEMPLATE_HASH, TEMPLATE_VERSION,
};
use crate::template::{Error, PodSecurity, Template};

#[cfg(test)]
mod tests;
mod tls;

pub(crate) use self::tls::Identity;

/// The user of restricted pods: `nonroot` of distroless images.
const NONROOT: i64 = 65_532;

/// What the pods of a function have in common.
#[derive(Clone, Debug)]
pub(crate) struct Blueprint {
    pub(crate) template: Template,
    pub(crate) namespace: String,
    pub(crate) message_limit: usize,
    pub(crate) security: PodSecurity,
    pub(crate) resources: Resources,
    pub(crate) pull_secret: Option<String>,
    /// The domain under which the cluster's Services are found.
    pub(crate) cluster_domain: String,
    /// Without it, pods serve without TLS.
    pub(crate) identity: Option<Identity>,
}

/// The resources of a function's container, where the settings say something about them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Resources {
    pub(crate) requests: Option<BTreeMap<String, Quantity>>,
    pub(crate) limits: Option<BTreeMap<String, Quantity>>,
}

/// What only one instance has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Particulars<'a> {
    pub(crate) id: &'a str,
    pub(crate) pod_name: &'a str,
    /// The image as it was asked for.
    pub(crate) image: &'a str,
    /// The image in full.
    pub(crate) function: &'a str,
    pub(crate) digest: &'a str,
    pub(crate) entrypoint: &'a [String],
    pub(crate) owner: &'a str,
    /// Seconds since 1970.
    pub(crate) reclaim_after: i64,
}

// === impl Blueprint ===

impl Blueprint {
    /// A hash of all that shapes a pod of this function, its image and name aside.
    pub(crate) fn hash(&self) -> Result<String, Error> {
        let blank = Particulars {
            id: "",
            pod_name: "",
            image: "",
            function: "",
            digest: "",
            entrypoint: &[],
            owner: "",
            reclaim_after: 0,
        };
        let mut pod = self.unhashed_pod(blank)?;
        // Any edit of an object changes its version, and an edit that changes no pod replaces none.
        annotate(&mut pod.metadata.annotations, TEMPLATE_VERSION, "");
        let whole = (pod, self.service(blank, ""));
        let text = serde_json::to_vec(&whole).unwrap_or_default();
        let mut hash = String::new();
        for byte in digest(&SHA256, &text).as_ref().iter().take(8) {
            let _ = write!(hash, "{byte:02x}");
        }
        Ok(hash)
    }

    pub(crate) fn pod(&self, instance: Particulars<'_>) -> Result<Pod, Error> {
        let mut pod = self.unhashed_pod(instance)?;
        annotate(&mut pod.metadata.annotations, TEMPLATE_HASH, self.hash()?);
        Ok(pod)
    }

    fn unhashed_pod(&self, instance: Particulars<'_>) -> Result<Pod, Error> {
        let mut pod = self.template.pod.clone();
        pod.status = None;
        let metadata = &mut pod.metadata;
        self.rename(metadata, instance.pod_name);
        annotate(&mut metadata.labels, IMAGE_LABEL, instance.id);
        let annotations = &mut metadata.annotations;
        annotate(annotations, TEMPLATE_VERSION, self.template.version.as_str());
        annotate(annotations, RECLAIM_AFTER, instance.reclaim_after.to_string());
        annotate(annotations, IMAGE, instance.function);
        annotate(annotations, DIGEST, instance.digest);
        annotate(annotations, OWNER, instance.owner);
        let spec = pod.spec.as_mut().ok_or(Error::NoContainer)?;
        if let Some(secret) = &self.pull_secret {
            let secrets = spec.image_pull_secrets.get_or_insert_default();
            if !secrets.iter().any(|known| known.name == *secret) {
                secrets.push(LocalObjectReference { name: secret.clone() });
            }
        }
        if self.security == PodSecurity::Restricted {
            restrict(spec);
        }
        if let Some(identity) = &self.identity {
            identity.prove(spec, &names::host(instance.id, &self.namespace, &self.cluster_domain));
        }
        let function = spec.containers.iter_mut().find(|container| container.name == CONTAINER);
        let function = function.ok_or(Error::NoContainer)?;
        let arguments = function.args.get_or_insert_default();
        arguments.extend(
            ["--port", &PORT.to_string(), "--max-request-body-size", &self.message_limit.to_string(), "--"]
                .map(ToOwned::to_owned),
        );
        arguments.extend(instance.entrypoint.iter().map(|word| escaped(word)));
        function.image = Some(instance.image.to_owned());
        self.resources.apply(function);
        Ok(pod)
    }

    pub(crate) fn service(&self, instance: Particulars<'_>, hash: &str) -> Service {
        let mut service = self.template.service.clone();
        service.status = None;
        let metadata = &mut service.metadata;
        self.rename(metadata, instance.id);
        annotate(&mut metadata.labels, "app.kubernetes.io/name", instance.id);
        annotate(&mut metadata.annotations, IMAGE, instance.function);
        annotate(&mut metadata.annotations, OWNER, instance.owner);
        annotate(&mut metadata.annotations, TEMPLATE_HASH, hash);
        let spec = service.spec.get_or_insert_with(ServiceSpec::default);
        annotate(&mut spec.selector, IMAGE_LABEL, instance.id);
        // The runner checks the server itself, so the address must not wait for the kubelet's probe.
        spec.publish_not_ready_addresses.get_or_insert(true);
        service
    }

    /// Names an object from a template and drops the template's own identity.
    fn rename(&self, metadata: &mut ObjectMeta, name: &str) {
        metadata.name = Some(name.to_owned());
        metadata.generate_name = None;
        metadata.resource_version = None;
        metadata.uid = None;
        metadata.namespace = Some(self.namespace.clone());
    }
}

/// Whether a pod that runs this image was made for what the image is now.
pub(crate) fn is_of(digest: &str, metadata: &Metadata) -> bool {
    metadata.is(digest) || metadata.porch_digest == digest
}

/// Kubernetes replaces `$(NAME)` in arguments; the container runtime does not do so for an entrypoint.
fn escaped(word: &str) -> String {
    word.replace("$(", "$$(")
}

fn annotate(map: &mut Option<BTreeMap<String, String>>, key: &str, value: impl Into<String>) {
    map.get_or_insert_default().insert(key.to_owned(), value.into());
}

// === impl Resources ===

impl Resources {
    fn apply(&self, container: &mut Container) {
        let Self { requests, limits } = self;
        if requests.is_none() && limits.is_none() {
            return;
        }
        let resources = container.resources.get_or_insert_with(ResourceRequirements::default);
        if let Some(requests) = requests {
            resources.requests = Some(requests.clone());
        }
        if let Some(limits) = limits {
            resources.limits = Some(limits.clone());
        }
    }
}

/// Fills in what the `restricted` level asks for and the template does not say.
fn restrict(spec: &mut PodSpec) {
    spec.automount_service_account_token.get_or_insert(false);
    let pod = spec.security_context.get_or_insert_with(PodSecurityContext::default);
    pod.run_as_non_root.get_or_insert(true);
    pod.run_as_user.get_or_insert(NONROOT);
    pod.run_as_group.get_or_insert(NONROOT);
    pod.fs_group.get_or_insert(NONROOT);
    let profile = || SeccompProfile { type_: "RuntimeDefault".to_owned(), ..Default::default() };
    pod.seccomp_profile.get_or_insert_with(profile);
    let init = spec.init_containers.iter_mut().flatten();
    for container in spec.containers.iter_mut().chain(init) {
        let context = container.security_context.get_or_insert_with(SecurityContext::default);
        context.allow_privilege_escalation.get_or_insert(false);
        context.read_only_root_filesystem.get_or_insert(true);
        let drop = || Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None };
        context.capabilities.get_or_insert_with(drop);
        // Functions may still write to /tmp.
        let mounts = container.volume_mounts.get_or_insert_default();
        if container.name == CONTAINER && !mounts.iter().any(|mount| mount.mount_path == "/tmp") {
            let mount =
                VolumeMount { name: "tmp".to_owned(), mount_path: "/tmp".to_owned(), ..Default::default() };
            mounts.push(mount);
            let volumes = spec.volumes.get_or_insert_default();
            if !volumes.iter().any(|volume| volume.name == "tmp") {
                let empty_dir = Some(EmptyDirVolumeSource::default());
                volumes.push(Volume { name: "tmp".to_owned(), empty_dir, ..Default::default() });
            }
        }
    }
}

/// The value of an annotation or label.
pub(crate) fn annotation<'a>(
    annotations: Option<&'a BTreeMap<String, String>>,
    key: &str,
) -> Option<&'a str> {
    annotations?.get(key).map(String::as_str)
}
