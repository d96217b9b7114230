//! Where a resource came from, as kpt notes it on what it fetches.

use std::sync::LazyLock;

use regex::Regex;

use crate::object::{Object, UPSTREAM_IDENTIFIER};
use crate::scope;

static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"([a-z0-9-.]*)\|([A-Z][a-zA-Z0-9]*)\|([a-z0-9-]{1,63}|~C)\|([a-z0-9-]{1,63})")
        .expect("is a regular expression")
});

/// The namespace and name a resource has upstream; its own if nothing is noted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

impl<'a> Origin<'a> {
    /// Nothing if the note cannot be read; the original crashes there.
    pub(super) fn of(object: Object<'a>) -> Option<Self> {
        let note = object.annotation(UPSTREAM_IDENTIFIER);
        if note.is_empty() {
            return Some(Self { namespace: scope::effective_namespace(object), name: object.name() });
        }
        let captures = PATTERN.captures(note)?;
        let group = |at| captures.get(at).map_or("", |group| group.as_str());
        Some(Self { namespace: group(3), name: group(4) })
    }
}
