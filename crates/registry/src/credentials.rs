//! Finds the credential for an image.

use std::path::Path;
use std::sync::Arc;

use tracing::{debug, warn};

use crate::docker_config::{DockerConfig, Found, Proof};
use crate::helper::Helpers;
use crate::{Reference, Settings};

/// A credential and where it was found. The origin holds no secret, so messages may show it.
#[derive(Clone, Debug)]
pub(crate) struct Credential {
    pub(crate) proof: Proof,
    pub(crate) origin: String,
}

/// Finds credentials: in the file of the installation first, then in the user's keychain.
#[derive(Debug)]
pub(crate) struct Credentials {
    settings: Arc<Settings>,
    helpers: Helpers,
}

// === impl Credentials ===

impl Credentials {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        let helpers = Helpers::new(settings.timeouts.helper);
        Self { settings, helpers }
    }

    /// The credential for an image, or none for anonymous requests. The files are read each time, so a rotated
    /// secret needs no watcher.
    pub(crate) async fn find(
        &self,
        image: &str,
        reference: &Reference,
    ) -> Result<Option<Credential>, String> {
        if let Some(file) = self.settings.auth_file.as_deref().filter(|_| !self.settings.is_public(image)) {
            match DockerConfig::read(file)? {
                Some((config, _)) => {
                    if let Some(credential) = self.find_in(file, &config, reference).await? {
                        return Ok(Some(credential));
                    }
                }
                None => warn!("There is no {}: {image} is asked for without its credentials", file.display()),
            }
        }
        for file in &self.settings.keychain.files {
            let Some((config, _)) = DockerConfig::read(file)? else { continue };
            if let Some(credential) = self.find_in(file, &config, reference).await? {
                return Ok(Some(credential));
            }
        }
        debug!(image, "No credentials: asking as anybody");
        Ok(None)
    }

    /// Whether a file has an entry for the registry of an image. A store for all registries does not count.
    pub(crate) fn name(&self, reference: &Reference) -> bool {
        let files = self.settings.auth_file.iter().chain(&self.settings.keychain.files);
        files
            .into_iter()
            .any(|file| matches!(DockerConfig::read(file), Ok(Some((config, _))) if config.names(reference)))
    }

    async fn find_in(
        &self,
        file: &Path,
        config: &DockerConfig,
        reference: &Reference,
    ) -> Result<Option<Credential>, String> {
        let file = file.display();
        for found in config.find(reference).map_err(|reason| format!("{file}: {reason}"))? {
            let (proof, origin) = match found {
                Found::Proof { key, proof } => (proof, format!("the entry `{key}` of {file}")),
                Found::Helper { name, server } => {
                    let found = self.helpers.get(&name, &server).await;
                    match found.map_err(|reason| format!("{reason} (named in {file})"))? {
                        Some(proof) => (proof, format!("`docker-credential-{name}` for `{server}`")),
                        None => continue,
                    }
                }
            };
            debug!(origin, "Found credentials");
            return Ok(Some(Credential { proof, origin }));
        }
        Ok(None)
    }
}
