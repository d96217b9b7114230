//! Which output was which input, and where resources say they belong.
//!
//! Every input of a function carries ids, by which its output gets back what it lost. Path and index have two
//! spellings each; a function that changes one of them means both.

use std::collections::HashMap;

use loggia_go::quote;
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
        let mut copies = Copies::default();
        for output in outputs {
            let original = self.original(output).filter(|(at, original)| copies.may_take(*at, original));
            output.retain_annotations(|key| !matches!(key, ID | LEGACY_ID));
            if let Some((_, original)) = original {
                mend::restore(original, output);
            }
        }
    }

    fn original(&self, output: &Resource) -> Option<(usize, &Resource)> {
        let at = output.function_id().parse::<usize>().ok()?.checked_sub(1)?;
        Some((at, self.originals.get(at)?))
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

/// How much work it is to give what an input had to many outputs. Nothing keeps a function from calling each of ten
/// thousand outputs the same large input; from some point on they get nothing back.
#[derive(Debug, Default)]
struct Copies {
    /// The inputs that were used, and how many entries each has.
    sizes: HashMap<usize, usize>,
    work: usize,
}

impl Copies {
    const MOST: usize = 10_000_000;

    fn may_take(&mut self, at: usize, original: &Resource) -> bool {
        match self.sizes.get(&at) {
            Some(size) => self.work = self.work.saturating_add(*size),
            None => {
                self.sizes.insert(at, entries(original));
            }
        }
        self.work <= Self::MOST
    }
}

/// How many values a resource has.
fn entries(resource: &Resource) -> usize {
    let mut count = 0;
    let mut waiting = vec![resource.node()];
    while let Some(node) = waiting.pop() {
        count += 1;
        if count > Copies::MOST {
            break;
        }
        waiting.extend(node.items());
        waiting.extend(node.pairs().iter().map(|pair| &pair.value));
    }
    count
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

/// Checks that a function of a package leaves resources in it or in packages inside it.
pub(crate) fn check_owners(outputs: &[Resource], package_path: &str) -> Result<(), String> {
    let own = package_path.trim_end_matches('/');
    let is_inside = |owner: &str| {
        let rest = owner.strip_prefix(own);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) && path::clean(owner) == owner
    };
    match outputs.iter().map(Resource::package_path).find(|owner| *owner != package_path && !is_inside(owner))
    {
        Some(owner) => Err(format!(
            "function must not modify resources outside of package: it runs for {} and left a resource in {}",
            quote(package_path),
            quote(owner)
        )),
        None => Ok(()),
    }
}

/// Checks that nothing leaves its package and no two resources are in one place.
pub(crate) fn check_places(outputs: &[Resource]) -> Result<(), String> {
    let mut taken = std::collections::HashSet::with_capacity(outputs.len());
    for output in outputs {
        let path = output.path();
        // As in kpt, a slash at the beginning stands for the package's folder.
        let clean = path::clean(path.trim_start_matches('/'));
        if clean == ".." || clean.starts_with("../") {
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
