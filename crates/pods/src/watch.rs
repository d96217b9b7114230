//! Watching the objects of the cluster.

use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use kube::core::Status;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::kube_text::kube_text;

/// How long the API server keeps one watch open, so that a dead connection is noticed.
const WATCH_SECONDS: u32 = 60;

/// The longest pause after a failure. A start waits for news of its pod, so it is short.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How many objects are listed at a time, so that the answer for a full namespace is never in memory as a whole.
const PAGE: u32 = 100;

/// News of one kind of object.
#[derive(Debug)]
pub(crate) enum News<K> {
    /// All there are. Those that are not among them are gone.
    All(Vec<K>),
    Seen(K),
    Gone(K),
}

/// Which objects are watched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// Their kind, as RBAC names it.
    pub(crate) resource: &'static str,
    /// Only those that have this label.
    pub(crate) label: Option<&'a str>,
    /// Only the one of this name.
    pub(crate) name: Option<&'a str>,
    /// Without them nothing works, so a refusal is retried.
    pub(crate) needed: bool,
}

/// Why a watch ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The listener is gone.
    Unheard,
    /// The permission is missing, and the objects are optional. The text names what to grant.
    Refused(String),
    /// The cluster has no such kind.
    Unknown,
}

/// Why a watch is down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) text: String,
    /// The service account of this program lacks the permission.
    pub(crate) forbidden: bool,
}

/// Why a watch is down, if it is.
pub(crate) type Outages = watch::Sender<Option<Outage>>;

/// Reports all changes of objects of a kind to `tell`, until that returns false: its listener is gone.
pub(crate) async fn follow<K>(
    api: Api<K>,
    subject: Subject<'_>,
    outages: &Outages,
    tell: impl Fn(News<K>) -> bool,
) -> End
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut config = watcher::Config::default().timeout(WATCH_SECONDS).page_size(PAGE);
    if let Some(label) = subject.label {
        config = config.labels(label);
    }
    if let Some(name) = subject.name {
        config = config.fields(&format!("metadata.name={name}"));
    }
    let mut events = pin!(watcher(api, config));
    let mut listed = Vec::new();
    let mut silent = false;
    let mut pause = Duration::from_millis(100);
    loop {
        let news = match events.try_next().await {
            Ok(Some(Event::Init)) => {
                listed.clear();
                continue;
            }
            Ok(Some(Event::InitApply(object))) => {
                listed.push(without_managed_fields(object));
                continue;
            }
            Ok(Some(Event::InitDone)) => News::All(std::mem::take(&mut listed)),
            Ok(Some(Event::Apply(object))) => News::Seen(without_managed_fields(object)),
            Ok(Some(Event::Delete(object))) => News::Gone(object),
            Ok(None) => return End::Unheard,
            Err(error) => {
                match answer(&error).map(|status| status.code) {
                    Some(403) if !subject.needed => return End::Refused(subject.without_news(&error)),
                    Some(404) if !subject.needed => return End::Unknown,
                    _ => {
                        let text = subject.without_news(&error);
                        // One line for the operator when it begins; the rest is detail.
                        if std::mem::replace(&mut silent, true) {
                            debug!("{text}");
                        } else {
                            warn!("{text}");
                        }
                        let forbidden = is_forbidden(&error);
                        outages.send_replace(Some(Outage { text, forbidden }));
                    }
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
        };
        outages.send_replace(None);
        if std::mem::take(&mut silent) {
            info!("News of {} arrives again", subject.resource);
        }
        pause = Duration::from_millis(100);
        if !tell(news) {
            return End::Unheard;
        }
    }
}

/// An object without `managedFields`, which is most of it.
fn without_managed_fields<K: Resource>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}

/// The API server's answer, if it gave one.
fn answer(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

/// Reads are refused by the authorizer alone.
fn is_forbidden(error: &watcher::Error) -> bool {
    answer(error).is_some_and(|status| status.code == 403)
}

// === impl Subject ===

impl<'a> Subject<'a> {
    /// All objects of a kind, which are needed.
    pub(crate) fn all(resource: &'static str) -> Self {
        Self { resource, label: None, name: None, needed: true }
    }

    pub(crate) fn with_label(self, label: &'a str) -> Self {
        Self { label: Some(label), ..self }
    }

    pub(crate) fn named(self, name: &'a str) -> Self {
        Self { name: Some(name), ..self }
    }

    pub(crate) fn if_allowed(self) -> Self {
        Self { needed: false, ..self }
    }

    fn without_news(&self, error: &watcher::Error) -> String {
        let resource = self.resource;
        let text = answer(error).map_or_else(|| kube_text(error), |status| status.message.clone());
        let advice = if is_forbidden(error) {
            format!("; grant the verbs `list` and `watch` on `{resource}` to the runner's service account")
        } else {
            String::new()
        };
        format!("no news of {resource}: {text}{advice}")
    }
}
