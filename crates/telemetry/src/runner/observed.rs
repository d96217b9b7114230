//! An evaluator whose every evaluation is counted, also one that nobody waited for.

use std::time::{Duration, SystemTime};

use loggia_evaluator::context::{CallId, Context, Noted, Notes, note};
use loggia_evaluator::{Answer, Call, Error, Evaluation, Evaluator};
use loggia_registry::Reference;
use tokio::time::Instant;
use tonic::Code;

use super::traces::Spans;
use crate::Telemetry;

/// Counts what goes through it.
#[derive(Debug)]
pub struct Observed<E> {
    pub evaluator: E,
    pub telemetry: Telemetry,
}

/// An evaluation that is over.
#[derive(Debug)]
pub(crate) struct Evaluated {
    pub(crate) at: SystemTime,
    pub(crate) call: CallId,
    /// Its place in a trace, if it is recorded.
    pub(crate) spans: Option<Spans>,
    pub(crate) image: String,
    /// `none` if nobody had the function.
    pub(crate) evaluator: &'static str,
    pub(crate) code: Code,
    pub(crate) total: Duration,
    pub(crate) noted: Noted,
    pub(crate) input: Option<usize>,
    pub(crate) output: Option<usize>,
    /// Why it failed, without a word of the package.
    pub(crate) cause: Option<String>,
}

/// An evaluation that goes on. Dropped before its end it counts as well.
struct Watch<'a> {
    telemetry: &'a Telemetry,
    call: &'a Call,
    id: CallId,
    spans: Option<Spans>,
    notes: Notes,
    begin: Instant,
    over: bool,
}

// === impl Observed ===

impl<E: Evaluator> Evaluator for Observed<E> {
    fn name(&self) -> &'static str {
        self.evaluator.name()
    }

    fn evaluate<'a>(&'a self, call: &'a Call) -> Evaluation<'a> {
        Box::pin(async move {
            let context = Context::current();
            let watch = Watch {
                telemetry: &self.telemetry,
                call,
                id: context.as_ref().map_or_else(CallId::new, Context::id),
                spans: self.telemetry.shared.runner.spans(context.as_ref()),
                notes: Notes::default(),
                begin: Instant::now(),
                over: false,
            };
            let evaluation = watch.notes.during(self.evaluator.evaluate(call));
            let outcome = match (&watch.spans, context) {
                (Some(spans), Some(context)) => context.at(spans.inside()).continued(evaluation).await,
                _ => evaluation.await,
            };
            watch.end(&outcome);
            outcome
        })
    }
}

// === impl Watch ===

impl Watch<'_> {
    fn end(mut self, outcome: &Result<Answer, Error>) {
        match outcome {
            Ok(answer) => self.tell(Code::Ok, Some(answer.resource_list.len()), None),
            Err(error) => self.tell(error.code(), None, Some(error.cause())),
        }
    }

    fn tell(&mut self, code: Code, output: Option<usize>, cause: Option<String>) {
        self.over = true;
        let noted = self.notes.read();
        // Whoever asked, and logs a line for the call, wants to know as well.
        note(|outer| outer.clone_from(&noted));
        let evaluator = noted.evaluator.unwrap_or("none");
        self.telemetry.shared.runner.evaluated(&Evaluated {
            at: SystemTime::now(),
            call: self.id,
            spans: self.spans.clone(),
            image: match evaluator {
                "pod" => full_name(&self.call.image),
                _ => self.call.image.clone(),
            },
            evaluator,
            code,
            total: self.begin.elapsed(),
            noted,
            input: Some(self.call.resource_list.len()),
            output,
            cause,
        });
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let (code, cause) = self.call.given_up();
        self.tell(code, None, Some(cause.to_owned()));
    }
}

/// The name under which the pool knows an image.
fn full_name(image: &str) -> String {
    image.parse::<Reference>().map_or_else(|_| image.to_owned(), |reference| reference.to_string())
}
