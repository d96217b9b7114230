//! Why a call has no outcome. The function had no part in it.

use std::time::Duration;

use loggia_go::quote;
use loggia_krm::{Results, sdk};

use crate::image::ParseError;
use crate::{Code, Exit, Stderr};

/// The flags to change when a message is too large, on either side.
pub const SIZE_FLAGS: &str =
    "raise --max-request-body-size of function-runner, and of Porch's server to the same value";

/// Why a call has no outcome. [`describe`](Self::describe) is the text for the caller, in the words that users of Porch
/// know; [`cause`](Self::cause) the one for logs.
#[derive(Clone, Debug)]
pub enum RunError {
    /// No runtime has the function, and nothing has happened.
    NotFound {
        /// The runtimes that were asked, in order.
        asked: Vec<&'static str>,
        /// What to do about it.
        advice: Vec<String>,
    },
    InvalidImage(ParseError),
    /// Commands of this machine may not be run.
    NotAllowed,
    /// A command line that cannot be split into words.
    InvalidCommand(String),
    NotStarted {
        reason: String,
        /// Where the function is configured, to be read after the reason.
        origin: String,
    },
    /// The function wrote something other than a `ResourceList`.
    InvalidOutput(Box<InvalidOutput>),
    /// A built-in function was stopped, most often in a process of its own.
    Guarded(Guarded),
    TooMuchOutput {
        limit: usize,
        stderr: Stderr,
    },
    /// The answer does not fit into a message.
    AnswerTooLarge {
        size: usize,
        limit: usize,
    },
    /// The caller's deadline passed.
    TimedOut,
    /// The function ran for longer than the operator allows.
    OverTime {
        limit: Duration,
        flag: &'static str,
    },
    /// No function pod could be provided.
    NoInstance {
        reason: String,
        code: Code,
    },
    /// The server that was to run the function answered with an error.
    Remote(Box<Remote>),
    /// The service is starting or stopping, and the function has not run.
    Unavailable(&'static str),
    /// The service stopped before the function ended: it may have run.
    Interrupted(&'static str),
    /// A built-in function panicked.
    Panicked,
    /// A defect of this program.
    Defect {
        reason: String,
    },
}

/// Output that is not a `ResourceList`.
#[derive(Clone, Debug)]
pub struct InvalidOutput {
    pub exit: Exit,
    pub stderr: Stderr,
    /// What the SDK would say about it.
    pub reason: String,
}

/// Why a guarded function was stopped. Displayed as what comes after the function's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Guarded {
    #[error("ran for longer than {} and was stopped; {flag} allows more", loggia_go::Duration::from(*.limit))]
    OverTime { limit: Duration, flag: &'static str },
    #[error("needed more than {} MiB of memory and was stopped; {flag} allows more", .limit >> 20)]
    OverMemory { limit: u64, flag: &'static str },
    #[error("was stopped: its program or input is nested too deeply")]
    TooDeep,
    #[error("crashed; please report it, with the input if you can")]
    Crashed,
    #[error("was ended by {exit}")]
    Ended { exit: String },
    #[error("could not be run: {0}")]
    NotRun(String),
}

/// The answer of another server, a function pod's or a function-runner, that is not an outcome.
#[derive(Clone, Debug, Default)]
pub struct Remote {
    /// The function pod that answered; none for a function-runner.
    pub pod: Option<String>,
    pub code: Code,
    pub text: String,
    /// What to do about it, to be read after the text.
    pub advice: String,
    pub kind: Kind,
    /// How the function ended, if it did.
    pub exit: Option<Exit>,
    /// The results that the function wrote, as far as they came along.
    pub results: Results,
    /// How many results it wrote.
    pub results_total: u32,
    pub stderr: Stderr,
}

/// What kind of failure a call met, as clients see it in the details of a status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    NotFound,
    InvalidImage,
    NotStarted,
    FunctionFailed,
    InvalidOutput,
    TooLarge,
    TimedOut,
    Unavailable,
    Interrupted,
    Defect,
    NoInstance,
    /// The server in the function pod did not say what kind it was.
    #[default]
    FailedInPod,
}

// === impl RunError ===

impl RunError {
    /// This runtime does not have the function, and has nothing to add.
    #[must_use]
    pub fn not_found() -> Self {
        Self::NotFound { asked: Vec::new(), advice: Vec::new() }
    }

    /// What happened, in the words that users of Porch know.
    #[must_use]
    pub fn describe(&self, function: &str) -> String {
        let name = || quote(function);
        match self {
            Self::NotFound { .. } => format!("function {} not found", name()),
            Self::InvalidImage(error) => error.to_string(),
            Self::NotAllowed => {
                "must run with `--allow-exec` option to allow running function binaries".to_owned()
            }
            Self::InvalidCommand(reason) => format!("exec command {} must be valid: {reason}", name()),
            Self::NotStarted { reason, origin } => {
                format!("Failed to execute function {}: {reason} (){origin}", name())
            }
            Self::InvalidOutput(invalid) => {
                let InvalidOutput { stderr, reason, .. } = &**invalid;
                format!(
                    "failed to parse the output of function {} with stderr '{}': {reason}",
                    name(),
                    stderr.text()
                )
            }
            Self::Guarded(guarded) => {
                format!("function {} could not be run: function {} {guarded}", name(), name())
            }
            Self::TooMuchOutput { limit, .. } => {
                format!("function {} wrote more than {limit} bytes and was stopped; {SIZE_FLAGS}", name())
            }
            Self::AnswerTooLarge { size, limit } => {
                format!("grpc: trying to send message larger than max ({size} vs. {limit}); {SIZE_FLAGS}")
            }
            Self::TimedOut => {
                format!("function evaluation timed out for {function}: context deadline exceeded")
            }
            Self::OverTime { limit, flag } => {
                format!("function {} ran for longer than {limit:?} ({flag}) and was stopped", name())
            }
            Self::NoInstance { reason, .. } => {
                format!("unable to get the grpc client to the pod for {function}: {reason}")
            }
            Self::Remote(remote) => remote.describe(function),
            Self::Unavailable(text) | Self::Interrupted(text) => (*text).to_owned(),
            Self::Panicked => format!("function {} could not be run: it panicked", name()),
            Self::Defect { reason } => format!("function {} could not be run: {reason}", name()),
        }
    }

    /// The cause in words that are fit for a log: of what a function wrote only the size, since it may quote the
    /// package.
    #[must_use]
    pub fn cause(&self, function: &str) -> String {
        match self {
            Self::InvalidOutput(invalid) => {
                let InvalidOutput { exit, stderr, .. } = &**invalid;
                format!("{exit}, its output is not a ResourceList, {}", wrote(stderr))
            }
            Self::Remote(remote) => remote.cause(),
            // The text of a panic may quote anything.
            Self::Defect { .. } | Self::Panicked => "a defect of this program".to_owned(),
            Self::Guarded(guarded) => format!("the function {guarded}"),
            Self::NotFound { asked, .. } if asked.is_empty() => "no runtime is enabled".to_owned(),
            Self::NotFound { asked, .. } => format!("not among the functions of {}", asked.join(", ")),
            Self::NotStarted { reason, origin } => format!("{reason}{origin}"),
            Self::NoInstance { reason, .. } => reason.clone(),
            Self::InvalidImage(_)
            | Self::NotAllowed
            | Self::InvalidCommand(_)
            | Self::TooMuchOutput { .. }
            | Self::AnswerTooLarge { .. }
            | Self::TimedOut
            | Self::OverTime { .. }
            | Self::Unavailable(_)
            | Self::Interrupted(_) => self.describe(function),
        }
    }

    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::NotFound { .. } => Kind::NotFound,
            Self::InvalidImage(_) => Kind::InvalidImage,
            Self::NotAllowed | Self::InvalidCommand(_) | Self::NotStarted { .. } => Kind::NotStarted,
            Self::InvalidOutput(_) => Kind::InvalidOutput,
            Self::TooMuchOutput { .. }
            | Self::AnswerTooLarge { .. }
            | Self::Guarded(Guarded::OverMemory { .. } | Guarded::TooDeep) => Kind::TooLarge,
            Self::TimedOut | Self::OverTime { .. } | Self::Guarded(Guarded::OverTime { .. }) => {
                Kind::TimedOut
            }
            Self::NoInstance { .. } => Kind::NoInstance,
            Self::Remote(remote) => remote.kind,
            Self::Unavailable(_) => Kind::Unavailable,
            Self::Interrupted(_) => Kind::Interrupted,
            Self::Guarded(_) | Self::Panicked | Self::Defect { .. } => Kind::Defect,
        }
    }

