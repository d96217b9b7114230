//! How functions fail: the texts their frameworks put around a cause.

use loggia_krm::Results;

/// A function's failure: the original ends with exit code 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the original writes to standard error, to the byte.
    pub stderr: String,
}

impl Failure {
    /// The SDK's: an error value, printed with its prefix and without a line break.
    pub(crate) fn sdk(cause: impl std::fmt::Display) -> Self {
        Self { stderr: format!("failed to evaluate function: {cause}") }
    }

    /// The SDK's when results alone say what is wrong.
    pub(crate) fn sdk_results() -> Self {
        Self::sdk("error: function failure")
    }

    /// kyaml's: the error as it is, without a line break.
    pub(crate) fn kyaml(cause: impl Into<String>) -> Self {
        Self { stderr: cause.into() }
    }

    /// kyaml's when the error is the results: each in its display form.
    pub(crate) fn kyaml_results(results: &Results) -> Self {
        Self::kyaml(results.to_string())
    }

    /// kyaml's, in a program that prints the error once more, with a line break.
    pub(crate) fn kyaml_twice(cause: &str) -> Self {
        Self { stderr: format!("{cause}{cause}\n") }
    }
}
