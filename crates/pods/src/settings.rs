//! What an installation configures about function pods.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use loggia_function::policy::ImagePolicy;
use loggia_grpc::tls::ClientFiles;

pub use crate::template::PodSecurity;
use crate::user_namespaces::UserNamespaces;

/// What a [`PodEvaluator`](crate::PodEvaluator) is made from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where function pods live.
    pub namespace: String,
    /// Where the ConfigMap with templates is.
    pub manager_namespace: String,
    /// The image with the wrapper server.
    pub wrapper_image: String,
    /// The ConfigMap with templates; without one the built-in templates are used.
    pub template: Option<String>,
    /// The file with the settings of single functions.
    pub cache_config: Option<PathBuf>,
    /// Start the pods of the functions in that file early.
    pub warm_up: bool,
    /// How long an instance may idle.
    pub ttl: Duration,
    /// The load of an instance at which another one is started.
    pub max_waitlist_length: usize,
    pub max_parallel_pods_per_function: usize,
    /// The calls that may run in one instance at once.
    pub max_concurrent_evaluations_per_pod: Option<usize>,
    /// The calls that may wait for an instance of one function.
    pub max_queue_length: Option<usize>,
    /// How often to look for unused instances; never without one.
    pub scan_interval: Option<Duration>,
    /// How long a pod may take to become ready.
    pub ready_timeout: Duration,
    /// The largest message, in either direction.
    pub message_limit: usize,
    pub security: PodSecurity,
    /// Leave function containers of the built-in template the capabilities that the container runtime gives.
    pub keep_capabilities: bool,
    pub user_namespaces: UserNamespaces,
    /// For what neither the template nor the file of settings mentions.
    pub resources: PodResources,
    /// Run the tag as it was requested, instead of the digest that the registry gave for it.
    pub image_by_tag: bool,
    /// The function pods of all functions together.
    pub max_pods: Option<usize>,
    pub address: PodAddress,
    /// The domain under which the cluster's Services are found.
    pub cluster_domain: String,
    /// The name of the pull secret in the namespace of function pods.
    pub pull_secret: String,
    /// The prefix of image names without a slash.
    pub image_prefix: Option<String>,
    /// Which images may run.
    pub images: Arc<ImagePolicy>,
    /// How pods are reached over TLS; without it, without TLS.
    pub tls: Option<PodTls>,
    /// The name of this replica, unique over replicas and restarts.
    pub owner: String,
}

/// What a function's container requests and may use: amounts as Kubernetes writes them, by the name of the resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodResources {
    pub requests: BTreeMap<String, String>,
    pub limits: BTreeMap<String, String>,
}

/// TLS to pods.
#[derive(Clone, Debug)]
pub struct PodTls {
    /// The Secret of type `kubernetes.io/tls` in the namespace of function pods. Only pods read it.
    pub secret: String,
    /// The CA of pods and the identity of this program. With an identity, pods require mutual TLS.
    pub files: ClientFiles,
}

/// How a pod is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodAddress {
    /// By the name of its Service, as service meshes want it.
    #[default]
    Dns,
    /// By the address of its Service, where the cluster's names are not known.
    ServiceIp,
    /// By its own address, where Services cannot be reached.
    PodIp,
}
