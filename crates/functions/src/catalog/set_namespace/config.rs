//! The config of `set-namespace`.

use loggia_yaml::Node;

use crate::sdk::config::ConfigMap;
use crate::sdk::object::Object;

const KIND: &str = "SetNamespace";
const VERSION: &str = "v1alpha1";
const GROUP: &str = "fn.kpt.dev";

/// The name of the config that a package's context brings along.
pub(super) const PACKAGE_CONTEXT: &str = "kptfile.kpt.dev";

/// What to do.
#[derive(Debug)]
pub(super) struct Config {
    pub namespace: String,
    /// Change only what has this namespace, or came with it.
    pub matcher: Option<String>,
}

impl Config {
    /// Reads the config; the error is the original's message.
    pub(super) fn read(config: Option<&Node>) -> Result<Self, String> {
        let Some(config) = config.filter(|config| !config.is_empty()) else {
            return Err(format!(
                "FunctionConfig is missing. Expect `ConfigMap.v1` or `{KIND}.{VERSION}.{GROUP}`"
            ));
        };
        let object = Object(config);
        if object.is_gvk("", "v1", "ConfigMap") {
            Self::from_config_map(config)
        } else if object.is_gvk(GROUP, VERSION, KIND) {
            Self::from_set_namespace(config)
        } else {
            Err(format!(
                "unknown functionConfig Kind={} ApiVersion={}, expect `ConfigMap.v1` or `{KIND}.{VERSION}.{GROUP}`",
                object.kind(),
                object.api_version(),
            ))
        }
    }

    fn from_config_map(config: &Node) -> Result<Self, String> {
        let config = ConfigMap::decode(config).map_err(|_| "failed to parse FunctionConfig as ConfigMap")?;
        let value = |key: &str| config.data.get(key).filter(|value| !value.is_empty()).cloned();
        let context = || value("name").filter(|_| config.name == PACKAGE_CONTEXT);
        match value("namespace").or_else(context) {
            Some(namespace) => Ok(Self { namespace, matcher: value("namespaceMatcher") }),
            None => Err("`data.namespace` should not be empty".to_owned()),
        }
    }

    fn from_set_namespace(config: &Node) -> Result<Self, String> {
        let undecodable = || format!("failed to parse FunctionConfig as {GROUP}.{VERSION}.{KIND}");
        let meta = ConfigMap::decode_meta(config).is_ok();
        let text = |key: &str| match crate::sdk::config::json_string(config.get(key)) {
            Ok(text) if meta => Ok(text),
            _ => Err(undecodable()),
        };
        let (namespace, matcher) = (text("namespace")?, text("namespaceMatcher")?);
        if namespace.is_empty() {
            return Err("`namespace` should not be empty".to_owned());
        }
        Ok(Self { namespace, matcher: Some(matcher).filter(|matcher| !matcher.is_empty()) })
    }
}
