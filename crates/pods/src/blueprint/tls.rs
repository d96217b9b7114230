//! What a function pod needs to speak TLS.

use std::path::Path;

use k8s_openapi::api::core::v1::{
    Container, ExecAction, PodSpec, Probe, SecretVolumeSource, Volume, VolumeMount,
};

use crate::names::{CONTAINER, PORT};

/// Where the Secret is mounted, and what the volume is called.
const FOLDER: &str = "/wrapper-server-tls";
const VOLUME: &str = "wrapper-server-tls";

/// Where the built-in template puts the programs.
const TOOLS: &str = "/wrapper-server-tools";

/// The certificate of the server in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The Secret with `tls.crt`, `tls.key` and `ca.crt`.
    pub(crate) secret: String,
    /// Callers need a certificate, too (mutual TLS).
    pub(crate) mutual: bool,
}

// === impl Identity ===

impl Identity {
    /// Makes the pod serve over TLS only, under this name.
    pub(super) fn prove(&self, spec: &mut PodSpec, name: &str) {
        let source = SecretVolumeSource { secret_name: Some(self.secret.clone()), ..Default::default() };
        let volume = Volume { name: VOLUME.to_owned(), secret: Some(source), ..Default::default() };
        spec.volumes.get_or_insert_default().push(volume);
        let Some(function) = spec.containers.iter_mut().find(|container| container.name == CONTAINER) else {
            return;
        };
        function.volume_mounts.get_or_insert_default().push(VolumeMount {
            name: VOLUME.to_owned(),
            mount_path: FOLDER.to_owned(),
            read_only: Some(true),
            ..Default::default()
        });
        let mut files = vec![("--tls-cert", "tls.crt"), ("--tls-key", "tls.key")];
        if self.mutual {
            files.push(("--client-ca", "ca.crt"));
        }
        let arguments = function.args.get_or_insert_default();
        arguments
            .extend(files.into_iter().flat_map(|(flag, file)| [flag.to_owned(), format!("{FOLDER}/{file}")]));
        let program = program_beside(function);
        let probes =
            [&mut function.startup_probe, &mut function.readiness_probe, &mut function.liveness_probe];
        for probe in probes.into_iter().flatten() {
            self.ask_over_tls(probe, &program, name);
        }
    }

    /// The kubelet's gRPC probe has no TLS: the probe program takes its place. Probes of anything else stay.
    fn ask_over_tls(&self, probe: &mut Probe, program: &str, name: &str) {
        if let Some(grpc) = probe.grpc.take_if(|grpc| grpc.port == i32::from(PORT)) {
            let mut command = vec![program.to_owned(), "-addr".to_owned(), format!("localhost:{PORT}")];
            if let Some(service) = grpc.service.filter(|service| !service.is_empty()) {
                command.extend(["-service".to_owned(), service]);
            }
            probe.exec = Some(ExecAction { command: Some(command) });
        }
        let Some(command) = probe.exec.as_mut().and_then(|exec| exec.command.as_mut()) else { return };
        let program = command.first().map(Path::new).and_then(Path::file_name);
        let is_probe = program.is_some_and(|name| name == "grpc-health-probe" || name == "grpc_health_probe");
        let knows = |word: &String| matches!(word.trim_start_matches('-').split('=').next(), Some("tls"));
        if !is_probe || command.iter().any(knows) {
            return;
        }
        let mut flags =
            vec![("-tls-ca-cert", format!("{FOLDER}/ca.crt")), ("-tls-server-name", name.to_owned())];
        if self.mutual {
            flags.push(("-tls-client-cert", format!("{FOLDER}/tls.crt")));
            flags.push(("-tls-client-key", format!("{FOLDER}/tls.key")));
        }
        command.push("-tls".to_owned());
        command.extend(flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]));
    }
}

/// The probe, which is copied to where the server is.
fn program_beside(function: &Container) -> String {
    let server = function.command.as_ref().and_then(|command| command.first()).map(Path::new);
    let folder = server.and_then(Path::parent).and_then(Path::to_str).filter(|folder| !folder.is_empty());
    format!("{}/grpc-health-probe", folder.unwrap_or(TOOLS).trim_end_matches('/'))
}
