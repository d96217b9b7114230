//! Functions run by an evaluator of this process: what a function-runner does, without the wire.

use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;

use loggia_evaluator::{self as evaluator, Error, Evaluator};
use loggia_go::quote;

use super::{Call, FunctionRef, FunctionRuntime, Outcome, Running, RuntimeError, exit_code};

/// Runs functions by an evaluator.
#[derive(Clone, Debug)]
pub struct Local {
    evaluator: Arc<dyn Evaluator>,
}

impl Local {
    /// A runtime for an evaluator, which may be several in a row.
    #[must_use]
    pub fn new(evaluator: Arc<dyn Evaluator>) -> Self {
        Self { evaluator }
    }
}

impl FunctionRuntime for Local {
    fn name(&self) -> &'static str {
        self.evaluator.name()
    }

    /// Whether an evaluator has a function shows only when it is asked to run it.
    fn check(&self, function: &FunctionRef) -> Result<(), RuntimeError> {
        function.image().map(|_| ())
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(async move {
            let image = call.function.image()?.to_owned();
            // Whoever waits no longer drops this, which ends the function.
            let call_to = evaluator::Call { image, resource_list: call.list.emit().into(), deadline: None };
            match self.evaluator.evaluate(&call_to).await {
                Ok(answer) => {
                    let log = String::from_utf8_lossy(&answer.log).into_owned();
                    Outcome::of_text(&call.function, &answer.resource_list, log, 0)
                }
                Err(error) => failure(&call.function, error),
            }
        })
    }
}

/// A function that ran and failed is an outcome; one that could not be run is an error.
fn failure(function: &FunctionRef, error: Error) -> Result<Outcome, RuntimeError> {
    match error {
        Error::Failed { status, stderr, results, .. }
        | Error::FailedWithResults { status, stderr, results, .. } => {
            let mut stderr = stderr.text();
            if let Some(signal) = status.signal() {
                stderr.push_str(&format!("ended by signal {signal}\n"));
            }
            Ok(Outcome::of_failure(&results, stderr, exit_code(status)))
        }
        Error::NotFound { asked, .. } => {
            let asked = if asked.is_empty() {
                "no runtime is enabled".to_owned()
            } else {
                format!("asked: {}", asked.join(", "))
            };
            Err(RuntimeError::NotFound { function: function.name().to_owned(), advice: vec![asked] })
        }
        error => Err(RuntimeError::Failed(format!("func eval {} failed: {error}", quote(function.name())))),
    }
}
