//! The settings of all functions, from flags and from the file, which is read again when it changes.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::{info, warn};

use crate::Settings;
use crate::blueprint::Resources;
use crate::cache_config::CacheConfig;
use crate::pool::{Image, Limits};

/// How often the file is checked for changes.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The settings of single functions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Functions {
    pub(crate) limits: HashMap<Image, Limits>,
    pub(crate) resources: HashMap<Image, Resources>,
    /// Those of the file, in its order.
    pub(crate) listed: Vec<Image>,
}

// === impl Functions ===

impl Functions {
    /// Reads the file. An entry that cannot be used is logged; without a file there are no entries.
    pub(crate) fn read(settings: &Settings) -> Self {
        let Some(file) = &settings.cache_config else { return Self::default() };
        let shown = file.display().to_string();
        let text = match std::fs::read(file) {
            Ok(text) => text,
            Err(error) => {
                warn!("unable to load pod cache config file: open {shown}: {error}");
                return Self::default();
            }
        };
        match CacheConfig::parse(&shown, &text) {
            Ok(config) => {
                config.problems.iter().for_each(|problem| warn!("{problem}"));
                info!("Loaded {} pod cache configurations from {shown}", config.functions.len());
                Self::of(&config, settings)
            }
            Err(error) => {
                warn!("unable to load pod cache config file: {error}");
                Self::default()
            }
        }
    }

    fn of(config: &CacheConfig, settings: &Settings) -> Self {
        let mut functions = Self::default();
        for entry in &config.functions {
            let Some(image) = image_of(&entry.name, settings.image_prefix.as_deref()) else {
                warn!("pod cache config: `{}` is not an image; its entry is ignored", entry.name);
                continue;
            };
            if let Err(error) = settings.images.check(&image) {
                warn!("pod cache config: {}; its entry is ignored", error.describe(&entry.name));
                continue;
            }
            let defaults = default_limits(settings);
            let limits = Limits {
                max_waitlist_length: entry.max_waitlist_length.unwrap_or(defaults.max_waitlist_length),
                max_parallel_pods_per_function: entry
                    .max_parallel_pods_per_function
                    .unwrap_or(defaults.max_parallel_pods_per_function),
                min_pods_per_function: entry.min_pods_per_function.unwrap_or(defaults.min_pods_per_function),
                ttl: entry.ttl.unwrap_or(defaults.ttl),
                ..defaults
            };
            functions.limits.insert(image.clone(), limits);
            functions.resources.insert(image.clone(), entry.resources.clone());
            functions.listed.retain(|known| *known != image);
            functions.listed.push(image);
        }
        functions
    }

    /// Sends the settings whenever the file changes, for as long as the future is polled.
    pub(crate) async fn follow_changes(settings: Arc<Settings>, tell: watch::Sender<Arc<Self>>) {
        let Some(file) = settings.cache_config.clone() else { return };
        let mut known = stamp(&file);
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let found = stamp(&file);
            if found == known {
                continue;
            }
            known = found;
            let functions = Arc::new(Self::read(&settings));
            tell.send_if_modified(|current| {
                let changed = *current != functions;
                *current = functions;
                changed
            });
        }
    }
}

/// The limits of a function without an entry in the file.
pub(crate) fn default_limits(settings: &Settings) -> Limits {
    Limits {
        max_waitlist_length: settings.max_waitlist_length,
        max_parallel_pods_per_function: settings.max_parallel_pods_per_function,
        min_pods_per_function: 0,
        max_concurrent_evaluations_per_pod: settings.max_concurrent_evaluations_per_pod,
        max_queue_length: settings.max_queue_length,
        ttl: settings.ttl,
    }
}

/// The function that a name in the file means, with the prefix applied if the name is short.
fn image_of(name: &str, prefix: Option<&str>) -> Option<Image> {
    Some(Image::with_prefix(name, prefix)).filter(|image| image.reference().is_ok())
}

/// What changes when a file does. Kubernetes swaps a symbolic link, so the real path counts, too.
fn stamp(file: &Path) -> Option<(std::time::SystemTime, u64, std::path::PathBuf)> {
    let real = std::fs::canonicalize(file).ok()?;
    let metadata = std::fs::metadata(&real).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), real))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_is_warmed_up_with_the_image_below_the_default_prefix() {
        let config = CacheConfig::parse("f.yaml", b"- name: set-labels:v1\n- name: x.io/f:v1\n").unwrap();
        let settings = Settings { image_prefix: Some("r.io/fns/".to_owned()), ..crate::fake::settings() };
        let functions = Functions::of(&config, &settings);
        let listed: Vec<_> = functions.listed.iter().map(|image| (image.full_name(), image.name())).collect();
        assert_eq!(
            listed,
            [("r.io/fns/set-labels:v1", "r.io/fns/set-labels:v1"), ("x.io/f:v1", "x.io/f:v1")],
            "a registry is asked for what is requested, and without the prefix that is Docker Hub"
        );
    }

    #[test]
    fn a_function_that_may_not_run_is_not_warmed_up() {
        let config = CacheConfig::parse("f.yaml", b"- name: evil/f:v1\n- name: x.io/f:v1\n").unwrap();
        let denied = vec!["docker.io/evil/*".parse().unwrap()];
        let images = Arc::new(loggia_function::policy::ImagePolicy { denied, ..Default::default() });
        let functions = Functions::of(&config, &Settings { images, ..crate::fake::settings() });
        let listed: Vec<_> = functions.listed.iter().map(Image::full_name).collect();
        assert_eq!(listed, ["x.io/f:v1"]);
        assert_eq!(functions.limits.len(), 1);
    }
}
