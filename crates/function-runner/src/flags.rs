//! The command line: every flag of every release of Porch's function runner, and Loggia's own.

use std::collections::BTreeSet;
use std::ffi::OsString;

use loggia_go::Duration;
use loggia_go::flag::{Error, FlagSet, Parsed, Syntax, Target};
use loggia_go::klog::Format;

/// The command line as it was written, defaults filled in.
#[derive(Debug)]
pub(crate) struct Flags {
    pub(crate) port: i64,
    pub(crate) disable_runtimes: String,
    pub(crate) log_level: i64,
    pub(crate) log_format: String,
    pub(crate) metrics_address: String,
    pub(crate) tls_cert: String,
    pub(crate) tls_key: String,
    pub(crate) client_ca: String,
    pub(crate) functions: String,
    pub(crate) config: String,
    pub(crate) max_request_body_size: i64,
    pub(crate) max_concurrent_executions: i64,
    pub(crate) exec_timeout: Duration,
    pub(crate) exec_inherit_environment: bool,
    pub(crate) drain_timeout: Duration,
    pub(crate) kubeconfig: String,
    pub(crate) schema_folders: Vec<String>,
    pub(crate) pods: PodFlags,
    /// The names of the flags that were given.
    pub(crate) given: BTreeSet<&'static str>,
    /// Words that belong to no flag.
    pub(crate) leftover: Vec<String>,
}

/// What shapes function pods and the access to registries.
#[derive(Debug)]
pub(crate) struct PodFlags {
    pub(crate) pod_cache_config: String,
    pub(crate) warm_up_pod_cache: bool,
    pub(crate) pod_namespace: String,
    pub(crate) pod_ttl: Duration,
    pub(crate) scan_interval: Duration,
    pub(crate) function_pod_template: String,
    pub(crate) enable_private_registries: bool,
    pub(crate) registry_auth_secret_path: String,
    pub(crate) registry_auth_secret_name: String,
    pub(crate) enable_private_registries_tls: bool,
    pub(crate) tls_secret_path: String,
    pub(crate) max_waitlist_length: i64,
    pub(crate) max_parallel_pods_per_function: i64,
    pub(crate) default_image_prefix: String,
    pub(crate) public_image_prefixes: String,
    pub(crate) image_metadata_ttl: Duration,
    pub(crate) registry_timeout: Duration,
    pub(crate) plain_http_registries: String,
    pub(crate) pod_ready_timeout: Duration,
    pub(crate) pod_address: String,
    pub(crate) pod_security: String,
    pub(crate) cluster_domain: String,
    pub(crate) max_queue_length: i64,
    pub(crate) max_concurrent_evaluations_per_pod: i64,
    pub(crate) pod_tls_secret: String,
    pub(crate) pod_tls_ca: String,
    pub(crate) pod_tls_cert: String,
    pub(crate) pod_tls_key: String,
}

/// Why the program does not start with this command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The text that was asked for.
    Help(String),
    /// What is wrong.
    Usage(String),
}

