//! Saving the function in the Kptfile.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use loggia_go::quote;
use loggia_krm::Changes;
use loggia_krm::kptfile::{Function, Kptfile, KptfileDocument};
use loggia_krm::package::{KPTFILE, Limits, Reader};

use super::plan::Role;
use crate::failure::Failure;

/// Puts the function into the folder's Kptfile, in place of the same one if it is there. Returns what to say about it.
pub(super) fn save_function(folder: &Path, function: Function, role: Role) -> Result<String, Failure> {
    let content =
        Reader::folder(folder, Limits::default()).ok().and_then(|reader| reader.file(KPTFILE).ok()?);
    let text = content.and_then(|content| String::from_utf8(content).ok());
    let document = text.and_then(|text| KptfileDocument::parse(&text, &folder.display().to_string()).ok());
    let Some(mut document) = document else {
        return Ok("function not added: Kptfile not exists\n".to_owned());
    };
    let name = if function.image.is_empty() { function.exec.clone() } else { function.image.clone() };
    let mut updated = false;
    document.edit(|kptfile| updated = put(kptfile, function, role));
    let text = document.to_ordered_yaml();
    let planned = Changes {
        package: folder.display().to_string(),
        writes: BTreeMap::from([(KPTFILE.to_owned(), text)]),
        replaces: BTreeSet::from([KPTFILE.to_owned()]),
        ..Changes::default()
    };
    planned.apply_to_folder(folder).map_err(|error| format!("function is not added to Kptfile: {error}"))?;
    let deed = if updated { "Updated" } else { "Added" };
    let role = match role {
        Role::Mutator => "mutator",
        Role::Validator => "validator",
    };
    Ok(format!("{deed} {} as {role} in the Kptfile.\n", quote(&name)))
}

/// Whether the function was there.
fn put(kptfile: &mut Kptfile, function: Function, role: Role) -> bool {
    let pipeline = kptfile.pipeline.get_or_insert_default();
    let list = match role {
        Role::Mutator => &mut pipeline.mutators,
        Role::Validator => &mut pipeline.validators,
    };
    let same = |other: &Function| {
        (!other.image.is_empty() && other.image == function.image)
            || (!other.exec.is_empty() && other.exec == function.exec)
    };
    let mut found = false;
    for other in list.iter_mut().filter(|other| same(other)) {
        other.clone_from(&function);
        found = true;
    }
    if !found {
        list.push(function);
    }
    found
}
