//! Function configs as Go programs decode them: through JSON, into types, null for nothing.

use std::collections::BTreeMap;

use loggia_yaml::{Node, Pair, Resolved, ScalarStyle, is_yaml11_bool, to_json};

use crate::sdk::object::{Object, Owner, Unmatched};

/// A value is not of the type it is decoded into. The texts are those of Go's decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// What the value is, in JSON's words.
    pub found: &'static str,
    /// The Go type it should be.
    pub expected: &'static str,
}

/// A `v1 ConfigMap`.
#[derive(Debug, Default)]
pub(crate) struct ConfigMap {
    pub name: String,
    pub data: BTreeMap<String, String>,
}

impl ConfigMap {
    /// Decodes the parts that Go would refuse if they were of another type.
    pub(crate) fn decode(config: &Node) -> Result<Self, Mismatch> {
        let name = Self::decode_meta(config)?;
        Ok(Self { name, data: json_string_map(config.get("data"))? })
    }

    /// Decodes type and metadata, and gives the name.
    pub(crate) fn decode_meta(config: &Node) -> Result<String, Mismatch> {
        json_string(config.get("apiVersion"))?;
        json_string(config.get("kind"))?;
        let Some(metadata) = config.get("metadata").filter(|metadata| !metadata.is_null()) else {
            return Ok(String::new());
        };
        if !metadata.is_mapping() {
            return Err(Mismatch { found: json_kind(metadata), expected: "v1.ObjectMeta" });
        }
        json_string(metadata.get("namespace"))?;
        json_string_map(metadata.get("labels"))?;
        json_string_map(metadata.get("annotations"))?;
        json_string(metadata.get("name"))
    }
}

/// A string field: empty if missing or null.
pub(crate) fn json_string(value: Option<&Node>) -> Result<String, Mismatch> {
    let Some(value) = value else { return Ok(String::new()) };
    match json_kind(value) {
        "string" => Ok(value.scalar().unwrap_or_default().to_owned()),
        "null" => Ok(String::new()),
        found => Err(Mismatch { found, expected: "string" }),
    }
}

/// A field of strings by name: empty if missing or null.
pub(crate) fn json_string_map(value: Option<&Node>) -> Result<BTreeMap<String, String>, Mismatch> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(BTreeMap::new()) };
    if !value.is_mapping() {
        return Err(Mismatch { found: json_kind(value), expected: "map[string]string" });
    }
    let pairs = value.pairs().iter();
    pairs
        .map(|pair| {
            let key = pair.key.scalar().unwrap_or_default().to_owned();
            Ok((key, json_string(Some(&pair.value))?))
        })
        .collect()
}

/// A string field as sigs.k8s.io/yaml decodes it: what YAML 1.1 takes for a number or a boolean becomes its text.
pub(crate) fn loose_string(value: Option<&Node>) -> Result<String, Mismatch> {
    match value.map(json_kind) {
        Some("number" | "bool") => {
            let json = value.and_then(|value| to_json(value).ok()).unwrap_or_default();
            Ok(json.trim_end().to_owned())
        }
        Some("string") => {
            let text = value.and_then(Node::scalar).unwrap_or_default();
            let is_plain = value.is_some_and(|value| value.scalar_style() == ScalarStyle::Plain);
            Ok(match text {
                "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" if is_plain => "true".to_owned(),
                text if is_plain && is_yaml11_bool(text) => "false".to_owned(),
                text => text.to_owned(),
            })
        }
        _ => json_string(value),
    }
}

/// A field of strings by name, each as [`loose_string`].
pub(crate) fn loose_string_map(value: Option<&Node>) -> Result<BTreeMap<String, String>, Mismatch> {
    let Some(mapping) = value.filter(|value| value.is_mapping()) else { return json_string_map(value) };
    let entry = |pair: &Pair| Ok((loose_string(Some(&pair.key))?, loose_string(Some(&pair.value))?));
    mapping.pairs().iter().map(entry).collect()
}

/// What a value is once it is JSON.
pub(crate) fn json_kind(value: &Node) -> &'static str {
    if value.is_mapping() {
        return "object";
    }
    if value.is_sequence() {
        return "array";
    }
    match value.resolved() {
        Some(Resolved::Null) => "null",
        Some(Resolved::Bool(_)) => "bool",
        Some(Resolved::Int(_) | Resolved::Uint(_) | Resolved::Float(_)) => "number",
        _ => "string",
    }
}

/// What an orchestrator passes where no config is given.
pub(crate) fn is_placeholder(config: &Node) -> bool {
    let object = Object(config);
    config.is_empty()
        || (object.kind() == "ConfigMap"
            && object.name() == "function-input"
            && config.get("data").is_some_and(|data| data.is_mapping() && data.is_empty()))
}

/// The config of a function that the SDK configures by itself.
#[derive(Debug)]
pub(crate) enum RunnerConfig<'a> {
    /// None is given.
    Absent,
    /// The data of a `ConfigMap`.
    Data(BTreeMap<String, String>),
    /// An object of the function's own kind, still to be decoded.
    Own(&'a Node),
}

/// Reads the config of a function whose own kind is `kind`; the error is the SDK's message.
pub(crate) fn for_runner<'a>(config: Option<&'a Node>, kind: &str) -> Result<RunnerConfig<'a>, String> {
    let Some(config) = config.filter(|config| !is_placeholder(config)) else {
        return Ok(RunnerConfig::Absent);
    };
    let (group, _, own_kind) = Object(config).group_version_kind();
    match (group, own_kind) {
        ("", "ConfigMap") => data_of(config).map(RunnerConfig::Data),
        ("fn.kpt.dev", own) if own == kind => Ok(RunnerConfig::Own(config)),
        (group, own) => {
            let found = if group.is_empty() { own.to_owned() } else { format!("{own}.{group}") };
            Err(format!("unknown FunctionConfig `{found}`, expect `{kind}.fn.kpt.dev` or `ConfigMap.v1`"))
        }
    }
}

/// The data as go-yaml decodes it: any scalar as its text; what is not a scalar is left out silently.
fn data_of(config: &Node) -> Result<BTreeMap<String, String>, String> {
    let Some(data) = config.get("data") else { return Ok(BTreeMap::new()) };
    if !data.is_mapping() {
        let unmatched = Owner::of(config).unmatched_string(&["data"]);
        return Err(Unmatched { expected: "map[string]string", ..unmatched }.to_string());
    }
    Ok(scalar_texts(data))
}

/// The scalars of a mapping as texts, null as the empty one.
fn scalar_texts(mapping: &Node) -> BTreeMap<String, String> {
    let entry = |pair: &Pair| {
        let value = pair.value.scalar()?;
        let value = if pair.value.is_null() { "" } else { value };
        Some((pair.key.scalar()?.to_owned(), value.to_owned()))
    };
    mapping.pairs().iter().filter_map(entry).collect()
}
