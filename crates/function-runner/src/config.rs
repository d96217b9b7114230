//! From flags and surroundings to a configuration that can be run.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use loggia_evaluator::tls::{ClientFiles, ServerFiles};
use loggia_pods::{PodAddress, PodSecurity, PodTls};
use loggia_render::{SchemaFolders, check_prefix};
use loggia_telemetry::Environment;
use loggia_telemetry::environment::Traces;
use loggia_telemetry::push::Settings;
use tracing::{info, warn};

use crate::flags::{Flags, PodFlags, Refusal};
use crate::registries;

/// Where Kubernetes puts the token of a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What the service is to do. Everything in it was checked.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) port: u16,
    pub(crate) builtin: bool,
    pub(crate) exec: Option<ExecConfig>,
    pub(crate) pods: Option<PodConfig>,
    /// What stands before the names of images that have no slash, in packages.
    pub(crate) catalog: String,
    /// The same in calls, if it was asked for.
    pub(crate) image_prefix: Option<String>,
    pub(crate) message_limit: usize,
    pub(crate) drain_timeout: Duration,
    /// Where metrics and the status page are served.
    pub(crate) metrics: Option<String>,
    /// How metrics are sent, if they are.
    pub(crate) push: Option<Settings>,
    /// How traces are sent, if they are.
    pub(crate) traces: Option<Traces>,
    /// The identity of the service, if it is to have one.
    pub(crate) tls: Option<ServerFiles>,
    /// What built-in functions may read.
    pub(crate) schemas: SchemaFolders,
}

/// How function pods run.
#[derive(Debug)]
pub(crate) struct PodConfig {
    /// The file that says how to reach the cluster, where one was named.
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) registries: loggia_registry::Settings,
    pub(crate) settings: loggia_pods::Settings,
}

/// How exec functions run.
#[derive(Debug)]
pub(crate) struct ExecConfig {
    pub(crate) config: Option<PathBuf>,
    pub(crate) functions: PathBuf,
    pub(crate) concurrent: usize,
    pub(crate) timeout: Option<Duration>,
    pub(crate) inherit_environment: bool,
    /// A folder that functions must not see.
    pub(crate) hidden: Option<PathBuf>,
}

/// What the machine around the program has to do with its configuration.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    pub(crate) wrapper_server_image: Option<String>,
    /// The program runs in a pod.
    pub(crate) in_cluster: bool,
    /// `KUBECONFIG` is set.
    pub(crate) kubeconfig: bool,
    pub(crate) cores: usize,
    pub(crate) default_config_exists: bool,
    pub(crate) service_account: Option<PathBuf>,
    /// The namespace that the program runs in, and its name there.
    pub(crate) namespace: Option<String>,
    pub(crate) host: Option<String>,
    /// Where the variables of OpenTelemetry want metrics to be served.
    pub(crate) metrics: Option<String>,
    /// How they want metrics to be sent.
    pub(crate) push: Option<Settings>,
    /// How they want traces to be sent.
    pub(crate) traces: Option<Traces>,
    /// What `/etc/resolv.conf` says.
    pub(crate) resolv_conf: String,
}

/// The ways to run a function, in the order in which they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runtime {
    Builtin,
    Exec,
    Pod,
}

// === impl Surroundings ===

impl Surroundings {
    pub(crate) fn here() -> anyhow::Result<Self> {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let service_account = Path::new(SERVICE_ACCOUNT);
        let Environment { metrics, push, traces, warnings } = Environment::here()?;
        warnings.iter().for_each(|warning| warn!("{warning}"));
        Ok(Self {
            wrapper_server_image: set("WRAPPER_SERVER_IMAGE"),
            in_cluster: set("KUBERNETES_SERVICE_HOST").is_some(),
            kubeconfig: set("KUBECONFIG").is_some(),
            cores: std::thread::available_parallelism().map_or(1, Into::into),
            default_config_exists: Path::new(&Flags::default().config).exists(),
            service_account: service_account.exists().then(|| service_account.to_owned()),
            namespace: std::fs::read_to_string(service_account.join("namespace")).ok(),
            host: set("HOSTNAME"),
            metrics,
            push,
            traces,
            resolv_conf: std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default(),
        })
    }
}

// === impl Config ===

