//! An evaluation that is over: what metrics, traces and the status page have in common.

use std::time::{Duration, SystemTime};

use loggia_function::{CallId, Code, Context, Ended, FunctionRef, Recorded, Trace};

/// An evaluation that is over.
#[derive(Debug)]
pub(crate) struct Evaluated {
    pub(crate) at: SystemTime,
    pub(crate) call: CallId,
    /// Its place in a trace and the one of the work inside it, if it is recorded.
    pub(crate) traced: Option<(Trace, Trace)>,
    pub(crate) image: String,
    /// `none` if no runtime had the function.
    pub(crate) evaluator: &'static str,
    pub(crate) code: Code,
    pub(crate) total: Duration,
    pub(crate) recorded: Recorded,
    pub(crate) input: Option<usize>,
    pub(crate) output: Option<usize>,
    /// Why it failed, without a word of the package.
    pub(crate) cause: Option<String>,
}

// === impl Evaluated ===

impl From<&Ended<'_>> for Evaluated {
    fn from(ended: &Ended<'_>) -> Self {
        let Ended { call, code, cause, output, took, recorded, context, inside } = ended;
        let evaluator = recorded.runtime.unwrap_or("none");
        let image = match &call.function {
            // The name under which the pool knows it, so that a function has one name however callers write it.
            FunctionRef::Image(image) if evaluator == "pod" => image.full_name(),
            function => function.name(),
        };
        let trace = context.and_then(Context::trace).cloned();
        Self {
            at: SystemTime::now(),
            call: context.map_or_else(CallId::new, Context::id),
            traced: trace.zip(inside.cloned()),
            image: image.to_owned(),
            evaluator,
            code: *code,
            total: *took,
            recorded: recorded.clone(),
            input: call.input.size(),
            output: *output,
            cause: cause.clone(),
        }
    }
}

impl Evaluated {
    /// How long the call to the function took: the request to its pod, or else its process.
    pub(crate) fn called(&self) -> Option<Duration> {
        self.recorded.called.or(self.recorded.ran)
    }
}

#[cfg(test)]
mod tests {
    use loggia_function::{Budget, Call, Image, Outcome, RunError, Watch};
    use tokio::time::Instant;

    use super::*;

    #[derive(Debug, Default)]
    struct Names(std::sync::Mutex<Vec<String>>);

    impl loggia_function::Observer for Names {
        fn ended(&self, ended: &Ended<'_>) {
            self.0.lock().unwrap().push(Evaluated::from(ended).image);
        }
    }

    #[tokio::test]
    async fn a_function_in_a_pod_has_one_name_however_callers_write_it() {
        let names = Names::default();
        let observers: [&dyn loggia_function::Observer; 1] = [&names];
        for written in ["set-labels", "r.io/fns/set-labels:latest"] {
            let image = Image::with_prefix(written, Some("r.io/fns"));
            let call = Call::of_image(image, "".into(), Budget::UNBOUNDED);
            call.record.note(|recorded| recorded.runtime = Some("pod"));
            Watch::new(&call, &observers, Instant::now()).end(&Ok(Outcome::default()));
        }
        assert_eq!(*names.0.lock().unwrap(), ["r.io/fns/set-labels:latest"; 2], "the pool's name for it");
    }

    #[tokio::test]
    async fn other_functions_keep_the_name_that_their_caller_wrote() {
        let names = Names::default();
        let observers: [&dyn loggia_function::Observer; 1] = [&names];
        let call = Call::of_image(Image::new("echo"), "".into(), Budget::UNBOUNDED);
        Watch::new(&call, &observers, Instant::now()).end(&Err(RunError::TimedOut));
        assert_eq!(*names.0.lock().unwrap(), ["echo"]);
    }
}
