//! Bringing up one instance: from an image to a server that answers.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::core::v1::{Pod, Service};
use loggia_evaluator::Client;
use loggia_evaluator::connection::Connection;
use loggia_evaluator::tls::ClientTls;
use loggia_registry::{Images, Metadata};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;
use tracing::{debug, info, warn};

use crate::blueprint::{Blueprint, Identity, Particulars, annotation};
use crate::cluster::Cluster;
use crate::diagnosis::{self, Diagnosis};
use crate::functions::{Functions, default_limits};
use crate::names::{self, IMAGE, PORT, TEMPLATE_HASH};
use crate::observe::Progress;
use crate::pod_tls;
use crate::pool::state::InstanceId;
use crate::pool::task::Message;
use crate::pool::{Failure, FailureKind, Image};
use crate::secret::PullSecrets;
use crate::settings::PodAddress;
use crate::template::Template;
use crate::templates::Templates;
use crate::watch::Trouble;
use crate::{Observer, Phase, Settings};

/// How long one question to a server that may not be there yet may take.
const QUESTION_TIME: Duration = Duration::from_millis(500);

/// How long the scheduler may say that there is no node before it is believed.
const SCHEDULER_TIME: Duration = Duration::from_secs(3);

/// How long an instance that was found, and ought to be up, may take to answer.
const ADOPTION_TIME: Duration = Duration::from_secs(10);

/// How long a Service may wait for its pod to be seen.
const YOUNG_SECONDS: i64 = 20;

/// How many numbers are tried at most.
const MOST_NUMBERS: usize = 999;

/// All that starting an instance needs. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Starter {
    pub(crate) settings: Arc<Settings>,
    pub(crate) cluster: Cluster,
    pub(crate) images: Images,
    pub(crate) templates: Templates,
    pub(crate) secrets: Arc<PullSecrets>,
    pub(crate) functions: watch::Receiver<Arc<Functions>>,
    /// Why there is no news of pods.
    pub(crate) trouble: Trouble,
    pub(crate) refused: Refused,
    /// Whom to take for a pod; without it, pods are spoken to in the clear.
    pub(crate) trust: Option<ClientTls>,
    pub(crate) observer: Arc<dyn Observer>,
}

/// What this program may do without, and was not allowed. It is said once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refused {
    pub(crate) events: Arc<AtomicBool>,
    pub(crate) patches: Arc<AtomicBool>,
}

/// One instance to be started.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) instance: InstanceId,
    pub(crate) image: Image,
    pub(crate) requested: Arc<str>,
    /// How many there may be of the function in the cluster.
    pub(crate) most: usize,
    pub(crate) latest: watch::Receiver<Option<Arc<Pod>>>,
    pub(crate) inbox: mpsc::WeakUnboundedSender<Message>,
}

/// Where to look for a server.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) pod: String,
    pub(crate) service: String,
    pub(crate) cluster_ip: Option<String>,
}

/// What came of a question to the server in a pod.
#[derive(Debug)]
enum Answer {
    /// It takes calls.
    Serving(Client),
    NotYet,
    /// The two ends do not trust each other, and will not by waiting.
    Untrusted(String),
}

// === impl Starter ===

impl Starter {
    /// Creates an instance and returns a way to it once it answers. What was created stays on failure, for
    /// the pool to delete.
    pub(crate) async fn start(&self, job: Job) -> Result<Client, Failure> {
        let Job { image, requested, .. } = &job;
        let mut progress = Progress::new(Arc::clone(&self.observer));
        let metadata = self.images.metadata(requested).await.map_err(|error| Failure {
            kind: if error.may_pass() { FailureKind::Passing } else { FailureKind::Lasting },
            text: format!("unable to get the entrypoint for {requested}: {error}"),
            code: Code::Unknown,
        })?;
        progress.reached(Phase::Metadata);
        if self.images.needs_pull_secret(requested) {
            let secret = self.images.read_pull_secret().map_err(|error| lasting(error.to_string()))?;
            if let Some(secret) = secret {
                self.secrets.ensure(&secret).await.map_err(failed)?;
            }
        }
        let template = self.templates.current().await;
        let template =
            template.map_err(|error| lasting(format!("failed to generate a base pod template: {error}")))?;
        let blueprint = self.blueprint(&template, image, requested);
        let hash = blueprint.hash().map_err(|error| lasting(format!("unable to apply the pod: {error}")))?;
        let target = self.create(&job, &blueprint, &metadata, &hash).await?;
        progress.reached(Phase::Create);
        self.wait(&target, job.latest.clone(), self.settings.ready_timeout, Some(progress)).await
    }

