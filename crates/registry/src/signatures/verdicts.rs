//! Whether images are signed as wanted, once a digest and version of the policy.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::Unverified;

/// How many verdicts are kept.
const CAPACITY: usize = 4096;

/// How long a refusal is kept: somebody may be about to sign.
const REFUSAL_TIME: Duration = Duration::from_secs(5);

/// How long a registry that did not answer is left alone.
const FAILURE_TIME: Duration = Duration::from_secs(1);

type Verdict = Result<(), Unverified>;

/// Verdicts by policy, image and digest.
#[derive(Debug, Default)]
pub(crate) struct Verdicts(Mutex<HashMap<Key, Arc<Cell>>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) version: u64,
    pub(crate) image: String,
    pub(crate) digest: String,
}

/// The first caller works, the others wait; if it goes away, one of them goes on.
type Cell = OnceCell<(Verdict, Instant)>;

// === impl Verdicts ===

impl Verdicts {
    /// The verdict, by `work` if it is not known.
    pub(crate) async fn get(&self, key: Key, work: impl AsyncFnOnce() -> Verdict) -> Verdict {
        let cell = self.cell(key);
        let (verdict, _) = cell.get_or_init(async || (work().await, Instant::now())).await;
        verdict.clone()
    }

    fn cell(&self, key: Key) -> Arc<Cell> {
        let now = Instant::now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = known.get(&key).filter(|cell| !is_over(cell, now)) {
            return Arc::clone(cell);
        }
        if known.len() >= CAPACITY {
            // Those of older policies first, then what is over, then all: they can be had again.
            known.retain(|other, cell| other.version == key.version && !is_over(cell, now));
            if known.len() >= CAPACITY {
                known.clear();
            }
        }
        let cell = Arc::new(Cell::new());
        known.insert(key, Arc::clone(&cell));
        cell
    }
}

fn is_over(cell: &Cell, now: Instant) -> bool {
    match cell.get() {
        Some((Err(Unverified::Refused { .. }), since)) => now >= *since + REFUSAL_TIME,
        Some((Err(Unverified::Registry(_)), since)) => now >= *since + FAILURE_TIME,
        Some((Ok(()), _)) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn key(version: u64) -> Key {
        Key { version, image: "r.io/a:v1".to_owned(), digest: "sha256:1".to_owned() }
    }

    fn refused() -> Verdict {
        Err(Unverified::Refused { rule: String::new(), reason: String::new() })
    }

    #[tokio::test(start_paused = true)]
    async fn a_digest_is_verified_once_a_version_of_the_policy() {
        let (verdicts, asked) = (Verdicts::default(), AtomicUsize::new(0));
        let get = async |version| {
            verdicts
                .get(key(version), async || {
                    asked.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    Ok(())
                })
                .await
        };
        let (one, two) = tokio::join!(get(1), get(1));
        assert!(one.is_ok() && two.is_ok() && get(1).await.is_ok());
        tokio::time::advance(Duration::from_secs(1 << 20)).await;
        assert!(get(1).await.is_ok());
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert!(get(2).await.is_ok());
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_kept_for_a_moment_and_work_that_is_given_up_is_done_by_the_next() {
        let verdicts = Verdicts::default();
        assert!(verdicts.get(key(1), async || refused()).await.is_err());
        assert!(verdicts.get(key(1), async || Ok(())).await.is_err());
        tokio::time::advance(REFUSAL_TIME).await;
        let never = verdicts.get(key(1), async || std::future::pending().await);
        assert!(tokio::time::timeout(Duration::from_secs(1), never).await.is_err());
        assert!(verdicts.get(key(1), async || Ok(())).await.is_ok());
    }

    #[tokio::test]
    async fn verdicts_do_not_pile_up() {
        let verdicts = Verdicts::default();
        for number in 0..CAPACITY + 10 {
            let key = Key { image: format!("r.io/{number}"), ..key(1) };
            let _ = verdicts.get(key, async || Ok(())).await;
        }
        assert!(verdicts.0.lock().unwrap().len() <= CAPACITY);
    }
}
