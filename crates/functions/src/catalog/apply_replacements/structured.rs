//! Fields inside text that is itself YAML or JSON, such as the values of a ConfigMap.

use loggia_yaml::{Document, EmitOptions, Emitter, Kind, Node, parse_first, to_compact_json, to_json_within};

use super::target::Matching;
use crate::kyaml::fields::raw_text;
use crate::kyaml::lookup;
use crate::limits;

/// Sets the field that a path leads to inside a scalar's text.
///
/// # Errors
/// If the path does not lead through a scalar, or not to a field in it; then it may lead elsewhere.
pub(super) fn set(
    root: &mut Node,
    value: &Node,
    path: &[String],
    create: Option<Kind>,
) -> Result<(), String> {
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    let holder = (1..parts.len()).find_map(|length| {
        let node = lookup::get(root, &parts[..length]).ok().flatten().filter(|node| node.is_scalar())?;
        limits::work(4 * raw_text(node).len()).ok()?;
        let document = parse_first(raw_text(node)).ok()?;
        Some((length, document.unwrap_or_default(), raw_text(node).to_owned()))
    });
    let (length, mut document, text) = holder.ok_or("no structured data found in path")?;
    if text.trim().is_empty() {
        return Err("no structured data found in path".to_owned());
    }
    let matching = Matching { create, into_text: true };
    let size = value.text_size(limits::output_left().saturating_add(1));
    let mut produced = Ok(());
    let count = matching.visit(&mut document.root, &path[length..], &mut |node| {
        if produced.is_ok() {
            produced = limits::produce(size);
        }
        if produced.is_err() {
            return;
        }
        if node.is_scalar() {
            node.set_scalar(value.scalar().unwrap_or_default());
        } else {
            *node = value.clone();
        }
    })?;
    if count == 0 {
        return Err("unable to find field in structured data".to_owned());
    }
    produced?;
    let old = text.len();
    let text = serialize(&document, &text)?;
    limits::produce_instead(text.len(), old)?;
    if let Some(node) = lookup::make(root, &parts[..length], Kind::Scalar)? {
        node.set_scalar(text);
    }
    Ok(())
}

/// Writes a document in the format that it was in.
fn serialize(document: &Document, original: &str) -> Result<String, String> {
    if !original.trim_start().starts_with(['{', '[']) {
        let mut emitter = Emitter::with_limit(EmitOptions::default(), most(original));
        emitter.document(document);
        let text = emitter.finish_within().ok_or("the text would be too long")?;
        return Ok(text.trim().to_owned());
    }
    let pretty = original.contains('\n') && original.contains("  ");
    let write = if pretty { to_json_within } else { to_compact_json };
    let json = write(&document.root, most(original));
    Ok(json.map_err(|error| error.to_string())?.trim_end().to_owned())
}

/// How long a text may become.
fn most(original: &str) -> usize {
    limits::output_left().saturating_add(original.len())
}
