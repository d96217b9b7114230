//! The metrics that every program has: calls it served, and the process.

use std::time::Duration;

use loggia_grpc::Ended;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::process::Process;

/// The bounds of durations in milliseconds, for the names that Porch's dashboards know.
const MILLISECONDS: [f64; 14] =
    [0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0];

pub(crate) type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

/// The metrics of every program.
#[derive(Debug)]
pub(crate) struct Metrics {
    served: Durations<Rpc>,
}

/// A method and how it ended, under OpenTelemetry's names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Rpc {
    rpc_system: &'static str,
    rpc_service: &'static str,
    rpc_method: String,
    rpc_grpc_status_code: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: &'static str,
}

// === impl Metrics ===

impl Metrics {
    pub(crate) fn new(version: &'static str, registry: &mut Registry) -> Self {
        let build: Family<Build, Gauge> = Family::default();
        build.get_or_create(&Build { version }).set(1);
        registry.register("loggia_build_info", "Which version of Loggia runs", build);
        registry.register_collector(Box::new(Process));
        let served = Family::new_with_constructor(milliseconds as fn() -> Histogram);
        registry.register(
            "rpc_server_duration_milliseconds",
            "How long gRPC calls to this program took, by method and status",
            served.clone(),
        );
        Self { served }
    }

    pub(crate) fn served(&self, call: &Ended<'_>) {
        let rpc = Rpc::new(call.service, call.method, call.code as i32);
        self.served.get_or_create(&rpc).observe(in_milliseconds(call.took));
    }
}

// === impl Rpc ===

impl Rpc {
    pub(crate) fn new(service: &'static str, method: &str, code: i32) -> Self {
        Self {
            rpc_system: "grpc",
            rpc_service: service,
            rpc_method: method.to_owned(),
            rpc_grpc_status_code: code,
        }
    }
}

pub(crate) fn milliseconds() -> Histogram {
    Histogram::new(MILLISECONDS)
}

pub(crate) fn in_milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
