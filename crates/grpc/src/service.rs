//! A runtime behind the wire protocol.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use loggia_function::{Budget, Call, Ended, Image, Observer, Outcome, Payload, RunError, Runtime, Watch};
use prost::Message as _;
use tokio::time::sleep_until;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status};
use tracing::{error, info};

use crate::headers::{RAN_HEADER, arrival, deadline};
use crate::lifecycle::{Lifecycle, Phase};
use crate::status;
use crate::wire::{EvaluateFunctionRequest, EvaluateFunctionResponse, FunctionEvaluator};

/// What the function evaluator runs, and how it speaks about it.
#[derive(Clone, Debug)]
pub struct Evaluations {
    pub runtime: Arc<dyn Runtime>,
    /// Goes before the names of images that have no slash.
    pub image_prefix: Option<Arc<str>>,
    /// Hears of every call.
    pub observer: Option<Arc<dyn Observer>>,
    pub failure_text: FailureText,
}

/// How a function that failed is described: Porch's two programs do so differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailureText {
    /// As its function runner does for a program of its own machine.
    #[default]
    Runner,
    /// As its wrapper server does.
    Wrapper,
}

/// Takes calls off the wire, and answers each one whatever happens inside.
#[derive(Clone, Debug)]
pub(crate) struct EvaluatorService {
    evaluations: Evaluations,
    lifecycle: Lifecycle,
    /// The most bytes that a message may have.
    message_limit: usize,
}

/// Writes the one log line of a call.
#[derive(Debug)]
struct Log;

// === impl Evaluations ===

impl Evaluations {
    /// Runs functions by this runtime, and nothing else.
    pub fn of(runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime, image_prefix: None, observer: None, failure_text: FailureText::default() }
    }
}

// === impl EvaluatorService ===

#[tonic::async_trait]
impl FunctionEvaluator for EvaluatorService {
    async fn evaluate_function(
        &self,
        request: Request<EvaluateFunctionRequest>,
    ) -> Result<Response<EvaluateFunctionResponse>, Status> {
        let (begin, deadline) = (arrival(&request), deadline(&request));
        let EvaluateFunctionRequest { image, resource_list } = request.into_inner();
        let image = Image::with_prefix(&image, self.evaluations.image_prefix.as_deref());
        let budget = Budget { deadline, output: self.message_limit };
        let call = Call::of_image(image, resource_list, budget);
        let observers = [Some(&Log as &dyn Observer), self.evaluations.observer.as_deref()];
        let observers: Vec<&dyn Observer> = observers.into_iter().flatten().collect();
        let watch = Watch::new(&call, &observers, begin);
        let ended = watch.during(self.answer(&call)).await.and_then(|outcome| self.fit(outcome));
        watch.end(&ended);
        let name = call.function.name();
        let outcome = ended.map_err(|error| status::of_error(name, &error))?;
        if !outcome.exit.success() {
            return Err(status::of_failure(name, &outcome, self.evaluations.failure_text));
        }
        let mut response = Response::new(message(&outcome));
        if let Some(ran) = call.record.read().ran {
            response.metadata_mut().insert(RAN_HEADER, MetadataValue::from(micros(ran)));
        }
        Ok(response)
    }
}

impl EvaluatorService {
    pub(crate) fn new(evaluations: Evaluations, lifecycle: Lifecycle, message_limit: usize) -> Self {
        Self { evaluations, lifecycle, message_limit }
    }

    async fn answer(&self, call: &Call) -> Result<Outcome, RunError> {
        let mut in_flight = self.lifecycle.enter().map_err(|phase| {
            RunError::Unavailable(match phase {
                Phase::Starting => "the function evaluator is starting; try again",
                _ => "the function evaluator is shutting down; try again",
            })
        })?;
        if let Some(image) = call.function.image() {
            image.reference().map_err(RunError::InvalidImage)?;
        }
        let running = unpanicked(self.evaluations.runtime.run(call));
        let late = async {
            match call.budget.deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = running => ended.unwrap_or_else(|reason| {
                // What a panic says may quote the package: it goes to the caller, who has that anyway.
                error!(image = %call.function, "An evaluator panicked; this is a defect, please report it");
                Err(RunError::Defect { reason })
            }),
            () = late => Err(RunError::TimedOut),
            () = in_flight.given_up() => {
                Err(RunError::Interrupted("the function evaluator stopped before the function ended; try again"))
            }
        }
    }

    /// The outcome as it fits into a message. Standard error is worth less than the resources: it gives way.
    fn fit(&self, mut outcome: Outcome) -> Result<Outcome, RunError> {
        if !outcome.exit.success() {
            return Ok(outcome);
        }
        outcome.output = Payload::Bytes(outcome.output.to_bytes());
        let size = message(&outcome).encoded_len();
        if size > self.message_limit {
            let note = "[the log was left out: it does not fit into the message limit]\n";
            outcome.stderr = note.to_owned().into();
        }
        match message(&outcome).encoded_len() {
            fitting if fitting <= self.message_limit => Ok(outcome),
            _ => Err(RunError::AnswerTooLarge { size, limit: self.message_limit }),
        }
    }
}

fn message(outcome: &Outcome) -> EvaluateFunctionResponse {
    let log: Bytes = outcome.stderr.bytes().clone();
    EvaluateFunctionResponse { resource_list: outcome.output.to_bytes(), log }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

// === impl Log ===

impl Observer for Log {
    fn ended(&self, ended: &Ended<'_>) {
        let Ended { call, code, cause, output, took, recorded, .. } = ended;
        info!(
            image = call.function.name(),
            evaluator = recorded.runtime,
            pod = recorded.pod.as_deref(),
            code = code.name(),
            cause,
            input = call.input.size(),
            output,
            queued = recorded.queued.map(tracing::field::debug),
            called = recorded.called.map(tracing::field::debug),
            ran = recorded.ran.map(tracing::field::debug),
            ?took,
            "Evaluated"
        );
    }
}

/// The same future, with a panic as an error of its own.
async fn unpanicked<F: Future>(future: F) -> Result<F::Output, String> {
    let mut future = pin!(future);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Poll::Ready(Err(format!("a panic: {}", text.unwrap_or_default())))
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_error() {
        assert_eq!(unpanicked(async { 1 }).await, Ok(1));
        let panics = async {
            if true {
                panic!("no {}", 1)
            }
        };
        assert_eq!(unpanicked(panics).await, Err("a panic: no 1".to_owned()));
    }
}
