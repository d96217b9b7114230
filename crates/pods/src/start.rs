//! Bringing up one instance: from an image to a server that answers.

mod claim;
mod reach;
mod wait;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use loggia_function::RunError;
use loggia_grpc::Client;
use loggia_grpc::tls::{self, ClientTls};
use loggia_registry::{Images, Metadata, Unverified};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use self::reach::Reached;
use crate::blueprint::{Blueprint, Hardening, Identity, Particulars, Resources};
use crate::clock::unix_now;
use crate::cluster::Cluster;
use crate::diagnosis::Diagnosis;
use crate::functions::{Functions, default_limits};
use crate::names;
use crate::observe::Progress;
use crate::pool::state::InstanceId;
use crate::pool::{Cause, Failure, FailureKind, Image, WeakPool};
use crate::secret::PullSecrets;
use crate::template::Template;
use crate::templates::Templates;
use crate::user_namespaces::Support;
use crate::watch::Outages;
use crate::{Observer, Phase, Settings};

/// How long an instance of another replica, which should be up, may take to answer.
const ADOPTION_TIME: Duration = Duration::from_secs(10);

/// All that starting an instance needs. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Starter {
    pub(crate) settings: Arc<Settings>,
    pub(crate) cluster: Cluster,
    pub(crate) images: Images,
    pub(crate) templates: Templates,
    pub(crate) secrets: Arc<PullSecrets>,
    pub(crate) functions: watch::Receiver<Arc<Functions>>,
    /// Why the watch of pods is down, if it is.
    pub(crate) outage: Outages,
    pub(crate) refused: Refused,
    pub(crate) user_namespaces: Support,
    /// The CA of pods and this program's identity; without it, pods are reached without TLS.
    pub(crate) trust: Option<ClientTls>,
    pub(crate) observer: Arc<dyn Observer>,
}

/// Optional requests that the API server refused. Each is logged once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refused {
    pub(crate) events: Arc<AtomicBool>,
    pub(crate) patches: Arc<AtomicBool>,
}

/// The pod of an instance as it was last seen; nothing before that and once it is gone.
pub(crate) type LatestPod = watch::Receiver<Option<Arc<Pod>>>;

/// One instance to be started.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) instance: InstanceId,
    pub(crate) image: Image,
    /// How many there may be of the function in the cluster.
    pub(crate) most: usize,
    pub(crate) latest: LatestPod,
    pub(crate) pool: WeakPool,
}

/// The objects of an instance whose server is to be reached.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) pod: String,
    pub(crate) service: String,
    pub(crate) cluster_ip: Option<String>,
}

// === impl Starter ===

