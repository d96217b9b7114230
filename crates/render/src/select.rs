//! Which resources a function gets, and how what it made of them goes back among the others.

use std::collections::HashMap;

use loggia_krm::annotation::SELECTION_ID;
use loggia_krm::kptfile::Selector;
use loggia_krm::{Resource, WrongKind};
use loggia_yaml::Text;

/// The selectors and exclusions of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection<'a> {
    pub(crate) selectors: &'a [Selector],
    pub(crate) exclusions: &'a [Selector],
}

impl Selection<'_> {
    /// Whether every resource is meant, because nothing was said.
    pub(crate) fn is_everything(&self) -> bool {
        self.selectors.is_empty() && self.exclusions.is_empty()
    }

    /// An empty selector matches all, an empty exclusion nothing. However many selectors match a resource, it is
    /// selected once.
    pub(crate) fn matches(&self, resource: &Resource) -> bool {
        let selected =
            self.selectors.is_empty() || self.selectors.iter().any(|selector| selector.matches(resource));
        let excluded = |exclusion: &Selector| !exclusion.is_empty() && exclusion.matches(resource);
        selected && !self.exclusions.iter().any(excluded)
    }

    /// Marks all resources, so that [`merge`] finds them again, and gives the selected ones.
    pub(crate) fn take(&self, all: &mut [Resource]) -> Result<Vec<Resource>, WrongKind> {
        for (at, resource) in all.iter_mut().enumerate() {
            resource.set_reader_annotations(&[(SELECTION_ID, Text::from(at.to_string()))])?;
        }
        Ok(all.iter().filter(|resource| self.matches(resource)).cloned().collect())
    }
}

/// Puts a function's output in the place of its input among all resources; what is new comes last.
pub(crate) fn merge(all: Vec<Resource>, selected: &[Resource], output: Vec<Resource>) -> Vec<Resource> {
    let id = |resource: &Resource| resource.annotation(SELECTION_ID).unwrap_or_default().to_owned();
    let mut answers: HashMap<String, Vec<Resource>> = HashMap::new();
    let mut new = Vec::new();
    let known: std::collections::HashSet<String> = selected.iter().map(id).collect();
    for resource in output {
        let id = id(&resource);
        if known.contains(&id) { answers.entry(id).or_default().push(resource) } else { new.push(resource) }
    }
    let mut merged = Vec::with_capacity(all.len());
    for resource in all {
        let id = id(&resource);
        if known.contains(&id) {
            merged.extend(answers.remove(&id).unwrap_or_default());
        } else {
            merged.push(resource);
        }
    }
    merged.extend(new);
    merged
}

/// Removes what [`Selection::take`] left.
pub(crate) fn unmark(resources: &mut [Resource]) {
    for resource in resources {
        resource.remove_annotation(SELECTION_ID);
    }
}
