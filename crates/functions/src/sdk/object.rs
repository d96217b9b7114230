//! The object model of the functions SDK: reads that mind the type, writes that keep the formatting.
//!
//! A scalar is a string only if YAML resolves it to one, and only string keys are found. A write replaces
//! the text of a scalar and leaves its quotes and comments; what is missing is added at the end.

use std::fmt;

use loggia_krm::{Resource, annotation};
use loggia_yaml::{Kind, Node, Pair, Resolved, Tag};

/// The namespace of what has none but should.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";
/// The namespace of what is not known to have one.
pub(crate) const UNKNOWN_NAMESPACE: &str = "~C";
/// Where an upstream package has the object: group, kind, namespace and name.
pub(crate) const UPSTREAM_IDENTIFIER: &str = "internal.kpt.dev/upstream-identifier";

/// A field is not of the type it is read as. The text is the SDK's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unmatched {
    /// What the resource calls itself.
    pub owner: Owner,
    /// The type in Go's words.
    pub expected: &'static str,
    /// The path of the field from the resource, with a leading dot.
    pub path: String,
}

/// The resource that a field belongs to, as error texts name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The SDK reads top-level `group` and `version`, which ordinary resources do not have.
    version: String,
    kind: String,
    /// The path of the part that is being read.
    prefix: String,
}

/// Why a path leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongType;

// === impl Owner ===

impl Owner {
    /// A whole resource.
    pub(crate) fn of(object: &Node) -> Self {
        let (group, version) = (text(object, &["group"]), text(object, &["version"]));
        let version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        Self { version, kind: text(object, &["kind"]).to_owned(), prefix: String::new() }
    }

    /// The part of it at a key.
    pub(crate) fn at(&self, key: &str) -> Self {
        Self { prefix: format!("{}.{key}", self.prefix), ..self.clone() }
    }

    /// The error that a field of it is not a string.
    pub(crate) fn unmatched_string(&self, path: &[&str]) -> Unmatched {
        let path = format!("{}.{}", self.prefix, path.join("."));
        Unmatched { owner: self.clone(), expected: "string", path }
    }
}

// === impl Unmatched ===

impl fmt::Display for Unmatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner: Owner { version, kind, .. }, expected, path } = self;
        write!(
            f,
            "Resource(apiVersion={version}, kind={kind}) has unmatched field type \"{expected}\" in fieldpath {path}"
        )
    }
}

// === reading ===

/// The value of a string key.
pub(crate) fn get<'a>(mapping: &'a Node, key: &str) -> Option<&'a Node> {
    mapping.pairs().iter().find(|pair| has_key(pair, key)).map(|pair| &pair.value)
}

/// The value of a string key, for editing.
pub(crate) fn get_mut<'a>(mapping: &'a mut Node, key: &str) -> Option<&'a mut Node> {
    let at = mapping.pairs().iter().position(|pair| has_key(pair, key))?;
    mapping.pairs_mut()?.get_mut(at).map(|pair| &mut pair.value)
}

fn has_key(pair: &Pair, key: &str) -> bool {
    pair.key.scalar() == Some(key) && matches!(pair.key.tag(), Tag::Str | Tag::None)
}

/// The value at a path; nothing if a key is missing.
///
/// # Errors
/// If something on the way is not a mapping.
pub(crate) fn value<'a>(object: &'a Node, path: &[&str]) -> Result<Option<&'a Node>, WrongType> {
    let mut current = object;
    for (at, key) in path.iter().enumerate() {
        if at > 0 && current.kind() != Kind::Mapping {
            return Err(WrongType);
        }
        match get(current, key) {
            Some(value) => current = value,
            None => return Ok(None),
        }
    }
    Ok(Some(current))
}

/// The string at a path; nothing if a key is missing.
///
/// # Errors
/// If something on the way is not a mapping, or the value is not a string.
pub(crate) fn string<'a>(object: &'a Node, path: &[&str]) -> Result<Option<&'a str>, WrongType> {
    value(object, path)?.map_or(Ok(None), |value| as_string(value).map(Some).ok_or(WrongType))
}

/// The text of a scalar that YAML resolves to a string.
pub(crate) fn as_string(node: &Node) -> Option<&str> {
    let string = match node.tag() {
        Tag::Str => true,
        Tag::None => node.resolved() == Some(Resolved::Str),
        _ => false,
    };
    node.scalar().filter(|_| string)
}

/// The string at a path, or nothing whatever the reason.
pub(crate) fn text<'a>(object: &'a Node, path: &[&str]) -> &'a str {
    string(object, path).ok().flatten().unwrap_or_default()
}

