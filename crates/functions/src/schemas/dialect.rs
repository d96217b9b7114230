//! The kinds of schemas, and what each means by the same words.

use serde_json::Value;

/// How a schema is to be understood.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// A definition of Kubernetes: a field that is not required may be null.
    Kubernetes,
    /// A custom resource definition: a field may be null that is `nullable`; `apiVersion`, `kind` and `metadata` need
    /// no mention.
    Definition,
    /// A file of JSON schema, which means what it says.
    Json {
        /// Whether `format` is checked, as it was up to draft 7.
        formats: bool,
    },
}

// === impl Dialect ===

impl Dialect {
    /// Whether null is valid for an optional field, an item or an alternative without the schema saying so.
    pub(super) fn lets_optional_be_null(self) -> bool {
        self == Self::Kubernetes
    }

    /// Whether a schema declares null valid.
    pub(super) fn is_nullable(self, schema: &Value) -> bool {
        self == Self::Definition && schema["nullable"] == true
    }

    /// Whether a field of the root is valid with any value, listed or not: the API server checks it.
    pub(super) fn implies(self, field: &str) -> bool {
        self == Self::Definition && matches!(field, "apiVersion" | "kind" | "metadata")
    }

    /// The values that a field of the root may have because of the resource's type, if the schema names that.
    pub(super) fn identity(self, schema: &Value, field: &str) -> Option<Vec<Value>> {
        if self != Self::Kubernetes {
            return None;
        }
        let kinds = schema["x-kubernetes-group-version-kind"].as_array()?;
        let mut allowed: Vec<Value> = Vec::new();
        for kind in kinds {
            let text = |key: &str| kind[key].as_str().unwrap_or_default();
            let value = match field {
                "kind" => text("kind").to_owned(),
                "apiVersion" if text("group").is_empty() => text("version").to_owned(),
                "apiVersion" => format!("{}/{}", text("group"), text("version")),
                _ => return None,
            };
            if !allowed.iter().any(|known| *known == value) {
                allowed.push(value.into());
            }
        }
        Some(allowed)
    }

    /// Whether a strict check takes the listed properties for all there are. Files of JSON schema say so themselves:
    /// there are stricter ones for strict checks.
    pub(super) fn lists_all_properties(self, schema: &Value) -> bool {
        matches!(self, Self::Kubernetes | Self::Definition)
            && schema["properties"].is_object()
            && schema["additionalProperties"].is_null()
            && schema["x-kubernetes-preserve-unknown-fields"] != true
    }

    /// Whether a value that does not fit its `format` is a problem.
    pub(super) fn checks_formats(self) -> bool {
        self != Self::Json { formats: false }
    }

    /// Whether keywords beside a `$ref` count. They do since the draft in which formats no longer do.
    pub(super) fn reads_beside_reference(self) -> bool {
        self == Self::Json { formats: false }
    }
}
