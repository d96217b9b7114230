//! A call of a function as a child process.

use loggia_function::{Budget, Call, Exit, Outcome, Payload, RunError, Stderr};
use tokio::time::Instant;

use crate::{Bounds, Captured, Command, Error, Processes};

impl Processes {
    /// Runs a command on a call's input within a budget, and records how long it waited and ran and how it ended.
    pub async fn run_call(&self, command: &Command, call: &Call, budget: Budget) -> Result<Outcome, Error> {
        let slot = self.slot(budget.deadline).await?;
        call.record.note(|recorded| recorded.queued = Some(slot.waited()));
        let begin = Instant::now();
        let bounds = Bounds { deadline: budget.deadline, stdout: budget.output };
        let finished = slot.run(command, call.input.to_bytes(), bounds).await;
        if !matches!(finished, Err(Error::DeadlineExceeded | Error::Stopped)) {
            call.record.note(|recorded| recorded.ran = Some(begin.elapsed()));
        }
        let finished = finished?;
        let exit = Exit::from(finished.status);
        call.record.note(|recorded| recorded.exit = Some(exit));
        let (output, stderr) = (Payload::Bytes(finished.stdout), kept(&finished.stderr));
        Ok(Outcome { output, stderr, exit, remote: None })
    }
}

/// What a failed child means for the call that started it.
impl From<Error> for RunError {
    fn from(error: Error) -> Self {
        match error {
            Error::DeadlineExceeded => Self::TimedOut,
            Error::TooMuchOutput { limit, stderr } => Self::TooMuchOutput { limit, stderr: kept(&stderr) },
            #[cfg(feature = "confine")]
            error @ Error::OverLimit { .. } => Self::OverLimit { reason: error.to_string() },
            Error::Stopped => {
                Self::Interrupted("the function evaluator stopped before the function ended; try again")
            }
            error @ (Error::NotStarted { .. } | Error::Pipes(_)) => {
                Self::NotStarted { reason: error.to_string(), origin: String::new() }
            }
        }
    }
}

fn kept(captured: &Captured) -> Stderr {
    Stderr::new(captured.bytes(), captured.total())
}
