//! Whether function pods get a user namespace of their own (`hostUsers: false`), in which root is nobody on the node.
//!
//! Whether a node can do that shows only when one tries: the kubelet then reports in an Event that it cannot create the
//! pod's sandbox. So `auto` tries where Events may be read, and stops at the first pod that does not get its sandbox or
//! whose first container, the operator's own, does not start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::OnceCell;
use tracing::{info, warn};

use crate::cluster::Cluster;
use crate::diagnosis::{Diagnosis, Reason};

/// When function pods get a user namespace of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserNamespaces {
    /// Where the nodes turn out to support it.
    #[default]
    Auto,
    /// Always; a pod that cannot have one fails.
    On,
    /// Only where the template says so.
    Off,
}

/// The setting, and what is known of the cluster. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Support {
    mode: UserNamespaces,
    /// Whether a failure could be seen. It is asked once.
    observable: Arc<OnceCell<bool>>,
    unsupported: Arc<AtomicBool>,
}

// === impl Support ===

impl Support {
    pub(crate) fn new(mode: UserNamespaces) -> Self {
        Self { mode, observable: Arc::default(), unsupported: Arc::default() }
    }

    /// Every pod must have one.
    pub(crate) fn is_required(&self) -> bool {
        self.mode == UserNamespaces::On
    }

    /// Whether the next pod is to try it.
    pub(crate) fn is_tried(&self) -> bool {
        self.mode == UserNamespaces::Auto
            && self.observable.get() == Some(&true)
            && !self.unsupported.load(Ordering::Relaxed)
    }

    /// Finds out whether a failure could be seen, before the first pod.
    pub(crate) async fn prepare(&self, cluster: &Cluster) {
        if self.mode != UserNamespaces::Auto {
            return;
        }
        let ask = || async {
            match cluster.may_read_events().await {
                Ok(true) => Some(true),
                Ok(false) => {
                    info!(
                        "user namespaces are not tried: the verb `list` on `events` is not granted; \
                         --pod-user-namespaces=on needs no such permission"
                    );
                    Some(false)
                }
                Err(_) => None,
            }
        };
        // An API server that does not answer now may do so for the next pod.
        let _ = self.observable.get_or_try_init(|| async { ask().await.ok_or(()) }).await;
    }

    /// Whether a pod was given a user namespace of its own.
    pub(crate) fn has_one(pod: &Pod) -> bool {
        pod.spec.as_ref().and_then(|spec| spec.host_users) == Some(false)
    }

    /// A pod did not come up. Says whether the next one is made without a user namespace for that reason, and may fare
    /// better.
    pub(crate) fn is_to_blame(&self, pod: Option<&Pod>, diagnosis: &Diagnosis) -> bool {
        let tried = self.mode == UserNamespaces::Auto && pod.is_some_and(Self::has_one);
        let blamed = tried && matches!(diagnosis.reason, Reason::NoSandbox | Reason::FirstContainer);
        if blamed && !self.unsupported.swap(true, Ordering::Relaxed) {
            warn!(
                "function pods get no user namespaces of their own from now on, since one did not start with it: {}; \
                 --pod-user-namespaces=off does not try, =on insists",
                diagnosis.text
            );
        }
        blamed
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake::ApiServer;

    fn pod(host_users: bool) -> Pod {
        let spec = json!({ "containers": [], "hostUsers": host_users });
        serde_json::from_value(json!({ "metadata": { "name": "p" }, "spec": spec })).unwrap()
    }

    /// What is wrong with a pod whose container of this kind cannot be created.
    fn diagnosis(kind: &str) -> Diagnosis {
        let state = json!({ "waiting": { "reason": "CreateContainerError", "message": "no such user" } });
        let status = json!({ "name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state });
        let mut pod = pod(false);
        pod.status = Some(serde_json::from_value(json!({ "phase": "Pending", kind: [status] })).unwrap());
        crate::diagnosis::diagnose(&pod).unwrap()
    }

    #[tokio::test]
    async fn they_are_tried_only_where_a_failure_would_be_seen() {
        let prepared = async |mode, api: ApiServer| {
            let support = Support::new(mode);
            assert!(!support.is_tried(), "nothing is known yet");
            support.prepare(&api.cluster()).await;
            (support.is_tried(), support.is_required())
        };
        assert_eq!(prepared(UserNamespaces::Auto, ApiServer::default()).await, (true, false));
        assert_eq!(prepared(UserNamespaces::Auto, ApiServer::refusing()).await, (false, false));
        assert_eq!(prepared(UserNamespaces::On, ApiServer::refusing()).await, (false, true));
        assert_eq!(prepared(UserNamespaces::Off, ApiServer::default()).await, (false, false));
    }

    #[tokio::test]
    async fn only_what_no_image_of_a_caller_can_cause_ends_the_trial() {
        let support = Support::new(UserNamespaces::Auto);
        support.prepare(&ApiServer::default().cluster()).await;
        assert!(!support.is_to_blame(Some(&pod(false)), &diagnosis("containerStatuses")));
        assert!(!support.is_to_blame(Some(&pod(true)), &Diagnosis::no_sandbox("no network")));
        assert!(!support.is_to_blame(None, &Diagnosis::no_sandbox("no network")));
        assert!(support.is_tried());
        assert!(support.is_to_blame(Some(&pod(false)), &Diagnosis::no_sandbox("not supported")));
        assert!(!support.is_tried());
        // A pod that was under way meanwhile is made again, too.
        assert!(support.is_to_blame(Some(&pod(false)), &diagnosis("initContainerStatuses")));
        let required = Support::new(UserNamespaces::On);
        assert!(!required.is_to_blame(Some(&pod(false)), &Diagnosis::no_sandbox("not supported")));
    }
}
