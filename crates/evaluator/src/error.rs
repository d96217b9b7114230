//! Why an evaluation fails, and how that travels to the caller.
//!
//! The texts are those that users of Porch know, to the letter; [`status`](Error::status) is the one
//! place that picks a gRPC code. What we know beyond the text goes along as details.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use bytes::Bytes;
use loggia_go::{Exit, quote};
use prost::Message as _;
use tonic::{Code, Status};

use crate::Call;
use crate::process::{self, Captured, cut_middle};
use crate::resource_list::{self, FunctionResult};
use crate::wire::details::evaluation_error::Kind;
use crate::wire::{details, rpc};

/// The most that a status text may take in a header; Envoy resets at 60 KiB for all headers.
const MESSAGE_LIMIT: usize = 32 * 1024;

/// The most that details may take before they are encoded for a header.
const DETAILS_LIMIT: usize = 12 * 1024;

/// The flags to change when a message is too large, on either side.
pub(crate) const SIZE_FLAGS: &str =
    "raise --max-request-body-size of function-runner, and of Porch's server to the same value";

/// Why an evaluation has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("function {} not found", quote(.image))]
    NotFound { image: String, asked: Vec<&'static str> },
    #[error("{reason}")]
    InvalidImage { image: String, reason: String },
    #[error("Failed to execute function {}: {reason} (){place}", quote(.image))]
    NotStarted {
        image: String,
        reason: String,
        /// Where the function was configured, to be read after the text.
        place: String,
    },
    #[error("Failed to execute function {}: {} ({}){}", quote(.image), Exit(*.status), .stderr.text(), appended(.results))]
    Failed { image: String, status: ExitStatus, stderr: Captured, results: Vec<FunctionResult> },
    #[error("failed to parse the output of function {} with stderr '{}': {source}", quote(.image), .stderr.text())]
    InvalidOutput { image: String, status: ExitStatus, stderr: Captured, source: resource_list::Error },
    #[error("failed to evaluate function {} with structured results: {} and stderr: {}", quote(.image), lines(.results), .stderr.text())]
    FailedWithResults { image: String, status: ExitStatus, stderr: Captured, results: Vec<FunctionResult> },
    #[error("function {} wrote more than {limit} bytes and was stopped; {SIZE_FLAGS}", quote(.image))]
    TooMuchOutput { image: String, limit: usize, stderr: Captured },
    #[error("grpc: trying to send message larger than max ({size} vs. {limit}); {SIZE_FLAGS}")]
    AnswerTooLarge { image: String, size: usize, limit: usize },
    #[error("function evaluation timed out for {image}: context deadline exceeded")]
    TimedOut { image: String },
    #[error("function {} ran for longer than {limit:?} (--exec-timeout) and was stopped", quote(.image))]
    OverTime { image: String, limit: std::time::Duration },
    #[error("unable to get the grpc client to the pod for {image}: {reason}")]
    NoInstance { image: String, reason: String, code: Code },
    #[error("unable to evaluate {image} with pod evaluator: rpc error: code = {} desc = {}", code_name(.status.code()), .status.message())]
    InPod {
        image: String,
        /// The name of the pod.
        pod: String,
        /// What the server in the pod answered.
        status: Box<Status>,
    },
    #[error("{0}")]
    Unavailable(&'static str),
    #[error("function {} could not be run: {reason}", quote(.image))]
    Defect { image: String, reason: String },
}

// === impl Error ===

impl Error {
    /// The status that the caller gets: code, text within bounds, details.
    pub fn status(&self) -> Status {
        let (code, _) = self.classify();
        let text = self.to_string();
        let text = cut_middle(&text, MESSAGE_LIMIT, header_cost);
        Status::with_details(code, text.clone().into_owned(), self.encoded_details(code, &text))
    }

    /// What a process error means for the call that started it.
    pub fn of_process(call: &Call, error: process::Error) -> Self {
        let image = call.image.clone();
        match error {
            process::Error::DeadlineExceeded => Self::TimedOut { image },
            process::Error::TooMuchOutput { limit, stderr } => Self::TooMuchOutput { image, limit, stderr },
            process::Error::Stopped => {
                Self::Unavailable("the function evaluator stopped before the function ended; try again")
            }
            process::Error::NotStarted { .. } | process::Error::Pipes(_) => {
                Self::NotStarted { image, reason: error.to_string(), place: String::new() }
            }
        }
    }

    /// The code that the caller gets.
    pub fn code(&self) -> Code {
        self.classify().0
    }

    /// The cause in words that are fit for a log: what the function wrote is told by its size alone, since
    /// it may quote the package.
    pub fn cause(&self) -> String {
        let wrote = |stderr: &Captured| format!("{} bytes on standard error", stderr.total());
        match self {
            Self::Failed { status, stderr, results, .. }
            | Self::FailedWithResults { status, stderr, results, .. } => {
                format!("{}, {} results, {}", Exit(*status), results.len(), wrote(stderr))
            }
            Self::InvalidOutput { status, stderr, .. } => {
                format!("{}, its output is no ResourceList, {}", Exit(*status), wrote(stderr))
            }
            Self::InPod { pod, status, .. } => {
                let details = details::EvaluationError::of(status).unwrap_or_default();
                let end = match (details.exit_code, details.signal) {
                    (Some(code), _) => format!(", exit status {code}"),
                    (None, Some(signal)) => format!(", signal {signal}"),
                    (None, None) => String::new(),
                };
                let (code, size) = (code_name(status.code()), status.message().len());
                format!("pod {pod} answered {code}{end}, {size} bytes of text")
            }
            // A panic may quote anything.
            Self::Defect { .. } => "a defect of this program".to_owned(),
            Self::NotFound { asked, .. } if asked.is_empty() => "no runtime is enabled".to_owned(),
            Self::NotFound { asked, .. } => format!("not among the functions of {}", asked.join(", ")),
            Self::NotStarted { reason, place, .. } => format!("{reason}{place}"),
            Self::NoInstance { reason, .. } => reason.clone(),
            Self::InvalidImage { .. }
            | Self::TooMuchOutput { .. }
            | Self::AnswerTooLarge { .. }
            | Self::TimedOut { .. }
            | Self::OverTime { .. }
            | Self::Unavailable(_) => self.to_string(),
        }
    }

    fn classify(&self) -> (Code, Kind) {
        match self {
            Self::NotFound { .. } => (Code::NotFound, Kind::NotFound),
            Self::InvalidImage { .. } => (Code::InvalidArgument, Kind::InvalidImage),
            Self::NotStarted { .. } => (Code::Internal, Kind::NotStarted),
            Self::Failed { .. } | Self::FailedWithResults { .. } => (Code::Internal, Kind::FunctionFailed),
            Self::InvalidOutput { .. } => (Code::Internal, Kind::InvalidOutput),
            Self::TooMuchOutput { .. } | Self::AnswerTooLarge { .. } => {
                (Code::ResourceExhausted, Kind::TooLarge)
            }
            Self::TimedOut { .. } | Self::OverTime { .. } => (Code::DeadlineExceeded, Kind::TimedOut),
            Self::NoInstance { code, .. } => (*code, Kind::NoInstance),
            Self::InPod { status, .. } => {
                let known = details::EvaluationError::of(status).map(|details| details.kind());
                (status.code(), known.unwrap_or(Kind::FailedInPod))
            }
            Self::Unavailable(_) => (Code::Unavailable, Kind::Unavailable),
            Self::Defect { .. } => (Code::Internal, Kind::Defect),
        }
    }

    fn encoded_details(&self, code: Code, text: &str) -> Bytes {
        let mut details = self.details();
        // Results are the only part without a bound of its own.
        while details.encoded_len() > DETAILS_LIMIT && details.results.pop().is_some() {}
        let detail = prost_types::Any {
            type_url: "type.googleapis.com/loggia.v1.EvaluationError".to_owned(),
            value: details.encode_to_vec(),
        };
        // The text is in the headers already; a second copy here would double their size.
        let message = cut_middle(text, 1024, |_| 1).into_owned();
        rpc::Status { code: code as i32, message, details: vec![detail] }.encode_to_vec().into()
    }

    fn details(&self) -> details::EvaluationError {
        let (_, kind) = self.classify();
        let mut details = details::EvaluationError { kind: kind.into(), ..Default::default() };
        let image = match self {
            Self::NotFound { image, asked } => {
                details.evaluators = asked.iter().map(ToString::to_string).collect();
                image
            }
            Self::Failed { image, status, stderr, results }
            | Self::FailedWithResults { image, status, stderr, results } => {
                details.ended(*status, stderr);
                details.results_total = u32::try_from(results.len()).unwrap_or(u32::MAX);
                details.results = results.iter().map(Into::into).collect();
                image
            }
            Self::InvalidOutput { image, status, stderr, .. } => {
                details.ended(*status, stderr);
                image
            }
            Self::TooMuchOutput { image, stderr, .. } => {
                details.stderr_bytes = stderr.total();
                image
            }
            Self::InPod { image, pod, status } => {
                if let Some(known) = details::EvaluationError::of(status) {
                    details = known;
                }
                details.pod.clone_from(pod);
                image
            }
            Self::NoInstance { image, .. }
            | Self::InvalidImage { image, .. }
            | Self::NotStarted { image, .. }
            | Self::AnswerTooLarge { image, .. }
            | Self::TimedOut { image }
            | Self::OverTime { image, .. }
            | Self::Defect { image, .. } => image,
            Self::Unavailable(_) => "",
        };
        details.image = cut_middle(image, 512, |_| 1).into_owned();
        details
    }
}

/// A status code as Go prints it.
pub fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

/// What a byte of a status text takes as a header: gRPC percent-encodes all but plain ASCII.
fn header_cost(byte: u8) -> usize {
    if matches!(byte, b' '..=b'~') && byte != b'%' { 1 } else { 3 }
}

/// The results of a function for people, one after another.
fn lines(results: &[FunctionResult]) -> String {
    results.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n")
}

fn appended(results: &[FunctionResult]) -> String {
    match results {
        [] => String::new(),
        results => format!(" with structured results: {}", lines(results)),
    }
}

// === impl details ===

impl details::EvaluationError {
    fn ended(&mut self, status: ExitStatus, stderr: &Captured) {
        self.exit_code = status.code();
        self.signal = status.signal();
        self.stderr_bytes = stderr.total();
    }

    /// Reads the details that a status carries, if it carries ours.
    pub fn of(status: &Status) -> Option<Self> {
        let frame = rpc::Status::decode(status.details()).ok()?;
        let detail =
            frame.details.iter().find(|detail| detail.type_url.ends_with("/loggia.v1.EvaluationError"))?;
        Self::decode(&*detail.value).ok()
    }
}

impl From<&FunctionResult> for details::FunctionResult {
    fn from(result: &FunctionResult) -> Self {
        let FunctionResult {
            message,
            severity,
            resource_ref,
            field_path,
            current_value,
            proposed_value,
            file_path,
            file_index,
            tags,
        } = result;
        let short = |text: &str| cut_middle(text, 512, |_| 1).into_owned();
        Self {
            message: cut_middle(message, 2048, |_| 1).into_owned(),
            severity: severity.clone(),
            resource_ref: Some(details::ResourceRef {
                api_version: resource_ref.api_version.clone(),
                kind: resource_ref.kind.clone(),
                name: resource_ref.name.clone(),
                namespace: resource_ref.namespace.clone(),
            }),
            field_path: field_path.clone(),
            file_path: file_path.clone(),
            file_index: *file_index,
            current_value: short(current_value),
            proposed_value: short(proposed_value),
            tags: tags.iter().map(|(key, value)| (short(key), short(value))).collect(),
        }
    }
}

/// A reference that is not there is an empty one.
impl From<details::FunctionResult> for FunctionResult {
    fn from(result: details::FunctionResult) -> Self {
        let details::ResourceRef { api_version, kind, name, namespace } =
            result.resource_ref.unwrap_or_default();
        Self {
            message: result.message,
            severity: result.severity,
            resource_ref: resource_list::ResourceRef { api_version, kind, name, namespace },
            field_path: result.field_path,
            current_value: result.current_value,
            proposed_value: result.proposed_value,
            file_path: result.file_path,
            file_index: result.file_index,
            tags: result.tags.into_iter().collect(),
        }
    }
}

/// An error with all that it came from, each thing said once.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stderr(text: &str) -> Captured {
        let mut captured = Captured::new(1 << 20);
        captured.push(text.as_bytes());
        captured
    }

    #[test]
    fn a_failure_keeps_porchs_text_and_adds_details() {
        let error = Error::Failed {
            image: "x:v1".into(),
            status: ExitStatus::from_raw(1 << 8),
            stderr: stderr("it\nbroke"),
            results: vec![],
        };
        let status = error.status();
        assert_eq!(status.code(), Code::Internal);
        assert_eq!(status.message(), "Failed to execute function \"x:v1\": exit status 1 (it\nbroke)");
        let details = details::EvaluationError::of(&status).unwrap();
        assert_eq!(details.kind(), Kind::FunctionFailed);
        assert_eq!((details.image.as_str(), details.exit_code, details.signal), ("x:v1", Some(1), None));
        assert_eq!(details.stderr_bytes, 8);
    }

    #[test]
    fn a_status_fits_into_headers_whatever_the_function_wrote() {
        let result = FunctionResult { message: "ü".repeat(5000), ..Default::default() };
        let status = Error::FailedWithResults {
            image: "x:v1".into(),
            status: ExitStatus::from_raw(1 << 8),
            stderr: stderr(&"ä\n".repeat(200_000)),
            results: vec![result; 1000],
        }
        .status();
        assert!(status.message().bytes().map(header_cost).sum::<usize>() <= MESSAGE_LIMIT);
        assert!(status.message().contains("bytes in all"), "the cut is marked");
        assert!(status.details().len() <= 16 * 1024);
        let details = details::EvaluationError::of(&status).unwrap();
        assert_eq!(details.results_total, 1000);
        assert!(!details.results.is_empty());
    }
}
