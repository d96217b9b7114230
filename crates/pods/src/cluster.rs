//! Requests to the API server. Each has a time limit.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Event, ObjectReference, Pod, PodTemplate, Secret, Service,
};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, ObjectMeta, Patch,
    PatchParams, PostParams, Preconditions,
};
use kube::client::ClientBuilder;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::Observer;
use crate::count::Counting;
use crate::diagnosis::{self, Diagnosis};
use crate::names::RECLAIM_AFTER;
use crate::observe::Unobserved;

/// How long the API server may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(15);

/// The name under which changes are recorded.
const FIELD_MANAGER: &str = "krm-function-runner";

/// The API server, as far as function pods are concerned.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) namespace: String,
    pub(crate) pods: Api<Pod>,
    pub(crate) services: Api<Service>,
    /// `Endpoints`, not `EndpointSlice`s: the RBAC of a stock Porch does not grant the latter.
    pub(crate) endpoints: Api<Endpoints>,
    pub(crate) config_maps: Api<ConfigMap>,
    pub(crate) pod_templates: Api<PodTemplate>,
    pub(crate) service_templates: Api<DynamicObject>,
    secrets: Api<Secret>,
    events: Api<Event>,
}

/// How long a connection may be silent during an answer. The API server ends watches before that.
const READ_TIME: Duration = Duration::from_secs(90);

/// Why the API server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(transparent)]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    #[error(transparent)]
    Inferred(#[from] kube::config::InferConfigError),
    #[error(transparent)]
    Client(#[from] kube::Error),
}

/// A client for the cluster that this file names, or else the surroundings: `KUBECONFIG`, the pod's service
/// account, the user's own configuration. Nothing is sent yet; requests are reported to the observer.
pub async fn connect(
    kubeconfig: Option<&Path>,
    observer: Option<Arc<dyn Observer>>,
) -> Result<Client, ConnectError> {
    let named = kubeconfig.is_some() || std::env::var_os("KUBECONFIG").is_some();
    let mut config = match kubeconfig {
        Some(file) => {
            let read = Kubeconfig::read_from(file)?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?
        }
        None if named => Config::from_kubeconfig(&KubeConfigOptions::default()).await?,
        None => match Config::incluster() {
            Ok(config) => config,
            Err(_) => Config::infer().await?,
        },
    };
    config.read_timeout = Some(READ_TIME);
    let observer = observer.unwrap_or_else(|| Arc::new(Unobserved));
    Ok(ClientBuilder::try_from(config)?.with_layer(&Counting(observer)).build())
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error("no answer within {ANSWER_TIME:?}")]
    TimedOut,
}

