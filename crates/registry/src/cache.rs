//! The cache of image metadata: what is known, what is being fetched, what failed a moment ago.
//!
//! The cache decides and does no I/O. The first lookup of an image gets a [`Claim`] to fetch it; later ones wait
//! for the outcome of that claim, even if the first caller has gone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::{Error, Metadata};

/// How long a failure is cached at first; each one in a row doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

pub(crate) type Outcome = Result<Arc<Metadata>, Error>;

/// Entries by image as written. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    entries: RwLock<HashMap<String, Entry>>,
    /// Counts lookups, to find the least recently used entry.
    lookups: AtomicU64,
    capacity: usize,
    ttl: Option<Duration>,
}

#[derive(Debug)]
struct Entry {
    state: State,
    /// Failures in a row.
    failures: u32,
    used: AtomicU64,
}

#[derive(Debug)]
enum State {
    Known { metadata: Arc<Metadata>, stale_from: Option<Instant> },
    Fetching(watch::Receiver<Option<Outcome>>),
    Failed { error: Error, until: Instant },
}

/// What the caller of [`Cache::look_up`] does next.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// Return this.
    Known(Arc<Metadata>),
    /// Return this, and check in the background whether the tag has moved. Only one caller gets this.
    Stale(Arc<Metadata>),
    /// Return the failure of a moment ago.
    Failed(Error),
    /// Wait for the fetch that is under way.
    Wait(watch::Receiver<Option<Outcome>>),
    /// Fetch, settle the claim, and wait like the others.
    Fetch(Claim, watch::Receiver<Option<Outcome>>),
}

/// The duty to fetch one image. Dropping it without an outcome removes the entry, and waiting callers see the
/// sender go.
#[derive(Debug)]
pub(crate) struct Claim {
    cache: Cache,
    image: String,
    waiting: watch::Sender<Option<Outcome>>,
    settled: bool,
}

// === impl Cache ===

impl Cache {
    pub(crate) fn new(capacity: usize, ttl: Option<Duration>) -> Self {
        let shared =
            Shared { entries: RwLock::default(), lookups: AtomicU64::new(0), capacity: capacity.max(1), ttl };
        Self { shared: Arc::new(shared) }
    }

    /// What is known, without a fetch.
    pub(crate) fn known(&self, image: &str) -> Option<Arc<Metadata>> {
        let entries = self.shared.entries.read().unwrap_or_else(PoisonError::into_inner);
        match &entries.get(image)?.state {
            State::Known { metadata, .. } => Some(Arc::clone(metadata)),
            _ => None,
        }
    }

    pub(crate) fn look_up(&self, image: &str, now: Instant) -> Lookup {
        let tick = self.shared.lookups.fetch_add(1, Ordering::Relaxed);
        {
            let entries = self.shared.entries.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(entry) = entries.get(image) {
                entry.used.store(tick, Ordering::Relaxed);
                match &entry.state {
                    State::Known { metadata, stale_from } if stale_from.is_none_or(|from| now < from) => {
                        return Lookup::Known(Arc::clone(metadata));
                    }
                    State::Fetching(outcome) => return Lookup::Wait(outcome.clone()),
                    State::Failed { error, until } if now < *until => return Lookup::Failed(error.clone()),
                    _ => {}
                }
            }
        }
        self.claim(image, now, tick)
    }

    /// Looks again under the write lock: another caller may have claimed the image since.
    fn claim(&self, image: &str, now: Instant, tick: u64) -> Lookup {
        let mut entries = self.shared.entries.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get_mut(image) {
            match &mut entry.state {
                State::Known { metadata, stale_from } => {
                    let metadata = Arc::clone(metadata);
                    return match stale_from {
                        Some(from) if now >= *from => {
                            // Fresh for another TTL, so that only this caller checks.
                            *stale_from = self.stale_from(&metadata, now);
                            Lookup::Stale(metadata)
                        }
                        _ => Lookup::Known(metadata),
                    };
                }
                State::Fetching(outcome) => return Lookup::Wait(outcome.clone()),
                State::Failed { error, until } if now < *until => return Lookup::Failed(error.clone()),
                State::Failed { .. } => {}
            }
        }
        let failures = entries.get(image).map_or(0, |entry| entry.failures);
        let (waiting, outcome) = watch::channel(None);
        self.make_room(&mut entries, image);
        let state = State::Fetching(outcome.clone());
        entries.insert(image.to_owned(), Entry { state, failures, used: AtomicU64::new(tick) });
        let claim = Claim { cache: self.clone(), image: image.to_owned(), waiting, settled: false };
        Lookup::Fetch(claim, outcome)
    }

    /// Replaces what is known of an image, unless it is being fetched right now.
    pub(crate) fn replace(&self, image: &str, metadata: &Arc<Metadata>, now: Instant) {
        let mut entries = self.shared.entries.write().unwrap_or_else(PoisonError::into_inner);
        let fetching = entries.get(image).is_some_and(|entry| matches!(entry.state, State::Fetching(_)));
        if !fetching {
            self.make_room(&mut entries, image);
            let used = AtomicU64::new(self.shared.lookups.load(Ordering::Relaxed));
            let state = self.known_state(metadata, now);
            entries.insert(image.to_owned(), Entry { state, failures: 0, used });
        }
    }

