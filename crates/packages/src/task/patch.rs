//! What a package server says about a package, in its Kptfile: labels, annotations, readiness gates, conditions.
//!
//! The file is edited, not written anew: comments and order stay, and a patch that changes nothing leaves every
//! byte alone.

use std::collections::{BTreeMap, HashMap, HashSet};

use loggia_go::quote;
use loggia_krm::kptfile::{Condition, Info, Kptfile, KptfileDocument, KptfileError, ReadinessGate, Status};
use loggia_krm::package::KPTFILE;
use loggia_krm::{Files, path};

use super::mutation::top_package;

/// What the Kptfile is to say; what is not given stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KptfilePatch {
    /// The package's labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// The package's annotations.
    pub annotations: Option<BTreeMap<String, String>>,
    /// The conditions that must hold before the package is ready.
    pub readiness_gates: Option<Vec<String>>,
    /// What holds and what does not.
    pub conditions: Option<Vec<Condition>>,
}

/// What becomes of labels and annotations that a patch does not mention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// They stay.
    Upsert,
    /// They go.
    Replace,
}

/// Why a Kptfile was not patched.
#[derive(Debug)]
pub(super) struct PatchError {
    /// The file cannot be read; else the patch cannot be applied.
    pub(super) unreadable: bool,
    pub(super) reason: String,
}

impl KptfilePatch {
    /// Patches the Kptfile of the package in these files.
    pub(super) fn apply_to_files(&self, files: &mut Files, manner: Manner) -> Result<(), PatchError> {
        if *self == Self::default() {
            return Ok(());
        }
        self.check()?;
        let unreadable = |reason: String| PatchError { unreadable: true, reason };
        let root = top_package(files).map_err(unreadable)?.unwrap_or_default();
        let folder = path::join(&["/", &root]);
        let file = path::inside(&root, KPTFILE);
        let content = files.get(&file).ok_or_else(|| KptfileError::Missing { folder: folder.clone() });
        let mut document = content
            .and_then(|content| KptfileDocument::parse(&String::from_utf8_lossy(content), &folder))
            .map_err(|error| unreadable(error.to_string()))?;
        let before = document.kptfile().clone();
        document.edit(|kptfile| self.apply(kptfile, manner));
        if *document.kptfile() != before {
            files.insert(file, document.to_yaml().into_bytes());
        }
        Ok(())
    }

    fn check(&self) -> Result<(), PatchError> {
        let fail = |reason: String| Err(PatchError { unreadable: false, reason });
        for condition in self.conditions.iter().flatten() {
            let Condition { condition_type, status, .. } = condition;
            if condition_type.is_empty() {
                return fail("a condition has no type".to_owned());
            }
            if !matches!(status.as_str(), "True" | "False" | "Unknown") {
                let (condition_type, status) = (quote(condition_type), quote(status));
                return fail(format!(
                    "condition {condition_type} has status {status}; it must be True, False or Unknown"
                ));
            }
        }
        match self.readiness_gates.iter().flatten().any(String::is_empty) {
            true => fail("a readiness gate has no condition type".to_owned()),
            false => Ok(()),
        }
    }

    fn apply(&self, kptfile: &mut Kptfile, manner: Manner) {
        let Self { labels, annotations, readiness_gates, conditions } = self;
        let metadata = &mut kptfile.metadata;
        for (slot, entries) in [(&mut metadata.labels, labels), (&mut metadata.annotations, annotations)] {
            let Some(entries) = entries else { continue };
            if manner == Manner::Replace {
                slot.clear();
            }
            slot.extend(entries.clone());
        }
        if let Some(wanted) = readiness_gates {
            let info = kptfile.info.get_or_insert_default();
            sync(&mut info.readiness_gates, &gates(wanted), |gate| &gate.condition_type);
            if *info == Info::default() {
                kptfile.info = None;
            }
        }
        if let Some(wanted) = conditions {
            let status = kptfile.status.get_or_insert_default();
            sync(&mut status.conditions, wanted, |condition| &condition.condition_type);
            if *status == Status::default() {
                kptfile.status = None;
            }
        }
    }
}

fn gates(wanted: &[String]) -> Vec<ReadinessGate> {
    wanted.iter().map(|condition_type| ReadinessGate { condition_type: condition_type.clone() }).collect()
}

/// Makes a list hold what is wanted: what is there stays in its place with its new value, what is new comes last
/// in the order given. Of several with one name the last counts.
fn sync<T: Clone>(list: &mut Vec<T>, wanted: &[T], name: impl Fn(&T) -> &str) {
    let by_name: HashMap<&str, &T> = wanted.iter().map(|entry| (name(entry), entry)).collect();
    let mut seen: HashSet<&str> = HashSet::with_capacity(wanted.len());
    let mut synced: Vec<T> = Vec::with_capacity(wanted.len());
    for entry in list.iter().chain(wanted) {
        if let Some(wanted) = by_name.get(name(entry))
            && seen.insert(name(entry))
        {
            synced.push((*wanted).clone());
        }
    }
    *list = synced;
}
