//! Watching calls: one guard a call reports how it ended, also if the caller went away first.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::wrote;
use crate::{Call, Code, Context, FunctionRef, Knows, Outcome, Recorded, RunError, Running, Runtime, Trace};

/// Hears of calls.
pub trait Observer: fmt::Debug + Send + Sync {
    /// A call begins at this place of a trace, if it is part of one. What this returns is the place of the work inside
    /// the call.
    fn began(&self, _trace: Option<&Trace>) -> Option<Trace> {
        None
    }

    /// A call is over.
    fn ended(&self, ended: &Ended<'_>);
}

/// A call that is over.
#[derive(Debug)]
pub struct Ended<'a> {
    pub call: &'a Call,
    pub code: Code,
    /// Why it failed, without a word of the package.
    pub cause: Option<String>,
    /// The size of the answer.
    pub output: Option<usize>,
    pub took: Duration,
    pub recorded: Recorded,
    /// The context that the call came with.
    pub context: Option<&'a Context>,
    /// Where the work inside the call was placed in the trace.
    pub inside: Option<&'a Trace>,
}

/// A call that goes on. Dropped before [`end`](Self::end), it reports that the caller went away.
#[derive(Debug)]
pub struct Watch<'a> {
    call: &'a Call,
    observers: &'a [&'a dyn Observer],
    begin: Instant,
    context: Option<Context>,
    inside: Option<Trace>,
    over: bool,
}

/// A runtime whose calls are reported to an observer.
#[derive(Clone, Debug)]
pub struct Observed<R> {
    pub runtime: R,
    pub observer: Arc<dyn Observer>,
}

// === impl Observed ===

impl<R: Runtime> Runtime for Observed<R> {
    fn name(&self) -> &'static str {
        self.runtime.name()
    }

    fn knows(&self, function: &FunctionRef) -> Knows {
        self.runtime.knows(function)
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(async move {
            let observers = [&*self.observer];
            let watch = Watch::new(call, &observers, Instant::now());
            let ended = watch.during(self.runtime.run(call)).await;
            watch.end(&ended);
            ended
        })
    }

    fn advice(&self, function: &FunctionRef) -> Vec<String> {
        self.runtime.advice(function)
    }

    fn tags(&self, image: &str) -> Vec<String> {
        self.runtime.tags(image)
    }
}

// === impl Watch ===

impl<'a> Watch<'a> {
    /// Watches a call that began at this time, in the context of this task.
    #[must_use]
    pub fn new(call: &'a Call, observers: &'a [&'a dyn Observer], begin: Instant) -> Self {
        let context = Context::current();
        let trace = context.as_ref().and_then(Context::trace);
        let inside = observers.iter().find_map(|observer| observer.began(trace));
        Self { call, observers, begin, context, inside, over: false }
    }

    /// Runs the work of the call, at its place in the trace.
    pub async fn during<F: Future>(&self, work: F) -> F::Output {
        match (&self.context, &self.inside) {
            (Some(context), Some(inside)) => context.at(inside.clone()).continued(work).await,
            _ => work.await,
        }
    }

    /// Reports how the call ended.
    pub fn end(mut self, result: &Result<Outcome, RunError>) {
        match result {
            Ok(outcome) if outcome.exit.success() => self.report(Code::Ok, None, outcome.output.size()),
            Ok(outcome) => {
                let cause = outcome.cause(self.call.record.read().results);
                self.report(outcome.failure_code(), Some(cause), None);
            }
            Err(error) => self.report(error.code(), Some(error.cause(self.call.function.name())), None),
        }
    }

    fn report(&mut self, code: Code, cause: Option<String>, output: Option<usize>) {
        self.over = true;
        let ended = Ended {
            call: self.call,
            code,
            cause,
            output,
            took: self.begin.elapsed(),
            recorded: self.call.record.read(),
            context: self.context.as_ref(),
            inside: self.inside.as_ref(),
        };
        for observer in self.observers {
            observer.ended(&ended);
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.over {
            let (code, cause) = self.call.given_up();
            self.report(code, Some(cause.to_owned()), None);
        }
    }
}

// === impl Outcome ===

impl Outcome {
    /// The code that the caller of a function that failed gets.
    #[must_use]
    pub fn failure_code(&self) -> Code {
        self.remote.as_ref().map_or(Code::Internal, |remote| remote.code)
    }

    /// How a function failed, in words that are fit for a log. Its results are read unless their number is known.
    fn cause(&self, results: Option<usize>) -> String {
        if let Some(remote) = &self.remote {
            return remote.cause();
        }
        let results = results.unwrap_or_else(|| self.results().0.len());
        format!("{}, {results} results, {}", self.exit, wrote(&self.stderr))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{Budget, Exit, Image};

    #[derive(Debug, Default)]
    struct Heard(Mutex<Vec<(Code, Option<String>)>>);

    impl Observer for Heard {
        fn ended(&self, ended: &Ended<'_>) {
            self.0.lock().unwrap().push((ended.code, ended.cause.clone()));
        }
    }

    #[tokio::test]
    async fn a_call_is_reported_once_however_it_ends() {
        let heard = Heard::default();
        let observers: [&dyn Observer; 1] = [&heard];
        let call = Call::of_image(Image::new("x:v1"), "".into(), Budget::UNBOUNDED);
        let watch = || Watch::new(&call, &observers, Instant::now());
        watch().end(&Ok(Outcome::default()));
        watch().end(&Ok(Outcome { exit: Exit::Code(3), ..Outcome::default() }));
        watch().end(&Err(RunError::TimedOut));
        drop(watch());
        let heard: Vec<_> = heard.0.into_inner().unwrap();
        let (codes, causes): (Vec<_>, Vec<_>) = heard.into_iter().unzip();
        assert_eq!(codes, [Code::Ok, Code::Internal, Code::DeadlineExceeded, Code::Cancelled]);
        assert_eq!(causes[1].as_deref(), Some("exit status 3, 0 results, 0 bytes on standard error"));
        assert!(causes[3].is_some());
    }
}
