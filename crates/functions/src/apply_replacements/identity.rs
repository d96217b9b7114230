//! What resources are called, now and before, and how selectors name them.

use std::fmt;

use loggia_krm::Resource;
use regex::Regex;

use super::Rules;
use crate::regexp;

/// Type, name and namespace. In a selector, what is empty is anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) namespace: String,
}

/// A selector, made ready.
#[derive(Debug)]
pub(super) enum Pattern {
    /// Every part is compared.
    Exact(Identity),
    /// Group, version, kind, name and namespace match whole; what was empty is not there.
    Expressions([Option<Regex>; 5]),
}

// === impl Identity ===

impl Identity {
    /// What a resource is called, and what it was called before others renamed it.
    pub(super) fn all_of(item: &Resource) -> Result<Vec<Self>, String> {
        let (group, version) = item.api_version().split_once('/').unwrap_or(("", item.api_version()));
        let with = |kind: &str, name: &str, namespace: &str| Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
        };
        let mut all = vec![with(item.kind(), item.name(), item.namespace())];
        let before = |what| item.annotation(what);
        if let Some(names) = before("internal.config.kubernetes.io/previousNames") {
            let split = |text: Option<&'_ str>| -> Vec<String> {
                text.unwrap_or_default().split(',').map(str::to_owned).collect()
            };
            let names = split(Some(names));
            let namespaces = split(before("internal.config.kubernetes.io/previousNamespaces"));
            let kinds = split(before("internal.config.kubernetes.io/previousKinds"));
            if names.len() != namespaces.len() || names.len() != kinds.len() {
                return Err(
                    "number of previous names, number of previous namespaces, number of previous kinds not equal"
                        .to_owned(),
                );
            }
            let former = kinds.iter().zip(&names).zip(&namespaces);
            all.extend(former.map(|((kind, name), namespace)| with(kind, name, namespace)));
        }
        Ok(all)
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn is_selected_by(&self, selector: &Self) -> bool {
        let matches = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let effective = |namespace: &'_ str| {
            if namespace.is_empty() { "default".to_owned() } else { namespace.to_owned() }
        };
        matches(&selector.group, &self.group)
            && matches(&selector.version, &self.version)
            && matches(&selector.kind, &self.kind)
            && matches(&selector.name, &self.name)
            && (selector.namespace.is_empty() || effective(&selector.namespace) == effective(&self.namespace))
    }

    fn parts(&self) -> [&str; 5] {
        [&self.group, &self.version, &self.kind, &self.name, &self.namespace]
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or = |text: &'_ str, nothing: &'_ str| {
            if text.is_empty() { nothing.to_owned() } else { text.to_owned() }
        };
        write!(
            f,
            "{}.{}.{}/{}.{}",
            or(&self.kind, "[noKind]"),
            or(&self.version, "[noVer]"),
            or(&self.group, "[noGrp]"),
            or(&self.name, "[noName]"),
            or(&self.namespace, "[noNs]"),
        )
    }
}

// === impl Pattern ===

impl Pattern {
    pub(super) fn new(selector: &Identity, rules: Rules) -> Result<Self, String> {
        if rules < Rules::Patterns {
            return Ok(Self::Exact(selector.clone()));
        }
        let mut expressions = [const { None }; 5];
        for (slot, part) in expressions.iter_mut().zip(selector.parts()) {
            if !part.is_empty() {
                let expression = regexp::compile(&format!("^(?:{part})$"))
                    .map_err(|error| format!("error creating target selector: {error}"))?;
                *slot = Some(expression);
            }
        }
        Ok(Self::Expressions(expressions))
    }

    pub(super) fn matches(&self, id: &Identity) -> bool {
        match self {
            Self::Exact(selector) => id.is_selected_by(selector),
            Self::Expressions(expressions) => expressions.iter().zip(id.parts()).all(|(expression, part)| {
                expression.as_ref().is_none_or(|expression| expression.is_match(part))
            }),
        }
    }
}
