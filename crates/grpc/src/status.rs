//! Outcomes and errors as gRPC statuses, and back.
//!
//! This is the one place that makes statuses of functions. The texts are those that users of Porch know, to the letter; what
//! we know beyond the text travels as `loggia.v1.EvaluationError` in the details.

use std::fmt::Write as _;

use bytes::Bytes;
use loggia_function::{Exit, Kind, Outcome, Remote, RunError, Stderr};
use loggia_go::quote;
use loggia_krm::{FieldRef, FileRef, ResourceRef, ResultItem, Results, Severity};
use prost::Message as _;
use tonic::{Code, Status};

use crate::FailureText;
use crate::cut::{Ends, cut_middle};
use crate::wire::details::evaluation_error::Kind as WireKind;
use crate::wire::{details, rpc};

/// The most that a status text may take in a header; Envoy resets at 60 KiB for all headers.
const MESSAGE_LIMIT: usize = 32 * 1024;

/// The most that details may take before they are encoded for a header.
const DETAILS_LIMIT: usize = 15 * 1024;

/// The most of standard error that details hold.
const STDERR_LIMIT: usize = 8 * 1024;

/// The status of a call that has no outcome.
pub fn of_error(function: &str, error: &RunError) -> Status {
    let mut details = details_of(function, error.kind());
    match error {
        RunError::NotFound { asked, .. } => {
            details.evaluators = asked.iter().map(ToString::to_string).collect();
        }
        RunError::InvalidOutput(invalid) => details.ended(invalid.exit, &invalid.stderr),
        RunError::TooMuchOutput { stderr, .. } => details.stderr_bytes = stderr.total(),
        RunError::Remote(remote) => details.passed_on(remote),
        _ => {}
    }
    status(error.code(), &error.describe(function), &details)
}

/// The status of a function that failed.
pub fn of_failure(function: &str, outcome: &Outcome, text: FailureText) -> Status {
    let Outcome { stderr, exit, remote, .. } = outcome;
    let mut details = details_of(function, Kind::FunctionFailed);
    if let Some(remote) = remote {
        details.passed_on(remote);
        return status(remote.code, &remote.describe(function), &details);
    }
    let results = outcome.results();
    details.ended(*exit, stderr);
    details.results_total = u32::try_from(results.0.len()).unwrap_or(u32::MAX);
    details.take_results(&results);
    let (name, stderr) = (quote(function), stderr.text());
    let mut written = Ends::default();
    // Only a writer could fail, and this one does not.
    let _ = match text {
        FailureText::Runner if results.is_empty() => {
            write!(written, "Failed to execute function {name}: {exit} ({stderr})")
        }
        FailureText::Runner => write!(
            written,
            "Failed to execute function {name}: {exit} ({stderr}) with structured results: {results}"
        ),
        FailureText::Wrapper => write!(
            written,
            "failed to evaluate function {name} with structured results: {results} and stderr: {stderr}"
        ),
    };
    with_details(outcome.failure_code(), written.cut(MESSAGE_LIMIT, header_cost), &details)
}

/// What another server's status says about a call: a function that ran and failed is an outcome, all else an error.
///
/// # Errors
/// Unless the details say that the function failed.
pub fn read(status: &Status, pod: Option<&str>) -> Result<Outcome, RunError> {
    let known = details::EvaluationError::of(status);
    let kind = known.as_ref().map_or(Kind::FailedInPod, details::EvaluationError::failure);
    let details = known.unwrap_or_default();
    let exit = details.exit();
    let stderr = Stderr::new(Bytes::from(details.stderr), details.stderr_bytes);
    let remote = Remote {
        pod: pod.map(ToOwned::to_owned),
        code: loggia_function::Code::from_number(status.code() as i32),
        text: status.message().to_owned(),
        advice: String::new(),
        kind,
        exit,
        results: details.results.into_iter().map(Into::into).collect(),
        results_total: details.results_total,
        stderr: stderr.clone(),
    };
    if kind != Kind::FunctionFailed {
        return Err(RunError::Remote(Box::new(remote)));
    }
    let results = remote.results.clone();
    Ok(Outcome::failed_elsewhere(&results, stderr, exit.unwrap_or(Exit::Code(1)), remote))
}

