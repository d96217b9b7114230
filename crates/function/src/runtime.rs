//! A way of running functions.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::{Call, FunctionRef, Outcome, RunError};

/// The outcome to come. Dropping it ends what it started.
pub type Running<'a> = Pin<Box<dyn Future<Output = Result<Outcome, RunError>> + Send + 'a>>;

/// A way of running functions.
///
/// A runtime that does not have the function answers [`RunError::NotFound`], and nothing has happened; any other answer
/// is final.
pub trait Runtime: fmt::Debug + Send + Sync {
    /// The name that flags, logs and metrics use for it.
    fn name(&self) -> &'static str;

    /// Whether it has the function, as far as that shows without running it.
    fn knows(&self, function: &FunctionRef) -> Knows;

    /// Runs the function within the call's budget.
    fn run<'a>(&'a self, call: &'a Call) -> Running<'a>;

    /// Whether the function could be run, as far as that shows without running it.
    ///
    /// # Errors
    /// As running it would give.
    fn check(&self, function: &FunctionRef) -> Result<(), RunError> {
        match self.knows(function) {
            Knows::Yes | Knows::AskToRun => Ok(()),
            Knows::No => Err(RunError::NotFound { asked: vec![self.name()], advice: self.advice(function) }),
            Knows::Refused(error) => Err(error),
        }
    }

    /// What a user can do about a function that no runtime has.
    fn advice(&self, _function: &FunctionRef) -> Vec<String> {
        Vec::new()
    }

    /// The tags that it has of an image (a name without tag and digest), for ranges of versions.
    fn tags(&self, _image: &str) -> Vec<String> {
        Vec::new()
    }
}

/// Whether a runtime has a function.
#[derive(Clone, Debug)]
pub enum Knows {
    Yes,
    No,
    /// It has it and refuses to run it.
    Refused(RunError),
    /// That shows only when it is run.
    AskToRun,
}
