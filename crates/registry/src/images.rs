//! The public handle: the metadata of images, fetched once and cached.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::cache::{Cache, Lookup, Outcome};
use crate::docker_config::DockerConfig;
use crate::error::Step;
use crate::fetch::Fetcher;
use crate::signatures::{Decision, Unverified, Verdicts, verdicts};
use crate::{Error, Found, Kind, Metadata, PullSecret, Reference, Settings};
use loggia_function::Image;

/// How often [`Images::follow_changes`] looks at the credentials file and the certificates. Fetches do not depend
/// on it: each reads them as they are then.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long a registry may take to say what a tag stands for while what was known of it would do.
const CHECK_TIME: Duration = Duration::from_secs(3);

/// The metadata of images. Clones share one cache.
#[derive(Clone, Debug)]
pub struct Images {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Arc<Settings>,
    cache: Cache,
    fetcher: Fetcher,
    verdicts: Verdicts,
    pull_secret: watch::Sender<Option<PullSecret>>,
}

// === impl Images ===

impl Images {
    /// Reads no file and sends no request yet.
    pub fn new(settings: Settings) -> Self {
        let settings = Arc::new(settings);
        let cache = Cache::new(settings.capacity, settings.ttl);
        let fetcher = Fetcher::new(Arc::clone(&settings));
        Self {
            shared: Arc::new(Shared {
                settings,
                cache,
                fetcher,
                verdicts: Verdicts::default(),
                pull_secret: watch::Sender::default(),
            }),
        }
    }

    /// The metadata of an image. The first caller starts a fetch, which runs on if the caller goes away; others
    /// wait for the same fetch. A failure is cached for a moment. A tag that is older than [`Settings::ttl`] is
    /// returned once more and checked in the background.
    pub async fn metadata(&self, image: &Image) -> Result<Arc<Metadata>, Error> {
        let lookup = self.shared.cache.look_up(image.name(), Instant::now());
        if let Some(observer) = &self.shared.settings.observer {
            observer.looked_up(match &lookup {
                Lookup::Known(_) | Lookup::Failed(_) | Lookup::Stale(_) => Found::Known,
                Lookup::Wait(_) => Found::Shared,
                Lookup::Fetch(..) => Found::Fetched,
            });
        }
        let mut outcome = match lookup {
            Lookup::Known(metadata) => return Ok(metadata),
            Lookup::Failed(error) => return Err(error),
            Lookup::Stale(metadata) => {
                let (images, image, known) = (self.clone(), image.clone(), Arc::clone(&metadata));
                tokio::spawn(async move { images.revalidate(&image, &known).await });
                return Ok(metadata);
            }
            Lookup::Wait(outcome) => outcome,
            Lookup::Fetch(claim, outcome) => {
                let (images, image) = (self.clone(), image.clone());
                tokio::spawn(async move {
                    let fetched = images.fetch(&image).await;
                    claim.settle(fetched, Instant::now());
                });
                outcome
            }
        };
        let settled = outcome.wait_for(Option::is_some).await;
        settled.ok().and_then(|outcome| outcome.clone()).unwrap_or_else(|| {
            let observed =
                format!("image `{}`: the fetch of its metadata ended without an answer", image.name());
            Err(Error::new(Kind::RegistryFailed, image.name(), None, observed, "see the log of this program"))
        })
    }

    /// Whether an image is signed as [`Settings::signatures`] wants: the digest that its name resolves to now. Each digest
    /// is verified once a version of the policy; callers that come meanwhile wait.
    pub async fn verify(&self, image: &Image) -> Result<(), Unverified> {
        self.verify_digest(image, None).await
    }

    /// The same for a digest that the caller is about to run: a tag may move between two questions.
    pub async fn verify_metadata(&self, image: &Image, metadata: &Arc<Metadata>) -> Result<(), Unverified> {
        self.verify_digest(image, Some(metadata)).await
    }

    async fn verify_digest(&self, image: &Image, known: Option<&Arc<Metadata>>) -> Result<(), Unverified> {
        let Some(policy) = &self.shared.settings.signatures else { return Ok(()) };
        let policy = policy.current();
        let reference = parse(image).map_err(Unverified::Registry)?;
        let rule = match policy.decide(reference) {
            Decision::Allow => return Ok(()),
            Decision::Verify(rule) => rule,
            Decision::Deny => {
                let reason = format!("no rule is for `{reference}`, and what has none is denied");
                return Err(Unverified::Refused { rule: "--verify-images".to_owned(), reason });
            }
        };
        let metadata = match known {
            Some(metadata) => Arc::clone(metadata),
            None => self.metadata(image).await.map_err(Unverified::Registry)?,
        };
        let (version, digest) = (policy.version, metadata.resolved().to_owned());
        let key = verdicts::Key { version, image: image.full_name().to_owned(), digest };
        let work = async || {
            // Boxed: the callers' futures stay small.
            let verify = self.shared.fetcher.verify(image.name(), reference, metadata.resolved(), rule);
            let verdict = Box::pin(verify).await;
            match &verdict {
                Ok(()) => info!(image = image.name(), digest = metadata.resolved(), "The signature is valid"),
                Err(error) => warn!("{}: {error}", image.name()),
            }
            verdict
        };
        self.shared.verdicts.get(key, work).await
    }

