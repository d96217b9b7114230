//! A function-runner as a runtime, over one connection.

use std::time::Duration;

use loggia_function::{Call, Exit, FunctionRef, Knows, Outcome, Payload, RunError, Running, Runtime, Stderr};
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::connection::AddressError;
use crate::connection::{Connection, TlsError};
use crate::tls::ClientFiles;
use crate::{Answer, Client, status};

/// Runs functions by a function-runner. The connection is made on first use, shared by all calls, and made again
/// when it broke.
#[derive(Clone, Debug)]
pub struct Remote {
    client: Client,
    address: String,
    timeout: Option<Duration>,
}

// === impl Remote ===

impl Remote {
    /// The message limit that function-runner has by default.
    pub const MESSAGE_LIMIT: usize = 6 * 1024 * 1024;

    /// A runtime for the function-runner at `HOST:PORT`. Nothing is sent yet.
    ///
    /// # Errors
    /// If that is not an address.
    pub fn new(address: &str, message_limit: usize, timeout: Option<Duration>) -> Result<Self, AddressError> {
        let client = Client::new(address, message_limit)?;
        Ok(Self { client, address: address.to_owned(), timeout })
    }

    /// The same over TLS.
    ///
    /// # Errors
    /// If that is not an address, or the files cannot be used.
    pub fn over_tls(
        address: &str,
        files: &ClientFiles,
        message_limit: usize,
        timeout: Option<Duration>,
    ) -> Result<Self, TlsError> {
        let client = Client::over(Connection::over_tls(address, files)?, message_limit);
        Ok(Self { client, address: address.to_owned(), timeout })
    }

    async fn evaluate(&self, call: &Call) -> Result<Outcome, RunError> {
        let image = call.function.image().ok_or_else(RunError::not_found)?;
        let left = call.budget.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = [self.timeout, left].into_iter().flatten().min();
        match self.client.evaluate(image.name(), call.input.to_bytes(), timeout).await {
            Ok(answer) => Ok(answered(call, answer)),
            Err(status) => self.failure(&status),
        }
    }

    /// A function that ran and failed is an outcome; a runner that could not run it is an error.
    fn failure(&self, status: &Status) -> Result<Outcome, RunError> {
        if status.code() == Code::NotFound {
            let advice = vec![format!("function-runner at {} does not have it either", self.address)];
            return Err(RunError::NotFound { asked: Vec::new(), advice });
        }
        status::read(status, None).map_err(|error| match error {
            RunError::Remote(mut remote) => {
                if status.code() == Code::Unavailable {
                    remote.advice = format!("; is a function-runner listening at {}?", self.address);
                }
                RunError::Remote(remote)
            }
            error => error,
        })
    }
}

impl Runtime for Remote {
    fn name(&self) -> &'static str {
        "grpc"
    }

    fn knows(&self, function: &FunctionRef) -> Knows {
        match function {
            FunctionRef::Image(_) => Knows::AskToRun,
            FunctionRef::Command(_) => Knows::No,
        }
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(self.evaluate(call))
    }
}

/// The outcome of a function that succeeded on another server, which says how long its process ran.
pub fn answered(call: &Call, answer: Answer) -> Outcome {
    let Answer { resource_list, log, ran } = answer;
    call.record.note(|recorded| recorded.ran = ran);
    let total = log.len() as u64;
    let (output, stderr) = (Payload::Bytes(resource_list), Stderr::new(log, total));
    Outcome { output, stderr, exit: Exit::Code(0), remote: None }
}
