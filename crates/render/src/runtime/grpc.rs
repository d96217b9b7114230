//! Functions run by a function-runner, over one connection.

use std::time::Duration;

use loggia_evaluator::connection::{AddressError, Connection, TlsError};
use loggia_evaluator::tls::ClientFiles;
use loggia_evaluator::wire::details::{EvaluationError, evaluation_error::Kind};
use loggia_evaluator::{Client, code_name};
use loggia_go::quote;
use tonic::{Code, Status};

use super::{Call, FunctionRef, FunctionRuntime, Outcome, Running, RuntimeError};

/// Runs functions by a function-runner. The connection is made on first use, shared by all calls, and made again
/// when it broke.
#[derive(Clone, Debug)]
pub struct Grpc {
    client: Client,
    address: String,
    timeout: Option<Duration>,
}

impl Grpc {
    /// What function-runner allows unless told otherwise.
    pub const MESSAGE_LIMIT: usize = 6 * 1024 * 1024;

    /// A runtime for the function-runner at `HOST:PORT`. Nothing is sent yet.
    ///
    /// # Errors
    /// If that is no address.
    pub fn new(address: &str, message_limit: usize, timeout: Option<Duration>) -> Result<Self, AddressError> {
        let client = Client::new(address, message_limit)?;
        Ok(Self { client, address: address.to_owned(), timeout })
    }

    /// The same over TLS.
    ///
    /// # Errors
    /// If that is no address, or the files cannot be used.
    pub fn over_tls(
        address: &str,
        files: &ClientFiles,
        message_limit: usize,
        timeout: Option<Duration>,
    ) -> Result<Self, TlsError> {
        let client = Client::over(Connection::over_tls(address, files)?, message_limit);
        Ok(Self { client, address: address.to_owned(), timeout })
    }
}

impl FunctionRuntime for Grpc {
    fn name(&self) -> &'static str {
        "grpc"
    }

    /// Whether a function-runner has a function shows only when it is asked to run it.
    fn check(&self, function: &FunctionRef) -> Result<(), RuntimeError> {
        function.image().map(|_| ())
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(async move {
            let image = call.function.image()?;
            match self.client.evaluate(image, call.list.emit().into(), self.timeout).await {
                Ok(answer) => {
                    let log = String::from_utf8_lossy(&answer.log).into_owned();
                    Outcome::of_text(&call.function, &answer.resource_list, log, 0)
                }
                Err(status) => self.failure(&call.function, &status),
            }
        })
    }
}

impl Grpc {
    /// A function that ran and failed is an outcome; a runner that could not run it is an error.
    fn failure(&self, function: &FunctionRef, status: &Status) -> Result<Outcome, RuntimeError> {
        let image = function.name();
        if status.code() == Code::NotFound {
            let advice = vec![format!("function-runner at {} does not have it either", self.address)];
            return Err(RuntimeError::NotFound { function: image.to_owned(), advice });
        }
        if let Some(details) = EvaluationError::of(status)
            && details.kind() == Kind::FunctionFailed
        {
            let results = details.results.into_iter().map(Into::into).collect();
            let exit_code = details.exit_code.unwrap_or(-1);
            return Ok(Outcome::of_failure(&results, stderr_of(status.message()), exit_code));
        }
        let (code, text) = (code_name(status.code()), status.message());
        let mut text = format!("func eval {} failed: rpc error: code = {code} desc = {text}", quote(image));
        if status.code() == Code::Unavailable {
            text.push_str(&format!("; is a function-runner listening at {}?", self.address));
        }
        Err(RuntimeError::Failed(text))
    }
}

/// What the function wrote on standard error, out of the text that frames it.
fn stderr_of(message: &str) -> String {
    let after = |mark: &str| message.split_once(mark).map(|(_, rest)| rest);
    if let Some(stderr) = after(" and stderr: ") {
        return stderr.to_owned();
    }
    let inner = after(" (")
        .map(|rest| rest.split_once(") with structured results: ").map_or(rest, |(stderr, _)| stderr));
    inner.map_or_else(|| message.to_owned(), |stderr| stderr.strip_suffix(')').unwrap_or(stderr).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_error_is_found_in_its_frame() {
        assert_eq!(stderr_of("Failed to execute function \"a\": exit status 1 (boom\n)"), "boom\n");
        assert_eq!(
            stderr_of(
                "Failed to execute function \"a\": exit status 1 (boom) with structured results: [error]: x"
            ),
            "boom"
        );
        assert_eq!(
            stderr_of(
                "failed to evaluate function \"a\" with structured results: [error]: x and stderr: boom"
            ),
            "boom"
        );
        assert_eq!(stderr_of("something else"), "something else");
    }
}
