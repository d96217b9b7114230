//! The package service, on the functions that this runner has.

use std::sync::Arc;

use loggia_function::policy::Allowed;
use loggia_function::{Chain, Observed};
use loggia_grpc::Lifecycle;
use loggia_packages::service::{PackageService, Threads};
use loggia_render::{Limits, Options};
use loggia_telemetry::Telemetry;

use crate::config::PackageConfig;

/// A service that runs functions as calls to the evaluator do.
pub(crate) fn service(
    runtime: Allowed<Chain>,
    telemetry: Telemetry,
    image_prefix: String,
    lifecycle: &Lifecycle,
    message_limit: usize,
    limits: &PackageConfig,
) -> PackageService {
    let PackageConfig { nesting, steps, paths } = *limits;
    let output_flag = "--max-request-body-size";
    let limits = Limits { nesting, steps, output: message_limit, output_flag, ..Limits::default() };
    PackageService {
        runtime: Arc::new(Observed { runtime, observer: Arc::new(telemetry) }),
        options: Options { image_prefix, limits, paths, ..Options::default() },
        lifecycle: lifecycle.clone(),
        message_limit,
        threads: Threads::default(),
    }
}
