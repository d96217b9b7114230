//! The caller's side of the wire protocol.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use tonic::{Code, Request, Status};

use crate::Answer;
use crate::connection::{AddressError, Connection};
use crate::server::too_large;
use crate::wire::{EvaluateFunctionRequest, FunctionEvaluatorClient};

/// The flags to change when a message is too large, as a caller sees them.
const SIZE_FLAGS: &str = "raise the message limit of the caller, and --max-request-body-size of function-runner \
                          to the same value";

/// Reaches a function evaluator over one connection, which is made on first use and again when it broke.
/// Clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    service: FunctionEvaluatorClient<Connection>,
    message_limit: usize,
}

// === impl Client ===

impl Client {
    /// A client for the evaluator at `HOST:PORT`, with messages of at most `message_limit` bytes either
    /// way. Nothing is sent yet.
    pub fn new(address: &str, message_limit: usize) -> Result<Self, AddressError> {
        let connection = Connection::new(address)?;
        let origin = connection.origin();
        let service = FunctionEvaluatorClient::with_origin(connection, origin)
            .max_decoding_message_size(message_limit)
            .max_encoding_message_size(usize::MAX);
        Ok(Self { service, message_limit })
    }

    /// Has a function run on a `ResourceList`, within `timeout` if there is one. Dropping the future
    /// cancels the call.
    pub async fn evaluate(
        &self,
        image: &str,
        resource_list: Bytes,
        timeout: Option<Duration>,
    ) -> Result<Answer, Status> {
        let message = EvaluateFunctionRequest { resource_list, image: image.to_owned() };
        let (size, limit) = (message.encoded_len(), self.message_limit);
        if size > limit {
            let text = format!("trying to send message larger than max ({size} vs. {limit}); {SIZE_FLAGS}");
            return Err(Status::resource_exhausted(text));
        }
        let mut request = Request::new(message);
        let mut service = self.service.clone();
        let response = match timeout {
            None => service.evaluate_function(request).await,
            Some(timeout) => {
                request.set_timeout(timeout);
                let late = |_| Status::deadline_exceeded("context deadline exceeded");
                tokio::time::timeout(timeout, service.evaluate_function(request)).await.map_err(late)?
            }
        };
        let response = response.map_err(in_our_words)?.into_inner();
        Ok(Answer { resource_list: response.resource_list, log: response.log })
    }
}

/// The library's own errors, in the codes and words that callers know from Go.
fn in_our_words(status: Status) -> Status {
    match (status.code(), too_large(status.message())) {
        (Code::OutOfRange, Some((size, limit))) => Status::resource_exhausted(format!(
            "grpc: received message larger than max ({size} vs. {limit}); {SIZE_FLAGS}"
        )),
        _ => match status.source() {
            // Only what failed on this side has a source: the connection, that is.
            Some(cause) => Status::unavailable(format!("connection error: {}", innermost(cause))),
            None => status,
        },
    }
}

fn innermost<'a>(mut error: &'a (dyn std::error::Error + 'static)) -> &'a dyn std::error::Error {
    while let Some(deeper) = error.source() {
        error = deeper;
    }
    error
}
