//! The package service, on the functions that this runner has.

use std::sync::Arc;

use loggia_evaluator::{Evaluator, Lifecycle};
use loggia_render::guard::Guard;
use loggia_render::service::PackageService;
use loggia_render::{Builtin, Exec, Local, Multi, Options};

/// A service that runs functions as calls to the evaluator do, except that built-in ones work on trees.
pub(crate) fn service(
    evaluator: Arc<dyn Evaluator>,
    builtin: bool,
    image_prefix: String,
    lifecycle: &Lifecycle,
    message_limit: usize,
) -> PackageService {
    let mut runtime = Multi::default();
    if builtin {
        runtime.push(Builtin::on_own_threads(Guard::default()));
    }
    // Commands that a package names are never run on a server; this says so.
    runtime.push(Exec::new(false, Exec::TIMEOUT));
    runtime.push(Local::new(evaluator));
    PackageService {
        runtime: Arc::new(runtime),
        options: Options { image_prefix, ..Options::default() },
        lifecycle: lifecycle.clone(),
        message_limit,
    }
}
