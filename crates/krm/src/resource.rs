//! [`Resource`]: one object over its YAML tree.
//!
//! Getters read the text of a field whatever its type, as kyaml does, and give the empty string where there is
//! none. Setters keep order, comments and quotes of what they replace. `resource/placement.rs` has what records
//! where a resource came from and goes to.

mod placement;

#[cfg(test)]
mod tests;

use std::fmt;
use std::slice;

use loggia_yaml::{Document, Kind, Node, Pair, Tag, Text, node_to_string};

pub(crate) use self::placement::set_default_places;
pub use self::placement::{PlacementError, set_default_paths};
use crate::annotation;
use crate::path::base_name;

/// The key a bare sequence is wrapped in, so that it can carry annotations.
pub(crate) const BARE_SEQUENCE_KEY: &str = "bareSeqNodeWrappingKey";

const METADATA: &str = "metadata";
const ANNOTATIONS: &str = "annotations";
const LABELS: &str = "labels";

/// One object: a document of a file or an item of a list. Cloning is cheap, whatever its size.
#[derive(Clone, Debug, Default)]
pub struct Resource {
    document: Document,
}

/// What tells a resource from all others in a cluster, whatever version it is written in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceId {
    /// The group of the apiVersion; empty for the core group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace; empty if none is set.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// Labels or annotations: key and text of each value, in order.
#[derive(Clone, Debug)]
pub struct Entries<'a>(slice::Iter<'a, Pair>);

/// A node is not what its place asks for. The text is kyaml's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("wrong node kind: expected {} but got {}: node contents:\n{contents}", kind_name(*expected), kind_name(*found))]
pub struct WrongKind {
    /// What was asked for.
    pub expected: Kind,
    /// What is there.
    pub found: Kind,
    /// The node as YAML.
    pub contents: String,
    /// The line of the node within its document, if it was read.
    pub line: Option<u32>,
}

/// Why a resource is not one of the Kubernetes resource model. The text is kpt's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotKrm {
    /// Neither type nor metadata.
    #[error("resource must have `apiVersion`, `kind`, and `name`")]
    Nothing,
    /// No `apiVersion`.
    #[error("resource must have `apiVersion`")]
    ApiVersion,
    /// No `kind`.
    #[error("resource must have `kind`")]
    Kind,
    /// No name.
    #[error("resource must have `metadata.name`")]
    Name,
}

// === impl Resource ===

impl Resource {
    /// A resource without comments above or below its root.
    #[must_use]
    pub fn new(root: Node) -> Self {
        Self { document: Document::new(root) }
    }

    /// The document it is.
    #[must_use]
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The document, for editing.
    pub fn document_mut(&mut self) -> &mut Document {
        &mut self.document
    }

    /// The document, for good.
    #[must_use]
    pub fn into_document(self) -> Document {
        self.document
    }

