//! The form that cosign writes since version 3: a Sigstore bundle with an in-toto statement in a DSSE envelope.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use super::{Claim, Flaw, Signed};

pub(super) const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const PAYLOAD: &str = "application/vnd.in-toto+json";
const STATEMENTS: [&str; 2] = ["https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1"];

/// What a statement that signs an image says. Others, for instance of a scanner, are signed with the same keys and mean
/// something else.
const PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";

/// The most signatures of one envelope that are tried.
const MAX_SIGNATURES: usize = 16;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    media_type: String,
    #[serde(default)]
    verification_material: Material,
    dsse_envelope: Option<Envelope>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Material {
    certificate: Option<serde::de::IgnoredAny>,
    x509_certificate_chain: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<Signature>,
}

#[derive(Deserialize)]
struct Signature {
    sig: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    predicate_type: String,
    subject: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    digest: BTreeMap<String, String>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, serde_json::Value>>,
}

/// Reads a bundle.
pub(crate) fn parse(bytes: &[u8]) -> Result<Signed, Flaw> {
    let unreadable = |why| Flaw::Unreadable(why);
    let Bundle { media_type, verification_material, dsse_envelope } =
        serde_json::from_slice(bytes).map_err(|_| unreadable("its bundle is malformed"))?;
    if media_type != MEDIA_TYPE {
        return Err(unreadable("its bundle is of another version than 0.3"));
    }
    if verification_material.certificate.is_some() || verification_material.x509_certificate_chain.is_some() {
        return Err(Flaw::Certificate);
    }
    let envelope = dsse_envelope.ok_or(unreadable("its bundle has no DSSE envelope"))?;
    if envelope.payload_type != PAYLOAD {
        return Err(unreadable("its envelope holds no in-toto statement"));
    }
    let decode =
        |text: &str| BASE64_STANDARD.decode(text).map_err(|_| unreadable("its envelope is not base64"));
    let payload = decode(&envelope.payload)?;
    let signatures = envelope.signatures.iter().take(MAX_SIGNATURES);
    let signatures = signatures.map(|signature| decode(&signature.sig)).collect::<Result<_, _>>()?;
    let claim = claim(&payload)?;
    Ok(Signed { message: pre_authentication(&payload), signatures, claim })
}

/// What a statement says: of one subject, so that its annotations are those of the digest.
fn claim(payload: &[u8]) -> Result<Claim, Flaw> {
    let Statement { kind, predicate_type, subject } =
        serde_json::from_slice(payload).map_err(|_| Flaw::Unreadable("its statement is malformed"))?;
    if !STATEMENTS.contains(&kind.as_str()) || predicate_type != PREDICATE {
        return Err(Flaw::Unreadable("its statement is not the signature of an image"));
    }
    let [Subject { digest, annotations }] = subject.as_slice() else {
        return Err(Flaw::Unreadable("its statement has not exactly one subject"));
    };
    let annotations = annotations.iter().flatten();
    Ok(Claim {
        digests: digest.get("sha256").map(|hex| format!("sha256:{hex}")).into_iter().collect(),
        repository: None,
        annotations: annotations
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect(),
    })
}

/// What DSSE signs: the type and the payload, each after its length.
fn pre_authentication(payload: &[u8]) -> Vec<u8> {
    let mut message = format!("DSSEv1 {} {PAYLOAD} {} ", PAYLOAD.len(), payload.len()).into_bytes();
    message.extend_from_slice(payload);
    message
}