// === impl Refusal ===

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Help(text) | Self::Usage(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Refusal {}

// === impl Flags ===

impl Default for Flags {
    fn default() -> Self {
        Self {
            port: 9445,
            disable_runtimes: String::new(),
            log_level: 2,
            log_format: "text".to_owned(),
            metrics_address: String::new(),
            tls_cert: String::new(),
            tls_key: String::new(),
            client_ca: String::new(),
            functions: "./functions".to_owned(),
            config: "./config.yaml".to_owned(),
            max_request_body_size: 6 * 1024 * 1024,
            max_concurrent_executions: 0,
            exec_timeout: Duration::default(),
            exec_inherit_environment: false,
            drain_timeout: Duration::from_secs(25),
            kubeconfig: String::new(),
            schema_folders: Vec::new(),
            pods: PodFlags::default(),
            given: BTreeSet::new(),
            leftover: Vec::new(),
        }
    }
}

impl Default for PodFlags {
    fn default() -> Self {
        Self {
            pod_cache_config: "/pod-cache-config/pod-cache-config.yaml".to_owned(),
            warm_up_pod_cache: true,
            pod_namespace: "porch-fn-system".to_owned(),
            pod_ttl: Duration::from_secs(30 * 60),
            scan_interval: Duration::from_secs(60),
            function_pod_template: String::new(),
            enable_private_registries: false,
            registry_auth_secret_path: "/var/tmp/config-secret/.dockerconfigjson".to_owned(),
            registry_auth_secret_name: "auth-secret".to_owned(),
            enable_private_registries_tls: false,
            tls_secret_path: "/var/tmp/tls-secret/".to_owned(),
            max_waitlist_length: 2,
            max_parallel_pods_per_function: 1,
            default_image_prefix: "ghcr.io/kptdev/krm-functions-catalog/".to_owned(),
            public_image_prefixes: "gcr.io/kpt-fn/".to_owned(),
            image_metadata_ttl: Duration::default(),
            registry_timeout: Duration::from_secs(30),
            plain_http_registries: String::new(),
            pod_ready_timeout: Duration::from_secs(60),
            pod_address: "dns".to_owned(),
            pod_security: "baseline".to_owned(),
            cluster_domain: String::new(),
            max_queue_length: 0,
            max_concurrent_evaluations_per_pod: 0,
            pod_tls_secret: String::new(),
            pod_tls_ca: String::new(),
            pod_tls_cert: String::new(),
            pod_tls_key: String::new(),
        }
    }
}

impl Flags {
    pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, Refusal> {
        let arguments: Vec<String> = arguments
            .into_iter()
            .map(|argument| {
                argument.into_string().map_err(|argument| {
                    Refusal::Usage(format!("the argument {} is not UTF-8", argument.display()))
                })
            })
            .collect::<Result<_, _>>()?;
        let mut flags = Self::default();
        let mut set = flags.set();
        let parsed = match set.parse(arguments) {
            Ok(parsed) => parsed,
            Err(Error::Help) => return Err(Refusal::Help(set.usage())),
            Err(Error::Usage(reason)) => return Err(Refusal::Usage(reason)),
        };
        let Parsed { given, words, after_dashes: _ } = parsed;
        flags.given = given;
        flags.leftover = words;
        Ok(flags)
    }

    /// How log lines look.
    pub(crate) fn log_format(&self) -> Result<Format, Refusal> {
        match self.log_format.as_str() {
            "text" => Ok(Format::Text),
            "json" => Ok(Format::Json),
            other => {
                Err(Refusal::Usage(format!("--log-format: there is no `{other}`; there are text and json")))
            }
        }
    }

    fn set(&mut self) -> FlagSet<'_> {
        use Target::{Bool, Int, Text, Texts};
        let Self {
            port,
            disable_runtimes,
            log_level,
            log_format,
            metrics_address,
            tls_cert,
            tls_key,
            client_ca,
            functions,
            config,
            max_request_body_size,
            max_concurrent_executions,
            exec_timeout,
            exec_inherit_environment,
            drain_timeout,
            kubeconfig,
            schema_folders,
            pods,
            given: _,
            leftover: _,
        } = self;
        let PodFlags {
            pod_cache_config,
            warm_up_pod_cache,
            pod_namespace,
            pod_ttl,
            scan_interval,
            function_pod_template,
            enable_private_registries,
            registry_auth_secret_path,
            registry_auth_secret_name,
            enable_private_registries_tls,
            tls_secret_path,
            max_waitlist_length,
            max_parallel_pods_per_function,
            default_image_prefix,
            public_image_prefixes,
            image_metadata_ttl,
            registry_timeout,
            plain_http_registries,
            pod_ready_timeout,
            pod_address,
            pod_security,
            cluster_domain,
            max_queue_length,
            max_concurrent_evaluations_per_pod,
            pod_tls_secret,
            pod_tls_ca,
            pod_tls_cert,
            pod_tls_key,
        } = pods;
        FlagSet::new("function-runner", Syntax::Go)
            .flag("port", Int(port), "The server port.")
            .flag(
                "disable-runtimes",
                Text(disable_runtimes),
                "The runtimes to do without, separated by commas: builtin, exec, pod.",
            )
            .flag("log-level", Int(log_level), "How much to log, from 0 to 5.")
            .flag("log-format", Text(log_format), "How to log: text for the lines of klog, or json.")
            .flag(
                "metrics-address",
                Text(metrics_address),
                "Where to serve metrics and the status page, as host:port or :port; empty for what OTEL_METRICS_EXPORTER and its like say.",
            )
            .flag(
                "tls-cert",
                Text(tls_cert),
                "The file with the certificate of the service and those between it and its authority; empty for no TLS.",
            )
            .flag("tls-key", Text(tls_key), "The file with the key of that certificate.")
            .flag(
                "client-ca",
                Text(client_ca),
                "The file with the authorities of callers; with it, only callers with a certificate are served.",
            )
            .flag("functions", Text(functions), "The folder with the programs of exec functions.")
            .flag("config", Text(config), "The file that maps images to exec functions; empty for none.")
            .flag(
                "max-request-body-size",
                Int(max_request_body_size),
                "The largest message in bytes, in either direction; keep it equal to that of Porch's server.",
            )
            .flag(
                "max-concurrent-executions",
                Int(max_concurrent_executions),
                "The most exec functions that run at once; 0 for 8 per core.",
            )
            .flag(
                "exec-timeout",
                Target::Duration(exec_timeout),
                "The longest that an exec function may run; 0 for as long as its caller waits.",
            )
            .flag(
                "exec-inherit-environment",
                Bool(exec_inherit_environment),
                "Let exec functions see the variables of the service.",
            )
            .flag(
                "drain-timeout",
                Target::Duration(drain_timeout),
                "How long calls in flight may take to end when the service is asked to stop.",
            )
            .flag("kubeconfig", Text(kubeconfig), "The file that says how to reach the cluster.")
            .flag(
                "schema-folder",
                Texts(schema_folders),
                "A folder that built-in kubeconform and kubeval may read schemas from, if a package names it; may be given several times.",
            )
            .flag(
                "pod-cache-config",
                Text(pod_cache_config),
                "The file with the settings of function pods; empty for none.",
            )
            .flag(
                "warm-up-pod-cache",
                Bool(warm_up_pod_cache),
                "Start the pods of the listed functions early.",
            )
            .flag("pod-namespace", Text(pod_namespace), "The namespace of function pods.")
            .flag("pod-ttl", Target::Duration(pod_ttl), "How long a pod may idle before it is removed.")
            .flag(
                "scan-interval",
                Target::Duration(scan_interval),
                "How often to look for pods to remove; 0 or less for never.",
            )
            .flag(
                "function-pod-template",
                Text(function_pod_template),
                "The ConfigMap with the templates of function pods; empty for the built-in ones.",
            )
            .flag(
                "enable-private-registries",
                Bool(enable_private_registries),
                "Use the credentials at --registry-auth-secret-path.",
            )
            .flag(
                "registry-auth-secret-path",
                Text(registry_auth_secret_path),
                "The file with registry credentials, in the form of Docker's configuration.",
            )
            .flag(
                "registry-auth-secret-name",
                Text(registry_auth_secret_name),
                "The pull secret in the namespace of function pods.",
            )
            .flag(
                "enable-private-registries-tls",
                Bool(enable_private_registries_tls),
                "Trust the certificates at --tls-secret-path.",
            )
            .flag("tls-secret-path", Text(tls_secret_path), "The folder with ca.crt or ca.pem.")
            .flag(
                "max-waitlist-length",
                Int(max_waitlist_length),
                "How many calls a pod may have before another one is started.",
            )
            .flag(
                "max-parallel-pods-per-function",
                Int(max_parallel_pods_per_function),
                "The most pods of one function.",
            )
            .flag(
                "default-image-prefix",
                Text(default_image_prefix),
                "What stands before the names of images that have no slash, if this flag is given.",
            )
            .flag(
                "public-image-prefixes",
                Text(public_image_prefixes),
                "Beginnings of images that need no credentials, separated by commas.",
            )
            .flag(
                "image-metadata-ttl",
                Target::Duration(image_metadata_ttl),
                "How long what a tag stands for is believed before it is checked again; 0 for ever.",
            )
            .flag(
                "registry-timeout",
                Target::Duration(registry_timeout),
                "How long a registry may take to tell about an image, repetitions included.",
            )
            .flag(
                "plain-http-registries",
                Text(plain_http_registries),
                "Registries without TLS, each host or host:port, separated by commas; none is sent credentials.",
            )
            .flag(
                "pod-ready-timeout",
                Target::Duration(pod_ready_timeout),
                "How long a function pod may take to become ready.",
            )
            .flag(
                "pod-address",
                Text(pod_address),
                "How function pods are reached: dns, service-ip or pod-ip.",
            )
            .flag(
                "pod-security",
                Text(pod_security),
                "What function pods are kept from: baseline, or restricted for no root and a read-only file system.",
            )
            .flag(
                "cluster-domain",
                Text(cluster_domain),
                "The domain of the cluster's Services; empty for that of /etc/resolv.conf, or cluster.local.",
            )
            .flag(
                "max-queue-length",
                Int(max_queue_length),
                "The most calls that wait for pods of one function; 0 for no limit.",
            )
            .flag(
                "max-concurrent-evaluations-per-pod",
                Int(max_concurrent_evaluations_per_pod),
                "The most calls that run in one function pod at once; 0 for no limit.",
            )
            .flag(
                "pod-tls-secret",
                Text(pod_tls_secret),
                "The Secret in the namespace of function pods with tls.crt, tls.key and ca.crt; with it, pods are spoken \
                 to over TLS alone.",
            )
            .flag("pod-tls-ca", Text(pod_tls_ca), "The authorities of function pods, PEM.")
            .flag(
                "pod-tls-cert",
                Text(pod_tls_cert),
                "The certificate to show to function pods, PEM; with it, they serve nobody without one.",
            )
            .flag("pod-tls-key", Text(pod_tls_key), "Its key, PEM.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> Result<Flags, Refusal> {
        Flags::parse(line.iter().map(OsString::from))
    }

    #[test]
    fn the_defaults_are_those_of_porch() {
        let Flags {
            port,
            disable_runtimes,
            log_level,
            functions,
            config,
            max_request_body_size,
            kubeconfig,
            pods,
            ..
        } = parse(&[]).unwrap();
        assert_eq!((port, log_level, max_request_body_size), (9445, 2, 6_291_456));
        assert_eq!((functions.as_str(), config.as_str()), ("./functions", "./config.yaml"));
        assert_eq!((disable_runtimes.as_str(), kubeconfig.as_str()), ("", ""));
        assert_eq!(pods.pod_cache_config, "/pod-cache-config/pod-cache-config.yaml");
        assert!(pods.warm_up_pod_cache);
        assert_eq!(pods.pod_namespace, "porch-fn-system");
        assert_eq!(
            (pods.pod_ttl.to_string().as_str(), pods.scan_interval.to_string().as_str()),
            ("30m0s", "1m0s")
        );
        assert_eq!(pods.function_pod_template, "");
        assert!(!pods.enable_private_registries && !pods.enable_private_registries_tls);
        assert_eq!(pods.registry_auth_secret_path, "/var/tmp/config-secret/.dockerconfigjson");
        assert_eq!(pods.registry_auth_secret_name, "auth-secret");
        assert_eq!(pods.tls_secret_path, "/var/tmp/tls-secret/");
        assert_eq!((pods.max_waitlist_length, pods.max_parallel_pods_per_function), (2, 1));
        assert_eq!(pods.default_image_prefix, "ghcr.io/kptdev/krm-functions-catalog/");
    }

    #[test]
    fn every_flag_is_taken_in_every_form() {
        let usage = match parse(&["-help"]) {
            Err(Refusal::Help(usage)) => usage,
            other => panic!("{other:?}"),
        };
        let listed: Vec<_> = usage.lines().filter_map(|line| line.strip_prefix("  -")).collect();
        assert_eq!(listed.len(), 45);
        for line in listed {
            let (name, value) = match line.split_once(' ') {
                None => (line, "false"),
                Some((name, "int")) => (name, "7"),
                Some((name, "string")) => (name, "text"),
                Some((name, "duration")) => (name, "1h15m"),
                other => panic!("{other:?}"),
            };
            for form in [vec![format!("-{name}={value}")], vec![format!("--{name}={value}")]] {
                let form: Vec<_> = form.iter().map(String::as_str).collect();
                assert_eq!(parse(&form).unwrap().given, BTreeSet::from([name]), "{form:?}");
            }
            if value != "false" {
                assert!(parse(&[&format!("-{name}"), value]).unwrap().leftover.is_empty());
                assert!(parse(&[&format!("--{name}"), value]).unwrap().leftover.is_empty());
            }
        }
    }

    #[test]
    fn words_after_a_boolean_are_left_over() {
        let flags = parse(&["--warm-up-pod-cache", "true", "--port", "1"]).unwrap();
        assert_eq!((flags.port, flags.leftover), (9445, vec!["true".into(), "--port".into(), "1".into()]));
    }
}
