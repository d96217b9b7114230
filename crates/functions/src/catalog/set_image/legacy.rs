//! `set-image` as the sources of June 2025 have it: it looks at containers only, and ends at a bad config.

use loggia_krm::{Resource, ResourceList, ResultItem};
use loggia_yaml::Node;

use super::{Config, Image, Reference, finish, set_additional};
use crate::failure::Failure;
use crate::limits;
use crate::sdk::{object, report};

pub(super) fn run(list: &mut ResourceList) -> Result<(), Failure> {
    let mut results = Vec::new();
    let mut config = Config::read(list, &mut results)?;
    let taken = config.take_data().map_err(|key| format!("ConfigMap has wrong field name {key}"));
    if let Err(message) = taken.and_then(|()| config.image.check().map_err(str::to_owned)) {
        return terminate(list, results, message);
    }
    let mut count = 0;
    let pattern = config.image.pattern();
    for container in list.items.iter_mut().flat_map(containers) {
        let Some(old) = object::get(container, "image").and_then(object::as_string) else { continue };
        let matches = pattern.as_ref().map(|pattern| pattern.is_match(old)).transpose();
        let Ok(matches) = matches else { break };
        if matches != Some(true) {
            continue;
        }
        let new = config.image.instead_of(old);
        if limits::produce_instead(new.len(), old.len()).is_err() {
            break;
        }
        if new != old && object::set_string(container, &["image"], &new).is_ok() {
            count += 1;
        }
    }
    set_additional(list, &config, &mut count, &mut results);
    finish(list, count, results)
}

/// Says what is wrong, and says it once more as the reason of the end.
fn terminate(list: &mut ResourceList, mut results: Vec<ResultItem>, message: String) -> Result<(), Failure> {
    let ended = format!("function is terminated: {message}");
    results.extend([report::error(message), report::error(ended.clone())]);
    report::append(list, results);
    Err(Failure::sdk(ended))
}

/// The containers of a kind that has some, whatever its version.
fn containers(item: &mut Resource) -> impl Iterator<Item = &mut Node> {
    let path: Option<&[&str]> = match item.kind() {
        "Pod" => Some(&["spec", "containers"]),
        "Deployment" | "StatefulSet" | "ReplicaSet" | "DaemonSet" | "PodTemplate" => {
            Some(&["spec", "template", "spec", "containers"])
        }
        _ => None,
    };
    let containers = path.and_then(|path| item.node_mut().at_mut(path)).and_then(Node::items_mut);
    containers.into_iter().flatten()
}

impl Image {
    /// The new text. A tag or digest that stays loses the mark in front of it.
    fn instead_of(&self, old: &str) -> String {
        let Reference { name, tag, digest } = Reference::split(old);
        let name = if self.new_name.is_empty() { name } else { &self.new_name };
        if !self.digest.is_empty() {
            format!("{name}@{}", self.digest)
        } else if !self.new_tag.is_empty() {
            format!("{name}:{}", self.new_tag)
        } else if tag.is_empty() {
            format!("{name}{digest}")
        } else {
            format!("{name}{tag}")
        }
    }
}
