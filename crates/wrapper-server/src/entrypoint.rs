//! The function of this container, as an evaluator.

use loggia_evaluator::{Answer, Call, Error, Evaluation, Evaluator, context};
use loggia_krm::{Severity, sdk};
use loggia_process::{Command, Finished, Processes};
use tracing::{debug, warn};

/// Runs one command, whatever the image that a call names, and looks at what it wrote.
#[derive(Debug)]
pub(crate) struct Entrypoint {
    pub(crate) command: Command,
    pub(crate) processes: Processes,
}

// === impl Entrypoint ===

impl Evaluator for Entrypoint {
    fn name(&self) -> &'static str {
        "wrapper"
    }

    fn evaluate<'a>(&'a self, call: &'a Call) -> Evaluation<'a> {
        Box::pin(async move {
            let input = call.resource_list.clone();
            let finished = context::run_noted(&self.processes, &self.command, input, call.deadline).await;
            outcome(call, finished.map_err(|error| Error::of_process(call, error))?)
        })
    }
}

/// Output that is no `ResourceList` is an error whatever the exit code says, and a bad exit code is one
/// whatever the output says.
fn outcome(call: &Call, finished: Finished) -> Result<Answer, Error> {
    let Finished { status, stdout, stderr } = finished;
    let image = || call.image.clone();
    debug!(image = call.image, stdout = stdout.len(), "Evaluated");
    let results = match sdk::results(&stdout) {
        Ok(results) => results,
        Err(source) => return Err(Error::InvalidOutput { image: image(), status, stderr, source }),
    };
    if !status.success() {
        return Err(Error::FailedWithResults { image: image(), status, stderr, results });
    }
    let errors = results.0.iter().filter(|item| item.severity == Some(Severity::Error)).count();
    if errors > 0 {
        warn!(image = call.image, errors, "The function succeeded with results of severity error");
    }
    Ok(Answer { resource_list: stdout, log: stderr.bytes() })
}
