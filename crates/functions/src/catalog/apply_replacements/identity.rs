//! What resources are called, now and before, and how selectors name them.

use std::rc::Rc;

use loggia_krm::Resource;

use super::Rules;
use crate::kustomize::resource_map::Id;
use crate::limits::OverLimit;
use crate::regexp::{self, Expression};

/// A selector, made ready.
#[derive(Debug)]
pub(super) enum Pattern {
    /// Every part is compared.
    Exact(Id),
    /// Group, version, kind, name and namespace match whole; what was empty is not there.
    Expressions([Option<Rc<Expression>>; 5]),
}

// === impl Id ===

/// In a selector, what is empty is anything.
impl Id {
    /// What a resource is called, and what it was called before others renamed it.
    pub(super) fn all_of(item: &Resource) -> Result<Vec<Self>, String> {
        let now = Self::of(item);
        let mut all = vec![now.clone()];
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
            let former = kinds.into_iter().zip(names).zip(namespaces);
            all.extend(former.map(|((kind, name), namespace)| Self { kind, name, namespace, ..now.clone() }));
        }
        Ok(all)
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn is_selected_by(&self, selector: &Self) -> bool {
        let matches = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        fn effective(namespace: &str) -> &str {
            if namespace.is_empty() { "default" } else { namespace }
        }
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

// === impl Pattern ===

impl Pattern {
    pub(super) fn new(selector: &Id, rules: Rules) -> Result<Self, String> {
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

    pub(super) fn matches(&self, id: &Id) -> Result<bool, OverLimit> {
        match self {
            Self::Exact(selector) => Ok(id.is_selected_by(selector)),
            Self::Expressions(expressions) => {
                for (expression, part) in expressions.iter().zip(id.parts()) {
                    if let Some(expression) = expression
                        && !expression.is_match(part)?
                    {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    pub(super) fn matches_any(&self, ids: &[Id]) -> Result<bool, OverLimit> {
        for id in ids {
            if self.matches(id)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
