//! How function pods run, from flags and surroundings.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use loggia_go::random_id;
use loggia_grpc::tls::ClientFiles;
use loggia_pods::{PodAddress, PodSecurity, PodTls};
use tracing::{info, warn};

use super::pod_hardening::PodHardening;
use super::{PolicyConfig, Surroundings, UsageError, named, unknown};
use crate::flags::{Flags, PodFlags, PodTlsFlags};
use crate::registries;

/// How function pods run.
#[derive(Debug)]
pub(crate) struct PodConfig {
    /// The file that says how to reach the cluster, where one was named.
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) registries: loggia_registry::Settings,
    pub(crate) settings: loggia_pods::Settings,
}

// === impl PodConfig ===

impl PodConfig {
    /// The pod runtime needs the image of its server. With a cluster it must be set; without one there are no
    /// pods.
    pub(super) fn resolve(
        flags: &Flags,
        surroundings: &Surroundings,
        message_limit: usize,
        image_prefix: Option<String>,
        policy: &PolicyConfig,
    ) -> anyhow::Result<Option<Self>> {
        let PodFlags {
            kubeconfig,
            pod_namespace,
            pod_cache_config,
            warm_up_pod_cache,
            pod_ttl,
            scan_interval,
            max_waitlist_length,
            max_parallel_pods_per_function,
            max_concurrent_evaluations_per_pod,
            max_queue_length,
            pod_ready_timeout,
            pod_address,
            cluster_domain,
            pod_security,
            function_pod_template,
            registry_auth_secret_name,
        } = &flags.pods;
        let tls = pod_tls(&flags.pod_tls)?;
        let PodHardening { max_pods, resources, image_by_tag, keep_capabilities, user_namespaces } =
            PodHardening::resolve(&flags.pod_hardening)?;
        let cluster = surroundings.in_cluster || surroundings.kubeconfig || !kubeconfig.is_empty();
        let Some(wrapper_image) = surroundings.wrapper_server_image.clone() else {
            if cluster {
                bail!(
                    "environment variable WRAPPER_SERVER_IMAGE must be set to use pod function evaluator runtime"
                );
            }
            info!("No cluster is configured: functions run without pods");
            return Ok(None);
        };
        let namespace = surroundings.namespace.as_deref().map(str::trim).filter(|name| !name.is_empty());
        let manager_namespace = namespace.unwrap_or_else(|| {
            warn!("The namespace of this program is not known: porch-system is taken for it");
            "porch-system"
        });
        // The default file need not exist.
        let asked = flags.given.contains("pod-cache-config");
        let cache_config = named(pod_cache_config).map(PathBuf::from).filter(|file| asked || file.exists());
        let at_least_one = |value: i64, otherwise| match usize::try_from(value) {
            Ok(value) if value > 0 => value,
            _ => otherwise,
        };
        let limit = |value: i64| usize::try_from(value).ok().filter(|value| *value > 0);
        let settings = loggia_pods::Settings {
            namespace: pod_namespace.clone(),
            manager_namespace: manager_namespace.to_owned(),
            wrapper_image,
            template: named(function_pod_template),
            cache_config,
            warm_up: *warm_up_pod_cache,
            ttl: pod_ttl.positive().unwrap_or_default(),
            max_waitlist_length: at_least_one(*max_waitlist_length, 2),
            max_parallel_pods_per_function: at_least_one(*max_parallel_pods_per_function, 1),
            max_concurrent_evaluations_per_pod: limit(*max_concurrent_evaluations_per_pod),
            max_queue_length: limit(*max_queue_length),
            scan_interval: scan_interval.positive(),
            ready_timeout: pod_ready_timeout.positive().unwrap_or(Duration::from_secs(60)),
            message_limit,
            security: match pod_security.as_str() {
                "baseline" => PodSecurity::Baseline,
                "restricted" => PodSecurity::Restricted,
                other => return Err(unknown("pod-security", other, "baseline and restricted").into()),
            },
            keep_capabilities,
            user_namespaces,
            resources,
            image_by_tag,
            max_pods,
            address: match pod_address.as_str() {
                "dns" => PodAddress::Dns,
                "service-ip" => PodAddress::ServiceIp,
                "pod-ip" => PodAddress::PodIp,
                other => return Err(unknown("pod-address", other, "dns, service-ip and pod-ip").into()),
            },
            cluster_domain: named(cluster_domain)
                .or_else(|| cluster_domain_of(&surroundings.resolv_conf))
                .unwrap_or_else(|| "cluster.local".to_owned()),
            pull_secret: registry_auth_secret_name.clone(),
            image_prefix,
            images: Arc::clone(&policy.images),
            tls,
            owner: owner(surroundings.host.as_deref()),
        };
        let kubeconfig = named(kubeconfig).map(PathBuf::from);
        let from_environment = surroundings.private_registries.as_deref();
        let registries = registries::settings(&flags.registries, policy, from_environment)?;
        Ok(Some(Self { kubeconfig, registries, settings }))
    }
}

