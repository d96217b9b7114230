//! Finds the signatures of a digest at its registry.

use std::collections::BTreeMap;

use reqwest::Method;
use serde::Deserialize;

use super::{Findings, Flaw, Rule, Signed, Unverified, bundle, simple};
use crate::error::Step;
use crate::fetch::{Fetcher, verify};
use crate::request::{Fetch, RegistryRequest, RegistryResponse};
use crate::{Error, Kind, Reference, manifest};
use loggia_function::image::is_sha256;

const SIMPLE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const ANNOTATION: &str = "dev.cosignproject.cosign/signature";
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";

const MAX_MANIFEST: usize = 4 << 20;
/// The largest payload or bundle.
const MAX_SIGNATURE: usize = 1 << 20;
/// The most signatures in each form that are looked at.
const MAX_FOUND: usize = 50;

#[derive(Deserialize)]
struct SignatureManifest {
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    #[serde(default)]
    media_type: String,
    digest: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Referrers {
    #[serde(default)]
    manifests: Vec<Referrer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Referrer {
    digest: String,
    #[serde(default)]
    artifact_type: String,
}

// === impl Fetcher ===

impl Fetcher {
    /// Whether the digest is signed as the rule wants.
    pub(crate) async fn verify(
        &self,
        image: &str,
        reference: &Reference,
        digest: &str,
        rule: &Rule,
    ) -> Result<(), Unverified> {
        let found = self.in_time(image, reference, async |fetch: &Fetch<'_>| {
            fetch.at(Step::Signature);
            let mut findings = Findings::new(rule, reference, digest);
            self.simple(fetch, &mut findings).await?;
            if !findings.satisfied() {
                self.bundles(fetch, &mut findings).await?;
            }
            Ok(findings)
        });
        found.await.map_err(Unverified::Registry)?.verdict()
    }

    /// Signatures in the classic form, under a tag that is made of the digest.
    async fn simple(&self, fetch: &Fetch<'_>, findings: &mut Findings<'_>) -> Result<(), Error> {
        let tag = format!("{}.sig", findings.digest.replacen(':', "-", 1));
        let Some(found) = self.ask(fetch, &format!("manifests/{tag}"), MAX_MANIFEST).await? else {
            return Ok(());
        };
        let Ok(SignatureManifest { layers }) = serde_json::from_slice(&found.body) else {
            findings.flaw(Flaw::Unreadable("its manifest is malformed"));
            return Ok(());
        };
        let layers = layers.into_iter().filter(|layer| layer.media_type == SIMPLE);
        for Layer { digest, annotations, .. } in layers.take(MAX_FOUND) {
            if findings.satisfied() {
                return Ok(());
            }
            let annotations = annotations.unwrap_or_default();
            let signed = match annotations.get(ANNOTATION) {
                _ if annotations.get(CERTIFICATE).is_some_and(|pem| !pem.is_empty()) => {
                    Err(Flaw::Certificate)
                }
                None => Err(Flaw::Unreadable("its layer has no annotation with a signature")),
                Some(signature) => {
                    let payload = self.blob(fetch, &digest).await?;
                    payload.and_then(|payload| simple::parse(&payload, signature))
                }
            };
            findings.add(signed);
        }
        Ok(())
    }

    /// Bundles that refer to the digest: by the API for referrers, or by the tag for registries without it.
    async fn bundles(&self, fetch: &Fetch<'_>, findings: &mut Findings<'_>) -> Result<(), Error> {
        let digest = findings.digest;
        for path in [format!("referrers/{digest}"), format!("manifests/{}", digest.replacen(':', "-", 1))] {
            let Some(found) = self.ask(fetch, &path, MAX_MANIFEST).await? else { continue };
            let Ok(Referrers { manifests }) = serde_json::from_slice(&found.body) else { continue };
            let bundles = manifests.into_iter().filter(|one| one.artifact_type == bundle::MEDIA_TYPE);
            for Referrer { digest, .. } in bundles.take(MAX_FOUND) {
                if findings.satisfied() {
                    return Ok(());
                }
                let signed = self.bundle(fetch, &digest).await?;
                findings.add(signed);
            }
        }
        Ok(())
    }

    async fn bundle(&self, fetch: &Fetch<'_>, digest: &str) -> Result<Result<Signed, Flaw>, Error> {
        if !is_sha256(digest) {
            return Ok(Err(Flaw::Unreadable("its digest is not a SHA-256")));
        }
        let Some(found) = self.ask(fetch, &format!("manifests/{digest}"), MAX_MANIFEST).await? else {
            return Ok(Err(Flaw::Unreadable("its manifest is not there")));
        };
        verify(fetch, &found.body, digest)?;
        let Ok(SignatureManifest { layers }) = serde_json::from_slice(&found.body) else {
            return Ok(Err(Flaw::Unreadable("its manifest is malformed")));
        };
        let Some(layer) = layers.into_iter().find(|layer| layer.media_type == bundle::MEDIA_TYPE) else {
            return Ok(Err(Flaw::Unreadable("its manifest has no bundle")));
        };
        Ok(self.blob(fetch, &layer.digest).await?.and_then(|bytes| bundle::parse(&bytes)))
    }

    /// A blob whose bytes have the digest.
    async fn blob(&self, fetch: &Fetch<'_>, digest: &str) -> Result<Result<Vec<u8>, Flaw>, Error> {
        if !is_sha256(digest) {
            return Ok(Err(Flaw::Unreadable("its digest is not a SHA-256")));
        }
        let Some(found) = self.ask(fetch, &format!("blobs/{digest}"), MAX_SIGNATURE).await? else {
            return Ok(Err(Flaw::Unreadable("its blob is not there")));
        };
        verify(fetch, &found.body, digest)?;
        Ok(Ok(found.body.to_vec()))
    }

    /// What is at a path; nothing if the registry does not have it, or does not know the path.
    async fn ask(
        &self,
        fetch: &Fetch<'_>,
        path: &str,
        limit: usize,
    ) -> Result<Option<RegistryResponse>, Error> {
        let accept = if path.starts_with("blobs/") { "*/*" } else { manifest::ACCEPT };
        let request = RegistryRequest { method: &Method::GET, path, accept, limit };
        match self.client().request(fetch, request).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            // What registries without the API for referrers answer.
            Err(error) if error.kind() == Kind::Malformed && path.starts_with("referrers/") => Ok(None),
            Err(error) => Err(error),
        }
    }
}
