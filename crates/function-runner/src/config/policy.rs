//! Which images may run, from flags.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use loggia_function::policy::{ImagePolicy, Pattern, patterns};
use loggia_registry::SignaturePolicy;

use super::UsageError;
use crate::flags::PolicyFlags;

/// Which images may run.
#[derive(Debug, Default)]
pub(crate) struct PolicyConfig {
    pub(crate) images: Arc<ImagePolicy>,
    /// Which of them must be signed.
    pub(crate) signatures: Option<SignaturePolicy>,
}

// === impl PolicyConfig ===

impl PolicyConfig {
    /// Reads the file of `--verify-images` and its keys.
    pub(crate) fn resolve(flags: &PolicyFlags) -> anyhow::Result<Self> {
        let PolicyFlags { allowed_images, denied_images, require_digest, verify_images } = flags;
        let images = ImagePolicy {
            allowed: listed("allowed-images", allowed_images)?,
            denied: listed("denied-images", denied_images)?,
            require_digest: *require_digest,
        };
        let signatures = match verify_images.as_str() {
            "" => None,
            file => Some(SignaturePolicy::read(Path::new(file)).context("--verify-images")?),
        };
        Ok(Self { images: Arc::new(images), signatures })
    }
}

fn listed(flag: &'static str, texts: &[String]) -> Result<Vec<Pattern>, UsageError> {
    patterns(texts.iter().map(String::as_str)).map_err(|source| UsageError::Pattern { flag, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Flags;

    fn resolve(line: &[&str]) -> anyhow::Result<PolicyConfig> {
        PolicyConfig::resolve(&Flags::parse(line.iter().map(Into::into)).unwrap().policy)
    }

    #[test]
    fn patterns_come_in_lists_and_several_flags() {
        let policy =
            resolve(&["--allowed-images=a.io/*,b.io", "--allowed-images", "c.io", "--require-digest"])
                .unwrap();
        assert_eq!((policy.images.allowed.len(), policy.images.denied.len()), (3, 0));
        assert!(policy.images.require_digest && policy.signatures.is_none());
        assert!(resolve(&[]).unwrap().images.is_empty());
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let text = |line: &[&str]| format!("{:#}", resolve(line).unwrap_err());
        assert!(
            text(&["--denied-images=a.io//x"])
                .starts_with("--denied-images: `a.io//x` is not a pattern of images")
        );
        assert!(
            text(&["--verify-images=/nowhere/policy.yaml"])
                .contains("--verify-images: open /nowhere/policy.yaml: no such")
        );
    }
}