    /// Waits for an instance that somebody else started.
    pub(crate) async fn adopt(
        &self,
        target: &Target,
        latest: watch::Receiver<Option<Arc<Pod>>>,
    ) -> Result<Client, Failure> {
        let created = latest.borrow().as_ref().and_then(|pod| pod.metadata.creation_timestamp.clone());
        let age = created.map(|time| unix_now() - time.0.as_second()).unwrap_or_default();
        let age = Duration::from_secs(age.max(0).unsigned_abs());
        let left = self.settings.ready_timeout.saturating_sub(age).max(ADOPTION_TIME);
        self.wait(target, latest, left, None).await
    }

    /// Whether an instance still answers, on a connection of its own: one that is there may lead where no
    /// other would.
    pub(crate) async fn check(&self, target: &Target, latest: &watch::Receiver<Option<Arc<Pod>>>) -> bool {
        for pause in [50, 200, 400] {
            let pod = latest.borrow().clone();
            match self.ask(target, pod.as_deref()).await {
                Answer::Serving(_) => return true,
                Answer::NotYet => debug!(target.pod, "An instance does not answer"),
                Answer::Untrusted(why) => {
                    warn!("pod `{}`: {why}", target.pod);
                    return false;
                }
            }
            sleep(Duration::from_millis(pause)).await;
        }
        false
    }

    /// What the pods of a function have in common now.
    pub(crate) fn blueprint(&self, template: &Template, image: &Image, requested: &str) -> Blueprint {
        let resources = self.functions.borrow().resources.get(image).cloned().unwrap_or_default();
        let private = self.images.needs_pull_secret(requested);
        Blueprint {
            template: template.clone(),
            namespace: self.settings.namespace.clone(),
            message_limit: self.settings.message_limit,
            security: self.settings.security,
            resources,
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
        let ttl = self
            .functions
            .borrow()
            .limits
            .get(&job.image)
            .map_or_else(|| default_limits(&self.settings).ttl, |limits| limits.ttl);
        let mut particulars = Particulars {
            id: "",
            pod_name: "",
            image: &job.requested,
            function: job.image.as_str(),
            digest: &metadata.digest,
            entrypoint: &metadata.entrypoint,
            owner: &self.settings.owner,
            reclaim_after: unix_now() + i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX / 4),
        };
        let service = self.claim(job, blueprint, metadata, hash, particulars).await?;
        let id = service.metadata.name.clone().unwrap_or_default();
        let pod_name = names::pod_name(&id, random_id());
        (particulars.id, particulars.pod_name) = (&id, &pod_name);
        // News of the pod may come before the answer to its creation, and must find the instance.
        if let Some(inbox) = job.inbox.upgrade() {
            let named = Message::Named { instance: job.instance, pod: pod_name.clone(), service: id.clone() };
            let _ = inbox.send(named);
        }
        info!("created frontend service {id} for function evaluator pod");
        let pod = blueprint
            .pod(particulars)
            .map_err(|error| lasting(format!("unable to apply the pod: {error}")))?;
        self.cluster.create_pod(&pod).await.map_err(|error| {
            let Diagnosis { text, kind } = self.cluster.diagnose("create", "pods", &error);
            Failure { kind, text: format!("unable to apply the pod: {text}"), code: Code::Unknown }
        })?;
        info!("created KRM function evaluator pod {namespace}/{pod_name} for \"{}\"", job.requested);
        let cluster_ip = service.spec.and_then(|spec| spec.cluster_ip);
        Ok(Target { pod: pod_name, service: id, cluster_ip })
    }

