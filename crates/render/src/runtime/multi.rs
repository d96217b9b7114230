//! Several runtimes, one after another.

use super::{Call, FunctionRef, FunctionRuntime, Outcome, Running, RuntimeError};

/// Tries runtimes in order. One that does not have the function is passed over; any other answer is final.
#[derive(Debug, Default)]
pub struct Multi {
    runtimes: Vec<Box<dyn FunctionRuntime>>,
}

impl Multi {
    /// These, in this order.
    #[must_use]
    pub fn new(runtimes: Vec<Box<dyn FunctionRuntime>>) -> Self {
        Self { runtimes }
    }

    /// Adds one to be tried last.
    pub fn push(&mut self, runtime: impl FunctionRuntime + 'static) {
        self.runtimes.push(Box::new(runtime));
    }

    async fn first(&self, call: &Call) -> Result<Outcome, RuntimeError> {
        let mut passed = Passed::new(&call.function);
        for runtime in &self.runtimes {
            match runtime.run(call).await {
                Err(RuntimeError::NotFound { advice, .. }) => passed.advice.extend(advice),
                answer => return answer,
            }
        }
        Err(passed.into_error())
    }
}

impl FunctionRuntime for Multi {
    fn name(&self) -> &'static str {
        "multi"
    }

    fn check(&self, function: &FunctionRef) -> Result<(), RuntimeError> {
        let mut passed = Passed::new(function);
        for runtime in &self.runtimes {
            match runtime.check(function) {
                Err(RuntimeError::NotFound { advice, .. }) => passed.advice.extend(advice),
                answer => return answer,
            }
        }
        Err(passed.into_error())
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(self.first(call))
    }
}

/// What those who were asked had to say.
struct Passed<'a> {
    function: &'a FunctionRef,
    advice: Vec<String>,
}

impl<'a> Passed<'a> {
    fn new(function: &'a FunctionRef) -> Self {
        Self { function, advice: Vec::new() }
    }

    fn into_error(self) -> RuntimeError {
        RuntimeError::NotFound { function: self.function.name().to_owned(), advice: self.advice }
    }
}
