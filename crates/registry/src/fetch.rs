//! Fetches the metadata of an image: its manifest, perhaps by way of an index, then its config.

use std::sync::Arc;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use reqwest::Method;
use ring::digest::{SHA256, digest};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, warn};

use crate::client::Client;
use crate::error::Step;
use crate::manifest::{self, Config, Descriptor, Invalid, Manifest};
use crate::request::{Fetch, RegistryRequest, RegistryResponse};
use crate::{Error, Kind, Metadata, Platform, Reference, Settings};
use loggia_function::image::is_sha256;

/// The limit that registries have for manifests.
const MAX_MANIFEST: usize = 4 << 20;
const MAX_CONFIG: usize = 4 << 20;

/// How many images are fetched at once; others wait within their time. Each may hold an answer of some megabytes.
const AT_ONCE: usize = 64;

/// How deep indexes may be nested.
const MAX_DEPTH: usize = 3;

/// Fetches from registries; it caches nothing.
#[derive(Debug)]
pub(crate) struct Fetcher {
    settings: Arc<Settings>,
    client: Client,
    turns: Semaphore,
}

// === impl Fetcher ===

impl Fetcher {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { client: Client::new(Arc::clone(&settings)), settings, turns: Semaphore::new(AT_ONCE) }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn certificates_changed(&self) -> bool {
        self.client.certificates_changed()
    }

    /// The metadata of an image, within [`Timeouts::total`](crate::Timeouts::total).
    pub(crate) async fn fetch(&self, image: &str, reference: &Reference) -> Result<Metadata, Error> {
        self.in_time(image, reference, async |fetch: &Fetch<'_>| self.metadata(fetch).await).await
    }

    /// The digest of a tag now, by HEAD; none if the registry does not answer that with a digest.
    pub(crate) async fn digest(&self, image: &str, reference: &Reference) -> Result<Option<String>, Error> {
        self.in_time(image, reference, async |fetch: &Fetch<'_>| {
            let path = format!("manifests/{}", name(reference));
            let request = RegistryRequest {
                method: &Method::HEAD,
                path: &path,
                accept: manifest::ACCEPT,
                limit: MAX_MANIFEST,
            };
            match self.client.request(fetch, request).await {
                // Some registries and proxies do not implement HEAD.
                Err(error) if error.kind() == Kind::Malformed => Ok(None),
                response => response.map(|response| response.digest),
            }
        })
        .await
    }