    /// The metadata of an image as its tag stands now. A tag that is cached is checked first; if the registry does not
    /// say within a few seconds what it stands for, what is known of it counts.
    pub async fn current(&self, image: &Image) -> Result<Arc<Metadata>, Error> {
        if let Some(known) = self.known(image).filter(|known| known.reference.digest().is_none())
            && tokio::time::timeout(CHECK_TIME, self.revalidate(image, &known)).await.is_err()
        {
            warn!("image `{}`: no answer within {CHECK_TIME:?}; what was known of it stays", image.name());
        }
        self.metadata(image).await
    }

    /// The cached metadata of an image; never sends a request.
    pub fn known(&self, image: &Image) -> Option<Arc<Metadata>> {
        self.shared.cache.known(image.name())
    }

    /// Fetches the image even if it is cached: for callers that saw that a tag has moved.
    pub async fn refresh(&self, image: &Image) -> Result<Arc<Metadata>, Error> {
        let metadata = self.fetch(image).await?;
        self.shared.cache.replace(image.name(), &metadata, Instant::now());
        Ok(metadata)
    }

    /// Whether a pod with this image needs the pull secret: there is a credentials file, and the image is not
    /// under [`Settings::public_prefixes`].
    pub fn needs_pull_secret(&self, image: &Image) -> bool {
        self.shared.settings.auth_file.is_some() && !self.shared.settings.is_public(image.name())
    }

    /// The credentials file, now and after each change. It is none without a file and until the file is valid;
    /// a file that becomes invalid leaves the last valid one in place.
    ///
    /// Changes are noticed only while [`follow_changes`](Self::follow_changes) is polled.
    pub fn pull_secret(&self) -> watch::Receiver<Option<PullSecret>> {
        self.look_at_auth_file();
        self.shared.pull_secret.subscribe()
    }

    /// Reads the credentials file as it is now, and sends it to the receivers of
    /// [`pull_secret`](Self::pull_secret) if it changed.
    pub fn read_pull_secret(&self) -> Result<Option<PullSecret>, Error> {
        let Some(file) = &self.shared.settings.auth_file else { return Ok(None) };
        let read = DockerConfig::read(file).map_err(|reason| {
            let observed = format!("{}: {reason}", Step::Credentials);
            Error::new(Kind::Configuration, "", None, observed, "check --registry-auth-secret-path")
        });
        let secret = read?.map(|(_, bytes)| PullSecret::new(bytes));
        let changed = self.shared.pull_secret.send_if_modified(|known| {
            let changed = secret.is_some() && *known != secret;
            if changed {
                known.clone_from(&secret);
            }
            changed
        });
        if changed {
            self.shared.cache.forget_failures();
        }
        Ok(secret)
    }

    /// Polls the credentials file and the certificates for as long as the future is polled: sends changes to the
    /// receivers of [`pull_secret`](Self::pull_secret), and forgets cached failures when anything changed.
    pub async fn follow_changes(self) {
        let mut logged = None;
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            if self.shared.fetcher.certificates_changed() {
                info!("The certificates to trust changed: the next fetch uses the new ones");
                self.shared.cache.forget_failures();
            }
            if let Some(signatures) = &self.shared.settings.signatures {
                signatures.look();
            }
            let known = self.shared.pull_secret.borrow().clone();
            let found = self.read_pull_secret();
            match &found {
                Ok(secret) if known.is_some() && *secret != known && secret.is_some() => {
                    info!("The registry credentials changed: the next fetch uses the new ones");
                }
                Err(error) if logged.as_ref() != Some(error) => {
                    warn!("{error}; the pull secret stays as it was");
                }
                _ => {}
            }
            logged = found.err();
        }
    }

    fn look_at_auth_file(&self) {
        if let Err(error) = self.read_pull_secret() {
            warn!("{error}");
        }
    }

    async fn fetch(&self, image: &Image) -> Outcome {
        let reference = parse(image)?;
        let begin = Instant::now();
        let metadata = self.shared.fetcher.fetch(image.name(), reference).await?;
        info!("getting image metadata for {} took {:?}", image.name(), begin.elapsed());
        Ok(Arc::new(metadata))
    }

    /// Checks whether a tag has moved, and fetches the image if it has.
    async fn revalidate(&self, image: &Image, known: &Metadata) {
        match self.shared.fetcher.digest(image.name(), &known.reference).await {
            Ok(Some(digest)) if known.is(&digest) => debug!(image = image.name(), "The tag has not moved"),
            Ok(_) => match self.refresh(image).await {
                Ok(new) if new.digest != known.digest => {
                    info!(image = image.name(), from = known.digest, to = new.digest, "The tag has moved");
                }
                Ok(_) => {}
                Err(error) => warn!("{error}; what was known of it stays"),
            },
            Err(error) => warn!("{error}; what was known of it stays"),
        }
    }
}

fn parse(image: &Image) -> Result<&Reference, Error> {
    image
        .reference()
        .map_err(|error| Error::new(Kind::InvalidReference, image.name(), None, error.to_string(), ""))
}

// === impl Settings ===

impl Settings {
    pub(crate) fn is_public(&self, image: &str) -> bool {
        self.public_prefixes.iter().any(|prefix| !prefix.is_empty() && image.starts_with(prefix.as_str()))
    }
}
