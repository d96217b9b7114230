//! The two spellings of readers' annotations, as kyaml's framework keeps them in step around a function.

use loggia_krm::annotation::{ID, INDEX, MIGRATION_ID, PATH, TWINS};
use loggia_krm::{Resource, ResourceList};

/// Which spellings a list uses; an error that shows only after the function has run if its resources disagree.
pub(crate) struct Spellings(Result<Uses, String>);

#[derive(Clone, Copy)]
struct Uses {
    modern: bool,
    legacy: bool,
}

/// Looks at a list before the function runs.
///
/// # Errors
/// If a resource cannot be annotated, or its spellings contradict each other.
pub(crate) fn prepare(list: &mut ResourceList) -> Result<Spellings, String> {
    let uses = uses(&list.items);
    for item in &mut list.items {
        item.clone().set_reader_annotation(MIGRATION_ID, "0").map_err(|error| error.to_string())?;
        item.drop_empty_metadata().map_err(|error| error.to_string())?;
        let given = |key| item.annotation(key).filter(|value| !value.is_empty());
        for ((modern, legacy), what) in TWINS.iter().zip(["path", "index", "id"]) {
            if given(modern).zip(given(legacy)).is_some_and(|(modern, legacy)| modern != legacy) {
                return Err(format!(
                    "resource input to function has mismatched legacy and internal {what} annotations"
                ));
            }
        }
        item.fill_twins().map_err(|error| error.to_string())?;
    }
    Ok(Spellings(uses))
}

fn uses(items: &[Resource]) -> Result<Uses, String> {
    let mut uses: Option<Uses> = None;
    for item in items {
        let has = |key: &str| item.annotation(key).is_some();
        let found = Uses {
            modern: [PATH, INDEX, ID].into_iter().any(has),
            legacy: TWINS.iter().any(|(_, legacy)| has(legacy)),
        };
        if !found.modern && !found.legacy {
            continue;
        }
        let known = *uses.get_or_insert(found);
        if known.modern != found.modern || known.legacy != found.legacy {
            return Err("the annotation formatting in the input resources is not consistent".to_owned());
        }
    }
    let nothing = items.is_empty();
    Ok(uses.unwrap_or(Uses { modern: nothing, legacy: nothing }))
}

/// Gives what the function made the spellings that the list came with.
///
/// # Errors
/// If a resource cannot be annotated, or the list used both spellings, but not on every resource.
pub(crate) fn reconcile(list: &mut ResourceList, Spellings(uses): Spellings) -> Result<(), String> {
    let Uses { modern, legacy } = uses?;
    for item in &mut list.items {
        item.fill_twins().map_err(|error| error.to_string())?;
        for (key, old_key) in TWINS {
            if !modern {
                item.remove_annotation(key);
            }
            if !legacy {
                item.remove_annotation(old_key);
            }
        }
    }
    Ok(())
}
