//! Waiting for a pod to come up.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use loggia_grpc::Client;
use tokio::time::{Instant, timeout};

use super::reach::Reached;
use super::{LatestPod, Starter, Target};
use crate::Phase;
use crate::diagnosis::{self, Diagnosis, Reason};
use crate::observe::Progress;
use crate::pod_tls;
use crate::pool::{Cause, Failure, FailureKind};
use crate::user_namespaces::Support;

/// How long the scheduler may report that there is no node: one may be about to join or to become free.
const SCHEDULER_TIME: Duration = Duration::from_secs(3);

/// How often the Events of a pod without a sandbox are read.
const EVENTS_INTERVAL: Duration = Duration::from_millis(400);

/// What one look at a starting pod shows.
#[derive(Debug)]
enum Observed {
    Ready(Client),
    Waiting,
    Failed(Diagnosis),
}

/// What earlier looks have shown.
#[derive(Debug, Default)]
struct History {
    seen: bool,
    no_node_since: Option<Instant>,
    events_read: Option<Instant>,
}

impl Starter {
    /// Waits until the server in a pod answers, or until it is clear that it will not.
    pub(super) async fn wait(
        &self,
        target: &Target,
        mut latest: LatestPod,
        patience: Duration,
        mut progress: Option<Progress>,
    ) -> Result<Client, Failure> {
        let begin = Instant::now();
        let mut history = History::default();
        let mut pause = Duration::from_millis(20);
        loop {
            let pod = latest.borrow_and_update().clone();
            let pod = pod.as_deref();
            if let (Some(progress), Some(pod)) = (&mut progress, pod) {
                progress.seen(pod);
            }
            match self.observe(target, pod, &mut history).await {
                Observed::Ready(client) => {
                    if let Some(progress) = &mut progress {
                        progress.reached(Phase::Ready);
                    }
                    return Ok(client);
                }
                Observed::Failed(diagnosis) => {
                    // Another pod, without a user namespace of its own, may fare better.
                    let passes = self.user_namespaces.is_to_blame(pod, &diagnosis);
                    let Diagnosis { text, kind, .. } = diagnosis;
                    let kind = if passes { FailureKind::Passing } else { kind };
                    return Err(self.not_ready(target, pod, &text, kind, Cause::Failed));
                }
                Observed::Waiting if begin.elapsed() >= patience => {
                    let text = format!("not ready within {patience:?}: {}", self.waits_for(pod));
                    return Err(self.not_ready(target, pod, &text, FailureKind::Lasting, Cause::TimedOut));
                }
                Observed::Waiting => {}
            }
            // The server may answer before its pod changes, so the pod's next change is not all that is waited for.
            let rest = patience.saturating_sub(begin.elapsed());
            let _ = timeout(pause.min(rest), latest.changed()).await;
            pause = (pause * 3 / 2).min(Duration::from_millis(150));
        }
    }

    async fn observe(&self, target: &Target, pod: Option<&Pod>, history: &mut History) -> Observed {
        let diagnosis = match pod {
            Some(pod) => diagnosis::diagnose(pod),
            None if history.seen => Some(Diagnosis::deleted()),
            None => self.no_news(),
        };
        history.seen |= pod.is_some();
        match diagnosis {
            Some(diagnosis) if diagnosis.reason == Reason::Unschedulable => {
                let since = *history.no_node_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= SCHEDULER_TIME {
                    return Observed::Failed(diagnosis);
                }
            }
            Some(diagnosis) => return Observed::Failed(diagnosis),
            None => {}
        }
        if pod.and_then(|pod| pod.spec.as_ref()?.node_name.as_ref()).is_none() {
            return Observed::Waiting;
        }
        if let Some(pod) = pod
            && let Some(diagnosis) = self.no_sandbox(pod, history).await
        {
            return Observed::Failed(diagnosis);
        }
        match self.reach(target, pod).await {
            Reached::Serving(client) => Observed::Ready(client),
            Reached::NotYet => Observed::Waiting,
            Reached::Untrusted(why) => Observed::Failed(Diagnosis::untrusted(why)),
        }
    }

    /// The kubelet reports only in Events that it cannot create a sandbox. They are read for pods that may lack one for a
    /// lasting reason: a user namespace that the node cannot give.
    async fn no_sandbox(&self, pod: &Pod, history: &mut History) -> Option<Diagnosis> {
        if !Support::has_one(pod) || diagnosis::has_sandbox(pod) {
            return None;
        }
        let asked = history.events_read.get_or_insert_with(Instant::now);
        if asked.elapsed() < EVENTS_INTERVAL {
            return None;
        }
        *asked = Instant::now();
        let why = self.cluster.sandbox_failure(pod).await.ok()??;
        Some(Diagnosis::no_sandbox(&why))
    }

    /// Without permission to watch pods none is ever seen.
    fn no_news(&self) -> Option<Diagnosis> {
        let outage = self.outage.borrow();
        let outage = outage.as_ref().filter(|outage| outage.forbidden)?;
        Some(Diagnosis::forbidden(outage.text.clone()))
    }

    /// What a pod that took too long waits for.
    fn waits_for(&self, pod: Option<&Pod>) -> String {
        let Some(pod) = pod else { return "it was never seen".to_owned() };
        let waits = diagnosis::still_waiting(pod);
        // The kubelet reports only in Events which volume it waits for.
        let secret = self.settings.tls.as_ref().filter(|_| waits.before_containers);
        let hint = secret.map(|tls| pod_tls::no_secret(&tls.secret, &self.settings.namespace));
        format!("{}{}", waits.text, hint.unwrap_or_default())
    }

    fn not_ready(
        &self,
        target: &Target,
        pod: Option<&Pod>,
        text: &str,
        kind: FailureKind,
        cause: Cause,
    ) -> Failure {
        if let Some(pod) = pod {
            self.record_event(pod.clone(), text.to_owned());
        }
        let text = format!(
            "error occurred when waiting the pod and service to be ready. If the error is caused by timeout, you may \
             want to examine the pod/service in namespace \"{}\". Error: pod `{}`: {text}",
            self.settings.namespace, target.pod
        );
        Failure { kind, cause, text }
    }
}