fn status(code: loggia_function::Code, text: &str, details: &details::EvaluationError) -> Status {
    with_details(code, cut_middle(text, MESSAGE_LIMIT, header_cost).into_owned(), details)
}

fn with_details(code: loggia_function::Code, text: String, details: &details::EvaluationError) -> Status {
    let code = Code::from_i32(code.number());
    let details = encode(code, &text, details);
    Status::with_details(code, text, details)
}

fn encode(code: Code, text: &str, details: &details::EvaluationError) -> Bytes {
    let detail = prost_types::Any {
        type_url: "type.googleapis.com/loggia.v1.EvaluationError".to_owned(),
        value: details.encode_to_vec(),
    };
    // The text is in the headers already; a second copy here would double their size.
    let message = cut_middle(text, 1024, |_| 1).into_owned();
    rpc::Status { code: code as i32, message, details: vec![detail] }.encode_to_vec().into()
}

fn details_of(function: &str, kind: Kind) -> details::EvaluationError {
    details::EvaluationError {
        kind: wire_kind(kind).into(),
        image: cut_middle(function, 512, |_| 1).into_owned(),
        ..Default::default()
    }
}

fn wire_kind(kind: Kind) -> WireKind {
    match kind {
        Kind::NotFound => WireKind::NotFound,
        Kind::InvalidImage => WireKind::InvalidImage,
        Kind::Refused => WireKind::Refused,
        Kind::NotStarted => WireKind::NotStarted,
        Kind::FunctionFailed => WireKind::FunctionFailed,
        Kind::InvalidOutput => WireKind::InvalidOutput,
        Kind::TooLarge => WireKind::TooLarge,
        Kind::TimedOut => WireKind::TimedOut,
        Kind::Unavailable => WireKind::Unavailable,
        Kind::Interrupted => WireKind::Interrupted,
        Kind::Defect => WireKind::Defect,
        Kind::NoInstance => WireKind::NoInstance,
        Kind::FailedInPod => WireKind::FailedInPod,
    }
}

/// What a byte of a status text takes as a header: gRPC percent-encodes all but plain ASCII.
fn header_cost(byte: u8) -> usize {
    if matches!(byte, b' '..=b'~') && byte != b'%' { 1 } else { 3 }
}

// === impl details ===

impl details::EvaluationError {
    fn ended(&mut self, exit: Exit, stderr: &Stderr) {
        match exit {
            Exit::Code(code) => self.exit_code = Some(code),
            Exit::Signal { number, core_dumped } => {
                (self.signal, self.core_dumped) = (Some(number), core_dumped);
            }
        }
        self.wrote(stderr);
    }

    fn wrote(&mut self, stderr: &Stderr) {
        self.stderr_bytes = stderr.total();
        self.stderr = cut_middle(&stderr.text(), STDERR_LIMIT, |_| 1).into_owned();
    }

    /// What another server said, and the pod that it is in.
    fn passed_on(&mut self, remote: &Remote) {
        if let Some(exit) = remote.exit {
            self.ended(exit, &remote.stderr);
        }
        self.wrote(&remote.stderr);
        self.results_total = remote.results_total;
        self.pod = remote.pod.clone().unwrap_or_default();
        self.take_results(&remote.results);
    }

    /// Takes the first results, as many as the details have room for beside all else in them.
    fn take_results(&mut self, results: &Results) {
        let mut size = self.encoded_len();
        for result in &results.0 {
            let result = details::FunctionResult::from(result);
            let length = result.encoded_len();
            // Each has its tag, one byte, and its length before it.
            size += 1 + prost::length_delimiter_len(length) + length;
            if size > DETAILS_LIMIT {
                return;
            }
            self.results.push(result);
        }
    }

    fn exit(&self) -> Option<Exit> {
        let signal = self.signal.map(|number| Exit::Signal { number, core_dumped: self.core_dumped });
        self.exit_code.map(Exit::Code).or(signal)
    }

