//! Names from outside as labels, of which there is a limited number.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The label for all names beyond the limit.
const OTHER: &str = "other";

/// The first names up to a limit. All later ones share the label `other`.
#[derive(Debug)]
pub(crate) struct Names {
    most: usize,
    known: RwLock<HashMap<String, Arc<str>>>,
    other: Arc<str>,
}

// === impl Names ===

impl Names {
    pub(crate) fn up_to(most: usize) -> Self {
        Self { most, known: RwLock::default(), other: OTHER.into() }
    }

    /// The label for a name. A name that is not to be `kept` gets no label of its own.
    pub(crate) fn label(&self, name: &str, kept: bool) -> Arc<str> {
        let name = without_digest(name);
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(label) = known.get(name) {
            return Arc::clone(label);
        }
        drop(known);
        if !kept {
            return Arc::clone(&self.other);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= self.most && !known.contains_key(name) {
            return Arc::clone(&self.other);
        }
        Arc::clone(known.entry(name.to_owned()).or_insert_with(|| name.into()))
    }
}

/// An image without its digest: digests are unlimited.
fn without_digest(image: &str) -> &str {
    image.split('@').next().unwrap_or(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_limit_are_one() {
        let names = Names::up_to(2);
        assert_eq!(&*names.label("a:v1@sha256:00", true), "a:v1");
        assert_eq!(&*names.label("junk", false), "other");
        assert_eq!(&*names.label("b", true), "b");
        assert_eq!(&*names.label("c", true), "other");
        assert_eq!(&*names.label("a:v1", false), "a:v1");
    }
}
