//! Why a pod does not come up, in words for the caller that waits for it.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use kube::core::Status;

use crate::cluster;
use crate::kube_text::{kube_text, shown};
use crate::names::CONTAINER;
use crate::pool::FailureKind;

/// What is wrong with a pod, as far as its status shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    /// Which part of the pod, the reason that Kubernetes gives, and its message.
    pub(crate) text: String,
    pub(crate) kind: FailureKind,
    pub(crate) reason: Reason,
}

/// What a diagnosis is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The scheduler has no node for the pod, which may change soon.
    Unschedulable,
    /// A container crashed or cannot be started.
    Container,
    /// The first container, which copies the server, cannot be started.
    FirstContainer,
    /// The kubelet cannot create what containers run in.
    NoSandbox,
    /// The pod ended, was evicted or is being deleted.
    Ended,
    /// Its server and this program refuse each other's certificates.
    Untrusted,
    /// The service account of this program lacks a permission.
    Forbidden,
    /// The API server refused the object.
    Rejected,
    /// The API server could not be reached.
    Unreachable,
}

/// What a pod that is not ready waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) text: String,
    /// A container waits for the kubelet, which sets up volumes, among other things.
    pub(crate) before_containers: bool,
}

/// What a container may wait for until the pod's time to become ready is over.
const ORDINARY: [&str; 3] = ["", CREATING, INITIALIZING];

/// The kubelet sets up the pod, or runs its init containers.
const CREATING: &str = "ContainerCreating";
const INITIALIZING: &str = "PodInitializing";

/// The reason why waiting longer is pointless, if there is one.
pub(crate) fn diagnose(pod: &Pod) -> Option<Diagnosis> {
    let status = pod.status.as_ref()?;
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(Diagnosis::passing(Reason::Ended, "it is being deleted"));
    }
    if let Some("Failed" | "Succeeded") = status.phase.as_deref() {
        return Some(ended(status));
    }
    if let Some(first) = status.init_container_statuses.iter().flatten().next()
        && is_unable_to_start(first)
    {
        return container(first).map(|diagnosis| Diagnosis { reason: Reason::FirstContainer, ..diagnosis });
    }
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    containers.filter_map(container).next().or_else(|| unschedulable(status))
}

/// The container runtime did not get as far as running it.
fn is_unable_to_start(status: &ContainerStatus) -> bool {
    let Some(state) = &status.state else { return false };
    let terminated = state.terminated.as_ref().and_then(|terminated| terminated.reason.as_deref());
    let waiting = state.waiting.as_ref().and_then(|waiting| waiting.reason.as_deref());
    matches!(terminated, Some("StartError" | "ContainerCannotRun"))
        || matches!(waiting, Some("CreateContainerError" | "RunContainerError"))
}

/// Whether the kubelet has created what the pod's containers run in, as far as it says so.
pub(crate) fn has_sandbox(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| {
        all.iter().any(|one| one.type_ == "PodReadyToStartContainers" && one.status == "True")
    })
}

/// What the pod still waits for, for a message that it took too long.
pub(crate) fn still_waiting(pod: &Pod) -> Waits {
    let waits = |text: String| Waits { text, before_containers: false };
    let Some(status) = pod.status.as_ref() else { return waits("it has no status yet".to_owned()) };
    if pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
        return waits("it has no node yet".to_owned());
    }
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let waiting = containers.clone().filter_map(|container| container.state.as_ref()?.waiting.as_ref());
    let mut reasons = waiting.filter_map(|waiting| waiting.reason.as_deref());
    let before_containers = reasons.any(|reason| reason == CREATING || reason == INITIALIZING);
    let found: Vec<_> = containers.filter_map(waits_of_container).collect();
    match found.as_slice() {
        [] => waits(format!("it is {}", status.phase.as_deref().unwrap_or("in no phase"))),
        found => Waits { text: shown(&found.join("; ")), before_containers },
    }
}

fn waits_of_container(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref().unwrap_or("waiting");
        return Some(format!(
            "container `{}`: {reason}{}",
            container.name,
            after(waiting.message.as_deref())
        ));
    }
    // Without a probe a container is ready as soon as it runs, and may have no server.
    let silent = state.running.is_some() && (!container.ready || container.name == CONTAINER);
    silent.then(|| format!("container `{}` runs, and its server does not answer", container.name))
}

