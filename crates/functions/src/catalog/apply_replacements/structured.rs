//! Fields inside text that is itself YAML or JSON, such as the values of a ConfigMap.

use loggia_yaml::{Document, Kind, Node, parse_first, to_json, to_string};

use super::target::Matching;
use crate::kyaml::fields::raw_text;
use crate::kyaml::lookup;

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
        let document = parse_first(raw_text(node)).ok()?;
        Some((length, document.unwrap_or_default(), raw_text(node).to_owned()))
    });
    let (length, mut document, text) = holder.ok_or("no structured data found in path")?;
    if text.trim().is_empty() {
        return Err("no structured data found in path".to_owned());
    }
    let matching = Matching { create, into_text: true };
    let count = matching.visit(&mut document.root, &path[length..], &mut |node| {
        if node.is_scalar() {
            node.set_scalar(value.scalar().unwrap_or_default());
        } else {
            *node = value.clone();
        }
    })?;
    if count == 0 {
        return Err("unable to find field in structured data".to_owned());
    }
    let text = serialize(document, &text)?;
    if let Some(node) = lookup::make(root, &parts[..length], Kind::Scalar)? {
        node.set_scalar(text);
    }
    Ok(())
}

/// Writes a document in the format that it was in.
fn serialize(document: Document, original: &str) -> Result<String, String> {
    if !original.trim_start().starts_with(['{', '[']) {
        return Ok(to_string(&[document]).trim().to_owned());
    }
    let json = to_json(&document.root).map_err(|error| error.to_string())?;
    let json = json.trim_end();
    let pretty = original.contains('\n') && original.contains("  ");
    Ok(if pretty { json.to_owned() } else { compact(json) })
}

/// Takes the white space out of indented JSON.
fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_text, mut escaped) = (false, false);
    for character in json.chars() {
        if in_text || !matches!(character, ' ' | '\n') {
            out.push(character);
        }
        match character {
            '"' if !escaped => in_text = !in_text,
            _ => {}
        }
        escaped = in_text && character == '\\' && !escaped;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::compact;

    #[test]
    fn white_space_inside_text_stays() {
        assert_eq!(compact("{\n  \"a b\": \"c \\\" d\",\n  \"e\": []\n}"), r#"{"a b":"c \" d","e":[]}"#);
    }
}