    fn failure(&self) -> Kind {
        match self.kind() {
            WireKind::NotFound => Kind::NotFound,
            WireKind::InvalidImage => Kind::InvalidImage,
            WireKind::Refused => Kind::Refused,
            WireKind::NotStarted => Kind::NotStarted,
            WireKind::FunctionFailed => Kind::FunctionFailed,
            WireKind::InvalidOutput => Kind::InvalidOutput,
            WireKind::TooLarge => Kind::TooLarge,
            WireKind::TimedOut => Kind::TimedOut,
            WireKind::Unavailable => Kind::Unavailable,
            WireKind::Interrupted => Kind::Interrupted,
            WireKind::Defect => Kind::Defect,
            WireKind::NoInstance => Kind::NoInstance,
            WireKind::FailedInPod | WireKind::Unspecified => Kind::FailedInPod,
        }
    }

    /// Reads the details that a status carries, if it carries ours.
    pub fn of(status: &Status) -> Option<Self> {
        let frame = rpc::Status::decode(status.details()).ok()?;
        let detail =
            frame.details.iter().find(|detail| detail.type_url.ends_with("/loggia.v1.EvaluationError"))?;
        Self::decode(&*detail.value).ok()
    }
}

impl From<&ResultItem> for details::FunctionResult {
    fn from(item: &ResultItem) -> Self {
        let ResultItem { message, severity, resource_ref, field, file, tags } = item.clone();
        let short = |text: &str| cut_middle(text, 512, |_| 1).into_owned();
        let ResourceRef { api_version, kind, name, namespace } = resource_ref.unwrap_or_default();
        let FieldRef { path: field_path, current_value, proposed_value } = field.unwrap_or_default();
        let FileRef { path: file_path, index: file_index } = file.unwrap_or_default();
        Self {
            message: cut_middle(&message, 2048, |_| 1).into_owned(),
            severity: severity.map(|severity| severity.to_string()).unwrap_or_default(),
            resource_ref: Some(details::ResourceRef { api_version, kind, name, namespace }),
            field_path,
            file_path,
            file_index,
            current_value: short(&current_value.unwrap_or_default()),
            proposed_value: short(&proposed_value.unwrap_or_default()),
            tags: tags.iter().map(|(key, value)| (short(key), short(value))).collect(),
        }
    }
}

