//! Where a resource came from, as kpt notes it on what it fetches.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use loggia_krm::{Resource, ResultItem};
use regex::Regex;

use crate::limits;
use crate::sdk::object::{Object, UNKNOWN_NAMESPACE, UPSTREAM_IDENTIFIER};
use crate::sdk::{report, scope};

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

/// What the versions of 2025 have to say about where resources come from: a warning about each that comes from
/// nowhere. Without a matcher there must be one namespace upstream; the error is the original's message.
pub(super) fn survey(items: &[Resource], has_matcher: bool) -> Result<Vec<ResultItem>, String> {
    let (mut namespaces, mut warnings) = (BTreeSet::new(), Vec::new());
    for object in items.iter().map(Object::of).filter(|object| !object.is_local_config()) {
        let note = object.annotation(UPSTREAM_IDENTIFIER);
        if note.is_empty() {
            let warning = report::warning(format!("{} does not have upstream origin.", object.short()));
            limits::push(&mut warnings, warning)?;
            continue;
        }
        let Some(captures) = PATTERN.captures(note).filter(|_| scope::is_namespaced(object)) else {
            continue;
        };
        let group = |at| captures.get(at).map_or("", |group| group.as_str());
        let (identifier, namespace) = (group(0), group(3));
        if namespace == UNKNOWN_NAMESPACE {
            let short = object.short();
            return Err(format!(
                "{short} is namespace-scoped, but has cluster-scoped or unknown scoepd origin {identifier}"
            ));
        }
        namespaces.insert(namespace.to_owned());
    }
    if !has_matcher && namespaces.len() > 1 {
        let found = super::bracketed(&namespaces);
        return Err(format!(
            "unable to use origin `namespace` to match. expect a single upstream namespace, found {found}. please \
             switch to use `namespaceMatcher`to specify the namespace value you want to change"
        ));
    }
    Ok(warnings)
}