    /// Forgets failures, so that the next lookup fetches: credentials or certificates changed.
    pub(crate) fn forget_failures(&self) {
        let mut entries = self.shared.entries.write().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, entry| !matches!(entry.state, State::Failed { .. }));
    }

    fn settle(&self, image: &str, outcome: &Outcome, now: Instant) {
        let mut entries = self.shared.entries.write().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = entries.get_mut(image) else { return };
        match outcome {
            Ok(metadata) => {
                entry.failures = 0;
                entry.state = self.known_state(metadata, now);
            }
            Err(error) => {
                let pause = FIRST_PAUSE.saturating_mul(1 << entry.failures.min(8)).min(LONGEST_PAUSE);
                entry.failures = entry.failures.saturating_add(1);
                entry.state = State::Failed { error: error.clone(), until: now + pause };
            }
        }
    }

    fn known_state(&self, metadata: &Arc<Metadata>, now: Instant) -> State {
        State::Known { metadata: Arc::clone(metadata), stale_from: self.stale_from(metadata, now) }
    }

    /// When to check a tag again. What a digest names never changes.
    fn stale_from(&self, metadata: &Metadata, now: Instant) -> Option<Instant> {
        self.shared.ttl.filter(|_| metadata.reference.digest().is_none()).map(|ttl| now + ttl)
    }

    /// Drops the least recently used entry. What is being fetched stays, as callers wait for it.
    fn make_room(&self, entries: &mut HashMap<String, Entry>, image: &str) {
        while entries.len() >= self.shared.capacity && !entries.contains_key(image) {
            let idle = entries.iter().filter(|(_, entry)| !matches!(entry.state, State::Fetching(_)));
            let oldest = idle.min_by_key(|(_, entry)| entry.used.load(Ordering::Relaxed));
            let Some(oldest) = oldest.map(|(image, _)| image.clone()) else { return };
            entries.remove(&oldest);
        }
    }
}

// === impl Claim ===

impl Claim {
    pub(crate) fn settle(mut self, outcome: Outcome, now: Instant) {
        self.settled = true;
        self.cache.settle(&self.image, &outcome, now);
        self.waiting.send_replace(Some(outcome));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.settled {
            let mut entries = self.cache.shared.entries.write().unwrap_or_else(PoisonError::into_inner);
            entries.remove(&self.image);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Platform};

    const TAG: &str = "example.com/fn:v1";

    fn metadata(image: &str) -> Arc<Metadata> {
        Arc::new(Metadata {
            reference: image.parse().unwrap(),
            digest: "sha256:1".to_owned(),
            index_digest: None,
            porch_digest: "sha256:1".to_owned(),
            platform: Platform::amd64(),
            entrypoint: vec!["fn".to_owned()],
            env: vec![],
            working_dir: String::new(),
            user: String::new(),
        })
    }

    fn error() -> Error {
        Error::new(Kind::Unreachable, TAG, None, "gone", "")
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn claim(lookup: Lookup) -> Claim {
        match lookup {
            Lookup::Fetch(claim, _) => claim,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_fetches_and_the_others_wait() {
        let (cache, now) = (Cache::new(9, None), Instant::now());
        let claim = claim(cache.look_up(TAG, now));
        let Lookup::Wait(outcome) = cache.look_up(TAG, now) else { panic!("a second fetch") };
        claim.settle(Ok(metadata(TAG)), now);
        assert_eq!(outcome.borrow().clone().unwrap().unwrap(), metadata(TAG));
        assert!(matches!(cache.look_up(TAG, now + secs(1 << 30)), Lookup::Known(_)));
    }

    #[test]
    fn a_fetch_that_ends_without_an_outcome_leaves_nothing_behind() {
        let (cache, now) = (Cache::new(9, None), Instant::now());
        let claimed = claim(cache.look_up(TAG, now));
        let Lookup::Wait(outcome) = cache.look_up(TAG, now) else { panic!("a second fetch") };
        drop(claimed);
        assert!(outcome.has_changed().is_err());
        claim(cache.look_up(TAG, now));
    }

    #[test]
    fn a_failure_is_cached_for_a_time_that_doubles() {
        let (cache, mut now) = (Cache::new(9, None), Instant::now());
        for pause in [1, 2, 4, 8, 16, 16] {
            claim(cache.look_up(TAG, now)).settle(Err(error()), now);
            assert!(matches!(
                cache.look_up(TAG, now + secs(pause) - Duration::from_millis(1)),
                Lookup::Failed(_)
            ));
            now += secs(pause);
        }
        claim(cache.look_up(TAG, now)).settle(Err(error()), now);
        cache.forget_failures();
        claim(cache.look_up(TAG, now)).settle(Ok(metadata(TAG)), now);
    }

    #[test]
    fn a_tag_is_checked_by_one_caller_after_its_ttl_and_a_digest_never() {
        let digest = format!("example.com/fn@sha256:{}", "0".repeat(64));
        let (cache, now) = (Cache::new(9, Some(secs(60))), Instant::now());
        for image in [TAG, &digest] {
            claim(cache.look_up(image, now)).settle(Ok(metadata(image)), now);
            assert!(matches!(cache.look_up(image, now + secs(59)), Lookup::Known(_)));
        }
        assert!(matches!(cache.look_up(TAG, now + secs(60)), Lookup::Stale(_)));
        assert!(matches!(cache.look_up(TAG, now + secs(60)), Lookup::Known(_)));
        assert!(matches!(cache.look_up(&digest, now + secs(60)), Lookup::Known(_)));
    }

    #[test]
    fn the_least_recently_used_image_makes_room() {
        let (cache, now) = (Cache::new(2, None), Instant::now());
        for image in ["a.io/a", "a.io/b"] {
            claim(cache.look_up(image, now)).settle(Ok(metadata(image)), now);
        }
        cache.look_up("a.io/a", now);
        claim(cache.look_up("a.io/c", now)).settle(Ok(metadata("a.io/c")), now);
        assert!(cache.known("a.io/a").is_some() && cache.known("a.io/c").is_some());
        assert!(cache.known("a.io/b").is_none());
    }
}
