//! The package service, on the functions that this runner has.

use std::sync::Arc;

use loggia_function::policy::Allowed;
use loggia_function::{Chain, Observed};
use loggia_grpc::Lifecycle;
use loggia_packages::service::PackageService;
use loggia_render::Options;
use loggia_telemetry::Telemetry;

/// A service that runs functions as calls to the evaluator do.
pub(crate) fn service(
    runtime: Allowed<Chain>,
    telemetry: Telemetry,
    image_prefix: String,
    lifecycle: &Lifecycle,
    message_limit: usize,
) -> PackageService {
    PackageService {
        runtime: Arc::new(Observed { runtime, observer: Arc::new(telemetry) }),
        options: Options { image_prefix, ..Options::default() },
        lifecycle: lifecycle.clone(),
        message_limit,
    }
}
