//! The command line: every flag of every release of Porch's function runner, and Loggia's own.
//!
//! Each flag stands here once, in the table of the part of the program that reads it. That part takes its table apart in
//! full, so the compiler notices a flag that is never read. The tables in `docs/` are made from these.

use std::collections::BTreeSet;
use std::ffi::OsString;

use loggia_go::Duration;
use loggia_go::flag::{self, FlagSet, Parsed, Syntax};
use loggia_go::quantity::Size;

loggia_go::flags! {
    /// What the service as a whole does.
    pub(crate) struct ServiceFlags {
        port: i64 = 9445, "The server port.";
        disable_runtimes: String,
            "The runtimes to do without, separated by commas: builtin, exec, pod.";
        metrics_address: String,
            "Where to serve metrics and the status page, as host:port or :port; empty for what OTEL_METRICS_EXPORTER \
             and its like say.";
        tls_cert: String,
            "The file with the certificate of the service and those between it and its authority; empty for no TLS.";
        tls_key: String, "The file with the key of that certificate.";
        client_ca: String,
            "The file with the authorities of callers; with it, only callers with a certificate are served.";
        access_config: String,
            "The file that says which callers may run what, by the names in their certificates; empty for everybody and \
             everything.";
        max_request_body_size: i64 = 6 * 1024 * 1024,
            "The largest message in bytes, in either direction; keep it equal to that of Porch's server.";
        max_concurrent_executions: i64, "The most exec functions that run at once; 0 for 8 per core.";
        drain_timeout: Duration = Duration::from_secs(25),
            "How long calls in flight may take to end when the service is asked to stop.";
        default_image_prefix: String = "ghcr.io/kptdev/krm-functions-catalog/",
            "What stands before the names of images that have no slash, if this flag is given.";
        schema_folder: Vec<String>,
            "A folder that built-in kubeconform and kubeval may read schemas from, if a package names it; may be given \
             several times.";
    }

    /// What the service takes from its callers, and what it offers them.
    pub(crate) struct LimitFlags {
        memory_budget: String,
            "The memory that the service may use, in bytes or as 512Mi or 2Gi; empty for the limit of its cgroup, or else \
             half of the machine's memory, at most 4Gi.";
        request_timeout: Duration = Duration::from_secs(30),
            "How long a message may take to arrive, and how long a call may wait for memory.";
        answer_timeout: Duration = Duration::from_secs(60),
            "How long an answer may wait for its caller to read it; then the connection is closed.";
        call_timeout: Duration = Duration::from_secs(600),
            "How long a call may take whose caller sets no deadline; 0 for no limit.";
        max_connections: i64,
            "The most connections at once, of which one address gets half; 0 for as many as the memory budget allows.";
        max_connection_age: Duration = Duration::from_secs(3600),
            "How long a connection is used before its caller is asked to make another one, give or take a tenth; 0 for \
             no limit.";
        max_connection_age_grace: Duration = Duration::from_secs(600),
            "How long the calls of such a connection may take to end; 0 for no limit.";
        max_connection_idle: Duration = Duration::from_secs(1800),
            "How long a connection may be without calls before it is closed; 0 for no limit.";
        address: String, "The address to listen on; empty for all.";
        enable_reflection: bool = true, "Let clients ask for the protocol (server reflection).";
        enable_package_service: bool = true, "Offer the package service beside the function evaluator.";
    }

    /// What is logged.
    pub(crate) struct LogFlags {
        log_level: i64 = 2, "How much to log, from 0 to 5.";
        log_format: String = "text", "How to log: text for the lines of klog, or json.";
    }

    /// How built-in functions run.
    pub(crate) struct BuiltinFlags {
        builtin_timeout: Duration = Duration::from_secs(60), "The longest that a built-in function may run.";
        builtin_memory: Size,
            "The most memory of a call of a built-in function; 0 for a share of what the service may use.";
        max_concurrent_builtins: i64,
            "The most built-in functions with much input, or programs of users, that run at once; 0 for as many as \
             memory and cores allow. Cheap ones have slots of their own.";
    }

    /// How exec functions run.
    pub(crate) struct ExecFlags {
        functions: String = "./functions", "The folder with the programs of exec functions.";
        config: String = "./config.yaml", "The file that maps images to exec functions; empty for none.";
        exec_timeout: Duration,
            "The longest that an exec function may run; 0 for as long as its caller waits.";
        exec_inherit_environment: bool, "Let exec functions see the variables of the service.";
    }

    /// What exec functions are kept from.
    pub(crate) struct ConfinementFlags {
        require_confinement: bool,
            "Do not start with exec functions where the kernel cannot confine them in full.";
        exec_network: bool, "Let exec functions use the network.";
        exec_writable: Vec<String>,
            "A file or folder that exec functions may write to, besides their private $TMPDIR; may be given several times.";
        exec_hidden: Vec<String>,
            "A file or folder that exec functions cannot open, besides the secrets that other flags name; may be given \
             several times.";
        exec_memory: Size = Size(4 << 30), "The most memory of a process of an exec function; 0 for no limit.";
        exec_open_files: i64 = 4096, "The most files that a process of an exec function has open; 0 for no limit.";
        exec_processes: i64 = 512, "The most processes and threads of one call of an exec function; 0 for no limit.";
        exec_file_size: Size = Size(1 << 30), "The largest file that an exec function may write; 0 for no limit.";
        exec_temporary_size: Size = Size(1 << 30),
            "The most that a call of an exec function may have in its $TMPDIR; 0 for no limit.";
        exec_cpu_time: Duration,
            "The most processor time of a process of an exec function, in whole seconds; 0 for no limit.";
    }

    /// How function pods run.
    pub(crate) struct PodFlags {
        kubeconfig: String, "The file that says how to reach the cluster.";
        pod_namespace: String = "porch-fn-system", "The namespace of function pods.";
        pod_cache_config: String = "/pod-cache-config/pod-cache-config.yaml",
            "The file with the settings of function pods; empty for none.";
        warm_up_pod_cache: bool = true, "Start the pods of the listed functions early.";
        pod_ttl: Duration = Duration::from_secs(30 * 60), "How long a pod may idle before it is removed.";
        scan_interval: Duration = Duration::from_secs(60),
            "How often to look for pods to remove; 0 or less for never.";
        max_waitlist_length: i64 = 2, "How many calls a pod may have before another one is started.";
        max_parallel_pods_per_function: i64 = 1, "The most pods of one function.";
        max_concurrent_evaluations_per_pod: i64,
            "The most calls that run in one function pod at once; 0 for no limit.";
        max_queue_length: i64, "The most calls that wait for pods of one function; 0 for no limit.";
        pod_ready_timeout: Duration = Duration::from_secs(60),
            "How long a function pod may take to become ready.";
        pod_address: String = "dns", "How function pods are reached: dns, service-ip or pod-ip.";
        cluster_domain: String,
            "The domain of the cluster's Services; empty for that of /etc/resolv.conf, or cluster.local.";
        pod_security: String = "baseline",
            "What function pods are kept from: baseline, or restricted for no root and a read-only file system.";
        function_pod_template: String,
            "The ConfigMap with the templates of function pods; empty for the built-in ones.";
        registry_auth_secret_name: String = "auth-secret",
            "The pull secret in the namespace of function pods.";
    }

    /// What function pods run, may use and are kept from.
    pub(crate) struct PodHardeningFlags {
        max_pods: i64 = 100,
            "The most function pods of all functions together, those of other replicas included; 0 for no limit.";
        pod_requests: String = "cpu=10m,memory=32Mi,ephemeral-storage=16Mi",
            "What a function pod requests of cpu, memory and ephemeral-storage where neither the template nor the file \
             with settings mentions it; empty for nothing.";
        pod_limits: String = "memory=2Gi,ephemeral-storage=1Gi",
            "What a function pod may use of cpu, memory and ephemeral-storage where neither mentions it; empty for no \
             limit.";
        pod_image_by_tag: bool,
            "Let nodes resolve the tags of images; otherwise function pods run the digest that the runner resolved.";
        pod_keep_capabilities: bool,
            "Leave function pods of the built-in template the container runtime's default capabilities, for images that \
             change their user or owners of files.";
        pod_user_namespaces: String = "auto",
            "Whether root in function pods is nobody on the node (hostUsers: false): auto where nodes support it and \
             Events may be read, on, or off.";
    }

    /// How function pods are reached over TLS.
    pub(crate) struct PodTlsFlags {
        pod_tls_secret: String,
            "The Secret in the namespace of function pods with tls.crt, tls.key and ca.crt; with it, pods are spoken \
             to over TLS alone.";
        pod_tls_ca: String, "The authorities of function pods, PEM.";
        pod_tls_cert: String,
            "The certificate to show to function pods, PEM; with it, they serve nobody without one.";
        pod_tls_key: String, "Its key, PEM.";
    }

    /// What packages may have that the package service renders.
    pub(crate) struct PackageFlags {
        max_package_depth: i64 = 64, "How deep packages may nest in one that is rendered; at most 256.";
        max_pipeline_steps: i64 = 1000,
            "The most functions in one pipeline, and the most selectors of one function.";
        allow_any_path: bool,
            "Let functions of a package write any file of it, also those that no resource was read from.";
    }

    /// How registries are asked about images.
    pub(crate) struct RegistryFlags {
        enable_private_registries: bool, "Use the credentials at --registry-auth-secret-path.";
        registry_auth_secret_path: String = "/var/tmp/config-secret/.dockerconfigjson",
            "The file with registry credentials, in the form of Docker's configuration.";
        enable_private_registries_tls: bool, "Trust the certificates at --tls-secret-path.";
        tls_secret_path: String = "/var/tmp/tls-secret/", "The folder with ca.crt or ca.pem.";
        public_image_prefixes: String = "gcr.io/kpt-fn/",
            "Beginnings of images that need no credentials, separated by commas.";
        image_metadata_ttl: Duration,
            "How long what a tag stands for is believed before it is checked again; 0 for ever.";
        registry_timeout: Duration = Duration::from_secs(30),
            "How long a registry may take to tell about an image, repetitions included.";
        plain_http_registries: String,
            "Registries without TLS, each host or host:port, separated by commas; none is sent credentials.";
        private_registries: String,
            "Registries that may be in a private network or on this machine, separated by commas: host, host:port, \
             *.domain, or a network such as 10.0.0.0/8.";
        registry_realms: String,
            "Hosts of token services that may get the credentials of registries of another owner, separated by commas.";
    }

    /// Which images may run.
    pub(crate) struct PolicyFlags {
        allowed_images: Vec<String>,
            "Patterns of the images that may run, such as ghcr.io/org/*, separated by commas; may be given several times; \
             empty for all.";
        denied_images: Vec<String>,
            "Patterns of images that may not run, separated by commas; may be given several times.";
        require_digest: bool, "Run only images that are named by their digest.";
        verify_images: String,
            "The file that says which images of function pods must be signed with which keys; empty for none.";
    }
}