impl Config {
    pub(crate) fn resolve(flags: &Flags, surroundings: &Surroundings) -> anyhow::Result<Self> {
        if !flags.leftover.is_empty() {
            warn!("Ignoring {} and all that follows: flags end at the first word", flags.leftover[0]);
        }
        let disabled = disabled_runtimes(&flags.disable_runtimes)?;
        let enabled = |runtime| !disabled.contains(&runtime);
        let port = within("port", flags.port, 0..=65_535)?;
        let message_limit =
            within("max-request-body-size", flags.max_request_body_size, 1..=i64::from(u32::MAX))?;
        within::<usize>("max-concurrent-executions", flags.max_concurrent_executions, 0..=1_000_000)?;
        let catalog = check_prefix(&flags.pods.default_image_prefix)
            .map_err(|error| Refusal::Usage(format!("--default-image-prefix: {error}")))?;
        let exec = enabled(Runtime::Exec).then(|| ExecConfig::resolve(flags, surroundings));
        // Outside of packages short names are resolved only for those who ask for it.
        let image_prefix = Some(catalog.clone())
            .filter(|prefix| flags.given.contains("default-image-prefix") && !prefix.is_empty());
        let pods = match enabled(Runtime::Pod) {
            true => PodConfig::resolve(flags, surroundings, message_limit, image_prefix.clone())?,
            false => None,
        };
        Ok(Self {
            port,
            builtin: enabled(Runtime::Builtin),
            exec,
            pods,
            image_prefix,
            catalog,
            message_limit,
            drain_timeout: flags.drain_timeout.positive().unwrap_or_default(),
            metrics: Some(flags.metrics_address.clone())
                .filter(|address| !address.is_empty())
                .or_else(|| surroundings.metrics.clone()),
            push: surroundings.push.clone(),
            traces: surroundings.traces,
            tls: ServerFiles::named(&flags.tls_cert, &flags.tls_key, &flags.client_ca)
                .map_err(|error| Refusal::Usage(error.to_string()))?,
            schemas: SchemaFolders::new(flags.schema_folders.iter().map(PathBuf::from))
                .context("--schema-folder")?,
        })
    }
}

/// A flag's value as the type it is used in.
fn within<T: TryFrom<i64>>(flag: &str, value: i64, range: RangeInclusive<i64>) -> Result<T, Refusal> {
    let (least, most) = (range.start(), range.end());
    let refusal = || Refusal::Usage(format!("--{flag}: {value} is not a number from {least} to {most}"));
    T::try_from(value).ok().filter(|_| range.contains(&value)).ok_or_else(refusal)
}

fn disabled_runtimes(list: &str) -> Result<Vec<Runtime>, Refusal> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| match name {
            "builtin" => Ok(Runtime::Builtin),
            "exec" => Ok(Runtime::Exec),
            "pod" => Ok(Runtime::Pod),
            other => Err(Refusal::Usage(format!(
                "--disable-runtimes: there is no runtime `{other}`; there are builtin, exec and pod"
            ))),
        })
        .collect()
}

// === impl PodConfig ===

