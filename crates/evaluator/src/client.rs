//! The caller's side of the wire protocol.

use std::time::Duration;

use bytes::Bytes;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use crate::Answer;
use crate::server::too_large;
use crate::wire::{EvaluateFunctionRequest, FunctionEvaluatorClient};

/// Reaches a function evaluator over one connection, which is made on first use and again when it broke.
/// Clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    service: FunctionEvaluatorClient<Channel>,
    message_limit: usize,
}

/// Why there can be no client.
#[derive(Debug, thiserror::Error)]
#[error("`{address}` is no address of a function evaluator; write HOST:PORT")]
pub struct AddressError {
    address: String,
    #[source]
    source: tonic::transport::Error,
}

// === impl Client ===

impl Client {
    /// A client for the evaluator at `HOST:PORT`, with messages of at most `message_limit` bytes either
    /// way. Nothing is sent yet.
    pub fn new(address: &str, message_limit: usize) -> Result<Self, AddressError> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|source| AddressError { address: address.to_owned(), source })?
            .connect_timeout(Duration::from_secs(5))
            .tcp_nodelay(true)
            .tcp_keepalive(Some(Duration::from_secs(30)))
            .http2_keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(10))
            .max_frame_size(256 << 10)
            .initial_stream_window_size(2 << 20)
            .initial_connection_window_size(16 << 20)
            // The status of a function that failed with much to say travels in headers.
            .http2_max_header_list_size(1 << 20);
        let service = FunctionEvaluatorClient::new(endpoint.connect_lazy())
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
        let size = prost::Message::encoded_len(&message);
        if size > self.message_limit {
            let limit = self.message_limit;
            return Err(Status::resource_exhausted(format!(
                "trying to send message larger than max ({size} vs. {limit}); {SIZE_FLAGS}"
            )));
        }
        let mut request = Request::new(message);
        if let Some(timeout) = timeout {
            request.set_timeout(timeout);
        }
        let response = self.service.clone().evaluate_function(request).await.map_err(in_our_words)?;
        let response = response.into_inner();
        Ok(Answer { resource_list: response.resource_list, log: response.log })
    }
}

/// The flags to change when a message is too large, as a caller sees them.
const SIZE_FLAGS: &str = "raise the message limit of the caller, and --max-request-body-size of function-runner \
                          to the same value";

/// The library's own errors, in the codes and words that callers know from Go.
fn in_our_words(status: Status) -> Status {
    match (status.code(), too_large(status.message())) {
        (Code::OutOfRange, Some((size, limit))) => Status::resource_exhausted(format!(
            "grpc: received message larger than max ({size} vs. {limit}); {SIZE_FLAGS}"
        )),
        (Code::Cancelled, _) if status.message() == "Timeout expired" => {
            Status::deadline_exceeded("context deadline exceeded")
        }
        (Code::Unknown | Code::Unavailable, _) => match transport_cause(&status) {
            Some(cause) => Status::unavailable(format!("connection error: {cause}")),
            None => status,
        },
        _ => status,
    }
}

/// The innermost cause, if the connection and not the service is what failed.
fn transport_cause(status: &Status) -> Option<String> {
    let mut cause = std::error::Error::source(status)?;
    cause.downcast_ref::<tonic::transport::Error>()?;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    Some(cause.to_string())
}
