//! What the cluster has, told as it changes.

use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::diagnosis;

/// How long the API server keeps one watch open. A connection that died unnoticed is noticed by this.
const WATCH_SECONDS: u32 = 60;

/// The longest pause after a failure: whoever waits for a pod waits for news of it, too.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// News of one kind of object.
#[derive(Debug)]
pub(crate) enum News<K> {
    /// All there are. Those that are not among them are gone.
    All(Vec<K>),
    Seen(K),
    Gone(K),
}

/// Why there is no news, if there is none.
pub(crate) type Trouble = watch::Sender<Option<String>>;

/// Tells all news of a kind, for as long as somebody listens. `tell` says whether somebody does.
pub(crate) async fn follow<K>(
    api: Api<K>,
    labels: Option<&str>,
    what: &'static str,
    trouble: Trouble,
    tell: impl Fn(News<K>) -> bool,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut config = watcher::Config::default().timeout(WATCH_SECONDS);
    if let Some(labels) = labels {
        config = config.labels(labels);
    }
    let mut events = pin!(watcher(api, config));
    let mut listed = Vec::new();
    let mut pause = Duration::from_millis(100);
    loop {
        let news = match events.try_next().await {
            Ok(Some(Event::Init)) => {
                listed.clear();
                continue;
            }
            Ok(Some(Event::InitApply(object))) => {
                listed.push(object);
                continue;
            }
            Ok(Some(Event::InitDone)) => News::All(std::mem::take(&mut listed)),
            Ok(Some(Event::Apply(object))) => News::Seen(object),
            Ok(Some(Event::Delete(object))) => News::Gone(object),
            Ok(None) => return,
            Err(error) => {
                complain(what, &error, &trouble);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
        };
        if trouble.send_replace(None).is_some() {
            info!("News of {what} arrives again");
        }
        pause = Duration::from_millis(100);
        if !tell(news) {
            return;
        }
    }
}

/// One line for the operator when it begins; the rest is detail.
fn complain(what: &str, error: &watcher::Error, trouble: &Trouble) {
    let text = diagnosis::chain(error);
    let advice = match diagnosis::is_rbac(&text) {
        true => format!("; grant the verbs `list` and `watch` on `{what}` to the runner's service account"),
        false => String::new(),
    };
    let text = format!("no news of {what}: {text}{advice}");
    match trouble.send_replace(Some(text.clone())) {
        None => warn!("{text}"),
        Some(_) => debug!("{text}"),
    }
}
