//! The messages and services of the wire protocol, generated from `proto/`.

/// Package `evaluator`: the contract with Porch.
#[allow(missing_debug_implementations, unreachable_pub, clippy::all, clippy::pedantic)]
mod evaluator {
    tonic::include_proto!("evaluator");
}

/// Package `loggia.v1`: details of a failed evaluation.
#[allow(unreachable_pub, clippy::all)]
pub mod details {
    tonic::include_proto!("loggia.v1");
}

/// Package `google.rpc`: the frame that carries details.
#[allow(unreachable_pub, clippy::all)]
pub(crate) mod rpc {
    tonic::include_proto!("google.rpc");
}

pub use evaluator::function_evaluator_server::{FunctionEvaluator, FunctionEvaluatorServer};
pub use evaluator::{EvaluateFunctionRequest, EvaluateFunctionResponse};

pub use evaluator::function_evaluator_client::FunctionEvaluatorClient;

/// The compiled protocol, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
