//! Messages and metadata of the wire: request, details of a failure, deadline, trace.

use loggia_function::{Budget, Call, Context, Image};
use loggia_grpc::wire::details::EvaluationError;
use loggia_grpc::wire::{EvaluateFunctionRequest, EvaluateFunctionResponse};
use loggia_packages::service::wire::{
    ApplyTaskRequest, PatchKptfileRequest, RenderRequest, ReplaceResourcesRequest,
};
use prost::Message as _;
use tonic::metadata::{Ascii, MetadataValue};

pub(crate) fn run(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    match first % 8 {
        0 => evaluate(rest),
        1 => drop(EvaluateFunctionResponse::decode(rest)),
        2 => drop(RenderRequest::decode(rest)),
        3 => drop(ApplyTaskRequest::decode(rest)),
        4 => drop(PatchKptfileRequest::decode(rest)),
        5 => drop(ReplaceResourcesRequest::decode(rest)),
        6 => details(rest),
        _ => metadata(rest),
    }
}

fn evaluate(bytes: &[u8]) {
    let Ok(request) = EvaluateFunctionRequest::decode(bytes) else { return };
    let image = Image::with_prefix(&request.image, Some("ghcr.io/kptdev/krm-functions-catalog"));
    let _ = image.reference();
    let call = Call::of_image(image, request.resource_list, Budget::UNBOUNDED);
    let _ = (call.function.name(), call.input.size());
}

fn details(bytes: &[u8]) {
    let status =
        tonic::Status::with_details(tonic::Code::Internal, "failed", bytes::Bytes::copy_from_slice(bytes));
    let _ = EvaluationError::of(&status);
    let _ = loggia_grpc::status::read(&status, Some("pod"));
}

fn metadata(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let mut request = tonic::Request::new(());
    let timeout = lines.next().and_then(|value| MetadataValue::<Ascii>::try_from(value).ok());
    if let Some(timeout) = timeout {
        request.metadata_mut().insert("grpc-timeout", timeout);
    }
    let _ = loggia_grpc::deadline(&request);
    let rest: Vec<&str> = lines.filter_map(|line| std::str::from_utf8(line).ok()).collect();
    let _ = Context::read(|name| rest.get(name.len() % 4).copied());
}