    /// Creates the Service with the smallest number that is free. As only one replica can create it, the
    /// Service is the claim to one of the places that a function has in the cluster.
    async fn claim(
        &self,
        job: &Job,
        blueprint: &Blueprint,
        metadata: &Metadata,
        hash: &str,
        particulars: Particulars<'_>,
    ) -> Result<Service, Failure> {
        let mut taken = 0;
        for number in 1..=MOST_NUMBERS {
            let id = names::id(&metadata.reference, &metadata.porch_digest, number);
            if is_being_left(job, &id).await {
                debug!(id, "A pod with the number is about to go");
                continue;
            }
            let service = blueprint.service(Particulars { id: &id, ..particulars }, hash);
            let error = match self.cluster.create_service(&service).await {
                Ok(service) => return Ok(service),
                Err(error) if error.code() == Some(409) => error,
                Err(error) => return Err(failed(self.cluster.diagnose("create", "services", &error))),
            };
            debug!(id, %error, "The number is taken");
            let holder = self.cluster.service(&id).await;
            let holder = holder.map_err(|error| failed(self.cluster.diagnose("get", "services", &error)))?;
            let notes = holder.as_ref().and_then(|service| service.metadata.annotations.as_ref());
            // One of another template leaves as soon as there is one of this; it holds nobody up.
            let same = annotation(notes, IMAGE) == Some(job.image.as_str())
                && annotation(notes, TEMPLATE_HASH) == Some(hash);
            if same && counts(job, id, holder.as_ref()).await {
                taken += 1;
            }
            if taken >= job.most {
                let text = format!("{taken} instances of {} exist, and there may be no more", job.requested);
                return Err(Failure { kind: FailureKind::Crowded, text, code: Code::Unknown });
            }
        }
        Err(lasting(format!("all numbers up to {MOST_NUMBERS} are taken for the pods of {}", job.requested)))
    }

    /// Waits until the server in a pod answers, or until it is clear that it will not.
    async fn wait(
        &self,
        target: &Target,
        mut latest: watch::Receiver<Option<Arc<Pod>>>,
        patience: Duration,
        mut progress: Option<Progress>,
    ) -> Result<Client, Failure> {
        let begin = Instant::now();
        let mut seen = false;
        let mut pause = Duration::from_millis(20);
        let mut no_node_since = None;
        loop {
            let pod = latest.borrow_and_update().clone();
            if let (Some(progress), Some(pod)) = (&mut progress, &pod) {
                progress.seen(pod);
            }
            let wrong = match &pod {
                Some(pod) => diagnosis::diagnose(pod),
                None if seen => {
                    Some(Diagnosis { text: "it was deleted".to_owned(), kind: FailureKind::Passing })
                }
                None => self.no_news(),
            };
            seen = seen || pod.is_some();
            if let Some(Diagnosis { text, kind }) = wrong {
                let waiting_for_node = text.starts_with("Unschedulable");
                let since = *no_node_since.get_or_insert_with(Instant::now);
                if !waiting_for_node || since.elapsed() >= SCHEDULER_TIME {
                    return Err(self.not_ready(target, pod.as_deref(), &text, kind, Code::Unknown));
                }
            }
            let scheduled =
                pod.as_ref().and_then(|pod| pod.spec.as_ref()).is_some_and(|spec| spec.node_name.is_some());
            let answer = match scheduled {
                true => self.ask(target, pod.as_deref()).await,
                false => Answer::NotYet,
            };
            match answer {
                Answer::Serving(client) => {
                    if let Some(progress) = &mut progress {
                        progress.reached(Phase::Ready);
                    }
                    return Ok(client);
                }
                Answer::NotYet => {}
                Answer::Untrusted(why) => {
                    let (kind, code) = (FailureKind::Lasting, Code::Unknown);
                    return Err(self.not_ready(target, pod.as_deref(), &why, kind, code));
                }
            }
            if begin.elapsed() >= patience {
                let waits = pod.as_deref().map_or("it was never seen".to_owned(), diagnosis::still_waiting);
                // The kubelet says only in Events which volume it waits for.
                let mounts = self
                    .settings
                    .tls
                    .as_ref()
                    .filter(|_| waits.contains("Creating") || waits.contains("Initializing"));
                let hint = mounts.map(|tls| pod_tls::no_secret(&tls.secret, &self.settings.namespace));
                let text = format!("not ready within {patience:?}: {waits}{}", hint.unwrap_or_default());
                let (kind, code) = (FailureKind::Lasting, Code::DeadlineExceeded);
                return Err(self.not_ready(target, pod.as_deref(), &text, kind, code));
            }
            let rest = patience.saturating_sub(begin.elapsed());
            let _ = timeout(pause.min(rest), latest.changed()).await;
            pause = (pause * 3 / 2).min(Duration::from_millis(150));
        }
    }

