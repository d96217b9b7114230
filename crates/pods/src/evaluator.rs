//! The evaluator that runs a function in a pod.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Endpoints;
use kube::Api;
use loggia_function::{Call, FunctionRef, Knows, Outcome, RunError, Running, Runtime};
use loggia_grpc::tls::ClientTls;
use loggia_grpc::{CallError, answered, status};
use loggia_registry::Images;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tonic::{Code, Status};
use tracing::{debug, info, warn};

use crate::cluster::Cluster;
use crate::functions::{Functions, default_limits};
use crate::names::IMAGE_LABEL;
use crate::observe::Unobserved;
use crate::pool::state::{Refusal, Settings as PoolSettings, State};
use crate::pool::task::{Message, Task};
use crate::pool::{Image, Permit, Pool, PoolError, Retry};
use crate::remove::remove_all;
use crate::roster::Roster;
use crate::secret::PullSecrets;
use crate::settings::PodAddress;
use crate::start::Starter;
use crate::templates::{ReadError, Templates};
use crate::watch::{End, Subject, Trouble, follow};
use crate::{Observer, Settings, Snapshot};

/// How long the start waits for the template, so that a wrong one is told at once.
const TEMPLATE_TIME: Duration = Duration::from_millis(500);

/// How long somebody who only looks waits for the pool.
const SNAPSHOT_TIME: Duration = Duration::from_secs(1);

/// How many functions are warmed up at once.
const WARM_AT_ONCE: usize = 4;

/// How often a call that has not begun is tried on another instance.
const MOST_TRIES: u32 = 8;

/// Runs functions in pods. Clones share the pool.
#[derive(Clone, Debug)]
pub struct PodEvaluator {
    pool: Pool,
    warm: watch::Receiver<bool>,
}

/// The pool, as one who brings it news knows it.
struct Listener(mpsc::WeakUnboundedSender<Message>);

/// Why there is no pod evaluator.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("failed to generate a base pod template: {0}")]
    Template(String),
    #[error("--pod-tls-ca, --pod-tls-cert, --pod-tls-key: {0}")]
    Tls(#[from] loggia_grpc::tls::Error),
}

// === impl PodEvaluator ===

