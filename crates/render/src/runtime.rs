//! Ways of running a function.
//!
//! A runtime that does not have a function says [`RuntimeError::NotFound`], and nothing has happened; any other
//! answer is final. [`FunctionRuntime::check`] asks without running, so that a pipeline with a function nobody
//! has fails before its first function runs.

mod builtin;
mod exec;
mod grpc;
mod local;
mod multi;

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use loggia_go::quote;
use loggia_krm::{ResourceList, Results, StreamOptions};

pub use builtin::Builtin;
pub use exec::Exec;
pub(crate) use exec::exit_code;
pub use grpc::Grpc;
pub use local::Local;
pub use multi::Multi;

/// What a step of a pipeline names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FunctionRef {
    /// An image, with prefix and tag as they are to be looked up.
    Image(String),
    /// A command of this machine.
    Exec(String),
}

/// One function to be run on one list.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function.
    pub function: FunctionRef,
    /// What it gets, its config included.
    pub list: ResourceList,
    /// The package's folder, if it is on disk.
    pub folder: Option<PathBuf>,
}

/// What a function that ran left behind.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Items and results. After a failure only the results count.
    pub list: ResourceList,
    /// What it complained about.
    pub stderr: String,
    /// 0 if it did not fail; -1 if a signal ended it.
    pub exit_code: i32,
    /// It wrote text, and not a byte of it.
    pub said_nothing: bool,
}

/// Why a function did not run, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    /// This runtime does not have it.
    #[error("function {} not found{}", quote(.function), sentences(.advice))]
    NotFound {
        /// The function as it was looked up.
        function: String,
        /// What to do about it.
        advice: Vec<String>,
    },
    /// Commands of this machine may not be run.
    #[error("must run with `--allow-exec` option to allow running function binaries")]
    ExecNotAllowed,
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// The outcome to come. Dropping it ends what it started.
pub type Running<'a> = Pin<Box<dyn Future<Output = Result<Outcome, RuntimeError>> + Send + 'a>>;

/// A way of running functions.
pub trait FunctionRuntime: fmt::Debug + Send + Sync {
    /// The name that flags and messages use for it.
    fn name(&self) -> &'static str;

    /// Whether the function could be run, as far as that can be told without running it.
    ///
    /// # Errors
    /// As running it would give.
    fn check(&self, function: &FunctionRef) -> Result<(), RuntimeError>;

    /// Runs the function.
    fn run<'a>(&'a self, call: &'a Call) -> Running<'a>;
}

fn sentences(advice: &[String]) -> String {
    advice.iter().map(|advice| format!("; {advice}")).collect()
}

// === impl FunctionRef ===

impl FunctionRef {
    /// The image or the command.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Image(name) | Self::Exec(name) => name,
        }
    }

    /// The image, for a runtime that does not have any command.
    fn image(&self) -> Result<&str, RuntimeError> {
        match self {
            Self::Image(image) => Ok(image),
            Self::Exec(_) => Err(self.not_found()),
        }
    }

    fn not_found(&self) -> RuntimeError {
        RuntimeError::NotFound { function: self.name().to_owned(), advice: Vec::new() }
    }
}

impl fmt::Display for FunctionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// === impl Outcome ===

impl Outcome {
    /// What a process left behind. A function that failed may have written anything; its failure counts.
    pub(crate) fn of_text(
        function: &FunctionRef,
        stdout: &[u8],
        stderr: String,
        exit_code: i32,
    ) -> Result<Self, RuntimeError> {
        let said_nothing = stdout.trim_ascii().is_empty();
        let list = match ResourceList::parse(stdout, StreamOptions::default()) {
            Ok(list) => list,
            Err(_) if exit_code != 0 => ResourceList::default(),
            Err(error) => {
                let line = error.line.map(|line| format!(" (line {line} of its output)")).unwrap_or_default();
                let text =
                    format!("function {}: output is no ResourceList: {error}{line}", quote(function.name()));
                return Err(RuntimeError::Failed(text));
            }
        };
        Ok(Self { list, stderr, exit_code, said_nothing })
    }

    /// What a function left behind that failed elsewhere: of its list, only the results came along.
    fn of_failure(results: &Results, stderr: String, exit_code: i32) -> Self {
        let mut list = ResourceList::default();
        list.set_results(results);
        Self { list, stderr, exit_code, said_nothing: false }
    }
}
