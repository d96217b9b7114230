//! From a template to the pod and the Service of one instance.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{LocalObjectReference, Pod, Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use loggia_registry::Metadata;
use ring::digest::{SHA256, digest};

use crate::names::{
    self, CONTAINER, DIGEST, IMAGE, IMAGE_LABEL, OWNER, PORT, RECLAIM_AFTER, REQUESTED, TEMPLATE_HASH,
    TEMPLATE_VERSION,
};
use crate::template::{Error, Template};

mod hardening;
mod resources;
#[cfg(test)]
mod tests;
mod tls;

pub(crate) use self::hardening::Hardening;
use self::resources::EPHEMERAL_STORAGE;
pub(crate) use self::resources::Resources;
pub(crate) use self::tls::Identity;

/// What the pods of a function have in common.
#[derive(Clone, Debug)]
pub(crate) struct Blueprint {
    pub(crate) template: Template,
    pub(crate) namespace: String,
    pub(crate) message_limit: usize,
    pub(crate) hardening: Hardening,
    /// What the settings of this function say. They take the place of the template's.
    pub(crate) resources: Resources,
    /// For what neither those settings nor the template mention.
    pub(crate) default_resources: Resources,
    /// Run the tag as it was requested, instead of the digest that the registry gave for it.
    pub(crate) image_by_tag: bool,
    /// A user namespace of its own is tried for the pod. That shapes no pod in the sense of the hash: one without it
    /// does as well.
    pub(crate) tries_user_namespace: bool,
    pub(crate) pull_secret: Option<String>,
    /// The domain under which the cluster's Services are found.
    pub(crate) cluster_domain: String,
    /// Without it, pods serve without TLS.
    pub(crate) identity: Option<Identity>,
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
    /// The digest of the image's manifest.
    pub(crate) digest: &'a str,
    /// What the registry gave for the name: the digest of the index, or of the manifest where there is no index.
    pub(crate) pinned: &'a str,
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
            pinned: "",
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
        if let Some(spec) = pod.spec.as_mut().filter(|_| self.tries_user_namespace) {
            spec.host_users.get_or_insert(false);
        }
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
        annotate(annotations, REQUESTED, instance.image);
        annotate(annotations, DIGEST, instance.digest);
        annotate(annotations, OWNER, instance.owner);
        let spec = pod.spec.as_mut().ok_or(Error::NoContainer)?;
        if let Some(secret) = &self.pull_secret {
            let secrets = spec.image_pull_secrets.get_or_insert_default();
            if !secrets.iter().any(|known| known.name == *secret) {
                secrets.push(LocalObjectReference { name: secret.clone() });
            }
        }
        let built_in = self.template.is_inline();
        self.hardening.apply(spec, built_in, self.tmp_size());
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
        function.image = Some(self.image(instance));
        self.resources.replace(function);
        self.default_resources.fill_in(function);
        if built_in {
            spec.init_containers.iter_mut().flatten().for_each(|init| self.default_resources.fill_in(init));
        }
        Ok(pod)
    }

    /// What the container runs: the digest that was resolved and checked, so that neither a moved tag nor what a node
    /// has under that tag can be something else.
    fn image(&self, instance: Particulars<'_>) -> String {
        if self.image_by_tag {
            return instance.image.to_owned();
        }
        format!("{}@{}", names::without_tag(instance.image), instance.pinned)
    }

    /// Where the root file system is read-only, `/tmp` may grow to what the container may store at all.
    fn tmp_size(&self) -> Option<Quantity> {
        let of = |resources: &Resources| resources.limits.as_ref()?.get(EPHEMERAL_STORAGE).cloned();
        of(&self.resources).or_else(|| of(&self.default_resources))
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

/// Kubernetes replaces `$(NAME)` in arguments and makes one `$` of two; the container runtime does neither for an
/// entrypoint.
fn escaped(word: &str) -> String {
    word.replace('$', "$$")
}

fn annotate(map: &mut Option<BTreeMap<String, String>>, key: &str, value: impl Into<String>) {
    map.get_or_insert_default().insert(key.to_owned(), value.into());
}

/// The value of an annotation or label.
pub(crate) fn annotation<'a>(
    annotations: Option<&'a BTreeMap<String, String>>,
    key: &str,
) -> Option<&'a str> {
    annotations?.get(key).map(String::as_str)
}