impl Starter {
    /// Fails if the files for TLS to pods cannot be used.
    pub(crate) fn new(
        settings: Arc<Settings>,
        cluster: Cluster,
        images: Images,
        templates: Templates,
        functions: watch::Receiver<Arc<Functions>>,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, tls::Error> {
        Ok(Self {
            trust: settings.tls.as_ref().map(|tls| ClientTls::new(tls.files.clone())).transpose()?,
            secrets: Arc::new(PullSecrets::new(cluster.clone(), settings.pull_secret.clone())),
            user_namespaces: Support::new(settings.user_namespaces),
            settings,
            cluster,
            images,
            templates,
            functions,
            outage: Outages::new(None),
            refused: Refused::default(),
            observer,
        })
    }

    /// Creates an instance and returns a client once it answers. What was created stays on failure, for the pool to
    /// delete.
    pub(crate) async fn start(&self, job: Job) -> Result<Client, Failure> {
        let requested = job.image.name();
        let mut progress = Progress::new(Arc::clone(&self.observer));
        let (metadata, ()) =
            tokio::join!(self.metadata(&job.image), self.user_namespaces.prepare(&self.cluster));
        let metadata = metadata.map_err(|error| Failure {
            kind: if error.may_pass() { FailureKind::Passing } else { FailureKind::Lasting },
            cause: Cause::Image,
            text: format!("unable to get the entrypoint for {requested}: {error}"),
        })?;
        self.images.verify_metadata(&job.image, &metadata).await.map_err(|error| match error {
            Unverified::Refused { rule, reason } => {
                let error = RunError::Refused { rule, reason };
                Failure::lasting(Cause::Image, error.describe(requested))
            }
            Unverified::Registry(error) => Failure {
                kind: if error.may_pass() { FailureKind::Passing } else { FailureKind::Lasting },
                cause: Cause::Image,
                text: format!("unable to verify the signature of {requested}: {error}"),
            },
        })?;
        progress.reached(Phase::Metadata);
        if self.images.needs_pull_secret(&job.image) {
            let secret = self.images.read_pull_secret();
            let secret = secret.map_err(|error| Failure::lasting(Cause::Image, error.to_string()))?;
            if let Some(secret) = secret {
                self.secrets.ensure(&secret).await.map_err(refused)?;
            }
        }
        let template = self.templates.current().await.map_err(|error| {
            Failure::lasting(Cause::Template, format!("failed to generate a base pod template: {error}"))
        })?;
        let blueprint = self.blueprint(&template, &job.image);
        let hash = blueprint.hash().map_err(|error| inapplicable(&error))?;
        let target = self.create(&job, &blueprint, &metadata, &hash).await?;
        progress.reached(Phase::Create);
        self.wait(&target, job.latest.clone(), self.settings.ready_timeout, Some(progress)).await
    }

    /// What the registry says of an image. A pod that runs a digest must get the one that the tag stands for now; one
    /// that runs the tag gets that from its node.
    async fn metadata(&self, image: &Image) -> Result<Arc<Metadata>, loggia_registry::Error> {
        if self.settings.image_by_tag {
            self.images.metadata(image).await
        } else {
            self.images.current(image).await
        }
    }

    /// Waits for an instance that another replica started, for the rest of the time that its start may take.
    pub(crate) async fn adopt(&self, target: &Target, latest: LatestPod) -> Result<Client, Failure> {
        let created = latest.borrow().as_ref().and_then(|pod| pod.metadata.creation_timestamp.clone());
        let age = created.map(|time| unix_now() - time.0.as_second()).unwrap_or_default();
        let age = Duration::from_secs(age.max(0).unsigned_abs());
        let left = self.settings.ready_timeout.saturating_sub(age).max(ADOPTION_TIME);
        self.wait(target, latest, left, None).await
    }

    /// Whether an instance still answers, on a new connection: an old one may be open to a pod that its Service no
    /// longer selects.
    pub(crate) async fn check(&self, target: &Target, latest: &LatestPod) -> bool {
        for pause in [50, 200, 400] {
            let pod = latest.borrow().clone();
            match self.reach(target, pod.as_deref()).await {
                Reached::Serving(_) => return true,
                Reached::NotYet => debug!(target.pod, "An instance does not answer"),
                Reached::Untrusted(why) => {
                    warn!("pod `{}`: {why}", target.pod);
                    return false;
                }
            }
            sleep(Duration::from_millis(pause)).await;
        }
        false
    }

    /// What the pods of a function have in common now.
    pub(crate) fn blueprint(&self, template: &Template, image: &Image) -> Blueprint {
        let resources = self.functions.borrow().resources.get(image).cloned().unwrap_or_default();
        let private = self.images.needs_pull_secret(image);
        Blueprint {
            template: template.clone(),
            namespace: self.settings.namespace.clone(),
            message_limit: self.settings.message_limit,
            hardening: Hardening {
                security: self.settings.security,
                keep_capabilities: self.settings.keep_capabilities,
                user_namespace: self.user_namespaces.is_required(),
            },
            tries_user_namespace: self.user_namespaces.is_tried(),
            resources,
            default_resources: Resources::of(&self.settings.resources),
            image_by_tag: self.settings.image_by_tag,
            pull_secret: private.then(|| self.settings.pull_secret.clone()),
            cluster_domain: self.settings.cluster_domain.clone(),
            identity: self
                .settings
                .tls
                .as_ref()
                .map(|tls| Identity { secret: tls.secret.clone(), mutual: tls.files.identity.is_some() }),
        }
    }

    async fn create(
        &self,
        job: &Job,
        blueprint: &Blueprint,
        metadata: &Metadata,
        hash: &str,
    ) -> Result<Target, Failure> {
        let namespace = &self.settings.namespace;
        let requested = job.image.name();
        let ttl = self
            .functions
            .borrow()
            .limits
            .get(&job.image)
            .map_or_else(|| default_limits(&self.settings).ttl, |limits| limits.ttl);
        let mut particulars = Particulars {
            id: "",
            pod_name: "",
            image: requested,
            function: job.image.full_name(),
            digest: &metadata.digest,
            pinned: metadata.index_digest.as_ref().unwrap_or(&metadata.digest),
            entrypoint: &metadata.entrypoint,
            owner: &self.settings.owner,
            reclaim_after: unix_now() + i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX / 4),
        };
        let service = self.claim(job, blueprint, metadata, hash, particulars).await?;
        let id = service.metadata.name.clone().unwrap_or_default();
        let pod_name = names::pod_name(&id, names::random_id());
        (particulars.id, particulars.pod_name) = (&id, &pod_name);
        if let Some(pool) = job.pool.upgrade() {
            pool.named(job.instance, &pod_name, &id, particulars.reclaim_after);
        }
        info!("created frontend service {id} for function evaluator pod");
        let pod = blueprint.pod(particulars).map_err(|error| inapplicable(&error))?;
        self.cluster.create_pod(&pod).await.map_err(|error| {
            let failure = refused(self.cluster.diagnose("create", "pods", &error));
            Failure { text: format!("unable to apply the pod: {}", failure.text), ..failure }
        })?;
        info!("created KRM function evaluator pod {namespace}/{pod_name} for \"{requested}\"");
        let cluster_ip = service.spec.and_then(|spec| spec.cluster_ip);
        Ok(Target { pod: pod_name, service: id, cluster_ip })
    }

    /// Leaves an Event at the pod, where that is allowed.
    fn record_event(&self, pod: Pod, text: String) {
        if self.refused.events.load(Ordering::Relaxed) {
            return;
        }
        let (cluster, refused) = (self.cluster.clone(), Arc::clone(&self.refused.events));
        tokio::spawn(async move {
            if let Err(error) = cluster.record(&pod, "FunctionNotReady", &text).await
                && error.code() == Some(403)
                && !refused.swap(true, Ordering::Relaxed)
            {
                info!("Events are not recorded: the verb `create` on `events` is not granted");
            }
        });
    }
}

/// The API server did not do what a start needs.
fn refused(diagnosis: Diagnosis) -> Failure {
    let Diagnosis { kind, text, .. } = diagnosis;
    Failure { kind, cause: Cause::Cluster, text }
}

fn inapplicable(error: &crate::template::Error) -> Failure {
    Failure::lasting(Cause::Template, format!("unable to apply the pod: {error}"))
}