    /// The code that the caller gets.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::NoInstance { code, .. } => *code,
            Self::Remote(remote) => remote.code,
            other => match other.kind() {
                Kind::NotFound => Code::NotFound,
                Kind::InvalidImage => Code::InvalidArgument,
                Kind::TooLarge => Code::ResourceExhausted,
                Kind::TimedOut => Code::DeadlineExceeded,
                Kind::Unavailable | Kind::Interrupted => Code::Unavailable,
                _ => Code::Internal,
            },
        }
    }
}

/// How much a function wrote to standard error.
pub(crate) fn wrote(stderr: &Stderr) -> String {
    format!("{} bytes on standard error", stderr.total())
}

// === impl InvalidOutput ===

impl InvalidOutput {
    /// Output that the SDK's reader refused.
    #[must_use]
    pub fn new(exit: Exit, stderr: Stderr, error: &sdk::Error) -> Self {
        Self { exit, stderr, reason: format!("{error}{}", error.location()) }
    }
}

// === impl Remote ===

impl Remote {
    /// The answer in the frame that users of Porch know.
    #[must_use]
    pub fn describe(&self, function: &str) -> String {
        let Self { pod, code, text, advice, .. } = self;
        let answer = format!("rpc error: code = {code} desc = {text}{advice}");
        match pod {
            Some(_) => format!("unable to evaluate {function} with pod evaluator: {answer}"),
            None => answer,
        }
    }

    pub(crate) fn cause(&self) -> String {
        let Self { pod, code, text, exit, .. } = self;
        let by = pod.as_ref().map_or_else(|| "the function-runner".to_owned(), |pod| format!("pod {pod}"));
        let end = match exit {
            Some(Exit::Code(code)) => format!(", exit status {code}"),
            Some(Exit::Signal { number, .. }) => format!(", signal {number}"),
            None => String::new(),
        };
        format!("{by} answered {code}{end}, {} bytes of text", text.len())
    }
}
