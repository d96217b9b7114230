//! Which output was which input, and where resources say they belong.
//!
//! Every input of a function carries ids, by which its output gets back what it lost. Path and index have two
//! spellings each; a function that changes one of them means both.

use loggia_krm::annotation::{
    ID, INDEX, LEGACY_ID, LEGACY_INDEX, LEGACY_PATH, MIGRATION_ID, PACKAGE_PATH, PATH, SELECTION_ID,
};
use loggia_krm::{Resource, WrongKind, mend, path};
use loggia_yaml::Text;

/// The pairs of spellings, and what messages call them.
const PLACES: [(&str, &str, &str); 2] = [(PATH, LEGACY_PATH, "path"), (INDEX, LEGACY_INDEX, "index")];

/// The inputs of a call, to compare its outputs with.
#[derive(Debug)]
pub(crate) struct Inputs {
    originals: Vec<Resource>,
    /// Spellings in use: (internal, legacy).
    spellings: (bool, bool),
}

impl Inputs {
    /// Marks the resources with ids.
    pub(crate) fn mark(resources: &mut [Resource]) -> Result<Self, String> {
        let mut spellings = (false, false);
        let originals = resources.to_vec();
        for (at, resource) in resources.iter_mut().enumerate() {
            for (internal, legacy, name) in PLACES {
                let (new, old) = (resource.annotation(internal), resource.annotation(legacy));
                spellings = (spellings.0 || new.is_some(), spellings.1 || old.is_some());
                if new.is_some() && old.is_some() && new != old {
                    return Err(mismatch(name));
                }
            }
            let id = Text::from((at + 1).to_string());
            let ids = [(MIGRATION_ID, Text::from(at.to_string())), (ID, id.clone()), (LEGACY_ID, id)];
            resource.set_reader_annotations(&ids).map_err(|error| error.to_string())?;
        }
        Ok(Self { originals, spellings })
    }

    /// Puts back what outputs lost, and takes the ids off.
    pub(crate) fn mend(&self, outputs: &mut [Resource]) {
        for output in outputs {
            if let Some(original) = self.original(output) {
                output.retain_annotations(|key| !matches!(key, ID | LEGACY_ID));
                mend::restore(original, output);
            } else {
                output.retain_annotations(|key| !matches!(key, ID | LEGACY_ID));
            }
        }
    }

    fn original(&self, output: &Resource) -> Option<&Resource> {
        let id: usize = output.function_id().parse().ok()?;
        self.originals.get(id.checked_sub(1)?)
    }

    /// Brings both spellings of path and index together, and takes the migration ids off.
    pub(crate) fn reconcile(&self, outputs: &mut [Resource]) -> Result<(), String> {
        for output in outputs {
            let id: Option<usize> = output.annotation(MIGRATION_ID).and_then(|id| id.parse().ok());
            let original = id.and_then(|id| self.originals.get(id));
            for (internal, legacy, name) in PLACES {
                let (Some(new), Some(old)) = (output.annotation(internal), output.annotation(legacy)) else {
                    continue;
                };
                if new == old {
                    continue;
                }
                let before = |key| original.and_then(|original| original.annotation(key));
                let meant = match (before(internal) == Some(new), before(legacy) == Some(old)) {
                    (true, false) => old,
                    (false, true) => new,
                    _ => return Err(mismatch(name)),
                };
                let meant = Text::from(meant);
                let both = [(internal, meant.clone()), (legacy, meant)];
                output.set_reader_annotations(&both).map_err(|error| error.to_string())?;
            }
            output.remove_annotation(MIGRATION_ID);
            output.fill_twins().map_err(|error| error.to_string())?;
            self.keep_spelling(output);
        }
        Ok(())
    }

    /// Outputs are spelled as the inputs were, if those agreed on one spelling.
    fn keep_spelling(&self, output: &mut Resource) {
        match self.spellings {
            (true, false) => {
                output.retain_annotations(|key| !PLACES.iter().any(|(_, legacy, _)| key == *legacy));
            }
            (false, true) => output.retain_annotations(|key| !PLACES.iter().any(|(new, _, _)| key == *new)),
            _ => {}
        }
    }
}

fn mismatch(name: &str) -> String {
    format!("resource input to function has mismatched legacy and internal {name} annotations")
}

/// Removes what a call leaves on resources that never came back from it.
pub(crate) fn unmark(resources: &mut [Resource]) {
    for resource in resources {
        resource.retain_annotations(|key| !matches!(key, ID | LEGACY_ID | MIGRATION_ID | SELECTION_ID));
    }
}

/// The folder that resources without a path go to: that of the function config, or its parent if it is called
/// `functions`.
pub(crate) fn default_folder(config_path: &str) -> &str {
    let folder = path::folder(config_path);
    if path::base_name(folder) == "functions" { path::folder(folder) } else { folder }
}

/// Says whose a resource is, where that is not known.
pub(crate) fn set_owner(outputs: &mut [Resource], package_path: &str) -> Result<(), WrongKind> {
    for output in outputs.iter_mut().filter(|output| output.package_path().is_empty()) {
        output.set_reader_annotations(&[(PACKAGE_PATH, Text::from(package_path))])?;
    }
    Ok(())
}

/// Checks that nothing leaves its package and no two resources are in one place.
pub(crate) fn check_places(outputs: &[Resource]) -> Result<(), String> {
    let mut taken = std::collections::HashSet::with_capacity(outputs.len());
    for output in outputs {
        let clean = path::clean(output.path());
        if clean.starts_with("../") {
            let path = output.path();
            return Err(format!(
                "function must not modify resources outside of package: resource has path {path}"
            ));
        }
        let index = output.index();
        let shown = clean.clone();
        if !taken.insert((output.package_path(), clean, index)) {
            return Err(format!("resource at path {shown:?} and index {index:?} already exists"));
        }
    }
    Ok(())
}
