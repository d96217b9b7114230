//! `set-image`: another name, tag or digest for an image.

mod legacy;
mod reference;

use std::rc::Rc;
use std::sync::LazyLock;

use loggia_krm::{Resource, ResourceList, ResultItem, Results};
use loggia_yaml::Node;
use serde::Deserialize;

use self::reference::Reference;
use crate::failure::Failure;
use crate::kustomize::field_spec::{FieldSpec, Leaf};
use crate::limits::{self, OverLimit};
use crate::regexp::Expression;
use crate::sdk::config::{self, RunnerConfig};
use crate::sdk::report;
use crate::{Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "set-image",
    purpose: "Set name, tag or digest of a container image",
    role: Role::Mutator,
    manual: include_str!("set_image.md"),
    guarded: false,
    versions: &[
        Version { tags: &["latest"], framework: Framework::Sdk, run: Run::List(run) },
        // The tag of another registry, whose last build has the sources of 2025.
        Version { tags: &["unstable"], framework: Framework::Sdk, run: Run::List(legacy::run) },
    ],
};

/// Where images are unless the config says more.
static DEFAULTS: LazyLock<Vec<FieldSpec>> = LazyLock::new(|| {
    let mut specs = Vec::new();
    for list in ["containers", "initContainers"] {
        specs.push(FieldSpec::new(("", "v1", "Pod"), &format!("spec/{list}[]/image"), false));
        for kind in ["Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"] {
            let path = format!("spec/template/spec/{list}[]/image");
            specs.push(FieldSpec::new(("apps", "v1", kind), &path, false));
        }
    }
    specs
});

/// Which image, and what becomes of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Image {
    name: String,
    new_name: String,
    new_tag: String,
    digest: String,
    tag_suffix: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Config {
    image: Image,
    data: std::collections::BTreeMap<String, String>,
    additional_image_fields: Option<Vec<FieldSpec>>,
}

fn run(list: &mut ResourceList) -> Result<(), Failure> {
    let mut results = Vec::new();
    let mut config = Config::read(list, &mut results)?;
    if let Err(key) = config.take_data() {
        // The original formats a message without a place for its second argument.
        results.push(report::error(format!("ConfigMap has wrong field name {key}%!(EXTRA <nil>)")));
    }
    if let Err(message) = config.image.check() {
        results.push(report::error(format!("invalid FunctionConfig: {message}")));
    }
    let mut count = 0;
    set_all(&mut list.items, &config.image, &DEFAULTS, &mut count, &mut results);
    set_additional(list, &config, &mut count, &mut results);
    finish(list, count, results)
}

/// The image of the config's own kind in the fields that it adds.
fn set_additional(
    list: &mut ResourceList,
    config: &Config,
    count: &mut usize,
    results: &mut Vec<ResultItem>,
) {
    let Some(specs) = &config.additional_image_fields else { return };
    let given = list.function_config.as_ref().and_then(|config| config.get("image"));
    let image = given.and_then(|image| loggia_yaml::from_node(image).ok()).unwrap_or_default();
    set_all(&mut list.items, &image, specs, count, results);
}

fn finish(list: &mut ResourceList, count: usize, mut results: Vec<ResultItem>) -> Result<(), Failure> {
    results.push(report::info(format!("summary: updated a total of {count} image(s)")));
    let failed = Results(results.clone()).has_errors();
    report::append(list, results);
    if failed { Err(Failure::sdk_results()) } else { Ok(()) }
}

