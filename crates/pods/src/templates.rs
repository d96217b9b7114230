//! Where the template of function pods comes from, and keeping up with it.
//!
//! Objects are read by `get`. A watch only shows when to read them again; where it is not allowed, they are
//! read every few seconds, and whenever a pod is made.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodTemplate, Service};
use kube::api::DynamicObject;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::cluster::{self, Cluster};
use crate::kube_text::kube_text;
use crate::template::{Error, Template};
use crate::watch::{End, Outage, Outages, Subject, follow};

/// The PodTemplate that newer releases of Porch keep beside their function pods.
const POD_TEMPLATE: &str = "base-pod-template";
/// The ServiceTemplate that they keep there, too.
const SERVICE_TEMPLATE: &str = "base-service-template";

/// How long a template that is not watched is used without reading it again.
const BELIEVED: Duration = Duration::from_secs(2);

/// How often one that is not watched is read while no pod is made.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// After so many reads it is tried again whether watching is allowed.
const LOOKS: u32 = 60;

/// The template in force. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Templates {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    cluster: Cluster,
    source: Source,
    wrapper_image: String,
    current: watch::Sender<Option<Arc<Template>>>,
    read_at: Mutex<Option<Instant>>,
    complaint: Mutex<Option<String>>,
    /// Some object of the source has changed.
    changed: Notify,
    /// Why each object of the source is not watched; without outages all are.
    unwatched: [Outages; 2],
}

#[derive(Debug)]
enum Source {
    /// The PodTemplate and the ServiceTemplate of newer releases, as far as the cluster has them and lets
    /// this program read them; else the built-in ones.
    Objects {
        /// Reading them is not allowed.
        closed: AtomicBool,
    },
    ConfigMap(String),
}

/// Why the template cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("{0}")]
    Unreadable(String),
    #[error(transparent)]
    Invalid(#[from] Error),
}

// === impl Templates ===

impl Templates {
    pub(crate) fn new(cluster: Cluster, config_map: Option<String>, wrapper_image: String) -> Self {
        let objects = Source::Objects { closed: AtomicBool::new(false) };
        let not_yet =
            || Outages::new(Some(Outage { text: "it was not asked for yet".to_owned(), forbidden: false }));
        let shared = Shared {
            cluster,
            source: config_map.map_or(objects, Source::ConfigMap),
            wrapper_image,
            current: watch::Sender::new(None),
            read_at: Mutex::new(None),
            complaint: Mutex::new(None),
            changed: Notify::new(),
            unwatched: [not_yet(), not_yet()],
        };
        Self { shared: Arc::new(shared) }
    }

