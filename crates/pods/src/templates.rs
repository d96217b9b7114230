//! Where the template of function pods comes from, and keeping up with it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodTemplate};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::cluster::{self, Cluster};
use crate::diagnosis;
use crate::template::{Error, Template};

/// The PodTemplate that newer releases of Porch keep beside their function pods.
const POD_TEMPLATE: &str = "base-pod-template";

/// How long a template is believed without another look.
const BELIEVED: Duration = Duration::from_secs(2);

/// How often it is looked at when nobody needs it.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

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
}

#[derive(Debug)]
enum Source {
    /// The built-in one, unless the cluster has a PodTemplate that this program may read.
    Inline,
    ConfigMap(String),
}

/// Why there is no template.
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
        let source = config_map.map_or(Source::Inline, Source::ConfigMap);
        let current = watch::Sender::new(None);
        let read_at = Mutex::new(None);
        Self { shared: Arc::new(Shared { cluster, source, wrapper_image, current, read_at }) }
    }

    /// The template in force, and each one after it.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<Arc<Template>>> {
        self.shared.current.subscribe()
    }

    /// The template for a pod that is made now. One that can no longer be read stays in force.
    pub(crate) async fn current(&self) -> Result<Arc<Template>, ReadError> {
        let known = self.shared.current.borrow().clone();
        let read_at = *self.shared.read_at.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &known
            && read_at.is_some_and(|at| at.elapsed() < BELIEVED)
        {
            return Ok(Arc::clone(known));
        }
        match (self.read().await, known) {
            (Ok(template), _) => Ok(template),
            (Err(error), Some(known)) => {
                warn!("{error}; the template of function pods stays as it was");
                Ok(known)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Keeps up with changes, for as long as the future is polled.
    pub(crate) async fn follow_changes(self) {
        let mut complaint = None;
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            if matches!(self.shared.source, Source::Inline) && self.is_built_in() {
                // Whoever adds a PodTemplate restarts the runner, or else it would be asked for in vain for ever.
                return;
            }
            match self.read().await {
                Ok(_) => complaint = None,
                Err(error) => {
                    let text = error.to_string();
                    if complaint.as_ref() != Some(&text) {
                        warn!("{text}; the template of function pods stays as it was");
                        complaint = Some(text);
                    }
                }
            }
        }
    }

    fn is_built_in(&self) -> bool {
        self.shared.current.borrow().as_ref().is_some_and(|template| template.inline)
    }

    /// Reads the template now.
    pub(crate) async fn read(&self) -> Result<Arc<Template>, ReadError> {
        let template = match &self.shared.source {
            Source::ConfigMap(name) => {
                let found = self.shared.cluster.config_map(name).await;
                of_config_map(name, found.map_err(|error| unreadable("configmaps", name, &error))?)?
            }
            Source::Inline if self.is_built_in() => Template::inline(&self.shared.wrapper_image),
            Source::Inline => match self.shared.cluster.pod_template(POD_TEMPLATE).await {
                Ok(Some(found)) => of_pod_template(found)?,
                // Stock installations have none and may not look.
                _ => Template::inline(&self.shared.wrapper_image),
            },
        };
        *self.shared.read_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
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

fn unreadable(resource: &str, name: &str, error: &cluster::Error) -> ReadError {
    let text = diagnosis::chain(error);
    let advice = match diagnosis::is_rbac(&text) {
        true => format!("; grant the verb `get` on `{resource}` to the runner's service account"),
        false => String::new(),
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

fn of_pod_template(found: PodTemplate) -> Result<Template, Error> {
    let template = found.template.unwrap_or_default();
    let pod = Pod { metadata: template.metadata.unwrap_or_default(), spec: template.spec, status: None };
    let service = Template::inline("").service;
    let version = found.metadata.resource_version.unwrap_or_default();
    Template { pod, service, version, inline: false }.checked()
}