/// The command line as it was written, defaults filled in.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    pub(crate) service: ServiceFlags,
    pub(crate) limits: LimitFlags,
    pub(crate) log: LogFlags,
    pub(crate) builtins: BuiltinFlags,
    pub(crate) exec: ExecFlags,
    pub(crate) confinement: ConfinementFlags,
    pub(crate) pods: PodFlags,
    pub(crate) pod_hardening: PodHardeningFlags,
    pub(crate) pod_tls: PodTlsFlags,
    pub(crate) registries: RegistryFlags,
    pub(crate) policy: PolicyFlags,
    pub(crate) packages: PackageFlags,
    /// The names of the flags that were given.
    pub(crate) given: BTreeSet<&'static str>,
    /// Words that belong to no flag.
    pub(crate) leftover: Vec<String>,
}

// === impl Flags ===

impl Flags {
    pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, flag::Error> {
        let mut flags = Self::default();
        let Parsed { given, words, after_dashes: _ } = flags.set().parse(arguments)?;
        Ok(Self { given, leftover: words, ..flags })
    }

    fn set(&mut self) -> FlagSet<'_> {
        let Self {
            service,
            limits,
            log,
            exec,
            pods,
            pod_tls,
            registries,
            policy,
            packages,
            confinement,
            pod_hardening,
            builtins,
            given: _,
            leftover: _,
        } = self;
        let set = FlagSet::new("function-runner", Syntax::Go);
        let set = set.table(service).table(limits).table(log).table(exec).table(pods);
        set.table(pod_tls)
            .table(registries)
            .table(policy)
            .table(packages)
            .table(confinement)
            .table(pod_hardening)
            .table(builtins)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn parse(line: &[&str]) -> Result<Flags, flag::Error> {
        Flags::parse(line.iter().map(OsString::from))
    }

