//! The replacements a config asks for, decoded as Go decodes JSON.

use std::fmt;

use loggia_yaml::{Node, Resolved};

use super::Rules;
use crate::kustomize::resource_map::Id;
use crate::sdk::config::json_kind;

#[derive(Clone, Debug, Default)]
pub(super) struct Replacement {
    pub(super) source: Option<Source>,
    pub(super) source_value: Option<String>,
    pub(super) targets: Option<Vec<Target>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    pub(super) id: Id,
    pub(super) field_path: String,
    pub(super) options: Option<Options>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Target {
    pub(super) select: Option<Select>,
    pub(super) reject: Vec<Select>,
    pub(super) field_paths: Vec<String>,
    pub(super) options: Option<Options>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Select {
    pub(super) id: Id,
    pub(super) annotations: String,
    pub(super) labels: String,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) delimiter: String,
    pub(super) index: i64,
    pub(super) create: bool,
}

impl Select {
    /// Whether it asks for labels or annotations.
    pub(super) fn names_attributes(&self) -> bool {
        !(self.annotations.is_empty() && self.labels.is_empty())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        if !self.field_path.is_empty() {
            write!(f, ":{}", self.field_path)?;
        }
        match &self.options {
            Some(Options { delimiter, index, create }) if !delimiter.is_empty() || *create => {
                write!(f, ":{delimiter}({index}), create={create}")
            }
            _ => Ok(()),
        }
    }
}

/// Decodes the `replacements` of a config.
///
/// # Errors
/// The first mismatch, in Go's words.
pub(super) fn decode(config: &Node, rules: Rules) -> Result<Vec<Replacement>, String> {
    let mut decoder = Decoder { rules, path: Vec::new(), mismatch: None };
    let root = Object { node: config, name: "Replacements" };
    let replacements = decoder
        .list(&root, "replacements", "[]types.Replacement", "types.Replacement", Decoder::replacement)
        .unwrap_or_default();
    match decoder.mismatch {
        Some(mismatch) => {
            Err(format!("unable to convert object to *replacements.Replacements with error: {mismatch}"))
        }
        None => Ok(replacements),
    }
}

/// A mapping that is decoded into a Go struct.
struct Object<'a> {
    node: &'a Node,
    /// The name of the Go type.
    name: &'static str,
}

struct Decoder {
    rules: Rules,
    path: Vec<&'static str>,
    mismatch: Option<String>,
}

impl<'a> Object<'a> {
    /// A field that is not null, by its name or, failing that, whatever its case.
    fn get(&self, key: &str) -> Option<&'a Node> {
        let folded = || {
            self.node
                .pairs()
                .iter()
                .find(|pair| pair.key.scalar().is_some_and(|k| k.eq_ignore_ascii_case(key)))
        };
        self.node.pair(key).or_else(folded).map(|pair| &pair.value).filter(|value| json_kind(value) != "null")
    }
}

impl Decoder {
    fn fail(&mut self, owner: &'static str, found: &str, expected: &str) {
        let path = self.path.join(".");
        self.mismatch.get_or_insert_with(|| {
            format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {expected}")
        });
    }

    fn replacement(&mut self, object: &Object<'_>) -> Replacement {
        let source_value = match self.rules {
            Rules::First | Rules::Lenient => None,
            Rules::Strict | Rules::Patterns => {
                object.get("sourceValue").is_some().then(|| self.text(object, "sourceValue"))
            }
        };
        Replacement {
            source: self.nested(object, "source", "SourceSelector", "types.SourceSelector", Self::source),
            targets: self.list(
                object,
                "targets",
                "[]*types.TargetSelector",
                "types.TargetSelector",
                Self::target,
            ),
            source_value,
        }
    }

    fn source(&mut self, object: &Object<'_>) -> Source {
        Source {
            id: self.identity(object),
            field_path: self.text(object, "fieldPath"),
            options: self.options(object),
        }
    }

    fn target(&mut self, object: &Object<'_>) -> Target {
        Target {
            select: self.nested(object, "select", "Selector", "types.Selector", Self::select),
            reject: self
                .list(object, "reject", "[]*types.Selector", "types.Selector", Self::select)
                .unwrap_or_default(),
            field_paths: self.texts(object, "fieldPaths"),
            options: self.options(object),
        }
    }

