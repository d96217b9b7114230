//! What a function's container requests and may use.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::PodResources;

pub(super) const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

/// Requests and limits, where something is said about them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Resources {
    pub(crate) requests: Option<BTreeMap<String, Quantity>>,
    pub(crate) limits: Option<BTreeMap<String, Quantity>>,
}

// === impl Resources ===

impl Resources {
    /// As the settings have them; what they leave out is not mentioned.
    pub(crate) fn of(settings: &PodResources) -> Self {
        let amounts = |map: &BTreeMap<String, String>| {
            let amounts = map.iter().map(|(name, amount)| (name.clone(), Quantity(amount.clone())));
            (!map.is_empty()).then(|| amounts.collect())
        };
        Self { requests: amounts(&settings.requests), limits: amounts(&settings.limits) }
    }

    /// Takes the place of what the container has.
    pub(super) fn replace(&self, container: &mut Container) {
        let Self { requests, limits } = self;
        if requests.is_none() && limits.is_none() {
            return;
        }
        let resources = container.resources.get_or_insert_with(ResourceRequirements::default);
        if let Some(requests) = requests {
            resources.requests = Some(requests.clone());
        }
        if let Some(limits) = limits {
            resources.limits = Some(limits.clone());
        }
    }

    /// Adds the resources that the container does not mention. One that it mentions in either place stays as it is: a
    /// default limit below its request would make the pod invalid.
    pub(super) fn fill_in(&self, container: &mut Container) {
        let mut resources = container.resources.take().unwrap_or_default();
        let mentioned: Vec<String> = [&resources.requests, &resources.limits]
            .into_iter()
            .flatten()
            .flat_map(|map| map.keys().cloned())
            .collect();
        let missing = |defaults: &Option<BTreeMap<String, Quantity>>| -> Vec<(String, Quantity)> {
            let all = defaults.iter().flatten().filter(|(name, _)| !mentioned.contains(name));
            all.map(|(name, amount)| (name.clone(), amount.clone())).collect()
        };
        for (defaults, map) in
            [(&self.requests, &mut resources.requests), (&self.limits, &mut resources.limits)]
        {
            let missing = missing(defaults);
            if !missing.is_empty() {
                map.get_or_insert_default().extend(missing);
            }
        }
        container.resources = (resources != ResourceRequirements::default()).then_some(resources);
    }
}