/// On the wire, what is empty was not given.
impl From<details::FunctionResult> for ResultItem {
    fn from(result: details::FunctionResult) -> Self {
        let details::ResourceRef { api_version, kind, name, namespace } =
            result.resource_ref.unwrap_or_default();
        let reference = ResourceRef { api_version, kind, name, namespace };
        let given = |value: String| (!value.is_empty()).then_some(value);
        Self {
            message: result.message,
            severity: given(result.severity).map(|severity| Severity::from(severity.as_str())),
            resource_ref: (reference != ResourceRef::default()).then_some(reference),
            field: given(result.field_path).map(|path| FieldRef {
                path,
                current_value: given(result.current_value),
                proposed_value: given(result.proposed_value),
            }),
            file: given(result.file_path).map(|path| FileRef { path, index: result.file_index }),
            tags: result.tags.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use loggia_function::Payload;

    use super::*;

    fn failed(exit: Exit, stderr: &str, output: &str) -> Outcome {
        let output = Payload::Bytes(Bytes::copy_from_slice(output.as_bytes()));
        Outcome { output, stderr: stderr.to_owned().into(), exit, remote: None }
    }

    const SEGFAULT: Exit = Exit::Signal { number: 11, core_dumped: true };

    #[test]
    fn a_failure_keeps_porchs_text_and_adds_details() {
        let status = of_failure("x:v1", &failed(Exit::Code(1), "it\nbroke", ""), FailureText::Runner);
        assert_eq!(status.code(), Code::Internal);
        assert_eq!(status.message(), "Failed to execute function \"x:v1\": exit status 1 (it\nbroke)");
        let details = details::EvaluationError::of(&status).unwrap();
        assert_eq!(details.kind(), WireKind::FunctionFailed);
        assert_eq!((details.image.as_str(), details.exit_code, details.signal), ("x:v1", Some(1), None));
        assert_eq!((details.stderr_bytes, details.stderr.as_str()), (8, "it\nbroke"));
    }

    #[test]
    fn a_failure_comes_back_as_the_outcome_that_it_was() {
        let results = "kind: ResourceList\nresults:\n- message: bad\n  severity: error\n";
        for text in [FailureText::Runner, FailureText::Wrapper] {
            for exit in [Exit::Code(3), SEGFAULT] {
                let outcome = failed(exit, "boom (once)\n", results);
                let back = read(&of_failure("x:v1", &outcome, text), None).unwrap();
                assert_eq!((back.exit, back.stderr.text()), (exit, outcome.stderr.text()));
                assert_eq!(back.results(), outcome.results());
            }
        }
    }

    #[test]
    fn a_core_dump_does_not_get_into_standard_error() {
        let status = of_failure("x:v1", &failed(SEGFAULT, "boom", ""), FailureText::Runner);
        assert!(status.message().ends_with("signal: segmentation fault (core dumped) (boom)"));
        assert_eq!(read(&status, None).unwrap().stderr.text(), "boom");
    }

    #[test]
    fn a_failure_in_a_pod_is_framed_and_keeps_its_details() {
        let in_pod = of_failure("x:v1", &failed(Exit::Code(1), "boom", ""), FailureText::Wrapper);
        let outcome = read(&in_pod, Some("x-1")).unwrap();
        let status = of_failure("x:v1", &outcome, FailureText::Runner);
        let frame = "unable to evaluate x:v1 with pod evaluator: rpc error: code = Internal desc = ";
        assert_eq!(status.message(), format!("{frame}{}", in_pod.message()));
        let details = details::EvaluationError::of(&status).unwrap();
        assert_eq!((details.pod.as_str(), details.exit_code), ("x-1", Some(1)));
        assert_eq!((details.kind(), details.stderr.as_str()), (WireKind::FunctionFailed, "boom"));
    }

    #[test]
    fn a_status_without_details_is_an_error_of_its_server() {
        let error = read(&Status::internal("no"), Some("x-1")).unwrap_err();
        let status = of_error("x:v1", &error);
        assert_eq!(status.code(), Code::Internal);
        let text = "unable to evaluate x:v1 with pod evaluator: rpc error: code = Internal desc = no";
        assert_eq!(status.message(), text);
        assert_eq!(details::EvaluationError::of(&status).unwrap().kind(), WireKind::FailedInPod);
    }

    #[test]
    fn a_status_fits_into_headers_whatever_the_function_wrote() {
        let result = format!("- message: {}\n", "ü".repeat(5000));
        let list = format!("kind: ResourceList\nresults:\n{}", result.repeat(1000));
        let outcome = failed(Exit::Code(1), &"ä\n".repeat(200_000), &list);
        let status = of_failure("x:v1", &outcome, FailureText::Wrapper);
        assert!(status.message().bytes().map(header_cost).sum::<usize>() <= MESSAGE_LIMIT);
        assert!(status.message().contains("bytes in all"), "the cut is marked");
        assert!(status.details().len() <= 17 * 1024);
        let details = details::EvaluationError::of(&status).unwrap();
        assert_eq!(details.results_total, 1000);
        assert!(!details.results.is_empty() && details.stderr.len() <= STDERR_LIMIT);
    }

    /// Results are counted once each: this took minutes when it was quadratic.
    #[test]
    fn many_results_take_linear_time_and_as_many_as_fit_are_kept() {
        let results: Results =
            (0..600_000).map(|number| ResultItem::new(Severity::Error, format!("bad {number}"))).collect();
        let mut list = loggia_krm::ResourceList::default();
        list.set_results(&results);
        let outcome = Outcome { output: Payload::List(list), exit: Exit::Code(1), ..Outcome::default() };
        let begin = std::time::Instant::now();
        let details = {
            let status = of_failure("x:v1", &outcome, FailureText::Runner);
            assert!(status.message().len() <= MESSAGE_LIMIT && status.details().len() <= 17 * 1024);
            details::EvaluationError::of(&status).unwrap()
        };
        assert!(begin.elapsed() < std::time::Duration::from_secs(30), "{:?}", begin.elapsed());
        assert_eq!(details.results_total, 600_000);
        assert!(details.results.len() > 100 && details.encoded_len() > DETAILS_LIMIT - 100);
        assert_eq!(details.results[0].message, "bad 0");
    }
}
