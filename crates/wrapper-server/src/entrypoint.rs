//! The function of this container, as a runtime.

use loggia_function::{Call, FunctionRef, InvalidOutput, Knows, Outcome, RunError, Running, Runtime};
use loggia_krm::{Severity, sdk};
use loggia_process::{Command, Processes};
use tracing::{debug, warn};

/// Runs one command, whatever the image that a call names, and looks at what it wrote.
#[derive(Debug)]
pub(crate) struct Entrypoint {
    pub(crate) command: Command,
    pub(crate) processes: Processes,
}

// === impl Entrypoint ===

impl Entrypoint {
    async fn evaluate(&self, call: &Call) -> Result<Outcome, RunError> {
        let outcome = self.processes.run_call(&self.command, call, call.budget).await?;
        debug!(image = %call.function, output = ?outcome.output, "The function ended");
        check(call, &outcome)?;
        Ok(outcome)
    }
}

impl Runtime for Entrypoint {
    fn name(&self) -> &'static str {
        "wrapper"
    }

    fn knows(&self, _: &FunctionRef) -> Knows {
        Knows::Yes
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(self.evaluate(call))
    }
}

/// Output that is not a `ResourceList` is an error whatever the exit code says.
fn check(call: &Call, outcome: &Outcome) -> Result<(), RunError> {
    let Outcome { output, stderr, exit, .. } = outcome;
    let results = sdk::results(&output.to_bytes()).map_err(|error| {
        RunError::InvalidOutput(Box::new(InvalidOutput::new(*exit, stderr.clone(), &error)))
    })?;
    let errors = results.0.iter().filter(|result| result.severity == Some(Severity::Error)).count();
    if exit.success() && errors > 0 {
        warn!(image = %call.function, errors, "The function succeeded with results of severity error");
    }
    Ok(())
}
