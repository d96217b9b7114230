//! Signatures of images, as `cosign sign --key` makes them: which ones the operator wants, and whether they are there.
//!
//! [`SignaturePolicy`] is the file of `--verify-images`. For an image with a rule, the registry is asked for the
//! signatures of the digest that its name resolves to, in both forms that cosign writes: a manifest under the tag
//! `sha256-HEX.sig`, and bundles that refer to the digest. Only keys count: nothing is asked of a transparency log, and
//! signatures by certificate are not verified.

pub(crate) mod bundle;
mod find;
mod key;
mod policy;
pub(crate) mod simple;
pub(crate) mod verdicts;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::{Error, Reference};
use key::PublicKey;
pub(crate) use policy::Decision;
pub use policy::{PolicyError, SignaturePolicy};
use policy::{Require, Rule};
pub(crate) use verdicts::Verdicts;

/// Why an image may not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    /// What the policy wants is not there. Displayed as the reason; the rule is apart.
    #[error("{reason}")]
    Refused { rule: String, reason: String },
    /// The registry did not say.
    #[error(transparent)]
    Registry(Error),
}

/// Something that was signed.
#[derive(Debug)]
pub(crate) struct Signed {
    /// The bytes under the signatures.
    pub(crate) message: Vec<u8>,
    pub(crate) signatures: Vec<Vec<u8>>,
    pub(crate) claim: Claim,
}

/// What a signature says of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) digests: Vec<String>,
    /// The repository that was signed, if the form has one: bundles do not.
    pub(crate) repository: Option<String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// What is wrong with a signature that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flaw {
    OtherKey,
    OtherDigest(String),
    OtherRepository(String),
    NoAnnotation(String),
    Certificate,
    Unreadable(&'static str),
}

/// What was found at the registry, held against one rule.
#[derive(Debug)]
struct Findings<'a> {
    rule: &'a Rule,
    reference: &'a Reference,
    digest: &'a str,
    /// The keys that made a signature as wanted, by their place in the rule.
    good: BTreeSet<usize>,
    flaws: BTreeMap<Flaw, usize>,
}

// === impl Findings ===

impl<'a> Findings<'a> {
    fn new(rule: &'a Rule, reference: &'a Reference, digest: &'a str) -> Self {
        Self { rule, reference, digest, good: BTreeSet::new(), flaws: BTreeMap::new() }
    }

    fn satisfied(&self) -> bool {
        match self.rule.require {
            Require::Any => !self.good.is_empty(),
            Require::All => self.good.len() == self.rule.keys.len(),
        }
    }

    /// Takes one thing that was found.
    fn add(&mut self, found: Result<Signed, Flaw>) {
        match found {
            Ok(signed) => self.judge(&signed),
            Err(flaw) => self.flaw(flaw),
        }
    }

    fn judge(&mut self, signed: &Signed) {
        let made_by =
            |key: &PublicKey| signed.signatures.iter().any(|made| key.verifies(&signed.message, made));
        let keys = self.rule.keys.iter().enumerate();
        let makers: Vec<_> = keys.filter(|(_, key)| made_by(key)).map(|(place, _)| place).collect();
        if makers.is_empty() {
            return self.flaw(Flaw::OtherKey);
        }
        match self.rule.accepts(&signed.claim, self.reference, self.digest) {
            Ok(()) => self.good.extend(makers),
            Err(flaw) => self.flaw(flaw),
        }
    }

    fn flaw(&mut self, flaw: Flaw) {
        // A repository may hold any number of signatures that others made.
        if self.flaws.len() < 8 || self.flaws.contains_key(&flaw) {
            *self.flaws.entry(flaw).or_default() += 1;
        }
    }

    /// What to say to the caller: what was looked for, with which keys, and what was found.
    fn verdict(self) -> Result<(), Unverified> {
        if self.satisfied() {
            return Ok(());
        }
        let missing = self.rule.keys.iter().enumerate().filter(|(place, _)| !self.good.contains(place));
        let keys: Vec<_> = missing.map(|(_, key)| key.to_string()).collect();
        let found = match self.flaws.len() {
            0 if self.good.is_empty() => "there is no signature".to_owned(),
            0 => "there is no other signature".to_owned(),
            _ => {
                let each = |(flaw, count): (&Flaw, &usize)| match count {
                    1 => flaw.to_string(),
                    count => format!("{flaw} ({count} times)"),
                };
                format!(
                    "found a signature {}",
                    self.flaws.iter().map(each).collect::<Vec<_>>().join(", and one ")
                )
            }
        };
        let (registry, repository) = (self.reference.registry(), self.reference.repository());
        let reason = format!(
            "`{registry}/{repository}@{}` has no valid signature of {}: {found}",
            self.digest,
            keys.join(self.rule.require.word()),
        );
        Err(Unverified::Refused { rule: self.rule.name(), reason })
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherKey => f.write_str("that another key made or that was changed since"),
            Self::OtherDigest(digest) => write!(f, "for another digest, `{digest}`"),
            Self::OtherRepository(name) => write!(f, "for another repository, `{name}`"),
            Self::NoAnnotation(name) => write!(f, "without the annotation `{name}` that the rule wants"),
            Self::Certificate => f.write_str("made with a certificate, which is not verified here"),
            Self::Unreadable(why) => write!(f, "that cannot be read: {why}"),
        }
    }
}

#[cfg(test)]
mod tests;
