//! The file of `--verify-images`: which images must be signed by which keys.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use loggia_function::policy::Pattern;
use serde::Deserialize;
use tracing::{info, warn};

use super::key::PublicKey;
use super::{Claim, Flaw};
use crate::Reference;
use crate::manifest::printable;
use crate::stamp::Stamp;

const MAX_FILE: u64 = 1 << 20;
const MAX_KEY: u64 = 64 << 10;
const MAX_RULES: usize = 1000;
const MAX_KEYS: usize = 32;

/// The policy in a file, and its version, which counts changes. Clones share it.
#[derive(Clone, Debug)]
pub struct SignaturePolicy(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: PathBuf,
    current: RwLock<Arc<Policy>>,
    seen: Mutex<Stamp>,
    versions: AtomicU64,
}

/// Why a policy cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PolicyError(String);

/// The rules, in order.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) version: u64,
    rules: Vec<Rule>,
    default: Otherwise,
    /// The files that it was made of.
    files: Vec<PathBuf>,
}

/// What a policy says of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decision<'a> {
    Allow,
    /// No rule is for it, and the default is to deny.
    Deny,
    Verify(&'a Rule),
}

#[derive(Debug)]
pub(crate) struct Rule {
    /// Its place in the file, counted from one.
    number: usize,
    images: Vec<Pattern>,
    pub(super) keys: Vec<PublicKey>,
    pub(super) require: Require,
    annotations: BTreeMap<String, String>,
    /// The repositories that a signature may name instead of the image's own.
    signed_as: Vec<Pattern>,
    /// Images of this rule need no signature.
    allow: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Require {
    #[default]
    Any,
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Otherwise {
    Allow,
    Deny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rules: Vec<Entry>,
    default: Otherwise,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Entry {
    images: Vec<String>,
    #[serde(default)]
    keys: Vec<String>,
    #[serde(default)]
    require: Option<Require>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    signed_as: Vec<String>,
    #[serde(default)]
    allow: bool,
}

// === impl SignaturePolicy ===

impl SignaturePolicy {
    /// Reads the policy and its keys.
    ///
    /// # Errors
    /// What cannot be used, with the file and the rule.
    pub fn read(file: &Path) -> Result<Self, PolicyError> {
        let policy = Policy::read(file, 1)?;
        let seen = Mutex::new(Stamp::of(&policy.files));
        let shared = Shared {
            file: file.to_owned(),
            current: RwLock::new(Arc::new(policy)),
            seen,
            versions: AtomicU64::new(1),
        };
        Ok(Self(Arc::new(shared)))
    }

    pub(crate) fn current(&self) -> Arc<Policy> {
        Arc::clone(&self.0.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the policy again if one of its files changed. One that cannot be used leaves the old one in place.
    pub(crate) fn look(&self) {
        let files = self.current().files.clone();
        let stamp = Stamp::of(&files);
        let mut seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == stamp {
            return;
        }
        *seen = stamp;
        let version = self.0.versions.fetch_add(1, Ordering::Relaxed) + 1;
        match Policy::read(&self.0.file, version) {
            Ok(policy) => {
                info!("The policy {} changed: it counts from now on", self.0.file.display());
                *seen = Stamp::of(&policy.files);
                *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
            }
            Err(error) => warn!("--verify-images: {error}; the policy stays as it was"),
        }
    }
}

// === impl Policy ===

impl Policy {
    fn read(file: &Path, version: u64) -> Result<Self, PolicyError> {
        let shown = file.display();
        let text = read(file, MAX_FILE).map_err(PolicyError)?;
        let text =
            std::str::from_utf8(&text).map_err(|_| PolicyError(format!("{shown}: it is not UTF-8")))?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let mut files = vec![file.to_owned()];
        let mut key = |text: &str| -> Result<PublicKey, String> {
            if text.trim_start().starts_with("-----BEGIN") {
                return PublicKey::parse("inline", text.as_bytes())
                    .map_err(|why| format!("an inline key: {why}"));
            }
            let path = folder.join(text);
            let pem = read(&path, MAX_KEY)?;
            files.push(path.clone());
            PublicKey::parse(text, &pem).map_err(|why| format!("{}: {why}", path.display()))
        };
        let (rules, default) = parse(text, &mut key).map_err(|why| PolicyError(format!("{shown}: {why}")))?;
        Ok(Self { version, rules, default, files })
    }

    /// The first rule for an image decides.
    pub(crate) fn decide(&self, reference: &Reference) -> Decision<'_> {
        let rule = self.rules.iter().find(|rule| rule.is_for(reference));
        match (rule, self.default) {
            (Some(rule), _) if rule.allow => Decision::Allow,
            (Some(rule), _) => Decision::Verify(rule),
            (None, Otherwise::Allow) => Decision::Allow,
            (None, Otherwise::Deny) => Decision::Deny,
        }
    }
}

/// Reads the text of a policy; `key` turns what stands under `keys` into a key.
fn parse(
    text: &str,
    key: &mut dyn FnMut(&str) -> Result<PublicKey, String>,
) -> Result<(Vec<Rule>, Otherwise), String> {
    let File { rules, default } = loggia_yaml::from_str(text).map_err(|error| match error.line() {
        Some(line) => format!("line {line}: {}", error.message()),
        None => error.message().to_owned(),
    })?;
    if rules.len() > MAX_RULES {
        return Err(format!("{} rules, and there may be {MAX_RULES}", rules.len()));
    }
    let numbered = rules.into_iter().enumerate();
    let rules = numbered.map(|(place, entry)| {
        let number = place + 1;
        Rule::of(number, entry, key).map_err(|why| format!("rule {number}: {why}"))
    });
    Ok((rules.collect::<Result<_, _>>()?, default))
}

fn read(file: &Path, limit: u64) -> Result<Vec<u8>, String> {
    let shown = file.display();
    let fail = |error: std::io::Error| format!("open {shown}: {}", loggia_go::errno_text(&error));
    if !fs::metadata(file).map_err(fail)?.is_file() {
        return Err(format!("{shown} is not a regular file"));
    }
    let mut bytes = Vec::new();
    let opened = fs::File::open(file).map_err(fail)?;
    opened.take(limit + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > limit { Err(format!("{shown} has more than {limit} bytes")) } else { Ok(bytes) }
}

// === impl Rule ===

impl Rule {
    fn of(
        number: usize,
        entry: Entry,
        key: &mut dyn FnMut(&str) -> Result<PublicKey, String>,
    ) -> Result<Self, String> {
        let Entry { images, keys, require, annotations, signed_as, allow } = entry;
        let patterns = |texts: &[String]| -> Result<Vec<Pattern>, String> {
            texts.iter().map(|text| text.parse().map_err(|error| format!("{error}"))).collect()
        };
        if images.is_empty() {
            return Err("`images` is empty: the patterns of the images it is for belong there".to_owned());
        }
        let idle = require.is_none() && annotations.is_empty() && signed_as.is_empty();
        if allow && !(keys.is_empty() && idle) {
            return Err(
                "`allow: true` means that no signature is needed; it goes with `images` alone".to_owned()
            );
        }
        if !allow && keys.is_empty() {
            return Err("`keys` is empty: PEM files or keys belong there, or `allow: true` for no signature"
                .to_owned());
        }
        if keys.len() > MAX_KEYS {
            return Err(format!("{} keys, and there may be {MAX_KEYS}", keys.len()));
        }
        let mut read: Vec<PublicKey> = Vec::new();
        for text in &keys {
            let key = key(text)?;
            // Of a key that is listed twice, `require: all` would count one signature twice.
            if read.iter().any(|known| known.is_same(&key)) {
                return Err(format!("{key} is listed twice"));
            }
            read.push(key);
        }
        Ok(Self {
            number,
            images: patterns(&images)?,
            keys: read,
            require: require.unwrap_or_default(),
            annotations,
            signed_as: patterns(&signed_as)?,
            allow,
        })
    }

    /// Whether the rule is for an image. One that asks for nothing is not for an image whose tag it names but whose
    /// digest decides.
    fn is_for(&self, reference: &Reference) -> bool {
        let is_for = if self.allow { Pattern::allows } else { Pattern::denies };
        self.images.iter().any(|pattern| is_for(pattern, reference))
    }

    /// A rule for all images.
    #[cfg(test)]
    pub(super) fn for_tests(keys: Vec<PublicKey>) -> Self {
        let images = vec!["*".parse().unwrap()];
        let (require, annotations, signed_as) = (Require::Any, BTreeMap::new(), vec![]);
        Self { number: 1, images, keys, require, annotations, signed_as, allow: false }
    }

    /// The name of the rule for messages.
    pub(super) fn name(&self) -> String {
        let pattern = self.images.first().map(Pattern::written).unwrap_or_default();
        format!("--verify-images (rule {}, `{pattern}`)", self.number)
    }

    /// Whether a claim that a key of this rule signed is about this image.
    pub(super) fn accepts(&self, claim: &Claim, reference: &Reference, digest: &str) -> Result<(), Flaw> {
        if !claim.digests.iter().any(|claimed| claimed == digest) {
            let claimed = claim.digests.first().map(String::as_str).unwrap_or_default();
            return Err(Flaw::OtherDigest(printable(claimed)));
        }
        if let Some(name) = &claim.repository
            && !self.is_signed_as(name, reference)
        {
            return Err(Flaw::OtherRepository(printable(name)));
        }
        for (name, value) in &self.annotations {
            if claim.annotations.get(name) != Some(value) {
                return Err(Flaw::NoAnnotation(format!("{name}={value}")));
            }
        }
        Ok(())
    }

    /// Whether the name in a signature is that of the image's repository, or one that the rule allows.
    fn is_signed_as(&self, name: &str, reference: &Reference) -> bool {
        let Ok(named) = name.parse::<Reference>() else { return false };
        let place = |of: &Reference| (of.registry().to_owned(), of.repository().to_owned());
        place(&named) == place(reference) || self.signed_as.iter().any(|pattern| pattern.denies(&named))
    }
}

// === impl Require ===

impl Require {
    /// What stands between two keys in a message.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Any => " or ",
            Self::All => " and ",
        }
    }
}

#[cfg(test)]
mod tests;