fn container(status: &ContainerStatus) -> Option<Diagnosis> {
    let state = status.state.as_ref()?;
    if let Some(terminated) = &state.terminated
        && terminated.exit_code != 0
    {
        return Some(crashed(
            status,
            terminated.exit_code,
            terminated.message.as_deref(),
            terminated.reason.as_deref(),
        ));
    }
    let waiting = state.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().unwrap_or_default();
    if ORDINARY.contains(&reason) {
        return None;
    }
    let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    if reason == "CrashLoopBackOff"
        && let Some(last) = last
    {
        return Some(crashed(status, last.exit_code, last.message.as_deref(), last.reason.as_deref()));
    }
    let message = after(waiting.message.as_deref());
    Some(Diagnosis::lasting(Reason::Container, format!("container `{}`: {reason}{message}", status.name)))
}

fn crashed(status: &ContainerStatus, code: i32, output: Option<&str>, reason: Option<&str>) -> Diagnosis {
    // The runtime could not begin with it, and the words are those of the runtime.
    if let Some(reason @ ("StartError" | "ContainerCannotRun")) = reason {
        return Diagnosis::lasting(
            Reason::Container,
            format!("container `{}`: {reason}{}", status.name, after(output)),
        );
    }
    let reason = reason.filter(|reason| !matches!(*reason, "Error" | "Completed"));
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let wrote = match output.map(str::trim).filter(|output| !output.is_empty()) {
        Some(output) => format!("; it wrote last: {}", last_lines(output)),
        None => String::new(),
    };
    Diagnosis::lasting(
        Reason::Container,
        format!("container `{}`: exited with code {code}{reason}{wrote}", status.name),
    )
}

/// The end of what a container wrote.
fn last_lines(output: &str) -> String {
    let lines: Vec<_> = output.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    loggia_go::printable_line(&lines[lines.len().saturating_sub(5)..].join(" | ")).into_owned()
}

fn ended(status: &PodStatus) -> Diagnosis {
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let reason = status.reason.as_deref().unwrap_or("it ended");
    match containers.filter_map(container).next() {
        Some(crash) if status.reason.is_none() => crash,
        // Evicted, preempted, the node shut down: another pod may fare better.
        _ => Diagnosis::passing(Reason::Ended, format!("{reason}{}", after(status.message.as_deref()))),
    }
}

fn unschedulable(status: &PodStatus) -> Option<Diagnosis> {
    let conditions = status.conditions.as_ref()?;
    let condition = conditions.iter().find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    })?;
    Some(Diagnosis::lasting(
        Reason::Unschedulable,
        format!("Unschedulable{}", after(condition.message.as_deref())),
    ))
}

fn after(message: Option<&str>) -> String {
    let shown = |message| format!(": {}", loggia_go::printable(message));
    message.filter(|message| !message.is_empty()).map(shown).unwrap_or_default()
}

/// What an answer of the API server means for a start, where it is not about the pod.
pub(crate) fn refused(verb: &str, resource: &str, namespace: &str, error: &cluster::Error) -> Diagnosis {
    let what = format!("could not {verb} {resource} in namespace `{namespace}`");
    match error {
        cluster::Error::Kube(kube::Error::Api(status)) => {
            let message = &status.message;
            match status.code {
                403 if is_by_authorizer(verb, status) => Diagnosis::forbidden(format!(
                    "{what}: {message}; grant the verb `{verb}` on `{resource}` to the runner's service account"
                )),
                408 | 409 | 429 | 500..=599 => {
                    Diagnosis::passing(Reason::Rejected, format!("{what}: {message}"))
                }
                _ => Diagnosis::lasting(Reason::Rejected, format!("{what}: {message}")),
            }
        }
        other => Diagnosis::passing(
            Reason::Unreachable,
            format!("{what}: the API server cannot be reached: {}", kube_text(other)),
        ),
    }
}