    /// The root of the tree.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.document.root
    }

    /// The root of the tree, for editing.
    pub fn node_mut(&mut self) -> &mut Node {
        &mut self.document.root
    }

    /// Makes the comment above the document one of its root, as it is in a list, where items have no header.
    pub fn fold_header(&mut self) {
        let header = std::mem::take(&mut self.document.head_comment);
        let root = &mut self.document.root;
        if !header.is_empty() {
            let comment = match root.comments().head {
                "" => header,
                head => Text::from(format!("{header}\n{head}")),
            };
            root.set_head_comment(comment);
        }
    }

    // --- type and name ---

    /// `apiVersion`, or nothing.
    #[must_use]
    pub fn api_version(&self) -> &str {
        text_at(self.node(), "apiVersion")
    }

    /// The part of the apiVersion before the slash; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version().rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// The part of the apiVersion behind the slash.
    #[must_use]
    pub fn version(&self) -> &str {
        self.api_version().rsplit('/').next().unwrap_or_default()
    }

    /// `kind`, or nothing.
    #[must_use]
    pub fn kind(&self) -> &str {
        text_at(self.node(), "kind")
    }

    /// `metadata.name`, or nothing.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata().map_or("", |metadata| text_at(metadata, "name"))
    }

    /// `metadata.namespace`, or nothing.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.metadata().map_or("", |metadata| text_at(metadata, "namespace"))
    }

    /// Group, kind, namespace and name.
    #[must_use]
    pub fn id(&self) -> ResourceId {
        ResourceId {
            group: self.group().to_owned(),
            kind: self.kind().to_owned(),
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
        }
    }

    /// Sets `apiVersion`.
    ///
    /// # Errors
    /// If the root is not a mapping.
    pub fn set_api_version(&mut self, value: impl Into<Text>) -> Result<(), WrongKind> {
        expect_mapping(self.node())?;
        self.node_mut().set("apiVersion", Node::string_for_field(value));
        Ok(())
    }

    // --- labels and annotations ---

    fn metadata(&self) -> Option<&Node> {
        self.node().get(METADATA).map(follow)
    }

    fn metadata_mut(&mut self) -> Result<&mut Node, WrongKind> {
        mapping_at(self.node_mut(), METADATA)
    }

    fn entries(&self, field: &str) -> Entries<'_> {
        let node = self.metadata().and_then(|metadata| metadata.get(field));
        Entries(node.map_or(&[][..], |node| follow(node).pairs()).iter())
    }

    /// The labels in order.
    #[must_use]
    pub fn labels(&self) -> Entries<'_> {
        self.entries(LABELS)
    }

    /// One label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// The annotations in order, bookkeeping included.
    #[must_use]
    pub fn annotations(&self) -> Entries<'_> {
        self.entries(ANNOTATIONS)
    }

    /// One annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Sets an annotation, in its place if it is there, else at the end.
    ///
    /// # Errors
    /// If the root, `metadata` or its `annotations` is not a mapping.
    pub fn set_annotation(&mut self, key: &str, value: impl Into<Text>) -> Result<(), WrongKind> {
        mapping_at(self.metadata_mut()?, ANNOTATIONS)?.set(key, Node::string_for_field(value));
        Ok(())
    }

    /// Removes an annotation. What then is empty stays; [`Resource::drop_empty_metadata`] removes it.
    pub fn remove_annotation(&mut self, key: &str) {
        // Look first: editing copies what is shared.
        if self.annotation(key).is_some()
            && let Some(annotations) = self.node_mut().at_mut(&[METADATA, ANNOTATIONS])
        {
            annotations.remove(key);
        }
    }

    /// Removes `metadata.annotations` if nothing is in it, and then `metadata` likewise, as every reader and
    /// writer does in passing.
    ///
    /// # Errors
    /// If the root or `metadata` is not a mapping.
    pub fn drop_empty_metadata(&mut self) -> Result<(), WrongKind> {
        expect_mapping(self.node())?;
        let Some(metadata) = self.node().get(METADATA) else { return Ok(()) };
        expect_mapping(metadata)?;
        let is_empty = |value: &Node| value.is_empty() && value.kind() != Kind::Alias;
        let at = metadata
            .pairs()
            .iter()
            .position(|pair| pair.key.scalar() == Some(ANNOTATIONS) && is_empty(&pair.value));
        let left = metadata.len() - usize::from(at.is_some());
        if left == 0 {
            self.node_mut().remove(METADATA);
        } else if let Some(at) = at
            && let Some(pairs) = self.node_mut().get_mut(METADATA).and_then(Node::pairs_mut)
        {
            pairs.remove(at);
        }
        Ok(())
    }

    // --- questions ---

    /// Whether the resource is for tools only and never goes to a cluster.
    #[must_use]
    pub fn is_local_config(&self) -> bool {
        self.annotation(annotation::LOCAL_CONFIG).is_some_and(|value| !matches!(value, "" | "false"))
    }

    /// Whether there is nothing that would tell what this is: no type, no name, no labels, no annotations.
    pub(crate) fn lacks_metadata(&self) -> bool {
        let present = |parent: &Node, key: &str| {
            parent
                .get(key)
                .is_some_and(|value| value.tag() != Tag::Null && (value.is_scalar() || !value.is_empty()))
        };
        let node = self.node();
        !["apiVersion", "kind"].iter().any(|key| present(node, key))
            && !self.metadata().is_some_and(|metadata| {
                ["name", "namespace", LABELS, ANNOTATIONS].iter().any(|key| present(metadata, key))
            })
    }

    /// Whether this is a kustomization, which need not be a whole resource.
    #[must_use]
    pub fn is_kustomization(&self) -> bool {
        let file = base_name(self.path());
        matches!(file, "kustomization.yaml" | "kustomization.yml" | "Kustomization")
            || self.api_version().starts_with("kustomize.config.k8s.io")
            || (self.api_version().is_empty() && self.kind() == "Kustomization")
    }

    /// Checks for apiVersion, kind and name; kustomizations pass without.
    ///
    /// # Errors
    /// Names the first of them that is missing.
    pub fn check_krm(&self) -> Result<(), NotKrm> {
        if self.is_kustomization() {
            return Ok(());
        }
        if self.lacks_metadata() {
            return Err(NotKrm::Nothing);
        }
        let checks = [
            (self.api_version(), NotKrm::ApiVersion),
            (self.kind(), NotKrm::Kind),
            (self.name(), NotKrm::Name),
        ];
        match checks.iter().find(|(text, _)| text.is_empty()) {
            Some((_, missing)) => Err(*missing),
            None => Ok(()),
        }
    }
}

