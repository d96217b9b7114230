//! Where a resource came from and where it goes: path, index and id in both spellings, sequence style, owner.
//!
//! These annotations are written in single quotes. An existing one keeps its place and its quotes, but not a
//! comment, which would be about another value.

use std::collections::HashMap;

use loggia_yaml::{Kind, Node, Pair, SequenceStyle, Text};

use super::{ANNOTATIONS, METADATA, Resource, WrongKind, follow, mapping_at};
use crate::annotation::{
    COMPACT, ID, INDEX, LEGACY_ID, LEGACY_INDEX, LEGACY_PATH, PACKAGE_PATH, PATH, SEQUENCE_INDENT, TWINS,
    WIDE,
};
use crate::path;

/// Why a resource cannot be given a place. The texts are kyaml's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Neither type nor metadata: it is not a resource at all.
    #[error("missing Resource metadata")]
    MissingMetadata,
    /// It cannot carry annotations.
    #[error(transparent)]
    WrongKind(#[from] WrongKind),
}

impl Resource {
    /// The file the resource belongs to, by either spelling; empty if none is known.
    #[must_use]
    pub fn path(&self) -> &str {
        self.twin(PATH, LEGACY_PATH).unwrap_or_default()
    }

    /// The place among the resources of its file as it stands, by either spelling; empty if none is known.
    #[must_use]
    pub fn index(&self) -> &str {
        self.twin(INDEX, LEGACY_INDEX).unwrap_or_default()
    }

    /// What ties an output to its input, by either spelling; empty if there is none. Compare [`Resource::id`].
    #[must_use]
    pub fn function_id(&self) -> &str {
        self.twin(ID, LEGACY_ID).unwrap_or_default()
    }

    /// The absolute path of the package that owns the resource; empty if none is known.
    #[must_use]
    pub fn package_path(&self) -> &str {
        self.annotation(PACKAGE_PATH).unwrap_or_default()
    }

    /// How the document indents sequences.
    #[must_use]
    pub fn sequence_style(&self) -> SequenceStyle {
        match self.annotation(SEQUENCE_INDENT) {
            Some(WIDE) => SequenceStyle::Wide,
            _ => SequenceStyle::Compact,
        }
    }

    fn twin(&self, key: &str, legacy: &str) -> Option<&str> {
        self.annotation(key).or_else(|| self.annotation(legacy))
    }

    /// Sets the path in both spellings.
    ///
    /// # Errors
    /// If the root, `metadata` or its `annotations` is not a mapping.
    pub fn set_path(&mut self, path: impl Into<Text>) -> Result<(), WrongKind> {
        let path = path.into();
        self.annotate(&[(PATH, path.clone()), (LEGACY_PATH, path)])
    }

    /// Sets the index in both spellings.
    ///
    /// # Errors
    /// If the root, `metadata` or its `annotations` is not a mapping.
    pub fn set_index(&mut self, index: usize) -> Result<(), WrongKind> {
        let index = Text::from(index.to_string());
        self.annotate(&[(INDEX, index.clone()), (LEGACY_INDEX, index)])
    }

    /// Sets an annotation as readers and orchestrators do: in single quotes, with empty `annotations` and
    /// `metadata` replaced.
    ///
    /// # Errors
    /// If the root, `metadata` or its `annotations` is not a mapping.
    pub fn set_reader_annotation(&mut self, key: &str, value: impl Into<Text>) -> Result<(), WrongKind> {
        self.annotate(&[(key, value.into())])
    }

    /// Sets several annotations as readers and orchestrators do, in one go.
    ///
    /// # Errors
    /// If the root, `metadata` or its `annotations` is not a mapping.
    pub fn set_reader_annotations(&mut self, entries: &[(&str, Text)]) -> Result<(), WrongKind> {
        self.annotate(entries)
    }

    /// Removes every annotation whose key is not approved of, but not what then is empty.
    pub fn retain_annotations(&mut self, keep: impl Fn(&str) -> bool) {
        // Look first: editing copies what is shared.
        if self.annotations().all(|(key, _)| keep(key)) {
            return;
        }
        if let Some(annotations) = self.node_mut().at_mut(&[METADATA, ANNOTATIONS]) {
            annotations.retain_pairs(|pair| pair.key.scalar().is_none_or(&keep));
        }
    }