impl PodConfig {
    /// The pod runtime needs the image of its server. Inside a cluster that must be told; elsewhere nobody
    /// expects pods.
    fn resolve(
        flags: &Flags,
        surroundings: &Surroundings,
        message_limit: usize,
        image_prefix: Option<String>,
    ) -> anyhow::Result<Option<Self>> {
        let PodFlags {
            pod_cache_config,
            warm_up_pod_cache,
            pod_namespace,
            pod_ttl,
            scan_interval,
            function_pod_template,
            enable_private_registries: _,
            registry_auth_secret_path: _,
            registry_auth_secret_name,
            enable_private_registries_tls: _,
            tls_secret_path: _,
            max_waitlist_length,
            max_parallel_pods_per_function,
            default_image_prefix: _,
            public_image_prefixes: _,
            image_metadata_ttl: _,
            registry_timeout: _,
            plain_http_registries: _,
            pod_ready_timeout,
            pod_address,
            pod_security,
            cluster_domain,
            max_queue_length,
            max_concurrent_evaluations_per_pod,
            pod_tls_secret: _,
            pod_tls_ca: _,
            pod_tls_cert: _,
            pod_tls_key: _,
        } = &flags.pods;
        let tls = pod_tls(&flags.pods)?;
        let cluster = surroundings.in_cluster || surroundings.kubeconfig || !flags.kubeconfig.is_empty();
        let Some(wrapper_image) = surroundings.wrapper_server_image.clone() else {
            if cluster {
                bail!(
                    "environment variable WRAPPER_SERVER_IMAGE must be set to use pod function evaluator runtime"
                );
            }
            info!("No cluster is configured: functions run without pods");
            return Ok(None);
        };
        let named = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
        let namespace = surroundings.namespace.as_deref().map(str::trim).filter(|name| !name.is_empty());
        let manager_namespace = namespace.unwrap_or_else(|| {
            warn!("The namespace of this program is not known: porch-system is taken for it");
            "porch-system"
        });
        // A file that nobody asked for need not be there.
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
                other => return Err(choice("pod-security", other, "baseline and restricted").into()),
            },
            address: match pod_address.as_str() {
                "dns" => PodAddress::Dns,
                "service-ip" => PodAddress::ServiceIp,
                "pod-ip" => PodAddress::PodIp,
                other => return Err(choice("pod-address", other, "dns, service-ip and pod-ip").into()),
            },
            cluster_domain: named(cluster_domain)
                .or_else(|| cluster_domain_of(&surroundings.resolv_conf))
                .unwrap_or_else(|| "cluster.local".to_owned()),
            pull_secret: registry_auth_secret_name.clone(),
            image_prefix,
            tls,
            owner: owner(surroundings.host.as_deref()),
        };
        let kubeconfig = named(&flags.kubeconfig).map(PathBuf::from);
        Ok(Some(Self { kubeconfig, registries: registries::settings(&flags.pods), settings }))
    }
}

/// Pods speak TLS if a Secret is named, and then somebody must say whom to take for a pod.
fn pod_tls(flags: &PodFlags) -> Result<Option<PodTls>, Refusal> {
    let PodFlags { pod_tls_secret: secret, pod_tls_ca: ca, pod_tls_cert: cert, pod_tls_key: key, .. } = flags;
    let usage = |text: String| Err(Refusal::Usage(text));
    if secret.is_empty() {
        let named = [("ca", ca), ("cert", cert), ("key", key)].into_iter().find(|(_, file)| !file.is_empty());
        return match named {
            None => Ok(None),
            Some((flag, _)) => usage(format!(
                "--pod-tls-{flag}: function pods speak TLS only with a certificate; add --pod-tls-secret"
            )),
        };
    }
    let identity = match (cert.as_str(), key.as_str()) {
        ("", "") => None,
        ("", _) | (_, "") => {
            return usage(
                "--pod-tls-cert and --pod-tls-key belong together; one of them is missing".to_owned(),
            );
        }
        (cert, key) => Some((cert.into(), key.into())),
    };
    if ca.is_empty() {
        return usage(
            "--pod-tls-secret: whom to take for a function pod is not known; add --pod-tls-ca".to_owned(),
        );
    }
    Ok(Some(PodTls { secret: secret.clone(), files: ClientFiles { ca: ca.into(), identity } }))
}

fn choice(flag: &str, value: &str, choices: &str) -> Refusal {
    Refusal::Usage(format!("--{flag}: there is no `{value}`; there are {choices}"))
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
    use std::hash::{BuildHasher as _, Hasher as _};
    let chance = std::collections::hash_map::RandomState::new().build_hasher().finish();
    format!("{}.{:08x}", host.unwrap_or("function-runner"), chance & 0xffff_ffff)
}

// === impl ExecConfig ===