fn set_all(
    items: &mut [Resource],
    image: &Image,
    specs: &[FieldSpec],
    count: &mut usize,
    results: &mut Vec<ResultItem>,
) {
    let pattern = image.pattern();
    for item in items.iter_mut().filter(|item| item.kind() != "CustomResourceDefinition") {
        if limits::work(specs.len()).is_err() {
            break;
        }
        let outcome = specs.iter().try_for_each(|spec| {
            spec.apply(item, Leaf::Never, &mut |node, _| {
                let Some(text) = node.scalar().map(str::to_owned) else { return Err(no_scalar(node)?) };
                let matches = pattern.as_ref().map(|pattern| pattern.is_match(&text)).transpose()?;
                if matches == Some(true) {
                    let new = image.applied_to(&text);
                    limits::produce_instead(new.len(), text.len())?;
                    node.set_scalar(new);
                    *count += 1;
                }
                Ok(())
            })
        });
        if limits::blame(item) {
            break;
        }
        if let Err(message) = outcome {
            // What is too much ends the call.
            let _ = limits::push(results, report::error(message));
        }
    }
}

fn no_scalar(node: &Node) -> Result<String, OverLimit> {
    let kind = if node.is_sequence() { "SequenceNode" } else { "MappingNode" };
    let contents = limits::written(node)?;
    Ok(format!("wrong node kind: expected ScalarNode but got {kind}: node contents:\n{contents}"))
}

// === impl Config ===

impl Config {
    /// Reads the config. What cannot be read is a failure, and the list's result.
    fn read(list: &mut ResourceList, results: &mut Vec<ResultItem>) -> Result<Self, Failure> {
        Self::decode(list.function_config.as_ref(), results).map_err(|message| {
            report::append(list, [report::error(message)]);
            Failure::sdk_results()
        })
    }

    fn decode(config: Option<&Node>, results: &mut Vec<ResultItem>) -> Result<Self, String> {
        Ok(match config::for_runner(config, "SetImage")? {
            RunnerConfig::Absent => {
                results.push(report::info("`FunctionConfig` is not given"));
                Self::default()
            }
            RunnerConfig::Data(data) => Self { data, ..Self::default() },
            RunnerConfig::Own(config) => loggia_yaml::from_node(config).map_err(|error| {
                format!("unable to convert object to *transformer.SetImage with error: {error}")
            })?,
        })
    }

    /// Takes the image from the data of a `ConfigMap`, up to a key that means nothing.
    fn take_data(&mut self) -> Result<(), String> {
        for (key, value) in &self.data {
            let slot = match key.as_str() {
                "name" => &mut self.image.name,
                "newName" => &mut self.image.new_name,
                "newTag" => &mut self.image.new_tag,
                "digest" => &mut self.image.digest,
                _ => return Err(key.clone()),
            };
            slot.clone_from(value);
        }
        Ok(())
    }
}

// === impl Image ===

impl Image {
    /// Whether it says which image and what becomes of it.
    fn check(&self) -> Result<(), &'static str> {
        if self.name.is_empty() {
            Err("must specify `name`")
        } else if self.new_name.is_empty() && self.new_tag.is_empty() && self.digest.is_empty() {
            Err("must specify one of `newName`, `newTag`, or `digest`")
        } else {
            Ok(())
        }
    }

    /// What the texts of matching images look like; nothing if the name is not a regular expression.
    fn pattern(&self) -> Option<Rc<Expression>> {
        let pattern = format!("^{}(:[a-zA-Z0-9_.{{}}-]*)?(@sha256:[a-zA-Z0-9_.{{}}-]*)?$", self.name);
        Expression::shared(&pattern).ok()
    }

    fn applied_to(&self, text: &str) -> String {
        let Reference { name, mut tag, mut digest } = Reference::split(text);
        let name = if self.new_name.is_empty() { name } else { &self.new_name };
        let suffixed;
        match (self.new_tag.as_str(), self.digest.as_str()) {
            ("", "") if !self.tag_suffix.is_empty() => {
                suffixed = format!("{tag}{}", self.tag_suffix);
                (tag, digest) = (&suffixed, "");
            }
            ("", "") => {}
            (new_tag, new_digest) => (tag, digest) = (new_tag, new_digest),
        }
        let mut image = name.to_owned();
        for (mark, part) in [(':', tag), ('@', digest)] {
            if !part.is_empty() {
                image.push(mark);
                image.push_str(part);
            }
        }
        image
    }
}