    /// Without news of pods none can be waited for; what forbids them is said at once.
    fn no_news(&self) -> Option<Diagnosis> {
        let trouble = self.trouble.borrow();
        let text = trouble.as_ref().filter(|text| diagnosis::is_rbac(text))?;
        Some(Diagnosis { text: text.clone(), kind: FailureKind::Lasting })
    }

    /// A client of the server, if it is there, is who it should be and takes calls.
    async fn ask(&self, target: &Target, pod: Option<&Pod>) -> Answer {
        let Some(address) = self.address(target, pod) else { return Answer::NotYet };
        let Settings { namespace, cluster_domain, message_limit, tls, .. } = &*self.settings;
        let host = names::host(&target.service, namespace, cluster_domain);
        let connection = match &self.trust {
            None => Connection::new(&address),
            Some(trust) => Connection::to_named(&address, &host, trust.clone()),
        };
        let Ok(connection) = connection else { return Answer::NotYet };
        let client = Client::over(connection.clone(), *message_limit);
        let question = async {
            connection.ready().await.map_err(|error| pod_tls::Unready::of_connection(&error))?;
            client.is_serving().await.map_err(|status| pod_tls::Unready::of_answer(&status))
        };
        match (timeout(QUESTION_TIME, question).await, tls) {
            (Ok(Ok(true)), _) => Answer::Serving(client),
            (Ok(Err(pod_tls::Unready::Tls(error))), Some(tls)) => {
                Answer::Untrusted(pod_tls::explain(&error, tls, &host))
            }
            _ => Answer::NotYet,
        }
    }

    fn address(&self, target: &Target, pod: Option<&Pod>) -> Option<String> {
        let Settings { namespace, cluster_domain, .. } = &*self.settings;
        let host = match self.settings.address {
            // With the dot at the end nothing but this name is looked up.
            PodAddress::Dns => format!("{}.", names::host(&target.service, namespace, cluster_domain)),
            PodAddress::ServiceIp => in_brackets(target.cluster_ip.as_deref()?),
            PodAddress::PodIp => in_brackets(pod?.status.as_ref()?.pod_ip.as_deref()?),
        };
        Some(format!("{host}:{PORT}"))
    }

    fn not_ready(
        &self,
        target: &Target,
        pod: Option<&Pod>,
        text: &str,
        kind: FailureKind,
        code: Code,
    ) -> Failure {
        if let Some(pod) = pod {
            self.record(pod.clone(), text.to_owned());
        }
        let text = format!(
            "error occurred when waiting the pod and service to be ready. If the error is caused by timeout, you may \
             want to examine the pod/service in namespace \"{}\". Error: pod `{}`: {text}",
            self.settings.namespace, target.pod
        );
        Failure { kind, text, code }
    }

    /// Leaves an Event at the pod, where that is allowed.
    fn record(&self, pod: Pod, text: String) {
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

/// Whether a pod with this ID is about to go. A new Service of that name would lead to it as long as it is there.
async fn is_being_left(job: &Job, id: &str) -> bool {
    let (reply, answer) = oneshot::channel();
    let question = Message::BeingLeft { id: id.to_owned(), reply };
    let asked = job.inbox.upgrade().is_some_and(|inbox| inbox.send(question).is_ok());
    asked && answer.await.unwrap_or(false)
}

/// Whether the holder of a Service takes up a target, or is about to leave it.
async fn counts(job: &Job, service: String, holder: Option<&Service>) -> bool {
    let created = holder.and_then(|service| service.metadata.creation_timestamp.as_ref());
    let young = created.is_some_and(|time| unix_now() - time.0.as_second() < YOUNG_SECONDS);
    let (reply, answer) = oneshot::channel();
    let asked = job
        .inbox
        .upgrade()
        .is_some_and(|inbox| inbox.send(Message::Counts { service, young, reply }).is_ok());
    asked && answer.await.unwrap_or(false)
}

fn in_brackets(ip: &str) -> String {
    if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() }
}

fn lasting(text: String) -> Failure {
    Failure { kind: FailureKind::Lasting, text, code: Code::Unknown }
}

fn failed(diagnosis: Diagnosis) -> Failure {
    let Diagnosis { text, kind } = diagnosis;
    Failure { kind, text, code: Code::Unknown }
}

/// Seconds since 1970.
pub(crate) fn unix_now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// A number that nobody can foresee.
pub(crate) fn random_id() -> u64 {
    RandomState::new().build_hasher().finish()
}