impl ExecConfig {
    fn resolve(flags: &Flags, surroundings: &Surroundings) -> Self {
        let config = match flags.config.as_str() {
            "" => None,
            // Nobody asked for this file: on a laptop there is none.
            _ if !flags.given.contains("config") && !surroundings.default_config_exists => {
                info!("There is no {}: no exec functions", flags.config);
                None
            }
            file => Some(PathBuf::from(file)),
        };
        let concurrent = usize::try_from(flags.max_concurrent_executions).unwrap_or_default();
        Self {
            config,
            functions: PathBuf::from(&flags.functions),
            concurrent: if concurrent == 0 { 8 * surroundings.cores } else { concurrent },
            timeout: flags.exec_timeout.positive(),
            inherit_environment: flags.exec_inherit_environment,
            hidden: surroundings.service_account.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(line: &[&str], surroundings: &Surroundings) -> Result<Config, String> {
        let flags = Flags::parse(line.iter().map(Into::into)).unwrap();
        Config::resolve(&flags, surroundings).map_err(|error| format!("{error:#}"))
    }

    fn in_cluster() -> Surroundings {
        Surroundings { in_cluster: true, cores: 2, ..Default::default() }
    }

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

    #[test]
    fn on_a_laptop_the_service_goes_on_without_pods_or_a_config_file() {
        let config = resolve(&[], &Surroundings { cores: 2, ..Default::default() }).unwrap();
        assert!(config.builtin);
        let exec = config.exec.unwrap();
        assert_eq!((exec.config, exec.concurrent), (None, 16));
    }

    #[test]
    fn a_config_file_that_was_asked_for_must_be_there() {
        let exec = |line| resolve(line, &Surroundings::default()).unwrap().exec.unwrap();
        assert_eq!(exec(&["--config=c.yaml"]).config, Some("c.yaml".into()));
        assert_eq!(exec(&["--config="]).config, None);
        let exists = Surroundings { default_config_exists: true, ..Default::default() };
        assert_eq!(resolve(&[], &exists).unwrap().exec.unwrap().config, Some("./config.yaml".into()));
    }

    #[test]
    fn runtimes_are_trimmed_and_typos_refused() {
        let config = resolve(&["--disable-runtimes= exec , pod,builtin,"], &in_cluster()).unwrap();
        assert!(!config.builtin && config.exec.is_none());
        assert_eq!(
            resolve(&["--disable-runtimes=exce"], &Surroundings::default()).unwrap_err(),
            "--disable-runtimes: there is no runtime `exce`; there are builtin, exec and pod"
        );
    }

    #[test]
    fn short_names_are_resolved_only_if_a_prefix_was_given() {
        let prefix = |line| resolve(line, &Surroundings::default()).map(|config| config.image_prefix);
        assert_eq!(prefix(&[]), Ok(None));
        assert_eq!(prefix(&["--default-image-prefix="]), Ok(None));
        assert_eq!(prefix(&["--default-image-prefix=r.io/fns/"]), Ok(Some("r.io/fns".into())));
    }

    #[test]
    fn short_names_in_packages_get_a_prefix_that_makes_sense() {
        let catalog = |line| resolve(line, &Surroundings::default()).map(|config| config.catalog);
        assert_eq!(catalog(&[]), Ok("ghcr.io/kptdev/krm-functions-catalog".into()));
        assert_eq!(catalog(&["--default-image-prefix=r.io/fns/"]), Ok("r.io/fns".into()));
        for line in [&["--default-image-prefix=https://r.io"], &["--default-image-prefix=R.io/FNS"]] {
            let error = catalog(line).unwrap_err();
            assert!(error.starts_with("--default-image-prefix: invalid image prefix"), "{error}");
        }
    }

    #[test]
    fn a_certificate_and_its_key_belong_together() {
        let tls = |line: &[&str]| resolve(line, &Surroundings::default()).map(|config| config.tls);
        assert_eq!(tls(&[]), Ok(None));
        let files = tls(&["--tls-cert=c", "--tls-key=k", "--client-ca=a"]).unwrap().unwrap();
        let expected = ServerFiles { cert: "c".into(), key: "k".into(), client_ca: Some("a".into()) };
        assert_eq!(files, expected);
        for line in [&["--tls-cert=c"][..], &["--tls-key=k"], &["--tls-cert=c", "--client-ca=a"]] {
            assert!(tls(line).unwrap_err().starts_with("--tls-cert and --tls-key belong together"));
        }
        assert!(tls(&["--client-ca=a"]).unwrap_err().starts_with("--client-ca: "));
    }

    #[test]
    fn metrics_are_served_where_the_flag_says_or_else_the_environment() {
        let environment = || Surroundings { metrics: Some("localhost:1".into()), ..Default::default() };
        let metrics = |line: &[&str], surroundings| resolve(line, &surroundings).unwrap().metrics;
        assert_eq!(metrics(&[], Surroundings::default()), None);
        assert_eq!(metrics(&[], environment()).as_deref(), Some("localhost:1"));
        assert_eq!(metrics(&["--metrics-address=:2"], environment()).as_deref(), Some(":2"));
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for line in
            ["--port=65536", "--port=-1", "--max-request-body-size=0", "--max-concurrent-executions=-1"]
        {
            let flag = line.split('=').next().unwrap();
            assert!(resolve(&[line], &Surroundings::default()).unwrap_err().starts_with(flag), "{line}");
        }
    }
}
