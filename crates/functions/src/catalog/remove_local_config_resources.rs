//! `remove-local-config-resources`: drops the resources that are for tools only.

use loggia_krm::{FileRef, ResourceList, ResultItem, Severity, annotation};

use crate::kyaml::outcome::{Shape, conclude};
use crate::{Failure, Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "remove-local-config-resources",
    purpose: "Remove the resources that are not meant for a cluster",
    role: Role::Mutator,
    manual: include_str!("remove_local_config_resources.md"),
    guarded: false,
    versions: &[Version {
        tags: &["latest", "unstable", "v0.1", "v0.1.0"],
        framework: Framework::OldKyamlTwice,
        run: Run::List(run),
    }],
};

fn run(list: &mut ResourceList) -> Result<(), Failure> {
    let mut pruned = Vec::new();
    list.items.retain(|item| {
        let local = item.annotation(annotation::LOCAL_CONFIG).unwrap_or_default();
        if local.to_lowercase() != "true" {
            return !item.node().is_empty();
        }
        let path = item.path().to_owned();
        pruned.push(ResultItem {
            file: (!path.is_empty()).then_some(FileRef { path, index: 0 }),
            ..ResultItem::new(Severity::Info, format!("Resource name: [{}]", item.name()))
        });
        false
    });
    let summary = match pruned.len() {
        0 => {
            let message = "Found no resources to prune with the local config annotation";
            ResultItem::new(Severity::Warning, message)
        }
        count => ResultItem::new(Severity::Info, format!("Number of resources pruned: {count}")),
    };
    pruned.insert(0, summary);
    conclude(list, Shape::Named(FUNCTION.name), Ok(pruned), str::to_owned)
}