    #[test]
    fn the_defaults_are_those_of_porch() {
        let Flags { service, log, exec, pods, registries, .. } = parse(&[]).unwrap();
        assert_eq!((service.port, log.log_level, service.max_request_body_size), (9445, 2, 6_291_456));
        assert_eq!((exec.functions.as_str(), exec.config.as_str()), ("./functions", "./config.yaml"));
        assert_eq!((service.disable_runtimes.as_str(), pods.kubeconfig.as_str()), ("", ""));
        assert_eq!(pods.pod_cache_config, "/pod-cache-config/pod-cache-config.yaml");
        assert!(pods.warm_up_pod_cache);
        assert_eq!(pods.pod_namespace, "porch-fn-system");
        assert_eq!(
            (pods.pod_ttl.to_string().as_str(), pods.scan_interval.to_string().as_str()),
            ("30m0s", "1m0s")
        );
        assert_eq!(pods.function_pod_template, "");
        assert!(!registries.enable_private_registries && !registries.enable_private_registries_tls);
        assert_eq!(registries.registry_auth_secret_path, "/var/tmp/config-secret/.dockerconfigjson");
        assert_eq!(pods.registry_auth_secret_name, "auth-secret");
        assert_eq!(registries.tls_secret_path, "/var/tmp/tls-secret/");
        assert_eq!((pods.max_waitlist_length, pods.max_parallel_pods_per_function), (2, 1));
        assert_eq!(service.default_image_prefix, "ghcr.io/kptdev/krm-functions-catalog/");
    }

