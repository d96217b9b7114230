//! The caller's side of the wire protocol.

use std::convert::Infallible;
use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::connection::{self, AddressError, Connection};
use crate::headers::{RAN_HEADER, inject_context, too_large};
use crate::wire::{EvaluateFunctionRequest, FunctionEvaluatorClient};

/// The flags to change when a message is too large, as a caller sees them.
const SIZE_FLAGS: &str = "raise the message limit of the caller, and --max-request-body-size of function-runner \
                          to the same value";

/// How often a server is asked for its health while a call takes its time: grpc-go closes a connection after two pings
/// without data (ENHANCE_YOUR_CALM), and an answer is data.
const KEEPALIVE_CALL: Duration = Duration::from_secs(20);

/// Reaches a function evaluator over one connection, which is made on first use and again when it broke.
/// Clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    service: FunctionEvaluatorClient<Connection>,
    connection: Connection,
    message_limit: usize,
}

/// What a function evaluator answered.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The `ResourceList` that the function wrote.
    pub resource_list: Bytes,
    /// What it wrote to standard error.
    pub log: Bytes,
    /// How long its process ran, if the server says so.
    pub ran: Option<Duration>,
}

/// Why a call has no answer, for a caller that may make it again elsewhere.
#[derive(Debug)]
pub enum CallError {
    /// Nothing of it left this side: no function has run.
    NotSent(Status),
    /// It left this side and no answer came back: a function may have run.
    Broken(Status),
    /// The evaluator's own answer, or one of this side that trying again would not change.
    Final(Status),
}

// === impl Client ===

impl Client {
    /// A client for the evaluator at `HOST:PORT`, with messages of at most `message_limit` bytes either
    /// way. Nothing is sent yet.
    pub fn new(address: &str, message_limit: usize) -> Result<Self, AddressError> {
        Ok(Self::over(Connection::new(address)?, message_limit))
    }

    /// A client for the evaluator at the other end of a connection.
    pub fn over(connection: Connection, message_limit: usize) -> Self {
        let service = FunctionEvaluatorClient::with_origin(connection.clone(), connection.origin())
            .max_decoding_message_size(message_limit)
            .max_encoding_message_size(usize::MAX);
        Self { service, connection, message_limit }
    }

    /// Asks the evaluator whether it takes calls.
    pub async fn is_serving(&self) -> Result<bool, Status> {
        let mut health = HealthClient::with_origin(self.connection.clone(), self.connection.origin());
        let response = health.check(HealthCheckRequest::default()).await.map_err(in_our_words)?;
        Ok(response.into_inner().status() == ServingStatus::Serving)
    }

    /// Runs a function on a `ResourceList`, within `timeout` if there is one. Dropping the future
    /// cancels the call.
    pub async fn evaluate(
        &self,
        image: &str,
        resource_list: Bytes,
        timeout: Option<Duration>,
    ) -> Result<Answer, Status> {
        self.call(image, resource_list, timeout).await.map_err(CallError::into_status)
    }

    /// As [`evaluate`](Self::evaluate), for a caller that wants to know whether the function can have run.
    pub async fn call(
        &self,
        image: &str,
        resource_list: Bytes,
        timeout: Option<Duration>,
    ) -> Result<Answer, CallError> {
        let message = EvaluateFunctionRequest { resource_list, image: image.to_owned() };
        let (size, limit) = (message.encoded_len(), self.message_limit);
        if size > limit {
            let text = format!("trying to send message larger than max ({size} vs. {limit}); {SIZE_FLAGS}");
            return Err(CallError::Final(Status::resource_exhausted(text)));
        }
        let mut request = Request::new(message);
        if let Some(timeout) = timeout {
            request.set_timeout(timeout);
        }
        inject_context(request.metadata_mut());
        let mut service = self.service.clone();
        let response = async {
            tokio::select! {
                response = service.evaluate_function(request) => response,
                never = self.keep_alive() => match never {},
            }
        };
        let response = match timeout {
            None => response.await,
            Some(timeout) => {
                let late = |_| CallError::Final(Status::deadline_exceeded("context deadline exceeded"));
                tokio::time::timeout(timeout, response).await.map_err(late)?
            }
        };
        let response = response.map_err(CallError::of)?;
        let ran = response.metadata().get(RAN_HEADER).and_then(|micros| micros.to_str().ok()?.parse().ok());
        let ran = ran.map(Duration::from_micros);
        let response = response.into_inner();
        Ok(Answer { resource_list: response.resource_list, log: response.log, ran })
    }

    async fn keep_alive(&self) -> Infallible {
        loop {
            tokio::time::sleep(KEEPALIVE_CALL).await;
            let _ = self.is_serving().await;
        }
    }
}

// === impl CallError ===

impl CallError {
    fn of(status: Status) -> Self {
        let of_connection = status.source().is_some();
        let not_sent = matches!(
            lost_at(&status),
            Some(
                connection::Error::NotAccepted(_)
                    | connection::Error::NotConnected(..)
                    | connection::Error::NotTrusted(..)
            )
        );
        let told = in_our_words(status);
        match (of_connection && told.code() == Code::Unavailable, not_sent) {
            (true, true) => Self::NotSent(told),
            (true, false) => Self::Broken(told),
            (false, _) => Self::Final(told),
        }
    }

    pub fn into_status(self) -> Status {
        match self {
            Self::NotSent(status) | Self::Broken(status) | Self::Final(status) => status,
        }
    }
}

/// The error of the connection, if that is what a status is about.
fn lost_at(status: &Status) -> Option<&connection::Error> {
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
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