/// Whether a 403 comes from the authorizer (RBAC) and not from an admission controller, such as a quota. Both have the
/// reason `Forbidden`; but admission sees the object that is to be created and names it, while the authorizer knows only
/// the request's path, which has no name then.
fn is_by_authorizer(verb: &str, status: &Status) -> bool {
    verb != "create" || status.details.as_ref().is_none_or(|details| details.name.is_empty())
}

// === impl Diagnosis ===

impl Diagnosis {
    /// The text may quote what a function wrote.
    fn lasting(reason: Reason, text: impl Into<String>) -> Self {
        Self { text: shown(&text.into()), kind: FailureKind::Lasting, reason }
    }

    fn passing(reason: Reason, text: impl Into<String>) -> Self {
        Self { text: shown(&text.into()), kind: FailureKind::Passing, reason }
    }

    /// The kubelet reports that it cannot create the pod's sandbox.
    pub(crate) fn no_sandbox(why: &str) -> Self {
        Self::lasting(Reason::NoSandbox, format!("FailedCreatePodSandBox: {why}"))
    }

    /// A pod that was seen is gone.
    pub(crate) fn deleted() -> Self {
        Self::passing(Reason::Ended, "it was deleted")
    }

    pub(crate) fn untrusted(why: String) -> Self {
        Self::lasting(Reason::Untrusted, why)
    }

