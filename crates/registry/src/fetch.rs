//! From a reference to metadata: manifest, perhaps through an index, then config.

use std::sync::Arc;

use bytes::Bytes;
use reqwest::Method;
use ring::digest::{SHA256, digest};
use tokio::time::{Instant, timeout_at};
use tracing::{debug, warn};

use crate::client::Client;
use crate::errand::{Answer, Errand, Question};
use crate::error::Step;
use crate::manifest::{self, Config, Descriptor, Manifest, Wrong};
use crate::{Error, Kind, Metadata, Platform, Reference, Settings};

/// Registries take no larger manifests.
const MAX_MANIFEST: usize = 4 << 20;
const MAX_CONFIG: usize = 16 << 20;

/// An index may lead to an index, but not for ever.
const MAX_DEPTH: usize = 3;

/// Asks registries for images.
#[derive(Debug)]
pub(crate) struct Fetcher {
    settings: Arc<Settings>,
    client: Client,
}

// === impl Fetcher ===

impl Fetcher {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { client: Client::new(Arc::clone(&settings)), settings }
    }

    pub(crate) fn certificates_changed(&self) -> bool {
        self.client.certificates_changed()
    }

    /// All there is to know, in bounded time.
    pub(crate) async fn fetch(&self, image: &str, reference: &Reference) -> Result<Metadata, Error> {
        self.in_time(image, reference, async |errand: &Errand<'_>| self.metadata(errand).await).await
    }

    /// The digest that the reference stands for now, if the registry says so without sending all of it.
    pub(crate) async fn digest(&self, image: &str, reference: &Reference) -> Result<Option<String>, Error> {
        self.in_time(image, reference, async |errand: &Errand<'_>| {
            let path = format!("manifests/{}", name(reference));
            let question = Question {
                method: &Method::HEAD,
                path: &path,
                accept: manifest::ACCEPT,
                limit: MAX_MANIFEST,
            };
            match self.client.ask(errand, question).await {
                // Not everything that speaks for a registry knows HEAD.
                Err(error) if error.kind() == Kind::Malformed => Ok(None),
                answer => answer.map(|answer| answer.digest),
            }
        })
        .await
    }

    async fn in_time<T>(
        &self,
        image: &str,
        reference: &Reference,
        work: impl AsyncFnOnce(&Errand<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let total = self.settings.timeouts.total;
        let deadline = Instant::now() + total;
        let errand = Errand::new(image, reference, deadline);
        let in_time = timeout_at(deadline, work(&errand)).await;
        in_time.unwrap_or_else(|_| {
            let advice =
                "check that the registry is up and that this machine can reach it, or raise the limit";
            Err(errand.error(
                Kind::TimedOut,
                format!("no answer in {total:?} (`--registry-timeout`)"),
                advice,
            ))
        })
    }

    async fn metadata(&self, errand: &Errand<'_>) -> Result<Metadata, Error> {
        let reference = errand.reference;
        let (mut manifest, mut digest) = self.manifest(errand, name(reference)).await?;
        let (mut index_digest, mut porch_digest) = (None, None);
        for _ in 0..MAX_DEPTH {
            let Manifest::Index { manifests } = &manifest else { break };
            let chosen =
                manifest::choose(manifests, &self.settings.platform).map_err(|wrong| told(errand, wrong))?;
            debug!(index = digest, image = chosen.digest, "Following the index");
            if index_digest.is_none() {
                index_digest = Some(digest);
                let amd64 = manifest::choose(manifests, &Platform::amd64()).ok();
                porch_digest = amd64.filter(|image| !image.is_index()).map(|image| image.digest.clone());
            }
            let chosen = checked(errand, chosen)?.to_owned();
            (manifest, digest) = self.manifest(errand, &chosen).await?;
        }
        let Manifest::Image { config } = &manifest else {
            return Err(errand.error(Kind::Malformed, "an index leads to an index, over and over", ""));
        };
        errand.at(Step::Config);
        let path = format!("blobs/{}", checked(errand, config)?);
        let question = Question { method: &Method::GET, path: &path, accept: "*/*", limit: MAX_CONFIG };
        let answer = self.client.ask(errand, question).await?;
        verify(errand, &answer.body, &config.digest)?;
        let Config { platform, entrypoint, env, working_dir, user } = Config::parse(&answer.body)
            .map_err(|wrong| told(errand, with_media_type(wrong, &config.media_type)))?;
        let platform = platform.unwrap_or_else(|| self.settings.platform.clone());
        if !self.settings.platform.runs(&platform) {
            let (image, wanted) = (errand.image, &self.settings.platform);
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
    async fn manifest(&self, errand: &Errand<'_>, name: &str) -> Result<(Manifest, String), Error> {
        let path = format!("manifests/{name}");
        let question =
            Question { method: &Method::GET, path: &path, accept: manifest::ACCEPT, limit: MAX_MANIFEST };
        let Answer { body, content_type, digest } = self.client.ask(errand, question).await?;
        if name.starts_with("sha256:") {
            verify(errand, &body, name)?;
        } else if let Some(digest) = digest.filter(|digest| digest.starts_with("sha256:")) {
            verify(errand, &body, &digest)?;
        }
        let manifest = Manifest::parse(&body, &content_type).map_err(|wrong| told(errand, wrong))?;
        Ok((manifest, sha256(&body)))
    }
}

/// What a registry knows the reference by.
fn name(reference: &Reference) -> &str {
    reference.digest().or(reference.tag()).unwrap_or("latest")
}

/// The digest of a descriptor, which becomes part of an address.
fn checked<'a>(errand: &Errand<'_>, descriptor: &'a Descriptor) -> Result<&'a str, Error> {
    let digest = descriptor.digest.as_str();
    let hex = digest.strip_prefix("sha256:").unwrap_or_default();
    match hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        true => Ok(digest),
        false => {
            let shown: String = digest.chars().filter(|c| !c.is_control()).take(80).collect();
            let observed = format!("the manifest points to `{shown}`, which is no SHA-256 digest");
            Err(errand.error(Kind::Malformed, observed, "check how the image was pushed"))
        }
    }
}

fn verify(errand: &Errand<'_>, body: &Bytes, expected: &str) -> Result<(), Error> {
    let found = sha256(body);
    if found == expected {
        return Ok(());
    }
    let observed = format!("the answer has the digest {found} instead of {expected}");
    Err(errand.error(Kind::Malformed, observed, "check what stands between this machine and the registry"))
}

fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes)
        .as_ref()
        .iter()
        .fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

fn told(errand: &Errand<'_>, (kind, observed): Wrong) -> Error {
    let advice = match kind {
        Kind::NoPlatform => "build it for this platform, or choose one that it has",
        Kind::NoEntrypoint => "add ENTRYPOINT or CMD to its Dockerfile",
        _ => "push it again with a current tool",
    };
    errand.error(kind, observed, advice)
}

/// What is no image, but a chart or another artefact, says so by the type of its config.
fn with_media_type((kind, observed): Wrong, media_type: &str) -> Wrong {
    let image = media_type.is_empty() || media_type.contains(".image.");
    let shown: String = media_type.chars().filter(|c| !c.is_control()).take(100).collect();
    (kind, if image { observed } else { format!("{observed}; its config is `{shown}`") })
}
