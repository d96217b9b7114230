//! Claiming one of the numbers that the instances of a function have in the cluster.

use k8s_openapi::api::core::v1::Service;
use loggia_registry::Metadata;
use tracing::debug;

use super::{Job, Starter, refused};
use crate::blueprint::{Blueprint, Particulars, annotation};
use crate::clock::unix_now;
use crate::names::{self, IMAGE, TEMPLATE_HASH};
use crate::pool::{Cause, Failure, FailureKind};

/// How long the pod of a new Service may take to be seen.
const YOUNG_SECONDS: i64 = 20;

/// How many numbers are tried at most.
const MOST_NUMBERS: usize = 999;

impl Starter {
    /// Creates the Service with the smallest free number. Only one replica can create it, so it is the claim to one of
    /// the places that a function has in the cluster.
    pub(super) async fn claim(
        &self,
        job: &Job,
        blueprint: &Blueprint,
        metadata: &Metadata,
        hash: &str,
        particulars: Particulars<'_>,
    ) -> Result<Service, Failure> {
        let mut taken = 0;
        for number in 1..=MOST_NUMBERS {
            let id = names::id(&metadata.reference, &metadata.porch_digest, number);
            // As long as the old pod exists, the new Service would select it, too.
            if job.pool.upgrade().is_some_and(|pool| pool.is_being_left(&id)) {
                debug!(id, "A pod with the number is about to go");
                continue;
            }
            let service = blueprint.service(Particulars { id: &id, ..particulars }, hash);
            let error = match self.cluster.create_service(&service).await {
                Ok(service) => return Ok(service),
                Err(error) if error.code() == Some(409) => error,
                Err(error) => return Err(refused(self.cluster.diagnose("create", "services", &error))),
            };
            debug!(id, %error, "The number is taken");
            let holder = self.cluster.service(&id).await;
            let holder = holder.map_err(|error| refused(self.cluster.diagnose("get", "services", &error)))?;
            if takes_a_place(job, &id, hash, holder.as_ref()) {
                taken += 1;
            }
            if taken >= job.most {
                let requested = job.image.name();
                let text = format!("{taken} instances of {requested} exist, and there may be no more");
                return Err(Failure { kind: FailureKind::Crowded, cause: Cause::Crowded, text });
            }
        }
        let requested = job.image.name();
        let text = format!("all numbers up to {MOST_NUMBERS} are taken for the pods of {requested}");
        Err(Failure::lasting(Cause::Crowded, text))
    }
}

/// Whether the holder of a Service counts against the limit of the function. An instance of another template does not:
/// it leaves as soon as there is one of this.
fn takes_a_place(job: &Job, id: &str, hash: &str, holder: Option<&Service>) -> bool {
    let annotations = holder.and_then(|service| service.metadata.annotations.as_ref());
    let same = annotation(annotations, IMAGE) == Some(job.image.full_name())
        && annotation(annotations, TEMPLATE_HASH) == Some(hash);
    let created = holder.and_then(|service| service.metadata.creation_timestamp.as_ref());
    let young = created.is_some_and(|time| unix_now() - time.0.as_second() < YOUNG_SECONDS);
    same && job.pool.upgrade().is_some_and(|pool| pool.takes_a_place(id, young))
}
