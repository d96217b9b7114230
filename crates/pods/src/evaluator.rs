//! The evaluator that runs a function in a pod.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Endpoints;
use kube::Api;
use loggia_function::{Call, FunctionRef, Knows, Outcome, RunError, Running, Runtime};
use loggia_grpc::wire::details::{self, evaluation_error::Kind};
use loggia_grpc::{CallError, answered};
use loggia_registry::{Images, Unverified};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tonic::{Code, Status};
use tracing::{debug, info, warn};

use crate::cluster::Cluster;
use crate::functions::Functions;
use crate::names::IMAGE_LABEL;
use crate::observe::Unobserved;
use crate::pool::state::{Refusal, Settings as PoolSettings};
use crate::pool::{self, Image, Permit, Pool, WeakPool};
use crate::remove::remove_all;
use crate::settings::PodAddress;
use crate::start::Starter;
use crate::templates::{ReadError, Templates};
use crate::watch::{End, News, Outages, Subject, follow};
use crate::{Observer, Settings, Snapshot};

/// How long the start waits for the template, so that a wrong one is a startup error.
const TEMPLATE_TIME: Duration = Duration::from_millis(500);

/// How many functions are warmed up at once.
const WARM_AT_ONCE: usize = 4;

/// How often a call that no server took is tried on another instance.
const MOST_TRIES: u32 = 8;

/// Runs functions in pods. Clones share the pool.
#[derive(Clone, Debug)]
pub struct PodEvaluator {
    pool: Pool,
    images: Images,
    warm: watch::Receiver<bool>,
}

/// Why the pod evaluator does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("failed to generate a base pod template")]
    Template(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("--pod-tls-ca, --pod-tls-cert, --pod-tls-key")]
    Tls(#[source] loggia_grpc::tls::Error),
}

// === impl PodEvaluator ===

