//! The classic form of a signature: a payload ("simple signing") with the signature in an annotation of its layer.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use super::{Claim, Flaw, Signed};

/// What cosign writes into `critical.type`; the second since version 2.
const TYPES: [&str; 2] = ["cosign container image signature", "https://sigstore.dev/cosign/sign/v1"];

#[derive(Deserialize)]
struct Payload {
    critical: Critical,
    #[serde(default)]
    optional: Option<BTreeMap<String, serde_json::Value>>,
}

#[derive(Deserialize)]
struct Critical {
    identity: Identity,
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Identity {
    #[serde(rename = "docker-reference")]
    reference: String,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

/// Reads a payload and the signature that its annotation holds.
pub(crate) fn parse(payload: &[u8], annotation: &str) -> Result<Signed, Flaw> {
    let signature = BASE64_STANDARD.decode(annotation.trim());
    let signature = signature.map_err(|_| Flaw::Unreadable("its annotation is not base64"))?;
    let Payload { critical, optional } =
        serde_json::from_slice(payload).map_err(|_| Flaw::Unreadable("its payload is not simple signing"))?;
    if !TYPES.contains(&critical.kind.as_str()) {
        return Err(Flaw::Unreadable("its payload is of another type"));
    }
    let optional = optional.unwrap_or_default().into_iter();
    let annotations = optional.filter_map(|(name, value)| Some((name, value.as_str()?.to_owned())));
    let claim = Claim {
        digests: vec![critical.image.digest],
        repository: Some(critical.identity.reference),
        annotations: annotations.collect(),
    };
    Ok(Signed { message: payload.to_vec(), signatures: vec![signature], claim })
}
