//! From flags and surroundings to a configuration that can be run.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use loggia_function::image::{ImageError, check_prefix};
use loggia_function::policy::{ImagePolicy, InvalidPattern};
use loggia_go::flag;
use loggia_go::klog::Format;
use loggia_grpc::tls::{NamesError, ServerFiles};
use loggia_registry::InvalidPrivateRegistry;
use loggia_runtimes::SchemaFolders;
use loggia_telemetry::Environment;
use loggia_telemetry::environment::Traces;
use loggia_telemetry::push::Settings;
use tracing::{info, warn};

use crate::flags::{ExecFlags, Flags, LogFlags, ServiceFlags};

mod builtins;
mod confinement;
mod limits;
mod memory;
mod packages;
mod pod_hardening;
mod pods;
mod policy;

pub(crate) use builtins::BuiltinConfig;
pub(crate) use confinement::ConfinementConfig;
pub(crate) use limits::LimitConfig;
pub(crate) use memory::MemoryBudget;
pub(crate) use packages::PackageConfig;
pub(crate) use pods::PodConfig;
pub(crate) use policy::PolicyConfig;

/// Where Kubernetes puts the token of a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What the service is to do. Everything in it was checked.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) port: u16,
    pub(crate) builtins: Option<BuiltinConfig>,
    pub(crate) exec: Option<ExecConfig>,
    pub(crate) pods: Option<PodConfig>,
    pub(crate) packages: PackageConfig,
    /// What stands before the names of images that have no slash, in packages.
    pub(crate) catalog: String,
    /// The same in calls, if it was asked for.
    pub(crate) image_prefix: Option<String>,
    pub(crate) message_limit: usize,
    /// What the service takes from its callers.
    pub(crate) limits: LimitConfig,
    pub(crate) drain_timeout: Duration,
    /// Where metrics and the status page are served.
    pub(crate) metrics: Option<String>,
    /// How metrics are sent, if they are.
    pub(crate) push: Option<Settings>,
    /// How traces are sent, if they are.
    pub(crate) traces: Option<Traces>,
    /// The identity of the service, if it is to have one.
    pub(crate) tls: Option<ServerFiles>,
    /// The file that says which caller may run what.
    pub(crate) access: Option<PathBuf>,
    /// Which images may run.
    pub(crate) images: Arc<ImagePolicy>,
}

