//! Real servers for tests.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test file uses its own part")]

use bytes::Bytes;
use loggia_grpc::wire::details::EvaluationError;
use loggia_grpc::{Answer, Client};
use tonic::Status;

pub use loggia_testing::*;

/// A server that is called by this project's own client.
pub trait Called {
    fn client(&self) -> Client;
}

impl Called for Server {
    fn client(&self) -> Client {
        Client::new(&self.address(), 6 << 20).unwrap()
    }
}

/// Evaluates within the patience of a test.
pub async fn evaluate(client: &Client, image: &str, input: impl Into<Bytes>) -> Result<Answer, Status> {
    client.evaluate(image, input.into(), Some(PATIENCE)).await
}

pub fn details(status: &Status) -> EvaluationError {
    EvaluationError::of(status).unwrap_or_else(|| panic!("no details in {status:?}"))
}
