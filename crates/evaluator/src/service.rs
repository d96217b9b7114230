//! An evaluator behind the wire protocol.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use loggia_process::passed;
use prost::Message as _;
use tokio::time::Instant;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Request, Response, Status};
use tracing::{error, info};

use crate::context::{Notes, RAN_HEADER};
use crate::lifecycle::{Lifecycle, Phase};
use crate::server::Arrival;
use crate::wire::{EvaluateFunctionRequest, EvaluateFunctionResponse, FunctionEvaluator};
use crate::{Answer, Call, Error, Evaluator, code_name};

/// Takes calls off the wire, and answers each one whatever happens inside.
#[derive(Clone, Debug)]
pub(crate) struct EvaluatorService {
    pub(crate) evaluator: Arc<dyn Evaluator>,
    pub(crate) lifecycle: Lifecycle,
    /// The most that an answer may take.
    pub(crate) message_limit: usize,
}

/// A call without an answer yet. Dropped, it was given up, and the log says so.
struct Unanswered<'a> {
    call: &'a Call,
    begin: Instant,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let Self { call, begin } = self;
        let (code, cause) = call.given_up();
        info!(image = call.image, code = code_name(code), cause, took = ?begin.elapsed(), "Evaluated");
    }
}

// === impl EvaluatorService ===

#[tonic::async_trait]
impl FunctionEvaluator for EvaluatorService {
    async fn evaluate_function(
        &self,
        request: Request<EvaluateFunctionRequest>,
    ) -> Result<Response<EvaluateFunctionResponse>, Status> {
        let begin = request.extensions().get::<Arrival>().map_or_else(Instant::now, |arrival| arrival.0);
        let deadline = timeout_of(request.metadata()).and_then(|timeout| begin.checked_add(timeout));
        let EvaluateFunctionRequest { image, resource_list } = request.into_inner();
        let call = Call { image, resource_list, deadline };
        let unanswered = Unanswered { call: &call, begin };
        let notes = Notes::default();
        let answer = notes.during(self.answer(&call)).await.and_then(|answer| self.fit(&call, answer));
        // There is one now, and a line of its own for it.
        std::mem::forget(unanswered);
        let (took, noted) = (begin.elapsed(), notes.read());
        let result = answer.map_err(|error| (error.status(), error.cause()));
        info!(
            image = call.image,
            evaluator = noted.evaluator,
            pod = noted.pod.as_deref(),
            code = code_name(result.as_ref().map_or_else(|(status, _)| status.code(), |_| Code::Ok)),
            cause = result.as_ref().err().map(|(_, cause)| cause.as_str()),
            input = call.resource_list.len(),
            output = result.as_ref().ok().map(|response| response.resource_list.len()),
            queued = noted.queued.map(debug),
            ran = noted.called.map(debug),
            ?took,
            "Evaluated"
        );
        let mut response = Response::new(result.map_err(|(status, _)| status)?);
        if let Some(ran) = noted.called {
            response.metadata_mut().insert(RAN_HEADER, MetadataValue::from(micros(ran)));
        }
        Ok(response)
    }
}

impl EvaluatorService {
    async fn answer(&self, call: &Call) -> Result<Answer, Error> {
        let mut in_flight = self.lifecycle.enter().map_err(|phase| {
            Error::Unavailable(match phase {
                Phase::Starting => "the function evaluator is starting; try again",
                _ => "the function evaluator is shutting down; try again",
            })
        })?;
        let evaluation = unpanicked(self.evaluator.evaluate(call));
        let timed_out = || Error::TimedOut { image: call.image.clone() };
        tokio::select! {
            biased;
            answer = evaluation => answer.unwrap_or_else(|reason| {
                // What a panic says may quote the package: it goes to the caller, who has that anyway.
                error!(image = call.image, "An evaluator panicked; this is a defect, please report it");
                Err(Error::Defect { image: call.image.clone(), reason })
            }),
            () = passed(call.deadline) => Err(timed_out()),
            () = in_flight.given_up() => {
                Err(Error::Unavailable("the function evaluator stopped before the function ended; try again"))
            }
        }
    }

    /// The answer as a message within the limit. The log is worth less than the resources: it gives way.
    fn fit(&self, call: &Call, answer: Answer) -> Result<EvaluateFunctionResponse, Error> {
        let Answer { resource_list, log } = answer;
        let mut response = EvaluateFunctionResponse { resource_list, log };
        let size = response.encoded_len();
        if size > self.message_limit {
            response.log =
                Bytes::from_static(b"[the log was left out: it does not fit into the message limit]\n");
        }
        match response.encoded_len() {
            fitting if fitting <= self.message_limit => Ok(response),
            _ => Err(Error::AnswerTooLarge { image: call.image.clone(), size, limit: self.message_limit }),
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
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

/// How long the caller will wait, from `grpc-timeout`.
pub(crate) fn timeout_of(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_in_every_unit() {
        let read = |text: &'static str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", tonic::metadata::MetadataValue::from_static(text));
            timeout_of(&metadata)
        };
        assert_eq!(read("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(read("3M"), Some(Duration::from_secs(180)));
        assert_eq!(read("4S"), Some(Duration::from_secs(4)));
        assert_eq!(read("200m"), Some(Duration::from_millis(200)));
        assert_eq!(read("99999999u"), Some(Duration::from_micros(99_999_999)));
        assert_eq!(read("0n"), Some(Duration::ZERO));
        for bad in ["", "S", "5", "-1S", "123456789S", "1d", "1 S"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(timeout_of(&MetadataMap::new()), None);
    }

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
