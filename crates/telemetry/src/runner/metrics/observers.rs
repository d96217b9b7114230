//! Counts what the pool and the registry client report.

use std::sync::Arc;
use std::time::Duration;

use loggia_registry::Found;

use super::{
    ApiLabel, ApiRequest, Lookup, Metrics, PhaseLabel, RegistryLabel, RegistryRequest, Removal, RuleLabel,
    Start,
};
use crate::Telemetry;

impl loggia_pods::Observer for Telemetry {
    fn phase(&self, phase: loggia_pods::Phase, took: Duration) {
        let labels = PhaseLabel { phase: phase.name() };
        self.shared.runner.metrics.phases.get_or_create(&labels).observe(took.as_secs_f64());
    }

    fn started(&self, image: &str, up: bool, took: Duration) {
        let metrics = &self.shared.runner.metrics;
        let image = metrics.images.label(image, true);
        let outcome = if up { "ready" } else { "failed" };
        metrics.starts.get_or_create(&Start { image, outcome }).inc();
        if up {
            metrics.start.observe(took.as_secs_f64());
        }
    }

    fn left(&self, _: &str, why: &'static str) {
        self.shared.runner.metrics.removals.get_or_create(&Removal { reason: why }).inc();
    }

    fn asked(&self, verb: &'static str, resource: &str, code: Option<u16>, took: Duration) {
        let metrics = &self.shared.runner.metrics;
        let request = ApiRequest { verb, resource: resource.to_owned(), code: code_label(code) };
        metrics.api_requests.get_or_create(&request).inc();
        let labels = ApiLabel { verb, resource: resource.to_owned() };
        metrics.api_time.get_or_create(&labels).observe(took.as_secs_f64());
    }
}

impl loggia_registry::Observer for Telemetry {
    fn asked(&self, host: &str, code: Option<u16>, took: Duration) {
        let metrics = &self.shared.runner.metrics;
        let registry = metrics.registries.label(host, true);
        let request = RegistryRequest { registry: Arc::clone(&registry), code: code_label(code) };
        metrics.registry_requests.get_or_create(&request).inc();
        metrics.registry_time.get_or_create(&RegistryLabel { registry }).observe(took.as_secs_f64());
    }

    fn looked_up(&self, found: Found) {
        self.shared.runner.metrics.lookups.get_or_create(&Lookup { result: found.name() }).inc();
    }
}

impl Metrics {
    /// A call was not let in. Rules are few: the operator wrote them.
    pub(crate) fn denied(&self, rule: Option<&str>) {
        self.denied.get_or_create(&RuleLabel { rule: rule.unwrap_or("none").to_owned() }).inc();
    }
}

/// The class of a status is not enough to tell 401 from 404; its number is one of few.
fn code_label(code: Option<u16>) -> String {
    code.map_or_else(|| "none".to_owned(), |code| code.to_string())
}