    pub(crate) async fn in_time<T>(
        &self,
        image: &str,
        reference: &Reference,
        work: impl AsyncFnOnce(&Fetch<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let total = self.settings.timeouts.total;
        let deadline = Instant::now() + total;
        let fetch = Fetch::new(image, reference, deadline);
        let in_time = timeout_at(deadline, async {
            // Never closed, so there is always a permit.
            let _turn = self.turns.acquire().await.ok();
            work(&fetch).await
        })
        .await;
        in_time.unwrap_or_else(|_| {
            let advice =
                "check that the registry is up and that this machine can reach it, or raise the limit";
            Err(fetch.error(Kind::TimedOut, format!("no answer in {total:?} (`--registry-timeout`)"), advice))
        })
    }

    async fn metadata(&self, fetch: &Fetch<'_>) -> Result<Metadata, Error> {
        let reference = fetch.reference;
        let (mut manifest, mut digest) = self.manifest(fetch, name(reference)).await?;
        let (mut index_digest, mut porch_digest) = (None, None);
        for _ in 0..MAX_DEPTH {
            let Manifest::Index { manifests } = &manifest else { break };
            let chosen =
                manifest::choose(manifests, &self.settings.platform).map_err(|why| invalid(fetch, why))?;
            debug!(index = digest, image = chosen.digest, "Following the index");
            if index_digest.is_none() {
                index_digest = Some(digest);
                let amd64 = manifest::choose(manifests, &Platform::amd64()).ok();
                porch_digest = amd64.filter(|image| !image.is_index()).map(|image| image.digest.clone());
            }
            let chosen = checked(fetch, chosen)?.to_owned();
            (manifest, digest) = self.manifest(fetch, &chosen).await?;
        }
        let Manifest::Image { config } = &manifest else {
            return Err(fetch.error(Kind::Malformed, "an index leads to an index, over and over", ""));
        };
        fetch.at(Step::Config);
        let path = format!("blobs/{}", checked(fetch, config)?);
        let request = RegistryRequest { method: &Method::GET, path: &path, accept: "*/*", limit: MAX_CONFIG };
        let response = self.client.request(fetch, request).await?;
        verify(fetch, &response.body, &config.digest)?;
        let Config { platform, entrypoint, env, working_dir, user } = Config::parse(&response.body)
            .map_err(|why| invalid(fetch, with_media_type(why, &config.media_type)))?;
        let platform = platform.unwrap_or_else(|| self.settings.platform.clone());
        if !self.settings.platform.runs(&platform) {
            let (image, wanted) = (fetch.image, &self.settings.platform);
            warn!("The image {image} is built for {platform} and may not run on {wanted}");
        }
        let porch_digest = porch_digest.unwrap_or_else(|| digest.clone());
        let reference = reference.clone();
        Ok(Metadata {
            reference,
            digest,
            index_digest,
            porch_digest,
            platform,
            entrypoint,
            env,
            working_dir,
            user,
        })
    }

    /// The manifest of a tag or digest, and its digest.
    async fn manifest(&self, fetch: &Fetch<'_>, name: &str) -> Result<(Manifest, String), Error> {
        let path = format!("manifests/{name}");
        let request = RegistryRequest {
            method: &Method::GET,
            path: &path,
            accept: manifest::ACCEPT,
            limit: MAX_MANIFEST,
        };
        let RegistryResponse { body, content_type, digest } = self.client.request(fetch, request).await?;
        if name.starts_with("sha256:") {
            verify(fetch, &body, name)?;
        } else if let Some(digest) = digest {
            verify(fetch, &body, &digest)?;
        }
        let manifest = Manifest::parse(&body, &content_type).map_err(|why| invalid(fetch, why))?;
        Ok((manifest, sha256(&body)))
    }
}

/// The tag or digest in the URL of a manifest.
fn name(reference: &Reference) -> &str {
    reference.digest().or(reference.tag()).unwrap_or("latest")
}

/// The digest of a descriptor, checked because it becomes part of a URL.
fn checked<'a>(fetch: &Fetch<'_>, descriptor: &'a Descriptor) -> Result<&'a str, Error> {
    let digest = descriptor.digest.as_str();
    if !is_sha256(digest) {
        let shown: String = digest.chars().filter(|c| !c.is_control()).take(80).collect();
        let observed = format!("the manifest points to `{shown}`, which is no SHA-256 digest");
        return Err(fetch.error(Kind::Malformed, observed, "check how the image was pushed"));
    }
    Ok(digest)
}

pub(crate) fn verify(fetch: &Fetch<'_>, body: &Bytes, expected: &str) -> Result<(), Error> {
    let found = sha256(body);
    if found == expected {
        return Ok(());
    }
    let observed = format!("the answer has the digest {found} instead of {expected}");
    Err(fetch.error(Kind::Malformed, observed, "check what stands between this machine and the registry"))
}

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(digest(&SHA256, bytes).as_ref()))
}

fn invalid(fetch: &Fetch<'_>, (kind, observed): Invalid) -> Error {
    let advice = match kind {
        Kind::NoPlatform => "build it for this platform, or choose one that it has",
        Kind::NoEntrypoint => "add ENTRYPOINT or CMD to its Dockerfile",
        _ => "push it again with a current tool",
    };
    fetch.error(kind, observed, advice)
}

/// Adds the media type of the config if it shows that this is not an image, but a chart or another artifact.
fn with_media_type((kind, observed): Invalid, media_type: &str) -> Invalid {
    let image = media_type.is_empty() || media_type.contains(".image.");
    let shown: String = media_type.chars().filter(|c| !c.is_control()).take(100).collect();
    (kind, if image { observed } else { format!("{observed}; its config is `{shown}`") })
}