impl From<Document> for Resource {
    fn from(document: Document) -> Self {
        Self { document }
    }
}

impl From<Node> for Resource {
    fn from(root: Node) -> Self {
        Self::new(root)
    }
}

// === impl ResourceId ===

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, kind, namespace, name } = self;
        let parts = [group, kind, namespace, name];
        for (at, part) in parts.iter().filter(|part| !part.is_empty()).enumerate() {
            write!(f, "{}{part}", if at == 0 { "" } else { "/" })?;
        }
        Ok(())
    }
}

// === impl Entries ===

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|pair| (text(&pair.key), text(&pair.value)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Entries<'_> {}

// === nodes ===

/// The node itself, or what it stands for if it is an alias.
pub(crate) fn follow(node: &Node) -> &Node {
    node.alias_target().unwrap_or(node)
}

/// The text of a scalar; nothing for null and for collections.
pub(crate) fn text(node: &Node) -> &str {
    let node = follow(node);
    if node.tag() == Tag::Null { "" } else { node.scalar().unwrap_or_default() }
}

fn text_at<'a>(node: &'a Node, key: &str) -> &'a str {
    node.get(key).map_or("", text)
}

/// The mapping at a key, created if there is nothing or null.
fn mapping_at<'a>(parent: &'a mut Node, key: &str) -> Result<&'a mut Node, WrongKind> {
    expect_mapping(parent)?;
    if let Some(value) = parent.get(key) {
        expect_mapping(value)?;
    }
    Ok(parent.entry_mapping(key))
}

/// Null counts as a mapping that is not there yet.
pub(crate) fn expect_mapping(node: &Node) -> Result<(), WrongKind> {
    if node.is_mapping() || node.tag() == Tag::Null {
        return Ok(());
    }
    Err(WrongKind {
        expected: Kind::Mapping,
        found: node.kind(),
        contents: node_to_string(node),
        line: (node.line() > 0).then_some(node.line()),
    })
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Mapping => "MappingNode",
        Kind::Sequence => "SequenceNode",
        Kind::Scalar => "ScalarNode",
        Kind::Alias => "AliasNode",
    }
}
