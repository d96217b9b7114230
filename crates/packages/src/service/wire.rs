//! The messages and the service, generated from `proto/`.

#![allow(missing_debug_implementations, missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]

tonic::include_proto!("loggia.v1");

/// The compiled protocol, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/package_descriptors.bin"));
