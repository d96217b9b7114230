//! The pool as others may see it, in two steps: what is copied under its lock, and the texts made from that after it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::event::InstanceId;
use super::{Failure, Image};
use crate::observe::{FunctionView, InstanceView, Snapshot};

/// What is seen of the pool. Texts are made from it by [`finish`](Self::finish), after the lock.
#[derive(Debug, Default)]
pub(crate) struct Views {
    pub(super) functions: Vec<FunctionState>,
    pub(super) to_warm: usize,
}

#[derive(Debug)]
pub(super) struct FunctionState {
    pub(super) image: Image,
    pub(super) waiting: usize,
    pub(super) failure: Option<Arc<Failure>>,
    pub(super) instances: Vec<SeenInstance>,
}

/// An instance with what its record knows of its pod.
#[derive(Debug)]
pub(crate) struct SeenInstance {
    pub(crate) instance: InstanceId,
    view: InstanceView,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) pod: Option<Arc<Pod>>,
}

// === impl Views ===

impl Views {
    pub(crate) fn instances_mut(&mut self) -> impl Iterator<Item = &mut SeenInstance> {
        self.functions.iter_mut().flat_map(|function| &mut function.instances)
    }

    /// Functions with their instances, in the order of their names. `unix` is now, in seconds since 1970.
    pub(crate) fn finish(self, unix: i64) -> Snapshot {
        let finish = |function: FunctionState| FunctionView {
            image: function.image.full_name().to_owned(),
            waiting: function.waiting,
            failure: function.failure.map(|failure| failure.text.clone()),
            instances: function.instances.into_iter().map(|seen| seen.finish(unix)).collect(),
        };
        let mut functions: Vec<_> = self.functions.into_iter().map(finish).collect();
        functions.sort_by(|one, other| one.image.cmp(&other.image));
        Snapshot { functions, to_warm: self.to_warm, trouble: None }
    }
}

// === impl SeenInstance ===

impl SeenInstance {
    pub(super) fn new(instance: InstanceId, view: InstanceView) -> Self {
        Self { instance, view, name: None, pod: None }
    }

    fn finish(self, unix: i64) -> InstanceView {
        let pod = self.pod.as_deref();
        let created = pod.and_then(|pod| pod.metadata.creation_timestamp.as_ref());
        let age = created.map(|time| (unix - time.0.as_second()).max(0).unsigned_abs());
        InstanceView {
            pod: self.name.as_deref().map(ToOwned::to_owned),
            node: pod.and_then(|pod| pod.spec.as_ref()?.node_name.clone()),
            age: age.map(Duration::from_secs),
            ..self.view
        }
    }
}