    /// The template in force, and each one after it.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<Arc<Template>>> {
        self.shared.current.subscribe()
    }

    /// The template for a pod that is made now. One that can no longer be read stays in force.
    pub(crate) async fn current(&self) -> Result<Arc<Template>, ReadError> {
        let known = self.shared.current.borrow().clone();
        let read_at = *locked(&self.shared.read_at);
        let fresh = self.is_watched() || read_at.is_some_and(|at| at.elapsed() < BELIEVED);
        match known {
            Some(known) if fresh => Ok(known),
            Some(known) => {
                self.look().await;
                Ok(self.shared.current.borrow().clone().unwrap_or(known))
            }
            None => self.read().await,
        }
    }

    /// Keeps up with changes, for as long as the future is polled.
    pub(crate) async fn follow_changes(self) {
        let Shared { cluster, source, changed, unwatched: [first, second], .. } = &*self.shared;
        let watching = async {
            match source {
                Source::ConfigMap(name) => {
                    second.send_replace(None);
                    self.keep_up(&cluster.config_maps, "configmaps", name, first).await;
                }
                Source::Objects { closed } if closed.load(Ordering::Relaxed) => {}
                Source::Objects { .. } => {
                    let service = &cluster.service_templates;
                    tokio::join!(
                        self.keep_up(&cluster.pod_templates, "podtemplates", POD_TEMPLATE, first),
                        self.keep_up(service, "servicetemplates", SERVICE_TEMPLATE, second),
                    );
                }
            }
        };
        let reading = async {
            loop {
                changed.notified().await;
                self.look().await;
            }
        };
        tokio::join!(watching, reading);
    }

    /// Requests another read of the template whenever one object changes.
    async fn keep_up<K>(&self, api: &Api<K>, resource: &'static str, name: &str, outages: &Outages)
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let mut logged = false;
        loop {
            let subject = Subject::all(resource).named(name).if_allowed();
            let tell = |_| {
                self.shared.changed.notify_one();
                true
            };
            match follow(api.clone(), subject, outages, tell).await {
                End::Refused(text) => {
                    outages.send_replace(Some(Outage { text: text.clone(), forbidden: true }));
                    if !std::mem::replace(&mut logged, true) {
                        info!("{text}; until then `{name}` is read every {LOOK_INTERVAL:?}");
                    }
                }
                // A kind that the cluster does not have cannot change.
                End::Unknown | End::Unheard => {
                    outages.send_replace(None);
                    return;
                }
            }
            for _ in 0..LOOKS {
                tokio::time::sleep(LOOK_INTERVAL).await;
                self.shared.changed.notify_one();
            }
        }
    }

    /// Whether the known template is the one in the cluster, without reading it again.
    fn is_watched(&self) -> bool {
        let closed =
            matches!(&self.shared.source, Source::Objects { closed } if closed.load(Ordering::Relaxed));
        closed || self.shared.unwatched.iter().all(|outage| outage.borrow().is_none())
    }

    /// Reads the template now. A wrong one is logged once, and leaves the last good one in force.
    async fn look(&self) {
        let complaint = self.read().await.err().map(|error| error.to_string());
        let mut last = locked(&self.shared.complaint);
        if let Some(text) = &complaint
            && complaint != *last
        {
            warn!("{text}; the template of function pods stays as it was");
        }
        *last = complaint;
    }

    /// Reads the template now.
    pub(crate) async fn read(&self) -> Result<Arc<Template>, ReadError> {
        let Shared { cluster, wrapper_image, .. } = &*self.shared;
        let template = match &self.shared.source {
            Source::ConfigMap(name) => {
                let found = cluster.config_map(name).await;
                of_config_map(name, found.map_err(|error| unreadable("configmaps", name, &error))?)?
            }
            Source::Objects { closed } if closed.load(Ordering::Relaxed) => Template::inline(wrapper_image),
            Source::Objects { closed } => {
                let (pod, service) = tokio::join!(
                    cluster.pod_template(POD_TEMPLATE),
                    cluster.service_template(SERVICE_TEMPLATE)
                );
                let refused = |error: &cluster::Error| error.code() == Some(403);
                if pod.as_ref().is_err_and(refused) && service.as_ref().is_err_and(refused) {
                    closed.store(true, Ordering::Relaxed);
                    info!(
                        "PodTemplates are not looked for: the verb `get` on `podtemplates` is not granted; function \
                         pods are made from the built-in template"
                    );
                }
                let pod = optional(pod).map_err(|error| unreadable("podtemplates", POD_TEMPLATE, &error))?;
                let service = optional(service)
                    .map_err(|error| unreadable("servicetemplates", SERVICE_TEMPLATE, &error))?;
                of_objects(pod, service, wrapper_image)?
            }
        };
        *locked(&self.shared.read_at) = Some(Instant::now());
        let template = Arc::new(template);
        self.shared.current.send_if_modified(|current| {
            if current.as_ref() == Some(&template) {
                return false;
            }
            if current.is_some() {
                info!(version = template.version, "The template of function pods changed");
            }
            *current = Some(Arc::clone(&template));
            true
        });
        Ok(template)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stock installation has no such objects and no permission to read them.
fn optional<T>(found: Result<Option<T>, cluster::Error>) -> Result<Option<T>, cluster::Error> {
    match found {
        Err(error) if matches!(error.code(), Some(403 | 404)) => Ok(None),
        found => found,
    }
}

fn unreadable(resource: &str, name: &str, error: &cluster::Error) -> ReadError {
    let text = kube_text(error);
    let advice = match error.code() {
        Some(403) => format!("; grant the verb `get` on `{resource}` to the runner's service account"),
        _ => String::new(),
    };
    ReadError::Unreadable(format!("could not read the template `{name}`: {text}{advice}"))
}

fn of_config_map(name: &str, found: Option<ConfigMap>) -> Result<Template, ReadError> {
    let found = found.ok_or_else(|| ReadError::Unreadable(format!("configmaps \"{name}\" not found")))?;
    let data = found.data.unwrap_or_default();
    let pod = data.get("template").ok_or_else(|| Error::NoPod(name.to_owned()))?;
    let service = data.get("serviceTemplate").map(String::as_str);
    if service.is_none() {
        warn!(
            "function pod service template with key serviceTemplate does not exist in Configmap {name}: \
             the built-in one is used"
        );
    }
    let version = found.metadata.resource_version.unwrap_or_default();
    Ok(Template::given(pod, service, &version)?)
}

fn of_objects(
    pod: Option<PodTemplate>,
    service: Option<DynamicObject>,
    wrapper_image: &str,
) -> Result<Template, Error> {
    let mut template = Template::inline(wrapper_image);
    if let Some(found) = pod {
        let given = found.template.unwrap_or_default();
        template.pod = Pod { metadata: given.metadata.unwrap_or_default(), spec: given.spec, status: None };
        template.version = found.metadata.resource_version.unwrap_or_default();
    }
    if let Some(found) = service {
        let given = found.data.get("template").cloned().unwrap_or_default();
        template.service = serde_json::from_value::<Service>(given)
            .map_err(|error| Error::InvalidService(error.to_string()))?;
    }
    template.checked()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn config_map(data: &Value) -> Option<ConfigMap> {
        let map = json!({ "metadata": { "name": "t", "resourceVersion": "7" }, "data": data });
        Some(serde_json::from_value(map).unwrap())
    }

    fn pod_template(container: &str) -> PodTemplate {
        let spec = json!({ "containers": [{ "name": container }] });
        let template = json!({ "metadata": { "labels": { "team": "a" } }, "spec": spec });
        let object = json!({ "metadata": { "resourceVersion": "8" }, "template": template });
        serde_json::from_value(object).unwrap()
    }

    fn service_template(template: &Value) -> DynamicObject {
        serde_json::from_value(json!({ "metadata": { "name": SERVICE_TEMPLATE }, "template": template }))
            .unwrap()
    }

    #[test]
    fn a_config_map_has_the_pod_and_may_have_the_service() {
        let pod = "spec: {containers: [{name: function}]}";
        let template = of_config_map("t", config_map(&json!({ "template": pod }))).unwrap();
        assert_eq!(template.version, "7");
        assert_eq!(template.service, Template::inline("").service);
        let service = "spec: {sessionAffinity: ClientIP}";
        let both = config_map(&json!({ "template": pod, "serviceTemplate": service }));
        let template = of_config_map("t", both).unwrap();
        assert_eq!(template.service.spec.unwrap().session_affinity.as_deref(), Some("ClientIP"));
    }

    #[test]
    fn an_invalid_template_is_refused_in_porchs_words() {
        let text = |data: &Value| of_config_map("t", config_map(data)).unwrap_err().to_string();
        assert_eq!(text(&json!({})), "function pod template with key template does not exist in Configmap t");
        assert_eq!(
            text(&json!({ "template": "spec: {containers: [{name: other}]}" })),
            "failed to find the function container in the pod"
        );
        assert!(
            text(&json!({ "template": "spec: [" })).starts_with("unable to decode function pod template: ")
        );
        let service =
            json!({ "template": "spec: {containers: [{name: function}]}", "serviceTemplate": "spec: [" });
        assert!(text(&service).starts_with("unable to decode function service template: "));
        assert_eq!(of_config_map("t", None).unwrap_err().to_string(), "configmaps \"t\" not found");
    }

    #[test]
    fn the_objects_of_newer_releases_count_each_for_itself() {
        let inline = Template::inline("w");
        assert_eq!(of_objects(None, None, "w").unwrap(), inline);
        let template = of_objects(Some(pod_template("function")), None, "w").unwrap();
        assert_eq!(template.version, "8");
        assert_eq!(template.pod.metadata.labels.unwrap()["team"], "a");
        assert_eq!(template.service, inline.service);
        let given = service_template(&json!({ "spec": { "sessionAffinity": "ClientIP" } }));
        let template = of_objects(None, Some(given), "w").unwrap();
        assert_eq!(template.pod, inline.pod);
        assert_eq!(template.service.spec.unwrap().session_affinity.as_deref(), Some("ClientIP"));
    }

    #[test]
    fn invalid_template_objects_are_refused() {
        assert_eq!(of_objects(Some(pod_template("other")), None, "w").unwrap_err(), Error::NoContainer);
        let odd = service_template(&json!({ "spec": 7 }));
        assert!(matches!(of_objects(None, Some(odd), "w").unwrap_err(), Error::InvalidService(_)));
    }
}
