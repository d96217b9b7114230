//! Signs images as cosign does, with a key of its own, and a registry that serves them from memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::KeyPair;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

use super::http::{Reply, Stub};
use super::image::sha256;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// An ECDSA key on P-256.
#[derive(Debug)]
pub struct Signer {
    pair: EcdsaKeyPair,
    pub pem: String,
}

/// A registry of one repository, `team/fn`, in memory. What it has can be changed while it serves.
#[derive(Debug)]
pub struct Shelf {
    pub stub: Stub,
    pub held: Arc<Mutex<Held>>,
}

/// What a registry holds, by the end of the path: type and bytes.
pub type Held = BTreeMap<String, (String, Vec<u8>)>;

impl Signer {
    #[allow(clippy::new_without_default, reason = "each one is another")]
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let der = key.serialize_der();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der, &SystemRandom::new()).unwrap();
        Self { pair, pem: key.public_key_pem() }
    }

    /// The signature in base64.
    pub fn sign(&self, message: &[u8]) -> String {
        BASE64_STANDARD.encode(self.pair.sign(&SystemRandom::new(), message).unwrap())
    }

    /// A payload of the classic form.
    pub fn payload(repository: &str, digest: &str) -> Value {
        json!({"critical": {"identity": {"docker-reference": repository}, "image": {"docker-manifest-digest": digest},
                            "type": "cosign container image signature"}, "optional": null})
    }

    /// A bundle with a statement about a digest.
    pub fn bundle(&self, digest: &str) -> Value {
        let hex = digest.trim_start_matches("sha256:");
        let statement = json!({"_type": "https://in-toto.io/Statement/v1", "subject": [{"digest": {"sha256": hex}}],
                               "predicateType": "https://sigstore.dev/cosign/sign/v1", "predicate": {}});
        self.envelope(&statement)
    }

    /// A bundle with any statement.
    pub fn envelope(&self, statement: &Value) -> Value {
        let (kind, payload) = ("application/vnd.in-toto+json", statement.to_string());
        let message = format!("DSSEv1 {} {kind} {} {payload}", kind.len(), payload.len());
        json!({"mediaType": BUNDLE, "verificationMaterial": {"publicKey": {"hint": "x"}},
               "dsseEnvelope": {"payload": BASE64_STANDARD.encode(&payload), "payloadType": kind,
                                "signatures": [{"sig": self.sign(message.as_bytes())}]}})
    }
}

impl Shelf {
    /// A registry with an image under `v1`, and its digest.
    pub fn start() -> (Self, String) {
        let held: Arc<Mutex<Held>> = Arc::default();
        let shelf = Arc::clone(&held);
        let stub = Stub::start(move |request| {
            let path = request.path.strip_prefix("/v2/team/fn/").unwrap_or_default();
            match shelf.lock().unwrap().get(path) {
                Some((kind, body)) => Reply::ok(kind, body.clone()),
                None => Reply::status(404),
            }
        });
        let shelf = Self { stub, held };
        let config = json!({"os": "linux", "architecture": "amd64", "config": {"Entrypoint": ["/fn"]}});
        let config = shelf.blob(config.to_string().as_bytes());
        let manifest =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": {"digest": config}, "layers": []});
        let digest = shelf.manifest("v1", MANIFEST, &manifest);
        (shelf, digest)
    }

    pub fn image(&self) -> String {
        format!("{}/team/fn:v1", self.stub.host())
    }

    pub fn repository(&self) -> String {
        format!("{}/team/fn", self.stub.host())
    }

    /// Holds a blob, and gives its digest.
    pub fn blob(&self, bytes: &[u8]) -> String {
        let digest = sha256(bytes);
        let entry = ("application/octet-stream".to_owned(), bytes.to_vec());
        self.held.lock().unwrap().insert(format!("blobs/{digest}"), entry);
        digest
    }

    /// Holds a manifest under a tag, and gives its digest.
    pub fn manifest(&self, tag: &str, kind: &str, manifest: &Value) -> String {
        let bytes = manifest.to_string().into_bytes();
        let digest = sha256(&bytes);
        let mut held = self.held.lock().unwrap();
        held.insert(format!("manifests/{digest}"), (kind.to_owned(), bytes.clone()));
        held.insert(format!("manifests/{tag}"), (kind.to_owned(), bytes));
        digest
    }

    /// Holds signatures of a digest in the classic form: payloads with what stands in their annotation.
    pub fn sign(&self, digest: &str, signatures: &[(Value, String)]) {
        let layer = |(payload, signature): &(Value, String)| {
            json!({"mediaType": "application/vnd.dev.cosign.simplesigning.v1+json",
                   "digest": self.blob(payload.to_string().as_bytes()),
                   "annotations": {"dev.cosignproject.cosign/signature": signature}})
        };
        let layers: Vec<_> = signatures.iter().map(layer).collect();
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": {"digest": self.blob(b"{}")}, "layers": layers});
        self.manifest(&format!("{}.sig", digest.replace(':', "-")), MANIFEST, &manifest);
    }

    /// Holds bundles that refer to a digest: for the API, or under the tag.
    pub fn refer(&self, digest: &str, bundles: &[Value], api: bool) {
        let one = |bundle: &Value| {
            let layer = json!({"mediaType": BUNDLE, "digest": self.blob(bundle.to_string().as_bytes())});
            let manifest =
                json!({"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": BUNDLE, "layers": [layer]});
            let digest = self.manifest("unused", MANIFEST, &manifest);
            json!({"mediaType": MANIFEST, "digest": digest, "artifactType": BUNDLE})
        };
        let manifests: Vec<_> = bundles.iter().map(one).collect();
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
        let path = if api {
            format!("referrers/{digest}")
        } else {
            format!("manifests/{}", digest.replace(':', "-"))
        };
        self.held.lock().unwrap().insert(path, (INDEX.to_owned(), index.to_string().into_bytes()));
    }
}