    fn select(&mut self, object: &Object<'_>) -> Select {
        Select {
            id: self.identity(object),
            annotations: self.text(object, "annotationSelector"),
            labels: self.text(object, "labelSelector"),
        }
    }

    fn identity(&mut self, object: &Object<'_>) -> Id {
        // Go names the types that are embedded in the type.
        let mut text = |embedded: &[&'static str], key| {
            self.path.extend(embedded);
            let text = self.text(object, key);
            self.path.truncate(self.path.len() - embedded.len());
            text
        };
        Id {
            group: text(&["ResId", "Gvk"], "group"),
            version: text(&["ResId", "Gvk"], "version"),
            kind: text(&["ResId", "Gvk"], "kind"),
            name: text(&["ResId"], "name"),
            namespace: text(&["ResId"], "namespace"),
        }
    }

    fn options(&mut self, object: &Object<'_>) -> Option<Options> {
        self.nested(object, "options", "FieldOptions", "types.FieldOptions", |decoder, object| {
            decoder.text(object, "encoding");
            Options {
                delimiter: decoder.text(object, "delimiter"),
                index: decoder.number(object, "index"),
                create: decoder.flag(object, "create"),
            }
        })
    }

    // --- values ---

    fn text(&mut self, object: &Object<'_>, key: &'static str) -> String {
        let Some(value) = object.get(key) else { return String::new() };
        match json_kind(value) {
            "string" => value.scalar().unwrap_or_default().to_owned(),
            found => {
                self.path.push(key);
                self.fail(object.name, found, "string");
                self.path.pop();
                String::new()
            }
        }
    }

    fn number(&mut self, object: &Object<'_>, key: &'static str) -> i64 {
        let Some(value) = object.get(key) else { return 0 };
        if let Some(number) = value.as_i64() {
            return number;
        }
        self.path.push(key);
        match (value.resolved(), json_kind(value)) {
            (Some(Resolved::Float(_)), _) => {
                let text = format!("number {}", value.scalar().unwrap_or_default());
                self.fail(object.name, &text, "int");
            }
            (_, found) => self.fail(object.name, found, "int"),
        }
        self.path.pop();
        0
    }

    fn flag(&mut self, object: &Object<'_>, key: &'static str) -> bool {
        let Some(value) = object.get(key) else { return false };
        if let Some(flag) = value.as_bool() {
            return flag;
        }
        self.path.push(key);
        self.fail(object.name, json_kind(value), "bool");
        self.path.pop();
        false
    }

    fn texts(&mut self, object: &Object<'_>, key: &'static str) -> Vec<String> {
        let Some(value) = object.get(key) else { return Vec::new() };
        self.path.push(key);
        let mut texts = Vec::new();
        if !value.is_sequence() {
            self.fail(object.name, json_kind(value), "[]string");
        }
        for item in value.items() {
            match json_kind(item) {
                "string" => texts.push(item.scalar().unwrap_or_default().to_owned()),
                "null" => texts.push(String::new()),
                found => self.fail(object.name, found, "string"),
            }
        }
        self.path.pop();
        texts
    }

    fn nested<T>(
        &mut self,
        object: &Object<'_>,
        key: &'static str,
        name: &'static str,
        expected: &str,
        decode: impl FnOnce(&mut Self, &Object<'_>) -> T,
    ) -> Option<T> {
        let value = object.get(key)?;
        self.path.push(key);
        let decoded = if value.is_mapping() {
            Some(decode(self, &Object { node: value, name }))
        } else {
            self.fail(object.name, json_kind(value), expected);
            None
        };
        self.path.pop();
        decoded
    }

    fn list<T: Default>(
        &mut self,
        object: &Object<'_>,
        key: &'static str,
        expected: &str,
        expected_item: &'static str,
        decode: fn(&mut Self, &Object<'_>) -> T,
    ) -> Option<Vec<T>> {
        let value = object.get(key)?;
        self.path.push(key);
        let mut decoded = Vec::new();
        if !value.is_sequence() {
            self.fail(object.name, json_kind(value), expected);
        }
        let name = expected_item.rsplit('.').next().unwrap_or(expected_item);
        for item in value.items() {
            if item.is_mapping() {
                decoded.push(decode(self, &Object { node: item, name }));
            } else if json_kind(item) != "null" {
                self.fail(object.name, json_kind(item), expected_item);
            } else {
                decoded.push(T::default());
            }
        }
        self.path.pop();
        Some(decoded)
    }
}