    #[test]
    fn every_flag_is_taken_in_every_form() {
        let usage = match parse(&["-help"]) {
            Err(flag::Error::Help(usage)) => usage,
            other => panic!("{other:?}"),
        };
        let listed: Vec<_> = usage.lines().filter_map(|line| line.strip_prefix("  -")).collect();
        assert_eq!(listed.len(), 85);
        for line in listed {
            let (name, value) = match line.split_once(' ') {
                None => (line, "false"),
                Some((name, "int")) => (name, "7"),
                Some((name, "string")) => (name, "text"),
                Some((name, "duration")) => (name, "1h15m"),
                Some((name, "size")) => (name, "256Mi"),
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
        assert_eq!(
            (flags.service.port, flags.leftover),
            (9445, vec!["true".into(), "--port".into(), "1".into()])
        );
    }

    /// The pages of `docs/` with a table of flags, and that table as it must be.
    fn documented() -> [(&'static str, String); 2] {
        let Flags { mut pods, mut pod_hardening, mut pod_tls, .. } = Flags::default();
        let about_pods = FlagSet::new("", Syntax::Go);
        let about_pods = about_pods.table(&mut pods).table(&mut pod_hardening).table(&mut pod_tls).markdown();
        [("operating.md", Flags::default().set().markdown()), ("pods.md", about_pods)]
    }

    /// A page, and where its table of flags is in it.
    fn page(name: &str) -> (std::path::PathBuf, String, std::ops::Range<usize>) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        let text = fs::read_to_string(&file).unwrap();
        let start = text.find("| Flag | Default |").unwrap();
        let end = text[start..].find("\n\n").map_or(text.len(), |end| start + end + 1);
        (file, text, start..end)
    }

    #[test]
    fn the_docs_have_every_flag_with_its_default_and_help_and_no_other() {
        for (name, table) in documented() {
            let (_, text, place) = page(name);
            let write = "cargo test -p function-runner write_the_tables -- --ignored";
            assert_eq!(text[place], table, "docs/{name} differs from flags.rs; `{write}` writes it");
        }
    }

    #[test]
    #[ignore = "writes the tables of flags into the docs"]
    fn write_the_tables_of_the_docs() {
        for (name, table) in documented() {
            let (file, mut text, place) = page(name);
            text.replace_range(place, &table);
            fs::write(file, text).unwrap();
        }
    }
}
