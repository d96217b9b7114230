//! The package service, on the functions that this runner has.

use std::sync::Arc;
use std::time::Instant;

use loggia_evaluator::{Evaluator, Lifecycle};
use loggia_render::guard::Guard;
use loggia_render::service::PackageService;
use loggia_render::{
    Builtin, Call, Exec, FunctionRef, FunctionRuntime, Local, Multi, Options, Running, RuntimeError,
    SchemaFolders,
};
use loggia_telemetry::Telemetry;
use tonic::Code;

/// A runtime whose functions are counted as those of calls are.
#[derive(Debug)]
pub(crate) struct Counted<R> {
    runtime: R,
    telemetry: Telemetry,
}

/// The functions of the catalog.
pub(crate) fn builtin(schemas: SchemaFolders, telemetry: Telemetry) -> Counted<Builtin> {
    let runtime = Builtin::on_own_threads(Guard::default()).with_schemas(schemas);
    Counted { runtime, telemetry }
}

/// A service that runs functions as calls to the evaluator do, except that built-in ones work on trees.
pub(crate) fn service(
    evaluator: Arc<dyn Evaluator>,
    builtin: Option<Counted<Builtin>>,
    image_prefix: String,
    lifecycle: &Lifecycle,
    message_limit: usize,
) -> PackageService {
    let mut runtime = Multi::default();
    if let Some(builtin) = builtin {
        runtime.push(builtin);
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

// === impl Counted ===

impl<R: FunctionRuntime> FunctionRuntime for Counted<R> {
    fn name(&self) -> &'static str {
        self.runtime.name()
    }

    fn check(&self, function: &FunctionRef) -> Result<(), RuntimeError> {
        self.runtime.check(function)
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(async move {
            let begin = Instant::now();
            let ended = self.runtime.run(call).await;
            let (code, cause) = match &ended {
                Ok(outcome) if outcome.exit_code == 0 => (Code::Ok, None),
                Ok(outcome) => (Code::Internal, Some(format!("exit status {}", outcome.exit_code))),
                // Somebody else is asked then.
                Err(RuntimeError::NotFound { .. }) => return ended,
                Err(_) => (Code::Internal, Some("it could not be run".to_owned())),
            };
            self.telemetry.ran(call.function.name(), self.name(), code, begin.elapsed(), cause);
            ended
        })
    }
}