/// Pods speak TLS if a Secret is named, and then the CA that signs their certificates must be known.
fn pod_tls(flags: &PodTlsFlags) -> Result<Option<PodTls>, UsageError> {
    let PodTlsFlags { pod_tls_secret: secret, pod_tls_ca: ca, pod_tls_cert: cert, pod_tls_key: key } = flags;
    if secret.is_empty() {
        let files = [("--pod-tls-ca", ca), ("--pod-tls-cert", cert), ("--pod-tls-key", key)];
        return match files.into_iter().find(|(_, file)| !file.is_empty()) {
            None => Ok(None),
            Some((flag, _)) => Err(UsageError::PodTlsWithoutSecret { flag }),
        };
    }
    let identity = match (cert.as_str(), key.as_str()) {
        ("", "") => None,
        ("", _) | (_, "") => return Err(UsageError::PodTlsIdentity),
        (cert, key) => Some((cert.into(), key.into())),
    };
    if ca.is_empty() {
        return Err(UsageError::PodTlsWithoutCa);
    }
    Ok(Some(PodTls { secret: secret.clone(), files: ClientFiles { ca: ca.into(), identity } }))
}

/// Where the search list of a pod has `svc.DOMAIN`.
fn cluster_domain_of(resolv_conf: &str) -> Option<String> {
    let words =
        resolv_conf.lines().filter_map(|line| line.strip_prefix("search")).flat_map(str::split_whitespace);
    words
        .filter_map(|word| word.strip_prefix("svc."))
        .next()
        .map(|domain| domain.trim_end_matches('.').to_owned())
}

/// A name for this run of the program: no other one, not even after a restart, may take its pods for its own.
fn owner(host: Option<&str>) -> String {
    format!("{}.{:08x}", host.unwrap_or("function-runner"), random_id() & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{in_cluster, resolve};
    use super::*;

    #[test]
    fn inside_a_cluster_pods_need_the_image_of_their_server() {
        let expected =
            "environment variable WRAPPER_SERVER_IMAGE must be set to use pod function evaluator runtime";
        assert_eq!(resolve(&[], &in_cluster()).unwrap_err(), expected);
        assert_eq!(resolve(&["--kubeconfig=f"], &Surroundings::default()).unwrap_err(), expected);
        assert!(resolve(&["--disable-runtimes=pod"], &in_cluster()).is_ok());
        assert!(resolve(&[], &with_wrapper()).unwrap().pods.is_some());
    }

    fn with_wrapper() -> Surroundings {
        Surroundings { wrapper_server_image: Some("x".into()), ..in_cluster() }
    }

    #[test]
    fn pods_are_shaped_by_their_flags() {
        let settings = |line: &[&str]| resolve(line, &with_wrapper()).unwrap().pods.unwrap().settings;
        let defaults = settings(&[]);
        assert_eq!((defaults.max_waitlist_length, defaults.max_parallel_pods_per_function), (2, 1));
        assert_eq!((defaults.max_concurrent_evaluations_per_pod, defaults.max_queue_length), (None, None));
        assert_eq!(defaults.cluster_domain, "cluster.local");
        assert_eq!(defaults.manager_namespace, "porch-system");
        let changed = settings(&[
            "--max-waitlist-length=-1",
            "--max-parallel-pods-per-function=3",
            "--scan-interval=0",
        ]);
        assert_eq!(
            (changed.max_waitlist_length, changed.max_parallel_pods_per_function, changed.scan_interval),
            (2, 3, None)
        );
        assert_ne!(defaults.owner, changed.owner);
        for (line, choices) in [
            ("--pod-address=ip", "dns, service-ip and pod-ip"),
            ("--pod-security=no", "baseline and restricted"),
        ] {
            assert!(resolve(&[line], &with_wrapper()).unwrap_err().ends_with(choices), "{line}");
        }
    }

    #[test]
    fn function_pods_speak_tls_if_all_that_it_takes_is_named() {
        let tls = |line: &[&str]| {
            resolve(line, &with_wrapper()).map(|config| config.pods.and_then(|pods| pods.settings.tls))
        };
        assert!(tls(&[]).unwrap().is_none());
        let one_way = tls(&["--pod-tls-secret=s", "--pod-tls-ca=a"]).unwrap().unwrap();
        assert_eq!((one_way.secret.as_str(), one_way.files.identity), ("s", None));
        let both = ["--pod-tls-secret=s", "--pod-tls-ca=a", "--pod-tls-cert=c", "--pod-tls-key=k"];
        let files = ClientFiles { ca: "a".into(), identity: Some(("c".into(), "k".into())) };
        assert_eq!(tls(&both).unwrap().unwrap().files, files);
        for (line, expected) in [
            (&["--pod-tls-secret=s"][..], "add --pod-tls-ca"),
            (&["--pod-tls-ca=a"], "add --pod-tls-secret"),
            (&["--pod-tls-key=k"], "add --pod-tls-secret"),
            (&["--pod-tls-secret=s", "--pod-tls-ca=a", "--pod-tls-cert=c"], "one of them is missing"),
        ] {
            assert!(tls(line).unwrap_err().ends_with(expected), "{line:?}");
        }
    }

    #[test]
    fn the_clusters_domain_is_that_of_the_search_list() {
        let text = "nameserver 10.0.0.10\nsearch fns.svc.corp.example svc.corp.example corp.example\n";
        assert_eq!(cluster_domain_of(text).as_deref(), Some("corp.example"));
        assert_eq!(cluster_domain_of("search example.com"), None);
    }
}
