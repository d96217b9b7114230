//! The function of this container, as a runtime.

use loggia_function::{Call, FunctionRef, InvalidOutput, Knows, Outcome, RunError, Running, Runtime};
use loggia_krm::{Severity, sdk};
use loggia_process::{Command, Processes};
use tokio::sync::Semaphore;
use tracing::{debug, warn};

/// Outputs up to this size are read at once.
const QUICKLY_READ: usize = 32 << 10;

/// Runs one command, whatever the image that a call names, and looks at what it wrote.
#[derive(Debug)]
pub(crate) struct Entrypoint {
    pub(crate) command: Command,
    pub(crate) processes: Processes,
    /// The right to read a long output.
    pub(crate) reading: Semaphore,
}

// === impl Entrypoint ===

impl Entrypoint {
    async fn evaluate(&self, call: &Call) -> Result<Outcome, RunError> {
        let outcome = self.processes.run_call(&self.command, call, call.budget).await?;
        debug!(image = %call.function, output = ?outcome.output, "The function ended");
        self.check(call, &outcome).await?;
        Ok(outcome)
    }

    /// Output that is not a `ResourceList` is an error whatever the exit code says.
    async fn check(&self, call: &Call, outcome: &Outcome) -> Result<(), RunError> {
        let Outcome { output, stderr, exit, .. } = outcome;
        let bytes = output.to_bytes();
        let errors = if bytes.len() <= QUICKLY_READ {
            errors(&bytes)
        } else {
            // This server has one thread for all calls, and probes. One at a time, since each has a tree in memory.
            let _turn = self.reading.acquire().await;
            let defect = |error: tokio::task::JoinError| RunError::Defect { reason: error.to_string() };
            tokio::task::spawn_blocking(move || errors(&bytes)).await.map_err(defect)?
        };
        let errors = errors.map_err(|error| {
            RunError::InvalidOutput(Box::new(InvalidOutput::new(*exit, stderr.clone(), &error)))
        })?;
        if exit.success() && errors > 0 {
            warn!(image = %call.function, errors, "The function succeeded with results of severity error");
        }
        Ok(())
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

/// How many results are errors.
fn errors(output: &[u8]) -> Result<usize, sdk::Error> {
    let results = sdk::results(output)?;
    Ok(results.0.iter().filter(|result| result.severity == Some(Severity::Error)).count())
}