/// How exec functions run.
#[derive(Debug)]
pub(crate) struct ExecConfig {
    pub(crate) config: Option<PathBuf>,
    pub(crate) functions: PathBuf,
    pub(crate) concurrent: usize,
    pub(crate) timeout: Option<Duration>,
    pub(crate) inherit_environment: bool,
    pub(crate) confinement: ConfinementConfig,
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
    /// The memory that the program may use.
    pub(crate) memory: Option<loggia_process::memory::Limit>,
    pub(crate) default_config_exists: bool,
    /// Secrets that the machine has in places of its own.
    pub(crate) secrets: Vec<PathBuf>,
    /// The namespace that the program runs in, and its name there.
    pub(crate) namespace: Option<String>,
    pub(crate) host: Option<String>,
    /// Where the variables of OpenTelemetry want metrics to be served.
    pub(crate) metrics: Option<String>,
    /// How they want metrics to be sent.
    pub(crate) push: Option<Settings>,
    /// How they want traces to be sent.
    pub(crate) traces: Option<Traces>,
    /// What `LOGGIA_PRIVATE_REGISTRIES` says, for manifests whose flags are those of Porch.
    pub(crate) private_registries: Option<String>,
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

/// A mistake on the command line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UsageError {
    #[error(transparent)]
    Flags(#[from] flag::Error),
    #[error("--{flag}: {value} is not a number from {} to {}", range.start(), range.end())]
    OutOfRange { flag: &'static str, value: i64, range: RangeInclusive<i64> },
    #[error("--{flag}: `{value}`: {reason}; write as in `cpu=100m,memory=128Mi`")]
    PodResource { flag: &'static str, value: String, reason: String },
    #[error("--{flag}: there is no `{value}`; there are {choices}")]
    UnknownValue { flag: &'static str, value: String, choices: &'static str },
    #[error("--{flag}: `{value}` is not a size; write a number of bytes, or one with Ki, Mi or Gi behind it")]
    Size { flag: &'static str, value: String },
    #[error(
        "--memory-budget: {total} is too little: messages get a quarter of it, and one may have {message} bytes \
         (--max-request-body-size)"
    )]
    SmallBudget { total: String, message: usize },
    #[error("--{flag}: `{value}` is not a time above zero")]
    NoTime { flag: &'static str, value: String },
    #[error("--address: `{0}` is not an IP address")]
    Address(String),
    #[error("--disable-runtimes: there is no runtime `{0}`; there are builtin, exec and pod")]
    UnknownRuntime(String),
    #[error("--default-image-prefix")]
    ImagePrefix(#[source] ImageError),
    #[error("--{flag}: {source}")]
    Pattern { flag: &'static str, source: InvalidPattern },
    #[error("--private-registries: {0}")]
    PrivateRegistry(InvalidPrivateRegistry),
    #[error(transparent)]
    ServerTls(#[from] NamesError),
    #[error("{flag}: function pods speak TLS only with a certificate; add --pod-tls-secret")]
    PodTlsWithoutSecret { flag: &'static str },
    #[error("--pod-tls-cert and --pod-tls-key belong together; one of them is missing")]
    PodTlsIdentity,
    #[error("--pod-tls-secret: whom to take for a function pod is not known; add --pod-tls-ca")]
    PodTlsWithoutCa,
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
            memory: MemoryBudget::of_this_process(),
            default_config_exists: Path::new(&ExecFlags::default().config).exists(),
            secrets: confinement::secrets_of_the_machine(),
            namespace: std::fs::read_to_string(service_account.join("namespace")).ok(),
            host: set("HOSTNAME"),
            metrics,
            push,
            traces,
            private_registries: set("LOGGIA_PRIVATE_REGISTRIES"),
            resolv_conf: std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default(),
        })
    }
}

// === impl Config ===

impl Config {
    pub(crate) fn resolve(flags: &Flags, surroundings: &Surroundings) -> anyhow::Result<Self> {
        // `logging` reads the flags of the log, `PodConfig` those of pods and registries.
        let Flags {
            service,
            limits,
            log: _,
            exec,
            pods: _,
            pod_tls: _,
            registries: _,
            policy,
            packages,
            confinement: _,
            pod_hardening: _,
            builtins,
            given,
            leftover,
        } = flags;
        let ServiceFlags {
            port,
            disable_runtimes,
            metrics_address,
            tls_cert,
            tls_key,
            client_ca,
            access_config,
            max_request_body_size,
            max_concurrent_executions,
            drain_timeout,
            default_image_prefix,
            schema_folder,
        } = service;
        if let Some(word) = leftover.first() {
            warn!("Ignoring {word} and all that follows: flags end at the first word");
        }
        let disabled = disabled_runtimes(disable_runtimes)?;
        let enabled = |runtime| !disabled.contains(&runtime);
        let port = within("port", *port, 0..=65_535)?;
        let message_limit = within("max-request-body-size", *max_request_body_size, 1..=i64::from(u32::MAX))?;
        let limits = LimitConfig::resolve(limits, surroundings.memory, message_limit)?;
        let concurrent = within("max-concurrent-executions", *max_concurrent_executions, 0..=1_000_000)?;
        let catalog = check_prefix(default_image_prefix).map_err(UsageError::ImagePrefix)?;
        let exec = match enabled(Runtime::Exec) {
            true => {
                let confinement = ConfinementConfig::resolve(flags, surroundings)?;
                Some(ExecConfig::resolve(
                    exec,
                    given.contains("config"),
                    concurrent,
                    surroundings,
                    confinement,
                ))
            }
            false => None,
        };
        let schemas =
            SchemaFolders::new(schema_folder.iter().map(PathBuf::from)).context("--schema-folder")?;
        let builtins = enabled(Runtime::Builtin)
            .then(|| BuiltinConfig::resolve(builtins, surroundings.cores, message_limit, schemas))
            .transpose()?;
        // Outside of packages short names get the prefix only if the flag was given.
        let image_prefix = Some(catalog.clone())
            .filter(|prefix| given.contains("default-image-prefix") && !prefix.is_empty());
        let policy = PolicyConfig::resolve(policy)?;
        let pods = if enabled(Runtime::Pod) {
            PodConfig::resolve(flags, surroundings, message_limit, image_prefix.clone(), &policy)?
        } else {
            None
        };
        Ok(Self {
            port,
            builtins,
            exec,
            pods,
            packages: PackageConfig::resolve(packages)?,
            image_prefix,
            catalog,
            message_limit,
            limits,
            drain_timeout: drain_timeout.positive().unwrap_or_default(),
            metrics: named(metrics_address).or_else(|| surroundings.metrics.clone()),
            push: surroundings.push.clone(),
            traces: surroundings.traces,
            tls: ServerFiles::named(tls_cert, tls_key, client_ca).map_err(UsageError::ServerTls)?,
            access: named(access_config).map(PathBuf::from),
            images: policy.images,
        })
    }
}

/// How much to log, and in which form.
pub(crate) fn logging(flags: &LogFlags) -> Result<(i64, Format), UsageError> {
    let LogFlags { log_level, log_format } = flags;
    let format = match log_format.as_str() {
        "text" => Format::Text,
        "json" => Format::Json,
        other => return Err(unknown("log-format", other, "text and json")),
    };
    Ok((*log_level, format))
}

/// A flag's value as the type it is used in.
fn within<T: TryFrom<i64>>(
    flag: &'static str,
    value: i64,
    range: RangeInclusive<i64>,
) -> Result<T, UsageError> {
    let converted = T::try_from(value).ok().filter(|_| range.contains(&value));
    converted.ok_or(UsageError::OutOfRange { flag, value, range })
}

/// A flag's value, if it has one.
fn named(value: &str) -> Option<String> {
    Some(value.to_owned()).filter(|value| !value.is_empty())
}

fn unknown(flag: &'static str, value: &str, choices: &'static str) -> UsageError {
    UsageError::UnknownValue { flag, value: value.to_owned(), choices }
}

fn disabled_runtimes(list: &str) -> Result<Vec<Runtime>, UsageError> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| match name {
            "builtin" => Ok(Runtime::Builtin),
            "exec" => Ok(Runtime::Exec),
            "pod" => Ok(Runtime::Pod),
            other => Err(UsageError::UnknownRuntime(other.to_owned())),
        })
        .collect()
}

// === impl ExecConfig ===

impl ExecConfig {
    /// `given` says that the user named the config file, `concurrent` is 0 for the default.
    fn resolve(
        flags: &ExecFlags,
        given: bool,
        concurrent: usize,
        surroundings: &Surroundings,
        confinement: ConfinementConfig,
    ) -> Self {
        let ExecFlags { functions, config, exec_timeout, exec_inherit_environment } = flags;
        let config = match config.as_str() {
            "" => None,
            // This is the default: on a laptop the file does not exist.
            _ if !given && !surroundings.default_config_exists => {
                info!("There is no {config}: no exec functions");
                None
            }
            file => Some(PathBuf::from(file)),
        };
        Self {
            config,
            functions: PathBuf::from(functions),
            concurrent: if concurrent == 0 { 8 * surroundings.cores } else { concurrent },
            timeout: exec_timeout.positive(),
            inherit_environment: *exec_inherit_environment,
            confinement,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn resolve(line: &[&str], surroundings: &Surroundings) -> Result<Config, String> {
        let flags = Flags::parse(line.iter().map(Into::into)).unwrap();
        Config::resolve(&flags, surroundings).map_err(|error| format!("{error:#}"))
    }

    pub(super) fn in_cluster() -> Surroundings {
        Surroundings { in_cluster: true, cores: 2, ..Default::default() }
    }

    #[test]
    fn on_a_laptop_the_service_goes_on_without_pods_or_a_config_file() {
        let config = resolve(&[], &Surroundings { cores: 2, ..Default::default() }).unwrap();
        assert!(config.builtins.is_some());
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
        assert!(config.builtins.is_none() && config.exec.is_none());
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