impl PodEvaluator {
    /// Starts the pool. Existing pods are adopted, and listed functions are warmed up, after this returns.
    pub async fn start(
        client: kube::Client,
        images: Images,
        settings: Settings,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Self, StartError> {
        let observer = observer.unwrap_or_else(|| Arc::new(Unobserved));
        let settings = Arc::new(settings);
        let cluster = Cluster::new(&client, &settings.namespace, &settings.manager_namespace);
        let templates =
            Templates::new(cluster.clone(), settings.template.clone(), settings.wrapper_image.clone());
        let functions = watch::Sender::new(Arc::new(Functions::read(&settings)));
        let starter = Starter::new(
            Arc::clone(&settings),
            cluster.clone(),
            images.clone(),
            templates.clone(),
            functions.subscribe(),
            observer,
        );
        let starter = starter.map_err(StartError::Tls)?;
        let (trust, secrets, outage) =
            (starter.trust.clone(), Arc::clone(&starter.secrets), starter.outage.clone());
        match timeout(TEMPLATE_TIME, templates.read()).await {
            Ok(Err(error @ ReadError::Invalid(_))) => return Err(StartError::Template(error.into())),
            Ok(Err(error)) => warn!("{error}; it is asked for again when a pod is made"),
            Ok(Ok(_)) => {}
            Err(_) => warn!("the template of function pods is not known yet: the API server takes its time"),
        }
        let (garbage, removals) = mpsc::unbounded_channel();
        let pool_settings = PoolSettings {
            patience: settings.ready_timeout,
            warm_at_once: WARM_AT_ONCE,
            margin: settings.scan_interval.unwrap_or_default().max(Duration::from_secs(5)) * 2,
            backoff: pool::Backoff::default(),
            most_instances: settings.max_pods,
        };
        let (pool, ended) = Pool::start(starter, pool_settings, templates.watch(), garbage);
        tokio::spawn(remove_all(cluster.clone(), removals));
        let (weak, verified) = (pool.downgrade(), images.clone());
        let background = async move {
            let no_services = Outages::new(None);
            tokio::join!(
                follow(cluster.pods, Subject::all("pods").with_label(IMAGE_LABEL), &outage, |news| {
                    weak.upgrade().map(|pool| pool.pods_changed(news)).is_some()
                }),
                follow(cluster.services, Subject::all("services"), &no_services, |news| {
                    weak.upgrade().map(|pool| pool.services_changed(news)).is_some()
                }),
                async {
                    // Where pods are reached by their own addresses, it does not matter what Services select.
                    if settings.address != PodAddress::PodIp {
                        follow_endpoints(cluster.endpoints, &weak).await;
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
        Ok(Self { warm: pool.warm(), pool, images: verified })
    }

    /// Returns once the warm-up is over: each listed function has an instance, or could not get one.
    pub fn warmed_up(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut warm = self.warm.clone();
        async move {
            let _ = warm.wait_for(|warm| *warm).await;
        }
    }

    /// The pool as it is now.
    pub fn snapshot(&self) -> Snapshot {
        self.pool.snapshot()
    }

    async fn evaluate(&self, call: &Call) -> Result<Outcome, RunError> {
        let image = call.function.image().ok_or_else(RunError::not_found)?;
        image.reference().map_err(RunError::InvalidImage)?;
        self.verify(call, image).await?;
        let begin = Instant::now();
        let mut broke = false;
        let mut tries = 0;
        loop {
            tries += 1;
            let permit = self.permit(call, image).await?;
            let waited = begin.elapsed();
            call.record.note(|recorded| {
                recorded.queued = Some(waited);
                recorded.pod = Some(Arc::clone(&permit.pod));
            });
            let left =
                call.budget.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let sent = Instant::now();
            let outcome = tokio::select! {
                outcome = permit.client.call(image.written(), call.input.to_bytes(), left) => outcome,
                () = permit.abandoned() => {
                    Err(CallError::Broken(Status::unavailable("the pod does not answer any more")))
                }
            };
            call.record.note(|recorded| recorded.called = Some(sent.elapsed()));
            let pod = &permit.pod;
            let error = match outcome {
                Ok(answer) => {
                    debug!(pod = %pod, ?waited, took = ?begin.elapsed(), "evaluating {image} in pod");
                    return Ok(answered(call, answer));
                }
                Err(error) => error,
            };
            match Retry::after(&error) {
                Retry::Elsewhere if tries < MOST_TRIES => {
                    permit.broken();
                    debug!(pod = %pod, "The pod did not take the call: another one is tried");
                    continue;
                }
                Retry::Once if !broke => {
                    permit.broken();
                    broke = true;
                    info!(pod = %pod, "The connection broke during a call: it is made once more");
                    continue;
                }
                Retry::Elsewhere | Retry::Once | Retry::No => {}
            }
            let status = error.into_status();
            if status.code() == Code::Unavailable {
                permit.broken();
            }
            return loggia_grpc::status::read(&status, Some(&permit.pod));
        }
    }

    /// Verifies the signature of the image, also if pods of it run: the policy may have changed since they started. What
    /// is known already costs next to nothing.
    async fn verify(&self, call: &Call, image: &Image) -> Result<(), RunError> {
        let verified = Box::pin(self.images.verify(image));
        let verified = match call.budget.deadline {
            Some(deadline) => timeout_at(deadline, verified).await.map_err(|_| RunError::TimedOut)?,
            None => verified.await,
        };
        verified.map_err(|error| unverified(image, error))
    }

    async fn permit(&self, call: &Call, image: &Image) -> Result<Permit, RunError> {
        let permit = self.pool.permit(image.clone());
        let answer = match call.budget.deadline {
            Some(deadline) => timeout_at(deadline, permit).await.map_err(|_| RunError::TimedOut)?,
            None => permit.await,
        };
        answer.map_err(|refusal| RunError::NoInstance {
            code: refusal.code(),
            reason: match refusal {
                Refusal::QueueFull { waiting } => {
                    format!("{waiting} calls wait for it already, and no more may (--max-queue-length)")
                }
                Refusal::NoPlace { most } => format!(
                    "{most} function pods exist, and there may be no more (--max-pods); none of them is idle for long \
                     enough to make place"
                ),
                Refusal::NoInstance(failure) => failure.text.clone(),
            },
        })
    }
}

/// What a caller gets whose image is not signed as wanted, or whose registry does not say.
fn unverified(image: &Image, error: Unverified) -> RunError {
    use loggia_function::Code::{Internal, Unavailable};
    match error {
        Unverified::Refused { rule, reason } => RunError::Refused { rule, reason },
        Unverified::Registry(error) => RunError::NoInstance {
            code: if error.may_pass() { Unavailable } else { Internal },
            reason: format!("unable to verify the signature of {}: {error}", image.name()),
        },
    }
}

/// Watches which pods Services select, where that is allowed; without it, the first broken connection shows as much.
async fn follow_endpoints(api: Api<Endpoints>, pool: &WeakPool) {
    let subject = Subject::all("endpoints").if_allowed();
    let tell = |news: News<Endpoints>| pool.upgrade().map(|pool| pool.endpoints_changed(news)).is_some();
    if let End::Refused(text) = follow(api, subject, &Outages::new(None), tell).await {
        info!("{text}; a Service that leads nowhere is noticed by the first call");
    }
}

/// Whether and how often a call that failed is made again, in another instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    /// The server was not reached or does not take calls: another one may.
    Elsewhere,
    /// The function may have run. It has no effects but its answer, so it may run once more.
    Once,
    No,
}

impl Retry {
    fn after(error: &CallError) -> Self {
        match error {
            CallError::NotSent(_) => Self::Elsewhere,
            // Our own server says so: it starts or stops, and did not run the function.
            CallError::Final(status) if kind(status) == Some(Kind::Unavailable) => Self::Elsewhere,
            // Porch's server sends no details. Its UNAVAILABLE comes from grpc-go, when a connection closes.
            CallError::Broken(status) | CallError::Final(status) if status.code() == Code::Unavailable => {
                Self::Once
            }
            CallError::Broken(_) | CallError::Final(_) => Self::No,
        }
    }
}

/// What kind of failure the server in a pod reports, if it is one of ours.
fn kind(status: &Status) -> Option<Kind> {
    details::EvaluationError::of(status).map(|details| details.kind())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_takes_no_calls_is_recognised_by_the_kind_of_its_error() {
        let leaving = loggia_grpc::status::of_error("x", &RunError::Unavailable("in whatever words"));
        assert_eq!(Retry::after(&CallError::Final(leaving)), Retry::Elsewhere);
        assert_eq!(Retry::after(&CallError::NotSent(Status::unavailable(""))), Retry::Elsewhere);
        let cut = loggia_grpc::status::of_error("x", &RunError::Interrupted("in whatever words"));
        assert_eq!(Retry::after(&CallError::Final(cut)), Retry::Once);
    }

    #[test]
    fn a_call_that_may_have_run_is_made_once_more_and_a_function_that_failed_is_not() {
        let plain = || Status::unavailable("the function evaluator is shutting down; try again");
        assert_eq!(Retry::after(&CallError::Broken(plain())), Retry::Once);
        assert_eq!(Retry::after(&CallError::Final(plain())), Retry::Once, "words alone decide nothing");
        assert_eq!(Retry::after(&CallError::Final(Status::internal("exit status 1"))), Retry::No);
        let timed_out = loggia_grpc::status::of_error("x", &RunError::TimedOut);
        assert_eq!(Retry::after(&CallError::Final(timed_out)), Retry::No);
    }

    #[tokio::test]
    async fn an_image_that_is_not_signed_is_refused_with_the_rule() {
        use loggia_registry::{Settings, SignaturePolicy};
        use loggia_testing::registry::signer::Signer;
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy.yaml");
        let key = serde_json::json!(Signer::new().pem);
        let rules = format!("default: deny\nrules:\n- images: [\"127.0.0.1:1/*\"]\n  keys: [{key}]\n");
        std::fs::write(&policy, rules).unwrap();
        let signatures = Some(SignaturePolicy::read(&policy).unwrap());
        let plain_http = vec!["127.0.0.1:1".to_owned()];
        let images = Images::new(Settings { signatures, plain_http, ..Settings::default() });
        let ask = async |name: &str| {
            let image = Image::new(name);
            let error = images.verify(&image).await.unwrap_err();
            let error = unverified(&image, error);
            (error.code(), error.describe(name))
        };
        let (code, text) = ask("x.io/f:v1").await;
        assert_eq!(code, loggia_function::Code::PermissionDenied);
        assert!(
            text.starts_with("function \"x.io/f:v1\" is refused by --verify-images: no rule is for"),
            "{text}"
        );
        // A registry that does not answer is no permission.
        let (code, text) = ask("127.0.0.1:1/f:v1").await;
        assert_eq!(code, loggia_function::Code::Unavailable);
        assert!(text.contains("unable to verify the signature of 127.0.0.1:1/f:v1: "), "{text}");
    }
}