    pub(crate) fn forbidden(text: String) -> Self {
        Self::lasting(Reason::Forbidden, text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": "p" }, "status": status })).unwrap()
    }

    fn text(status: &Value) -> Option<String> {
        diagnose(&pod(status)).map(|diagnosis| diagnosis.text)
    }

    fn function(state: &Value) -> Value {
        json!({ "phase": "Pending", "containerStatuses": [{
            "name": "function", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state,
        }] })
    }

    #[test]
    fn an_ordinary_start_has_nothing_wrong() {
        assert_eq!(text(&json!({ "phase": "Pending" })), None);
        assert_eq!(text(&function(&json!({ "waiting": { "reason": "PodInitializing" } }))), None);
        assert_eq!(text(&function(&json!({ "running": {} }))), None);
    }

    #[test]
    fn a_failed_pull_is_reported_in_the_kubelets_words() {
        let waiting = json!({ "waiting": { "reason": "ErrImagePull", "message": "no manifest for `x:v9`" } });
        assert_eq!(
            text(&function(&waiting)).unwrap(),
            "container `function`: ErrImagePull: no manifest for `x:v9`"
        );
    }

    #[test]
    fn a_crash_is_reported_with_its_code_and_the_last_lines() {
        let terminated =
            json!({ "terminated": { "exitCode": 3, "reason": "Error", "message": "a\nb\n\nc\nd\ne\nf\n" } });
        assert_eq!(
            text(&function(&terminated)).unwrap(),
            "container `function`: exited with code 3; it wrote last: b | c | d | e | f"
        );
        let mut looping =
            function(&json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off" } }));
        looping["containerStatuses"][0]["lastState"] =
            json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled" } });
        assert_eq!(text(&looping).unwrap(), "container `function`: exited with code 137 (OOMKilled)");
    }

    #[test]
    fn a_container_that_cannot_be_started_is_reported_in_the_runtimes_words() {
        let message = "exec: \"cp\": executable file not found in $PATH";
        let state = json!({ "terminated": { "exitCode": 128, "reason": "StartError", "message": message } });
        let init = json!({ "phase": "Pending", "initContainerStatuses": [{
            "name": "copy-wrapper-server", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state,
        }] });
        assert_eq!(text(&init).unwrap(), format!("container `copy-wrapper-server`: StartError: {message}"));
    }

    #[test]
    fn the_last_words_of_a_container_are_printable_and_bounded() {
        let message = "\u{1b}]0;mine\u{7}\u{1b}[2J\r[PASS] all fine\u{202e}";
        let terminated = |message: &str| {
            text(&function(&json!({ "terminated": { "exitCode": 1, "message": message } }))).unwrap()
        };
        assert_eq!(
            terminated(message),
            r"container `function`: exited with code 1; it wrote last: \x1b]0;mine\x07\x1b[2J\r[PASS] all fine\u{202e}"
        );
        let long = terminated(&"ä".repeat(100_000));
        assert!(long.len() < 5000 && long.ends_with('…'), "{}", long.len());
        let waiting = json!({ "waiting": { "reason": "ErrImagePull", "message": "no\u{1b}[31m" } });
        assert_eq!(text(&function(&waiting)).unwrap(), r"container `function`: ErrImagePull: no\x1b[31m");
        let evicted = json!({ "phase": "Failed", "reason": "Evicted", "message": "a\nb" });
        assert_eq!(text(&evicted).unwrap(), r"Evicted: a\nb");
    }

    #[test]
    fn only_the_operators_container_that_cannot_start_is_the_first_one() {
        let state = json!({ "waiting": { "reason": "CreateContainerError", "message": "idmap" } });
        let status = |name: &str| json!({ "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state });
        let init = json!({ "phase": "Pending", "initContainerStatuses": [status("copy-wrapper-server")] });
        assert_eq!(diagnose(&pod(&init)).unwrap().reason, Reason::FirstContainer);
        assert_eq!(diagnose(&pod(&function(&state))).unwrap().reason, Reason::Container);
    }

    #[test]
    fn the_scheduler_is_quoted() {
        let status = json!({ "phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 Insufficient cpu.",
        }] });
        assert_eq!(text(&status).unwrap(), "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.");
        assert_eq!(diagnose(&pod(&status)).unwrap().reason, Reason::Unschedulable);
    }

    #[test]
    fn an_evicted_pod_may_fare_better_elsewhere() {
        let status =
            json!({ "phase": "Failed", "reason": "Evicted", "message": "The node was low on memory." });
        let diagnosis = diagnose(&pod(&status)).unwrap();
        assert_eq!(diagnosis.kind, FailureKind::Passing);
        assert_eq!(diagnosis.text, "Evicted: The node was low on memory.");
    }

    #[test]
    fn a_pod_that_takes_too_long_is_described() {
        let mut slow = pod(&function(&json!({ "running": {} })));
        slow.spec = Some(serde_json::from_value(json!({ "nodeName": "n", "containers": [] })).unwrap());
        let text = "container `function` runs, and its server does not answer".to_owned();
        assert_eq!(still_waiting(&slow), Waits { text, before_containers: false });
    }

    #[test]
    fn a_pod_that_the_kubelet_sets_up_waits_before_its_containers() {
        let waits = |name: &str, reason: &str| {
            let mut status = function(&json!({ "waiting": { "reason": reason } }));
            status["containerStatuses"][0]["name"] = name.into();
            let mut slow = pod(&status);
            slow.spec = Some(serde_json::from_value(json!({ "nodeName": "n", "containers": [] })).unwrap());
            still_waiting(&slow)
        };
        let creating = waits("function", "ContainerCreating");
        assert_eq!(creating.text, "container `function`: ContainerCreating");
        assert!(creating.before_containers && waits("function", "PodInitializing").before_containers);
        assert!(!waits("Creating", "ErrImagePull").before_containers, "the reason counts, and no other word");
    }

    #[test]
    fn permissions_are_named_where_the_authorizer_refuses_and_not_where_admission_does() {
        let refusal = |verb: &str, details: Value, message: &str| {
            let status = json!({ "status": "Failure", "code": 403, "reason": "Forbidden", "details": details, "message": message });
            let status: Status = serde_json::from_value(status).unwrap();
            refused(verb, "pods", "fn", &cluster::Error::Kube(kube::Error::Api(Box::new(status))))
        };
        let rbac = refusal(
            "create",
            json!({ "kind": "pods" }),
            "pods is forbidden: User \"u\" cannot create resource \"pods\" in API group \"\"",
        );
        assert_eq!(rbac.reason, Reason::Forbidden);
        assert!(rbac.text.ends_with("; grant the verb `create` on `pods` to the runner's service account"));
        let quota = refusal(
            "create",
            json!({ "kind": "pods", "name": "p" }),
            "pods \"p\" is forbidden: exceeded quota: one, it cannot have more",
        );
        assert_eq!((quota.reason, quota.kind), (Reason::Rejected, FailureKind::Lasting));
        assert!(!quota.text.contains("grant"), "{}", quota.text);
        assert_eq!(refusal("delete", json!({ "name": "p" }), "no").reason, Reason::Forbidden);
    }
}
