//! From flags and surroundings to a configuration that can be run.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use loggia_registry::{Reference, with_default_prefix};
use tracing::{info, warn};

use crate::flags::{Flags, Refusal, WITHOUT_EFFECT};

/// Where Kubernetes puts the token of a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What the service is to do. Everything in it was checked.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) port: u16,
    pub(crate) builtin: bool,
    pub(crate) exec: Option<ExecConfig>,
    /// What stands before the names of images that have no slash.
    pub(crate) image_prefix: Option<String>,
    pub(crate) message_limit: usize,
    pub(crate) drain_timeout: Duration,
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
    pub(crate) fn here() -> Self {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let service_account = Path::new(SERVICE_ACCOUNT);
        Self {
            wrapper_server_image: set("WRAPPER_SERVER_IMAGE"),
            in_cluster: set("KUBERNETES_SERVICE_HOST").is_some(),
            kubeconfig: set("KUBECONFIG").is_some(),
            cores: std::thread::available_parallelism().map_or(1, Into::into),
            default_config_exists: Path::new(&Flags::default().config).exists(),
            service_account: service_account.exists().then(|| service_account.to_owned()),
        }
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
        if enabled(Runtime::Pod) {
            check_pod_runtime(flags, surroundings)?;
        }
        let idle: Vec<_> = WITHOUT_EFFECT.into_iter().filter(|name| flags.given.contains(name)).collect();
        if !idle.is_empty() {
            warn!(
                "These flags have no effect yet, as function pods are still to come: --{}",
                idle.join(", --")
            );
        }
        let port = within("port", flags.port, 0..=65_535)?;
        let message_limit =
            within("max-request-body-size", flags.max_request_body_size, 1..=i64::from(u32::MAX))?;
        within::<usize>("max-concurrent-executions", flags.max_concurrent_executions, 0..=1_000_000)?;
        let exec = enabled(Runtime::Exec).then(|| ExecConfig::resolve(flags, surroundings));
        Ok(Self {
            port,
            builtin: enabled(Runtime::Builtin),
            exec,
            image_prefix: image_prefix(flags)?,
            message_limit,
            drain_timeout: flags.drain_timeout.positive().unwrap_or_default(),
        })
    }
}

/// Short names are resolved only for those who ask for it.
fn image_prefix(flags: &Flags) -> Result<Option<String>, Refusal> {
    let prefix = &flags.pods.default_image_prefix;
    if !flags.given.contains("default-image-prefix") || prefix.trim_end_matches('/').is_empty() {
        return Ok(None);
    }
    match with_default_prefix(prefix, "fn").parse::<Reference>() {
        Ok(_) => Ok(Some(prefix.clone())),
        Err(error) => Err(Refusal::Usage(format!("--default-image-prefix: {error}"))),
    }
}

/// A flag's value as the type it is used in.
fn within<T: TryFrom<i64>>(flag: &str, value: i64, range: RangeInclusive<i64>) -> Result<T, Refusal> {
    let (least, most) = (range.start(), range.end());
    let refusal = || Refusal::Usage(format!("--{flag}: {value} is not a number from {least} to {most}"));
    T::try_from(value).ok().filter(|_| range.contains(&value)).ok_or_else(refusal)
}

/// The pod runtime needs the image of its server. Inside a cluster that must be told; elsewhere nobody
/// expects pods.
fn check_pod_runtime(flags: &Flags, surroundings: &Surroundings) -> anyhow::Result<()> {
    let cluster = surroundings.in_cluster || surroundings.kubeconfig || !flags.kubeconfig.is_empty();
    match (&surroundings.wrapper_server_image, cluster) {
        (None, true) => bail!(
            "environment variable WRAPPER_SERVER_IMAGE must be set to use pod function evaluator runtime"
        ),
        (None, false) => info!("No cluster is configured: functions run without pods"),
        (Some(image), _) => {
            warn!("Function pods are still to come: WRAPPER_SERVER_IMAGE={image} has no effect yet");
        }
    }
    Ok(())
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
        let told = Surroundings { wrapper_server_image: Some("x".into()), ..in_cluster() };
        assert!(resolve(&[], &told).is_ok());
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
        assert_eq!(prefix(&["--default-image-prefix=r.io/fns/"]), Ok(Some("r.io/fns/".into())));
        let error = prefix(&["--default-image-prefix=R.io/FNS"]).unwrap_err();
        assert!(error.starts_with("--default-image-prefix: could not parse reference: "), "{error}");
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