    /// Where path, index or id has only one of its spellings, adds the other.
    ///
    /// # Errors
    /// If the root, `metadata` or its `annotations` is not a mapping.
    pub fn fill_twins(&mut self) -> Result<(), WrongKind> {
        for (key, legacy) in TWINS {
            let given = |key| self.annotation(key).filter(|value| !value.is_empty());
            let missing = match (given(key), given(legacy)) {
                (Some(value), None) => (legacy, Text::from(value)),
                (None, Some(value)) => (key, Text::from(value)),
                _ => continue,
            };
            self.annotate(&[missing])?;
        }
        Ok(())
    }

    /// Sets reader annotations, all at once.
    pub(crate) fn annotate(&mut self, entries: &[(&str, Text)]) -> Result<(), WrongKind> {
        self.expand_aliased_annotations();
        self.drop_empty_metadata()?;
        let annotations = mapping_at(self.metadata_mut()?, ANNOTATIONS)?;
        for (key, value) in entries {
            let mut value = Node::single_quoted(value.clone());
            match annotations.get_mut(key) {
                Some(old) => {
                    value.set_style_of(old);
                    *old = value;
                }
                None => annotations.push_pair(Pair { key: Node::verbatim(*key), value }),
            }
        }
        Ok(())
    }

    /// Annotations that are an alias cannot be added to. The original throws them away; a copy of what they
    /// stand for loses nothing.
    fn expand_aliased_annotations(&mut self) {
        let aliased = self.node().at(&[METADATA, ANNOTATIONS]).filter(|node| node.kind() == Kind::Alias);
        if let Some(copy) = aliased.map(follow).filter(|target| target.is_mapping()).cloned()
            && let Some(annotations) = self.node_mut().at_mut(&[METADATA, ANNOTATIONS])
        {
            *annotations = copy;
            annotations.set_anchor("");
        }
    }

    /// The file a resource without a path goes to: `DIR/NAMESPACE/KIND_NAME.yaml`.
    #[must_use]
    pub fn default_path(&self, folder: &str) -> String {
        let file = format!("{}_{}.yaml", self.kind().to_lowercase(), self.name());
        path::join(&[folder, self.namespace(), &file])
    }

    /// Records how sequences are indented, as a reader does.
    pub(crate) fn style_text(style: SequenceStyle) -> &'static str {
        match style {
            SequenceStyle::Wide => WIDE,
            SequenceStyle::Compact => COMPACT,
        }
    }
}

/// Gives every resource without a path its [`Resource::default_path`] in a folder.
///
/// # Errors
/// On the first resource that cannot carry annotations.
pub fn set_default_paths(resources: &mut [Resource], folder: &str) -> Result<(), PlacementError> {
    resources.iter_mut().try_for_each(|resource| set_default_path(resource, folder))
}

fn set_default_path(resource: &mut Resource, folder: &str) -> Result<(), PlacementError> {
    resource.fill_twins()?;
    if resource.lacks_metadata() {
        return Err(PlacementError::MissingMetadata);
    }
    if resource.annotation(PATH).is_none() {
        let path = resource.default_path(folder);
        resource.set_path(path)?;
    }
    Ok(())
}

/// Gives every resource a path and, where it has none, an index behind those of its file.
///
/// The first new index of a file equals the highest there is, as in kyaml; order among equals is kept later.
/// `Err` names the position of the offender.
pub(crate) fn set_default_places(resources: &mut [Resource]) -> Result<(), (usize, PlacementError)> {
    let mut highest: HashMap<String, i64> = HashMap::new();
    let mut unplaced = false;
    for (at, resource) in resources.iter_mut().enumerate() {
        let had_path = resource.annotation(PATH).or(resource.annotation(LEGACY_PATH)).is_some();
        set_default_path(resource, "").map_err(|error| (at, error))?;
        match resource.annotation(INDEX).map(|index| index.parse().unwrap_or(0)) {
            Some(index) if had_path && index > 0 => {
                let highest = highest.entry(resource.path().to_owned()).or_default();
                *highest = index.max(*highest);
            }
            Some(_) => {}
            None => unplaced = true,
        }
    }
    if !unplaced {
        return Ok(());
    }
    for (at, resource) in resources.iter_mut().enumerate() {
        if resource.annotation(INDEX).is_none() {
            let next = highest.entry(resource.path().to_owned()).or_default();
            let index = usize::try_from(*next).unwrap_or_default();
            *next = next.saturating_add(1);
            resource.set_index(index).map_err(|error| (at, error.into()))?;
        }
    }
    Ok(())
}
