//! Files of JSON schema.

use std::rc::Rc;

use serde_json::Value;

use super::{Dialect, Schema};

/// Keywords that would decide something and are not looked at. A check that cannot be made must not pass.
const UNSUPPORTED: [&str; 15] = [
    "$dynamicRef",
    "$recursiveRef",
    "additionalItems",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "if",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// A file's schema.
pub(super) fn parse(content: &[u8]) -> Result<Schema, String> {
    let root: Value = serde_json::from_slice(content).map_err(|error| format!("it is no JSON: {error}"))?;
    if !root.is_object() {
        return Err("it is no JSON schema: an object is".to_owned());
    }
    check(&root, &root)?;
    let formats = asserts_formats(&root);
    Ok(Schema { root: Rc::new(root), dialect: Dialect::Json { formats } })
}

/// Drafts since 2019 take `format` for a remark.
fn asserts_formats(root: &Value) -> bool {
    let draft = root["$schema"].as_str().unwrap_or_default().trim_end_matches('#');
    let draft = draft.rsplit_once("json-schema.org/").map_or("", |(_, draft)| draft);
    !(draft == "schema" || draft.starts_with("draft/"))
}

/// Looks for what is not supported, in all that is a schema. JSON does not nest deeper than its parser allows.
fn check(schema: &Value, root: &Value) -> Result<(), String> {
    let Some(object) = schema.as_object() else { return Ok(()) };
    if let Some(keyword) = UNSUPPORTED.iter().find(|keyword| object.contains_key(**keyword)) {
        return Err(format!("the keyword `{keyword}` is not supported"));
    }
    if schema["items"].is_array() || schema["items"] == false {
        return Err("`items` that are no schema are not supported".to_owned());
    }
    if let Some(reference) = schema["$ref"].as_str()
        && referred(root, reference).is_none()
    {
        return Err(format!("the reference `{reference}` does not lead to a part of the same file"));
    }
    for (keyword, value) in object {
        match (keyword.as_str(), value) {
            ("items" | "additionalProperties" | "not", schema) => check(schema, root)?,
            ("properties" | "definitions" | "$defs", Value::Object(schemas)) => {
                schemas.values().try_for_each(|schema| check(schema, root))?;
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
                schemas.iter().try_for_each(|schema| check(schema, root))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The part of a document that a reference such as `#/definitions/x` leads to.
pub(super) fn referred<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(reference.strip_prefix('#')?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_asks_for_more_than_is_supported_is_an_error() {
        for (text, reason) in [
            ("x", "it is no JSON: expected value at line 1 column 1"),
            ("[]", "it is no JSON schema: an object is"),
            (r#"{"properties":{"a":{"if":{}}}}"#, "the keyword `if` is not supported"),
            (r#"{"oneOf":[{"items":[{}]}]}"#, "`items` that are no schema are not supported"),
            (
                r##"{"items":{"$ref":"_definitions.json#/x"}}"##,
                "the reference `_definitions.json#/x` does not lead to a part of the same file",
            ),
            (
                r##"{"$defs":{"a":{"$ref":"#/$defs/b"}}}"##,
                "the reference `#/$defs/b` does not lead to a part of the same file",
            ),
        ] {
            assert_eq!(parse(text.as_bytes()).err().as_deref(), Some(reason), "{text}");
        }
    }

    #[test]
    fn fields_may_be_called_like_keywords() {
        let text =
            r##"{"properties":{"if":{},"contains":{"enum":[{"if":1}]}},"not":{"$ref":"#/properties/if"}}"##;
        assert!(parse(text.as_bytes()).is_ok());
    }

    #[test]
    fn formats_count_in_early_drafts_only() {
        for (draft, formats) in [
            ("", true),
            (r#""$schema":"http://json-schema.org/draft-07/schema#""#, true),
            (r#""$schema":"http://json-schema.org/schema#""#, false),
            (r#""$schema":"https://json-schema.org/draft/2020-12/schema""#, false),
        ] {
            let schema = parse(format!("{{{draft}}}").as_bytes()).unwrap_or_else(|error| panic!("{error}"));
            assert!(schema.dialect == Dialect::Json { formats }, "{draft}");
        }
    }
}
