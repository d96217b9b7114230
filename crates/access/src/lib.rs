//! Which caller may run what.
//!
//! A file has rules, each for some callers: the images that they may run, how many calls and bytes they may have at
//! once, and whether they may use the package service. The server asks before it reads a message; images are checked
//! where functions are run, because only a package says which ones it names.

mod rules;

use std::fs::{self, File};
use std::future::Future;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use loggia_go::{errno_text, quote};
use loggia_grpc::{Admission, Caller, Denial, Gate, Pledge};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tonic::Status;
use tracing::{info, warn};

use self::rules::{LONGEST_FILE, Limits, Problem, Rules};

/// How often the file is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// How long a call without a deadline waits for its turn.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A caller that is to learn why it waited in vain must hear it before its own deadline.
const EARLY: Duration = Duration::from_millis(100);

/// Lets calls in by the rules of a file, which is read again when it changes. Clones share it.
#[derive(Clone, Debug)]
pub struct Access {
    file: Arc<Path>,
    current: Arc<RwLock<Arc<Current>>>,
}

/// The rules as they were last good, and what their callers hold.
#[derive(Debug)]
struct Current {
    rules: Rules,
    /// One for each rule.
    shares: Vec<Share>,
}

/// What the callers of one rule have to share.
#[derive(Clone, Debug)]
struct Share {
    limits: Limits,
    calls: Option<Arc<Semaphore>>,
    bytes: Option<Arc<Semaphore>>,
}

/// Why the file gives no rules.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("open {}: {}", .0.display(), errno_text(.1))]
    Unreadable(PathBuf, io::Error),
    #[error("{}: the file has more than {} KiB", .0.display(), LONGEST_FILE >> 10)]
    TooLong(PathBuf),
    #[error("{}: {reason}", .file.display())]
    Malformed { file: PathBuf, reason: String },
}

/// What tells one state of the file from another.
type Stamp = Option<(u64, u64, i64, i64)>;

// === impl Access ===

impl Access {
    /// Reads the file.
    ///
    /// # Errors
    /// If the file has no usable rules.
    pub fn new(file: &Path) -> Result<Self, Error> {
        let rules = read(file)?;
        let current = Current::new(rules, None);
        Ok(Self { file: file.into(), current: Arc::new(RwLock::new(Arc::new(current))) })
    }

    /// Follows the file for as long as the future is polled. A file that cannot be used leaves the rules as they were.
    pub async fn follow_changes(self) {
        let mut known = stamp(&self.file);
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let found = stamp(&self.file);
            if found == known {
                continue;
            }
            known = found;
            match read(&self.file) {
                Ok(rules) => {
                    let next = Current::new(rules, Some(&self.current()));
                    info!(file = %self.file.display(), rules = next.shares.len(), "Reloaded the access rules");
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
                }
                Err(error) => warn!("{error}; the access rules stay as they were"),
            }
        }
    }

    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    async fn decide(
        &self,
        caller: &Caller,
        service: &str,
        deadline: Option<Instant>,
    ) -> Result<Admission, Denial> {
        let current = self.current();
        let Some((at, rule)) = current.rules.of(caller) else {
            let text = format!(
                "{caller} is in no rule of the access config; a rule whose `callers` have it would let it in"
            );
            return Err(Denial { rule: None, status: Status::permission_denied(text) });
        };
        let name = &rule.grant.rule;
        let denied = |status| Denial { rule: Some(Arc::clone(name)), status };
        if !rule.package_service && service == PACKAGES {
            return Err(denied(Status::permission_denied(format!(
                "rule {} of the access config does not let {caller} use the package service",
                quote(name)
            ))));
        }
        let share = current.shares.get(at).cloned().unwrap_or_default();
        let early = |deadline: Instant| deadline.checked_sub(EARLY).unwrap_or(deadline);
        let until = deadline.map_or_else(|| Instant::now() + LONGEST_WAIT, early);
        let call = share.turn(until).await.map_err(|calls| {
            denied(Status::resource_exhausted(format!(
                "rule {} of the access config allows its callers {calls} calls at once (maxConcurrentCalls); \
                 this one got no turn in time",
                quote(name)
            )))
        })?;
        let bytes = share.bytes.zip(share.limits.bytes).map(|(left, limit)| Pledge {
            left,
            limit,
            whose: format!("rule {} of the access config (maxBytes)", quote(name)),
        });
        Ok(Admission { grant: Some(Arc::clone(&rule.grant)), call, bytes })
    }

    /// Whether a rule names a caller by its certificate.
    #[must_use]
    pub fn needs_certificates(&self) -> bool {
        self.current().rules.iter().any(rules::Rule::names_certificates)
    }
}

/// The one service that a rule may be without.
const PACKAGES: &str = "loggia.v1.PackageService";

impl Gate for Access {
    fn admit<'a>(
        &'a self,
        caller: &'a Caller,
        service: &'a str,
        deadline: Option<Instant>,
    ) -> Pin<Box<dyn Future<Output = Result<Admission, Denial>> + Send + 'a>> {
        Box::pin(self.decide(caller, service, deadline))
    }
}

// === impl Current ===

impl Current {
    /// New rules. One with the name and the limits of an old one takes over what its callers hold.
    fn new(rules: Rules, old: Option<&Self>) -> Self {
        let kept = |name: &str, limits: Limits| {
            let old = old?;
            let mut pairs = old.rules.iter().zip(&old.shares);
            let same = pairs.find(|(rule, share)| *rule.grant.rule == *name && share.limits == limits);
            same.map(|(_, share)| share.clone())
        };
        let shares = rules
            .iter()
            .map(|rule| kept(&rule.grant.rule, rule.limits).unwrap_or_else(|| Share::new(rule.limits)));
        let shares = shares.collect();
        Self { rules, shares }
    }
}

// === impl Share ===

impl Share {
    fn new(limits: Limits) -> Self {
        let semaphore = |most: usize| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        Self { limits, calls: limits.calls.map(semaphore), bytes: limits.bytes.map(semaphore) }
    }

    /// Waits in order for the turn of a call; fails with how many there may be at once.
    async fn turn(&self, until: Instant) -> Result<Option<OwnedSemaphorePermit>, usize> {
        let Some(calls) = &self.calls else { return Ok(None) };
        match tokio::time::timeout_at(until, Arc::clone(calls).acquire_owned()).await {
            // It is never closed.
            Ok(permit) => Ok(permit.ok()),
            Err(_) => Err(self.limits.calls.unwrap_or_default()),
        }
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

fn read(file: &Path) -> Result<Rules, Error> {
    let unreadable = |error| Error::Unreadable(file.to_owned(), error);
    let mut text = String::new();
    let opened = File::open(file).map_err(unreadable)?;
    opened.take(LONGEST_FILE + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LONGEST_FILE {
        return Err(Error::TooLong(file.to_owned()));
    }
    let malformed =
        |problem: Problem| Error::Malformed { file: file.to_owned(), reason: problem.to_string() };
    Rules::parse(&text).map_err(malformed)
}

fn stamp(file: &Path) -> Stamp {
    fs::metadata(file).ok().map(|found| (found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}
