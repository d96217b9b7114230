//! Which instances are no longer as one would be made now.

use std::sync::Arc;

use loggia_registry::Metadata;
use tracing::{info, warn};

use super::{Message, Task};
use crate::blueprint::is_of;
use crate::pool::Image;
use crate::pool::state::{Event, InstanceId};
use crate::roster::Record;

impl Task {
    /// Whether a pod would look different if it were made now.
    pub(super) fn is_outdated(&mut self, record: &Record) -> bool {
        let Some(template) = self.template.borrow().clone() else { return false };
        let starter = &self.starter;
        let expected = self
            .hashes
            .entry(record.image.clone())
            .or_insert_with(|| starter.blueprint(&template, &record.image, &record.requested).hash().ok());
        let known = starter.images.known(&record.requested);
        let moved = match (known, &record.digest) {
            (Some(known), Some(digest)) => !is_of(digest, &known),
            _ => false,
        };
        moved || (expected.is_some() && record.template_hash != *expected)
    }

    pub(super) fn judge_templates(&mut self) {
        let instances: Vec<_> = self.roster.records.keys().copied().collect();
        for instance in instances {
            let Some(record) = self.roster.records.remove(&instance) else { continue };
            // What is not there yet has nothing to be compared.
            let known = record.template_hash.is_some() || !record.ours;
            let outdated = known && self.is_outdated(&record);
            self.roster.records.insert(instance, record);
            self.on(Event::Outdated { instance, outdated });
        }
    }

    pub(super) fn template_changed(&mut self) {
        self.template.borrow_and_update();
        self.hashes.clear();
        self.judge_templates();
    }

    /// Sees whether the node pulled what the registry spoke of. A tag may have moved in between, or long
    /// before on a node that keeps its images.
    pub(super) fn compare_image(&mut self, instance: InstanceId) {
        let Some(record) = self.roster.records.get(&instance) else { return };
        let Some(pulled) = record.pulled.clone() else { return };
        let (image, requested) = (record.image.clone(), Arc::clone(&record.requested));
        let Some(known) = self.starter.images.known(&requested) else { return };
        if !self.pulled.insert((image.clone(), pulled.clone())) || is_of(&pulled, &known) {
            return;
        }
        info!(
            "the node runs {pulled} for {requested}, and the registry spoke of {}: it is asked again",
            known.digest
        );
        let (images, inbox) = (self.starter.images.clone(), self.inbox.clone());
        tokio::spawn(async move {
            let outcome = images.refresh(&requested).await.map_err(|error| error.to_string());
            if let Some(inbox) = inbox.upgrade() {
                let _ = inbox.send(Message::Asked { image, pulled, outcome });
            }
        });
    }

    pub(super) fn asked_again(
        &mut self,
        image: Image,
        pulled: String,
        outcome: Result<Arc<Metadata>, String>,
    ) {
        match outcome {
            Ok(metadata) if is_of(&pulled, &metadata) => self.judge_templates(),
            Ok(metadata) => warn!(
                "the node runs {pulled} for {image}, and the registry has {} under that name; a node that keeps \
                 images needs `imagePullPolicy: Always`, or a tag that does not move",
                metadata.digest
            ),
            // Whoever looks next asks again.
            Err(error) => {
                warn!("{error}; what was known of the image stays");
                self.pulled.remove(&(image, pulled));
            }
        }
    }
}
