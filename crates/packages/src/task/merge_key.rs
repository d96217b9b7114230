//! Merge keys: which resource of the upstream package a resource came from, so that an upgrade finds it again
//! under another name.

use loggia_krm::{Files, Resource, WrongKind};
use loggia_yaml::Text;

use super::{is_yaml, read_file, write_file};

const COMMENT: &str = "kpt-merge:";
const ANNOTATION: &str = "internal.kpt.dev/upstream-identifier";

/// Marks all resources, or leaves the files as they are.
pub(super) fn ensure(files: &mut Files) -> Result<(), String> {
    let mut written = Files::new();
    for (path, content) in files.iter().filter(|(path, _)| is_yaml(path)) {
        let mut package = read_file(path, content).map_err(|error| error.to_string())?;
        let mut marked = false;
        for resource in &mut package.resources {
            marked |= mark(resource).map_err(|error| format!("{path}: {error}"))?;
        }
        if marked && let Some(text) = write_file(package, path)? {
            written.insert(path.clone(), text);
        }
    }
    files.extend(written);
    Ok(())
}

/// Marks a resource unless nothing names it or it is marked already.
fn mark(resource: &mut Resource) -> Result<bool, WrongKind> {
    let (name, namespace) = (resource.name().to_owned(), resource.namespace().to_owned());
    if name.is_empty() && namespace.is_empty() && resource.labels().len() == 0 {
        return Ok(false);
    }
    let Some(metadata) = resource.node().pair("metadata") else { return Ok(false) };
    // A comment behind an empty line or an anchor may have gone to the value.
    let comments = [metadata.key.comments().line, metadata.value.comments().line];
    let known =
        comments.iter().find(|comment| comment.contains(COMMENT)).map(|comment| (*comment).to_owned());
    let (namespace, name) = match known.as_deref().and_then(origin) {
        Some((namespace, name)) => (namespace.to_owned(), name.to_owned()),
        None => (namespace, name),
    };
    let scope = if namespace.is_empty() { "default" } else { &namespace };
    let identifier = format!("{}|{}|{scope}|{name}", resource.group(), resource.kind());
    let is_identified = resource.annotation(ANNOTATION) == Some(&identifier);
    if !is_identified {
        match resource.annotation(ANNOTATION) {
            Some(_) => resource.set_annotation(ANNOTATION, identifier)?,
            None => resource.set_reader_annotations(&[(ANNOTATION, Text::from(identifier))])?,
        }
    }
    if known.is_none()
        && let Some(metadata) = resource.node_mut().pair_mut("metadata")
    {
        metadata.key.set_line_comment(format!("# {COMMENT} {namespace}/{name}"));
    }
    Ok(known.is_none() || !is_identified)
}

/// Namespace and name in a merge comment.
fn origin(comment: &str) -> Option<(&str, &str)> {
    comment.trim_start_matches('#').trim().strip_prefix(COMMENT)?.trim().split_once('/')
}
