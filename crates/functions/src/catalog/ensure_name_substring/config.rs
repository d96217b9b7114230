//! The config of `ensure-name-substring`.

use loggia_krm::Resource;
use loggia_yaml::Node;
use serde::Deserialize;

use crate::kustomize::field_spec::{FieldSpec, split_api_version};
use crate::kyaml::data;

/// On which side of a name the substring goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    #[default]
    Prepend,
    Append,
}

#[derive(Debug)]
pub(super) struct Config {
    pub substring: String,
    pub mode: Mode,
    /// Where names are besides `metadata.name`.
    pub fields: Vec<FieldSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Own {
    substring: String,
    edit_mode: String,
    field_specs: Option<Vec<FieldSpec>>,
    additional_name_fields: Option<Vec<FieldSpec>>,
}

impl Config {
    /// Reads the config; the error is the original's message.
    pub(super) fn read(config: Option<&Node>) -> Result<Self, String> {
        Self::decode(config).map_err(|cause| {
            let invalid = cause.starts_with("substring must") || cause.starts_with("`fieldSpecs`");
            let prefix = if invalid {
                "validation failure list:\n"
            } else {
                "error unmarshaling JSON: while decoding JSON: "
            };
            format!("{prefix}{cause}")
        })
    }

    fn decode(config: Option<&Node>) -> Result<Self, String> {
        let Some(config) = config else { return Err("substring must not be empty".to_owned()) };
        if config.is_empty() {
            return Err("missing Resource metadata".to_owned());
        }
        let resource = Resource::new(config.clone());
        let config = match (resource.api_version(), resource.kind()) {
            _ if resource.name().is_empty() => {
                let (version, kind) = (resource.api_version(), resource.kind());
                return Err(format!(
                    "missing metadata.name in object {{{{{version} {kind}}} {{{{ }} map[] map[]}}}}"
                ));
            }
            ("v1", "ConfigMap") => Self::from_data(config)?,
            ("fn.kpt.dev/v1alpha1", "EnsureNameSubstring") => Self::from_own(config)?,
            (api_version, kind) => {
                let (group, version) = split_api_version(api_version);
                return Err(format!(
                    "function config must be either /v1, Kind=ConfigMap or fn.kpt.dev/v1alpha1, \
                     Kind=EnsureNameSubstring, but we got: {group}/{version}, Kind={kind}"
                ));
            }
        };
        if config.substring.is_empty() {
            return Err("substring must not be empty".to_owned());
        }
        Ok(config)
    }

    fn from_data(config: &Node) -> Result<Self, String> {
        let data = data::map(Some(config));
        let mut entries = data.into_iter();
        match (entries.next(), entries.len()) {
            (Some((key, substring)), 0) => {
                let mode = mode(&key)?;
                Ok(Self { substring, mode, fields: Vec::new() })
            }
            (first, rest) => {
                let count = usize::from(first.is_some()) + rest;
                Err(format!("only 1 entry is allowed in the ConfigMap, but got: {count}"))
            }
        }
    }

    fn from_own(config: &Node) -> Result<Self, String> {
        let own: Own = loggia_yaml::from_node(config).map_err(|error| error.to_string())?;
        if own.additional_name_fields.is_some() && own.field_specs.is_some() {
            return Err(
                "`fieldSpecs` has been deprecated, please rename it to `additionalNameFields`".to_owned()
            );
        }
        let mode = if own.edit_mode.is_empty() { Mode::Prepend } else { mode(&own.edit_mode)? };
        let fields = own.additional_name_fields.or(own.field_specs).unwrap_or_default();
        Ok(Self { substring: own.substring, mode, fields })
    }
}

fn mode(word: &str) -> Result<Mode, String> {
    match word {
        "prepend" => Ok(Mode::Prepend),
        "append" => Ok(Mode::Append),
        _ => Err(format!("unknown editMode: {word}, only prepend and append are allowed")),
    }
}
