//! What a function pod is kept from.

use std::path::Path;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, EmptyDirVolumeSource, PodSecurityContext, PodSpec, SeccompProfile,
    SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::names::CONTAINER;
use crate::template::PodSecurity;

/// The user of restricted pods: `nonroot` of distroless images.
const NONROOT: i64 = 65_532;

/// The volume of restricted pods that functions may write to.
const TMP: &str = "tmp";

/// How far function pods are restricted beyond their template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hardening {
    pub(crate) security: PodSecurity,
    /// Leave the containers of the built-in template the capabilities that the container runtime gives.
    pub(crate) keep_capabilities: bool,
    /// Pods have a user namespace of their own, where the template does not say otherwise.
    pub(crate) user_namespace: bool,
}

// === impl Hardening ===

impl Hardening {
    pub(super) fn apply(self, spec: &mut PodSpec, built_in: bool, tmp_size: Option<Quantity>) {
        protect_program(spec);
        if self.keep_capabilities && built_in {
            containers(spec)
                .filter_map(|one| one.security_context.as_mut())
                .for_each(|context| context.capabilities = None);
        }
        if self.security == PodSecurity::Restricted {
            restrict(spec, tmp_size);
        }
        if self.user_namespace {
            spec.host_users.get_or_insert(false);
        }
    }
}

/// A function must not replace the server that calls it, nor the kubelet's probe: the volume that they were copied to
/// is read-only in its container, unless the template says that it is not.
fn protect_program(spec: &mut PodSpec) {
    let copied: Vec<String> = spec
        .volumes
        .iter()
        .flatten()
        .filter(|volume| volume.empty_dir.is_some())
        .map(|volume| volume.name.clone())
        .collect();
    let Some(function) = spec.containers.iter_mut().find(|container| container.name == CONTAINER) else {
        return;
    };
    let Some(program) = function.command.as_ref().and_then(|command| command.first()) else { return };
    let mounts = function.volume_mounts.get_or_insert_default();
    let holds = |mount: &&VolumeMount| {
        copied.contains(&mount.name) && Path::new(program).starts_with(&mount.mount_path)
    };
    let holders: Vec<String> = mounts.iter().filter(holds).map(|mount| mount.name.clone()).collect();
    // Wherever else the volume is mounted, it is the same one.
    for mount in mounts.iter_mut().filter(|mount| holders.contains(&mount.name)) {
        mount.read_only.get_or_insert(true);
    }
}

/// Fills in what the `restricted` level asks for and the template does not say.
fn restrict(spec: &mut PodSpec, tmp_size: Option<Quantity>) {
    spec.automount_service_account_token.get_or_insert(false);
    let pod = spec.security_context.get_or_insert_with(PodSecurityContext::default);
    pod.run_as_non_root.get_or_insert(true);
    pod.run_as_user.get_or_insert(NONROOT);
    pod.run_as_group.get_or_insert(NONROOT);
    pod.fs_group.get_or_insert(NONROOT);
    let profile = || SeccompProfile { type_: "RuntimeDefault".to_owned(), ..Default::default() };
    pod.seccomp_profile.get_or_insert_with(profile);
    for container in containers(spec) {
        let context = container.security_context.get_or_insert_with(SecurityContext::default);
        context.allow_privilege_escalation.get_or_insert(false);
        context.read_only_root_filesystem.get_or_insert(true);
        context.capabilities.get_or_insert_with(none);
    }
    add_tmp(spec, tmp_size);
}

/// Functions may still write to `/tmp`.
fn add_tmp(spec: &mut PodSpec, size_limit: Option<Quantity>) {
    let Some(function) = spec.containers.iter_mut().find(|container| container.name == CONTAINER) else {
        return;
    };
    let mounts = function.volume_mounts.get_or_insert_default();
    if mounts.iter().any(|mount| mount.mount_path == "/tmp") {
        return;
    }
    mounts.push(VolumeMount { name: TMP.to_owned(), mount_path: "/tmp".to_owned(), ..Default::default() });
    let volumes = spec.volumes.get_or_insert_default();
    if !volumes.iter().any(|volume| volume.name == TMP) {
        let empty_dir = Some(EmptyDirVolumeSource { size_limit, ..Default::default() });
        volumes.push(Volume { name: TMP.to_owned(), empty_dir, ..Default::default() });
    }
}

fn none() -> Capabilities {
    Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }
}

fn containers(spec: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten())
}