// === impl Cluster ===

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl Cluster {
    pub(crate) fn new(client: &Client, namespace: &str, manager_namespace: &str) -> Self {
        let service_template = GroupVersionKind::gvk("config.porch.kpt.dev", "v1alpha1", "ServiceTemplate");
        let service_template = ApiResource::from_gvk_with_plural(&service_template, "servicetemplates");
        Self {
            namespace: namespace.to_owned(),
            pods: Api::namespaced(client.clone(), namespace),
            services: Api::namespaced(client.clone(), namespace),
            endpoints: Api::namespaced(client.clone(), namespace),
            service_templates: Api::namespaced_with(client.clone(), namespace, &service_template),
            config_maps: Api::namespaced(client.clone(), manager_namespace),
            pod_templates: Api::namespaced(client.clone(), namespace),
            secrets: Api::namespaced(client.clone(), namespace),
            events: Api::namespaced(client.clone(), namespace),
        }
    }

    pub(crate) async fn create_pod(&self, pod: &Pod) -> Result<Pod, Error> {
        timed(self.pods.create(&posting(), pod)).await
    }

    pub(crate) async fn create_service(&self, service: &Service) -> Result<Service, Error> {
        timed(self.services.create(&posting(), service)).await
    }

    pub(crate) async fn service(&self, name: &str) -> Result<Option<Service>, Error> {
        timed(self.services.get_opt(name)).await
    }

    pub(crate) async fn config_map(&self, name: &str) -> Result<Option<ConfigMap>, Error> {
        timed(self.config_maps.get_opt(name)).await
    }

    pub(crate) async fn pod_template(&self, name: &str) -> Result<Option<PodTemplate>, Error> {
        timed(self.pod_templates.get_opt(name)).await
    }

    pub(crate) async fn service_template(&self, name: &str) -> Result<Option<DynamicObject>, Error> {
        timed(self.service_templates.get_opt(name)).await
    }

    pub(crate) async fn delete_pod(&self, name: &str, uid: Option<&str>) -> Result<(), Error> {
        delete(&self.pods, name, uid).await
    }

    pub(crate) async fn delete_service(&self, name: &str, uid: Option<&str>) -> Result<(), Error> {
        delete(&self.services, name, uid).await
    }

    /// Annotates a pod with the time from which it may be removed, in seconds since 1970.
    pub(crate) async fn set_reclaim_after(&self, pod: &str, seconds: i64) -> Result<(), Error> {
        let patch = json!({ "metadata": { "annotations": { RECLAIM_AFTER: seconds.to_string() } } });
        let by = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
        timed(self.pods.patch_metadata(pod, &by, &Patch::Merge(patch))).await.map(drop)
    }

    pub(crate) async fn secret(&self, name: &str) -> Result<Option<Secret>, Error> {
        timed(self.secrets.get_opt(name)).await
    }

    pub(crate) async fn create_secret(&self, secret: &Secret) -> Result<(), Error> {
        timed(self.secrets.create(&posting(), secret)).await.map(drop)
    }

    pub(crate) async fn replace_secret(&self, name: &str, secret: &Secret) -> Result<(), Error> {
        timed(self.secrets.replace(name, &posting(), secret)).await.map(drop)
    }

    /// Records an Event, which `kubectl describe` shows with the pod.
    pub(crate) async fn record(&self, pod: &Pod, reason: &str, message: &str) -> Result<(), Error> {
        let now = jiff::Timestamp::now();
        let event = Event {
            metadata: ObjectMeta {
                generate_name: pod.metadata.name.as_ref().map(|name| format!("{name}.")),
                namespace: Some(self.namespace.clone()),
                ..Default::default()
            },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: pod.metadata.name.clone(),
                namespace: Some(self.namespace.clone()),
                uid: pod.metadata.uid.clone(),
                ..Default::default()
            },
            reason: Some(reason.to_owned()),
            message: Some(message.chars().take(1000).collect()),
            type_: Some("Warning".to_owned()),
            reporting_component: Some(FIELD_MANAGER.to_owned()),
            first_timestamp: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now)),
            last_timestamp: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now)),
            count: Some(1),
            ..Default::default()
        };
        timed(self.events.create(&posting(), &event)).await.map(drop)
    }

    /// Whether the Events of the namespace may be read.
    pub(crate) async fn may_read_events(&self) -> Result<bool, Error> {
        match timed(self.events.list_metadata(&ListParams::default().limit(1))).await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.code(), Some(401 | 403)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Why the kubelet could not create the sandbox of a pod, if it has reported that.
    pub(crate) async fn sandbox_failure(&self, pod: &Pod) -> Result<Option<String>, Error> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let selector = format!("involvedObject.uid={uid},reason=FailedCreatePodSandBox");
        let found = timed(self.events.list(&ListParams::default().fields(&selector).limit(1))).await?;
        Ok(found.items.into_iter().next().map(|event| event.message.unwrap_or_default()))
    }

    /// What an error means for the call that waits.
    pub(crate) fn diagnose(&self, verb: &str, resource: &str, error: &Error) -> Diagnosis {
        diagnosis::refused(verb, resource, &self.namespace, error)
    }
}

async fn timed<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
    match tokio::time::timeout(ANSWER_TIME, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Error::TimedOut),
    }
}

fn posting() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() }
}

/// Deletes the object of this name and, if it is known, of this UID. One that does not exist is deleted already.
async fn delete<K>(api: &Api<K>, name: &str, uid: Option<&str>) -> Result<(), Error>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let preconditions = uid.map(|uid| Preconditions { uid: Some(uid.to_owned()), resource_version: None });
    let parameters = DeleteParams { preconditions, ..Default::default() };
    match timed(api.delete(name, &parameters)).await {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(()),
        Err(error) => Err(error),
    }
}

// === impl Error ===

impl Error {
    /// The HTTP code of the API server's answer, if it gave one.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Kube(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }
}