/// The elements of the sequence at a key, if all of them are mappings.
pub(crate) fn mappings<'a>(object: &'a Node, key: &str) -> &'a [Node] {
    let items = get(object, key).map_or(&[][..], Node::items);
    if items.iter().all(Node::is_mapping) { items } else { &[] }
}

// === writing ===

/// Sets the string at a path. Missing mappings are made; an existing scalar keeps quotes and comments.
///
/// # Errors
/// If something on the way is not a mapping.
pub(crate) fn set_string(object: &mut Node, path: &[&str], value: &str) -> Result<(), WrongType> {
    let Some((last, way)) = path.split_last() else { return Ok(()) };
    let mut current = object;
    for key in way {
        if get(current, key).is_none() {
            push(current, key, Node::mapping());
        }
        current = get_mut(current, key).ok_or(WrongType)?;
        if current.kind() != Kind::Mapping {
            return Err(WrongType);
        }
    }
    match get_mut(current, last) {
        Some(old) if old.is_scalar() => set_text(old, value),
        Some(old) => *old = Node::string_as_read(value),
        None => push(current, last, Node::string_as_read(value)),
    }
    Ok(())
}

/// Adds a string behind the entries of the mapping at a path; its key is known to be new.
///
/// # Errors
/// If there is no mapping.
pub(crate) fn append_string(
    object: &mut Node,
    path: &[&str],
    key: &str,
    value: &str,
) -> Result<(), WrongType> {
    let mut current = object;
    for step in path {
        current = get_mut(current, step).ok_or(WrongType)?;
    }
    if current.kind() != Kind::Mapping {
        return Err(WrongType);
    }
    push(current, key, Node::string_as_read(value));
    Ok(())
}

/// Makes a scalar this string; quotes and comments stay, a written-out tag and an anchor do not.
fn set_text(scalar: &mut Node, value: &str) {
    if as_string(scalar) == Some(value) && !scalar.has_explicit_tag() && scalar.anchor().is_empty() {
        return;
    }
    let mut new = Node::string_with_style(value, scalar.scalar_style());
    new.fill_comments_from(scalar);
    *scalar = new;
}

fn push(mapping: &mut Node, key: &str, value: Node) {
    mapping.push_pair(Pair { key: Node::string_as_read(key), value });
}

// === resources ===

/// A resource as the SDK sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object<'a>(pub &'a Node);

impl<'a> Object<'a> {
    pub(crate) fn of(resource: &'a Resource) -> Self {
        Self(resource.node())
    }

    pub(crate) fn text(self, path: &[&str]) -> &'a str {
        text(self.0, path)
    }

    pub(crate) fn api_version(self) -> &'a str {
        self.text(&["apiVersion"])
    }

    pub(crate) fn kind(self) -> &'a str {
        self.text(&["kind"])
    }

    pub(crate) fn name(self) -> &'a str {
        self.text(&["metadata", "name"])
    }

    pub(crate) fn namespace(self) -> &'a str {
        self.text(&["metadata", "namespace"])
    }

    /// Whether `metadata.namespace` is there, be it a string or not.
    pub(crate) fn has_namespace(self) -> bool {
        !matches!(value(self.0, &["metadata", "namespace"]), Ok(None))
    }

    /// An annotation that is a string; empty if there is none.
    pub(crate) fn annotation(self, key: &str) -> &'a str {
        self.text(&["metadata", "annotations", key])
    }

    pub(crate) fn is_local_config(self) -> bool {
        !matches!(self.annotation(annotation::LOCAL_CONFIG), "" | "false")
    }

    /// Group, version and kind; all empty if the apiVersion has more than one slash.
    pub(crate) fn group_version_kind(self) -> (&'a str, &'a str, &'a str) {
        let api_version = self.api_version();
        match api_version.matches('/').count() {
            0 => ("", api_version, self.kind()),
            1 => {
                let (group, version) = api_version.split_once('/').unwrap_or_default();
                (group, version, self.kind())
            }
            _ => ("", "", ""),
        }
    }

    /// Whether group, version and kind match; what is empty on either side matches all.
    pub(crate) fn is_gvk(self, group: &str, version: &str, kind: &str) -> bool {
        let loose =
            |actual: &str, expected: &str| actual.is_empty() || expected.is_empty() || actual == expected;
        let own = self.group_version_kind();
        loose(own.2, kind) && loose(own.0, group) && loose(own.1, version)
    }

    /// `Resource(apiVersion=A, kind=K, namespace=N, name=M)`
    pub(crate) fn short(self) -> String {
        let (version, kind) = (self.api_version(), self.kind());
        let (namespace, name) = (self.namespace(), self.name());
        format!("Resource(apiVersion={version}, kind={kind}, namespace={namespace}, name={name})")
    }
}
