//! Which instances differ from one that would be started now: by template, by settings, by the digest of the image.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loggia_registry::Metadata;
use tokio::sync::watch;
use tracing::{info, warn};

use super::action::Panicked;
use super::state::Event;
use super::{Image, Pool};
use crate::blueprint::is_of;
use crate::functions::Functions;
use crate::roster::Made;
use crate::start::Starter;
use crate::template::Template;

/// Compares pods with what would be made now. Its lock is its own: hashing a pod never holds up the pool.
#[derive(Debug)]
pub(super) struct Freshness {
    starter: Starter,
    template: watch::Receiver<Option<Arc<Template>>>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// What the hashes were made from. They are forgotten when it changes.
    basis: Option<(Arc<Template>, Arc<Functions>)>,
    hashes: HashMap<Image, Option<String>>,
    /// Digests that nodes reported, where they were expected or the registry was asked again.
    pulled: HashSet<(Image, String)>,
}

// === impl Freshness ===

impl Freshness {
    pub(super) fn new(starter: Starter, template: watch::Receiver<Option<Arc<Template>>>) -> Self {
        Self { starter, template, known: Mutex::default() }
    }

    /// Whether a pod of the function would look different if it were made now.
    pub(super) fn is_outdated(&self, image: &Image, made: &Made) -> bool {
        let Some(template) = self.template.borrow().clone() else { return false };
        let moved = match (self.starter.images.known(image), &made.digest) {
            (Some(known), Some(digest)) => !is_of(digest, &known),
            _ => false,
        };
        moved || self.expected_hash(image, template).is_some_and(|hash| made.template_hash != Some(hash))
    }

    fn expected_hash(&self, image: &Image, template: Arc<Template>) -> Option<String> {
        let functions = self.starter.functions.borrow().clone();
        let mut known = self.known();
        let same = known.basis.as_ref().is_some_and(|(known_template, known_functions)| {
            Arc::ptr_eq(known_template, &template) && Arc::ptr_eq(known_functions, &functions)
        });
        if !same {
            known.hashes.clear();
        }
        let hash = known.hashes.entry(image.clone());
        let hash = hash.or_insert_with(|| self.starter.blueprint(&template, image).hash().ok()).clone();
        known.basis = Some((template, functions));
        hash
    }

    /// The image as the registry described it, if that is not what a node pulled and it has not been asked again.
    fn surprise(&self, image: &Image, digest: &str) -> Option<Arc<Metadata>> {
        let known = self.starter.images.known(image)?;
        let new = self.known().pulled.insert((image.clone(), digest.to_owned()));
        (new && !is_of(digest, &known)).then_some(known)
    }

    /// Forgets the functions that have no instances.
    fn retain(&self, used: &HashSet<Image>) {
        let mut known = self.known();
        known.hashes.retain(|image, _| used.contains(image));
        known.pulled.retain(|(image, _)| used.contains(image));
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Pool ===

impl Pool {
    /// Compares all instances whose pods have been seen with what would be made now.
    pub(super) fn judge_all(&self) {
        let seen = self.lock().roster.seen();
        for (instance, image, made) in seen {
            let outdated = self.0.freshness.is_outdated(&image, &made);
            self.update(|inner| inner.on(Event::Outdated { instance, outdated }));
        }
    }

    /// Compares what the nodes pulled with what the registry says, for all instances.
    pub(super) fn compare_images(&self) {
        let (used, pulled) = self.lock().roster.pulled();
        self.0.freshness.retain(&used);
        pulled.into_iter().for_each(|(image, digest)| self.compare_image(image, digest));
    }

    /// Compares what a node pulled with what the registry says. A tag may have moved in between, or long before on a
    /// node that keeps its images.
    pub(super) fn compare_image(&self, image: Image, digest: String) {
        let Some(known) = self.0.freshness.surprise(&image, &digest) else { return };
        info!(
            "the node runs {digest} for {}, and the registry spoke of {}: it is asked again",
            image.name(),
            known.digest
        );
        let images = self.0.starter.images.clone();
        let refresh = {
            let image = image.clone();
            async move { images.refresh(&image).await }
        };
        self.spawn(refresh, move |pool, outcome| match outcome {
            Ok(Ok(metadata)) => pool.asked_again(&image, &digest, &metadata),
            Ok(Err(error)) => pool.not_asked(image, digest, &error.to_string()),
            Err(Panicked(text)) => pool.not_asked(image, digest, &text),
        });
    }

    fn asked_again(&self, image: &Image, digest: &str, metadata: &Metadata) {
        if is_of(digest, metadata) {
            self.judge_all();
        } else {
            warn!(
                "the node runs {digest} for {}, and the registry has {} under that name; a node that keeps \
                 images needs `imagePullPolicy: Always`, or a tag that does not move",
                image.full_name(),
                metadata.digest
            );
        }
    }

    /// The next scan asks again.
    fn not_asked(&self, image: Image, digest: String, error: &str) {
        warn!("{error}; what was known of the image stays");
        self.0.freshness.known().pulled.remove(&(image, digest));
    }
}
