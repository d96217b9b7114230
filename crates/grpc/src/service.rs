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
use tokio::sync::Semaphore;
use tokio::time::sleep_until;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status};
use tracing::{error, info};

use crate::headers::{RAN_HEADER, time_limit};
use crate::lifecycle::{Lifecycle, Phase};
use crate::memory_pool::Held;
use crate::status;
use crate::wire::details;
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

/// The longest name of an image. A reference has at most 255 characters before its tag or digest.
const LONGEST_IMAGE: usize = 2048;

/// Results up to this size are read at once.
const QUICKLY_READ: usize = 32 << 10;

/// How many long outputs are read at once.
const LONG_WORK: usize = 2;

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
        let (time_limit, held) = (time_limit(&request), request.extensions().get::<Held>().cloned());
        let EvaluateFunctionRequest { image, resource_list } = request.into_inner();
        if image.len() > LONGEST_IMAGE {
            let text = format!(
                "the name of the image has {} bytes; at most {LONGEST_IMAGE} are accepted",
                image.len()
            );
            return Err(Status::invalid_argument(text));
        }
        if let Some(held) = &held {
            held.shrink(resource_list.len() + image.len());
        }
        let image = Image::with_prefix(&image, self.evaluations.image_prefix.as_deref());
        let budget = Budget { deadline: time_limit.deadline, output: self.message_limit };
        let call = Call::of_image(image, resource_list, budget);
        let observers = [Some(&Log as &dyn Observer), self.evaluations.observer.as_deref()];
        let observers: Vec<&dyn Observer> = observers.into_iter().flatten().collect();
        let watch = Watch::new(&call, &observers, time_limit.arrival);
        let ended = match watch.during(self.answer(&call)).await {
            Ok(outcome) if outcome.exit.success() => self.fit(outcome, held.as_ref()).await,
            Ok(outcome) => {
                let status = self.failed(&call, &outcome).await;
                watch.end(&Ok(outcome));
                return Err(status);
            }
            Err(error) => Err(time_limit.explain(error)),
        };
        watch.end(&ended);
        let outcome = ended.map_err(|error| status::of_error(call.function.name(), &error))?;
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

    /// The outcome as it fits into a message and into memory. Standard error is worth less than the resources: it
    /// gives way.
    async fn fit(&self, mut outcome: Outcome, held: Option<&Held>) -> Result<Outcome, RunError> {
        if let Payload::List(list) = outcome.output {
            outcome.output = Payload::Bytes(off_the_workers(move || Payload::List(list).to_bytes()).await?);
        }
        let size = message(&outcome).encoded_len();
        if size > self.message_limit {
            let note = "[the log was left out: it does not fit into the message limit]\n";
            outcome.stderr = note.to_owned().into();
        }
        let fitting = message(&outcome).encoded_len();
        if fitting > self.message_limit {
            return Err(RunError::AnswerTooLarge { size, limit: self.message_limit });
        }
        match held.map(|held| held.answer(fitting)) {
            Some(Err(_)) => Err(RunError::NoMemory { size: fitting, flag: "--memory-budget" }),
            _ => Ok(outcome),
        }
    }

    /// The status of a function that failed. To read its results may take a while.
    async fn failed(&self, call: &Call, outcome: &Outcome) -> Status {
        let (name, text) = (call.function.name(), self.evaluations.failure_text);
        let small = match &outcome.output {
            Payload::Bytes(bytes) => bytes.len() <= QUICKLY_READ,
            Payload::List(_) => outcome.remote.is_some(),
        };
        let status = if small {
            status::of_failure(name, outcome, text)
        } else {
            let (name, outcome) = (name.to_owned(), outcome.clone());
            let made = off_the_workers(move || status::of_failure(&name, &outcome, text)).await;
            made.unwrap_or_else(|error| status::of_error(call.function.name(), &error))
        };
        let results = details::EvaluationError::of(&status).map(|details| details.results_total as usize);
        call.record.note(|recorded| recorded.results = results);
        status
    }
}

/// Does something that takes a while where it holds up no other call. Not too many at once: each has a tree in memory.
async fn off_the_workers<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RunError> {
    static TURNS: Semaphore = Semaphore::const_new(LONG_WORK);
    let _turn = TURNS.acquire().await;
    let defect = |error: tokio::task::JoinError| RunError::Defect { reason: error.to_string() };
    tokio::task::spawn_blocking(work).await.map_err(defect)
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
