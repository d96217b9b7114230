//! What exec functions are kept from, from flags and surroundings.

use std::path::{Path, PathBuf};

use loggia_go::quantity::Size;
use loggia_process::{Files, ResourceLimits, Settings};

use super::{Surroundings, UsageError, within};
use crate::flags::{ConfinementFlags, Flags};

/// Where Kubernetes puts the tokens of a pod: that of its service account, and those of clouds.
const TOKENS: [&str; 2] = ["/var/run/secrets", "/run/secrets"];

/// Where tools keep credentials in the home of their user.
const AT_HOME: [&str; 9] =
    [".kube", ".docker", ".ssh", ".gnupg", ".aws", ".azure", ".config/gcloud", ".netrc", ".git-credentials"];

/// Variables that name files with secrets in them.
const VARIABLES: [&str; 5] = [
    "DOCKER_CONFIG",
    "OTEL_EXPORTER_OTLP_CLIENT_KEY",
    "OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY",
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
];

/// How exec functions are confined.
#[derive(Debug)]
pub(crate) struct ConfinementConfig {
    /// Without full confinement the service must not start.
    pub(crate) required: bool,
    pub(crate) settings: Settings,
}

// === impl ConfinementConfig ===

impl ConfinementConfig {
    pub(super) fn resolve(flags: &Flags, surroundings: &Surroundings) -> Result<Self, UsageError> {
        let ConfinementFlags {
            require_confinement,
            exec_network,
            exec_writable,
            exec_hidden: _,
            exec_memory,
            exec_open_files,
            exec_processes,
            exec_file_size,
            exec_temporary_size,
            exec_cpu_time,
        } = &flags.confinement;
        let limits = ResourceLimits {
            memory: size(*exec_memory),
            open_files: limit("exec-open-files", *exec_open_files)?,
            file_size: size(*exec_file_size),
            cpu_time: exec_cpu_time.positive(),
            processes: limit("exec-processes", *exec_processes)?,
            temporary: size(*exec_temporary_size),
        };
        let files = Files::ReadOnly {
            writable: exec_writable.iter().map(PathBuf::from).collect(),
            temporary: std::env::temp_dir(),
        };
        let hidden = secrets(flags, surroundings);
        let settings = Settings { files, hidden, network: *exec_network, filter: true, limits };
        Ok(Self { required: *require_confinement, settings })
    }
}

/// A size limit; 0 disables it.
fn size(size: Size) -> Option<u64> {
    Some(size.0).filter(|bytes| *bytes > 0)
}

/// A limit that is off at 0.
fn limit(flag: &'static str, value: i64) -> Result<Option<u64>, UsageError> {
    Ok(Some(within(flag, value, 0..=i64::MAX)?).filter(|limit| *limit > 0))
}

/// Every secret that this program knows of. A flag that names another one gets a line here.
fn secrets(flags: &Flags, surroundings: &Surroundings) -> Vec<PathBuf> {
    let named = [
        ("tls-key", &flags.service.tls_key),
        ("pod-tls-key", &flags.pod_tls.pod_tls_key),
        ("kubeconfig", &flags.pods.kubeconfig),
        ("registry-auth-secret-path", &flags.registries.registry_auth_secret_path),
        ("tls-secret-path", &flags.registries.tls_secret_path),
        ("access-config", &flags.service.access_config),
    ];
    // A default need not exist, and to hide what does not exist would hide new files beside it.
    let counts = |flag: &str, path: &Path| flags.given.contains(flag) || path.exists();
    let named = named.into_iter().filter(|(_, path)| !path.is_empty());
    let named =
        named.map(|(flag, path)| (flag, PathBuf::from(path))).filter(|(flag, path)| counts(flag, path));
    let more = flags.confinement.exec_hidden.iter().map(PathBuf::from);
    named.map(|(_, path)| path).chain(more).chain(surroundings.secrets.iter().cloned()).collect()
}

/// Secrets in places that no flag names.
pub(super) fn secrets_of_the_machine() -> Vec<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let home = set("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let at_home = home.iter().flat_map(|home| AT_HOME.map(|name| home.join(name)));
    let kubeconfigs = set("KUBECONFIG");
    let kubeconfigs = kubeconfigs.iter().flat_map(std::env::split_paths);
    let variables = VARIABLES.into_iter().filter_map(set).map(PathBuf::from);
    let tokens = TOKENS.map(PathBuf::from);
    tokens
        .into_iter()
        .chain(at_home)
        .chain(kubeconfigs)
        .chain(variables)
        .filter(|path| path.exists())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::resolve;
    use super::*;

    fn settings(line: &[&str], surroundings: &Surroundings) -> Result<Settings, String> {
        resolve(line, surroundings).map(|config| config.exec.unwrap().confinement.settings)
    }

    #[test]
    fn every_flag_that_names_a_secret_hides_it() {
        let surroundings = Surroundings { secrets: vec!["/token".into()], ..Default::default() };
        let line = [
            "--tls-cert=/cert",
            "--tls-key=/s/tls",
            "--registry-auth-secret-path=/s/auth",
            "--tls-secret-path=/s/ca/",
            "--exec-hidden=/s/a",
            "--exec-hidden=/s/b",
            "--pod-tls-secret=x",
            "--pod-tls-ca=/ca",
            "--pod-tls-cert=/pod-cert",
            "--pod-tls-key=/s/pod",
        ];
        let hidden = settings(&line, &surroundings).unwrap().hidden;
        for secret in ["/token", "/s/tls", "/s/auth", "/s/ca/", "/s/a", "/s/b", "/s/pod"] {
            assert!(hidden.contains(&PathBuf::from(secret)), "{secret} is not in {hidden:?}");
        }
    }

    #[test]
    fn limits_are_numbers_and_zero_is_none() {
        let limits = |line: &[&str]| settings(line, &Surroundings::default()).map(|found| found.limits);
        let defaults = limits(&[]).unwrap();
        assert_eq!(
            (defaults.processes, defaults.open_files, defaults.cpu_time),
            (Some(512), Some(4096), None)
        );
        assert_eq!(limits(&["--exec-processes=0"]).unwrap().processes, None);
        assert_eq!(limits(&["--exec-memory=7"]).unwrap().memory, Some(7));
        assert_eq!(limits(&["--exec-memory=2Gi", "--exec-file-size=0"]).unwrap().memory, Some(2 << 30));
        let error = limits(&["--exec-open-files=-1"]).unwrap_err();
        assert!(error.starts_with("--exec-open-files: -1 is not a number"), "{error}");
    }
}
