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