impl PodEvaluator {
    /// Starts the pool. What the cluster has is adopted, and what is to be warm is warmed, after this
    /// returns.
    pub async fn start(
        client: kube::Client,
        images: Images,
        settings: Settings,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Self, StartError> {
        let observer = observer.unwrap_or_else(|| Arc::new(Unobserved));
        let settings = Arc::new(settings);
        let trust = settings.tls.as_ref().map(|tls| ClientTls::new(tls.files.clone())).transpose()?;
        let cluster = Cluster::new(&client, &settings.namespace, &settings.manager_namespace);
        let templates =
            Templates::new(cluster.clone(), settings.template.clone(), settings.wrapper_image.clone());
        match timeout(TEMPLATE_TIME, templates.read()).await {
            Ok(Err(error @ ReadError::Invalid(_))) => return Err(StartError::Template(error.to_string())),
            Ok(Err(error)) => warn!("{error}; it is asked for again when a pod is made"),
            Ok(Ok(_)) => {}
            Err(_) => warn!("the template of function pods is not known yet: the API server takes its time"),
        }
        let functions = watch::Sender::new(Arc::new(Functions::read(&settings)));
        let (pool, messages) = Pool::new();
        let (garbage, removals) = mpsc::unbounded_channel();
        let secrets = Arc::new(PullSecrets::new(cluster.clone(), settings.pull_secret.clone()));
        let trouble = watch::Sender::new(None);
        let starter = Starter {
            settings: Arc::clone(&settings),
            cluster: cluster.clone(),
            images: images.clone(),
            templates: templates.clone(),
            secrets: Arc::clone(&secrets),
            functions: functions.subscribe(),
            trouble: trouble.clone(),
            refused: Default::default(),
            trust: trust.clone(),
            observer,
        };
        let pool_settings = PoolSettings {
            patience: settings.ready_timeout,
            warm_at_once: WARM_AT_ONCE,
            margin: settings.scan_interval.unwrap_or_default().max(Duration::from_secs(5)) * 2,
            retry: Retry::default(),
        };
        let defaults = default_limits(&settings);
        let limits = functions.borrow().limits.clone();
        let task = Task {
            state: State::new(pool_settings, defaults.clone(), limits),
            roster: Roster::default(),
            starter,
            inbox: pool.inbox(),
            garbage,
            functions: functions.subscribe(),
            template: templates.watch(),
            defaults,
            replies: Default::default(),
            spellings: Default::default(),
            hashes: Default::default(),
            early: Vec::new(),
            looked: Default::default(),
            pulled: Default::default(),
            notes: Task::notes(),
            warm: watch::Sender::new(false),
        };
        let warm = task.warm.subscribe();
        let ended = tokio::spawn(pool.run(task, messages));
        tokio::spawn(remove_all(cluster.clone(), removals));
        let [pods, services, endpoints] = std::array::from_fn(|_| Listener(pool.inbox()));
        let background = async move {
            let no_services = Trouble::new(None);
            tokio::join!(
                follow(cluster.pods, Subject::all("pods").with_label(IMAGE_LABEL), &trouble, move |news| {
                    pods.tell(Message::Pods(Box::new(news)))
                }),
                follow(cluster.services, Subject::all("services"), &no_services, move |news| {
                    services.tell(Message::Services(Box::new(news)))
                }),
                async {
                    // Where pods are reached by their own addresses, it does not matter where Services lead.
                    if settings.address != PodAddress::PodIp {
                        follow_endpoints(cluster.endpoints, endpoints).await;
                    }
                },
                templates.follow_changes(),
                Functions::follow_changes(Arc::clone(&settings), functions),
                images.clone().follow_changes(),
                secrets.follow_changes(&images),
                async {
                    if let Some(trust) = trust {
                        trust.follow_changes().await;
                    }
                },
            )
        };
        tokio::spawn(async move {
            tokio::select! {
                _ = background => {}
                _ = ended => debug!("The pool has ended"),
            }
        });
        Ok(Self { pool, warm })
    }

    /// Returns once the functions that are to be warm are, as far as they can be.
    pub fn warmed_up(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut warm = self.warm.clone();
        async move {
            let _ = warm.wait_for(|warm| *warm).await;
        }
    }

    /// The pool as it is now; nothing if it does not answer at once.
    pub async fn snapshot(&self) -> Option<Snapshot> {
        timeout(SNAPSHOT_TIME, self.pool.snapshot()).await.ok().flatten()
    }

    async fn evaluate(&self, call: &Call) -> Result<Outcome, RunError> {
        let function = call.function.image().ok_or_else(RunError::not_found)?;
        function.reference().map_err(RunError::InvalidImage)?;
        let (image, requested): (_, Arc<str>) = (Image::new(function.full_name()), function.name().into());
        let begin = Instant::now();
        let mut broke = false;
        let mut tries = 0;
        loop {
            tries += 1;
            let permit = self.permit(call, &image, &requested).await?;
            let waited = begin.elapsed();
            call.record.note(|recorded| {
                recorded.queued = Some(waited);
                recorded.pod = Some(Arc::clone(&permit.pod));
            });
            let left =
                call.budget.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let sent = Instant::now();
            let outcome = tokio::select! {
                outcome = permit.client.call(function.written(), call.input.to_bytes(), left) => outcome,
                () = permit.abandoned() => {
                    Err(CallError::Broken(Status::unavailable("the pod does not answer any more")))
                }
            };
            call.record.note(|recorded| recorded.called = Some(sent.elapsed()));
            let pod = &permit.pod;
            let status = match outcome {
                Ok(answer) => {
                    debug!(pod = %pod, ?waited, took = ?begin.elapsed(), "evaluating {function} in pod");
                    return Ok(answered(call, answer));
                }
                Err(CallError::NotSent(_)) if tries < MOST_TRIES => {
                    permit.broken();
                    debug!(pod = %pod, "The call did not reach the pod: another one is tried");
                    continue;
                }
                // The pod is about to leave and took no notice of the call.
                Err(CallError::Final(status)) if is_leaving(&status) && tries < MOST_TRIES => {
                    permit.broken();
                    continue;
                }
                // Functions have no effects but their answer, so one that may have run may run once more.
                Err(CallError::Broken(status) | CallError::Final(status)) if !broke && is_cut(&status) => {
                    permit.broken();
                    broke = true;
                    info!(pod = %pod, "The connection broke during a call: it is made once more");
                    continue;
                }
                Err(error) => error.into_status(),
            };
            if status.code() == Code::Unavailable {
                permit.broken();
            }
            return status::read(&status, Some(&permit.pod));
        }
    }

    async fn permit(&self, call: &Call, image: &Image, requested: &Arc<str>) -> Result<Permit, RunError> {
        let permit = self.pool.permit(image.clone(), Arc::clone(requested));
        let answer = match call.budget.deadline {
            Some(deadline) => timeout_at(deadline, permit).await.map_err(|_| RunError::TimedOut)?,
            None => permit.await,
        };
        answer.map_err(|error| match error {
            PoolError::Closed => RunError::Unavailable("the pool of function pods has ended; try again"),
            PoolError::Refused(Refusal::QueueFull { waiting }) => RunError::NoInstance {
                reason: format!("{waiting} calls wait for it already, and no more may (--max-queue-length)"),
                code: loggia_function::Code::ResourceExhausted,
            },
            PoolError::Refused(Refusal::NoInstance(failure)) => RunError::NoInstance {
                reason: failure.text.clone(),
                code: loggia_function::Code::from_number(failure.code as i32),
            },
        })
    }
}

/// Tells where Services lead, where that may be known; without it, a broken connection tells as much, only
/// later.
async fn follow_endpoints(api: Api<Endpoints>, pool: Listener) {
    let subject = Subject::all("endpoints").if_allowed();
    let tell = move |news| pool.tell(Message::Endpoints(Box::new(news)));
    if let End::Refused(text) = follow(api, subject, &Trouble::new(None), tell).await {
        info!("{text}; a Service that leads nowhere is noticed by the first call");
    }
}

/// The server in the pod refuses calls because it stops or has not quite started.
fn is_leaving(status: &Status) -> bool {
    let words = ["shutting down; try again", "is starting; try again"];
    status.code() == Code::Unavailable && words.iter().any(|words| status.message().ends_with(words))
}

/// The call came to an end that the function had no part in.
fn is_cut(status: &Status) -> bool {
    status.code() == Code::Unavailable
}

// === impl Listener ===

impl Listener {
    /// Says whether there still is a pool.
    fn tell(&self, message: Message) -> bool {
        self.0.upgrade().is_some_and(|inbox| inbox.send(message).is_ok())
    }
}

impl Runtime for PodEvaluator {
    fn name(&self) -> &'static str {
        "pod"
    }

    /// Whether an image exists shows only when its registry is asked.
    fn knows(&self, function: &FunctionRef) -> Knows {
        match function {
            FunctionRef::Image(_) => Knows::AskToRun,
            FunctionRef::Command(_) => Knows::No,
        }
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(self.evaluate(call))
    }
}
