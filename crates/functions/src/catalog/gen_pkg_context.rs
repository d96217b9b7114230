//! `builtins/gen-pkg-context`: records what a package is called in a ConfigMap of its own.
//!
//! Every context there is goes, wherever it is; the root package gets a new one. What is known beyond the name
//! comes by the function config.

use loggia_krm::annotation::LOCAL_CONFIG;
use loggia_krm::kptfile::{API_VERSION, KIND};
use loggia_krm::{FileRef, Resource, ResourceList, ResultItem, Results, Severity};
use loggia_yaml::{Node, Pair};

use crate::limits;
use crate::{Failure, Framework, Function, Role, Run, Version};

const FILE: &str = "package-context.yaml";
const NAME: &str = "kptfile.kpt.dev";
/// What may be known of a package beside its name, in the order it is written.
const KNOWN: [&str; 4] = ["deployment", "namespace", "package-path", "repository"];

pub(crate) static FUNCTION: Function = Function {
    name: "gen-pkg-context",
    purpose: "Record the name of a package in package-context.yaml",
    role: Role::Generator,
    manual: include_str!("gen_pkg_context.md"),
    guarded: false,
    versions: &[Version { tags: &["latest"], framework: Framework::Kyaml, run: Run::List(run) }],
};

fn run(list: &mut ResourceList) -> Result<(), Failure> {
    list.items.retain(|item| !is_context(item));
    let mut results = Vec::new();
    let mut contexts = Vec::new();
    let config = list.function_config.as_ref();
    let given =
        |key: &&str| config.and_then(|config| config.at(&["data", key])?.scalar()).map_or(0, str::len);
    let size: usize = KNOWN.iter().map(given).sum();
    for kptfile in list.items.iter().filter(|item| is_root_kptfile(item)) {
        if limits::produce(size + kptfile.name().len()).is_err() {
            break;
        }
        match context(kptfile, config) {
            Ok(context) => {
                contexts.push(context);
                results.push(ResultItem {
                    file: Some(FileRef { path: FILE.to_owned(), index: 0 }),
                    ..ResultItem::new(Severity::Info, "generated package context")
                });
            }
            Err(cause) => {
                list.set_results(&Results(vec![ResultItem::new(Severity::Error, cause.clone())]));
                return Err(Failure::kyaml(cause));
            }
        }
    }
    list.items.extend(contexts);
    list.set_results(&Results(results));
    Ok(())
}

fn is_context(item: &Resource) -> bool {
    item.api_version() == "v1" && item.kind() == "ConfigMap" && item.name() == NAME
}

fn is_root_kptfile(item: &Resource) -> bool {
    item.api_version() == API_VERSION && item.kind() == KIND && item.path() == "Kptfile"
}

fn context(kptfile: &Resource, config: Option<&Node>) -> Result<Resource, String> {
    let name = kptfile.name();
    if name.is_empty() {
        return Err("the Kptfile has no name, so there is none to record".to_owned());
    }
    let pair = |key: &str, value: Node| Pair { key: Node::verbatim(key), value };
    let given = |key: &'static str| {
        let value = config?.at(&["data", key])?.scalar().filter(|value| !value.is_empty())?;
        Some((key, value))
    };
    let mut data: Vec<(&str, &str)> = KNOWN.into_iter().filter_map(given).collect();
    data.push(("name", name));
    data.sort_unstable();
    let data = data.into_iter().map(|(key, value)| pair(key, Node::string(value))).collect();
    let metadata = vec![
        pair("name", Node::verbatim(NAME)),
        pair("annotations", Node::from_pairs(vec![pair(LOCAL_CONFIG, Node::string("true"))])),
    ];
    let mut resource = Resource::new(Node::from_pairs(vec![
        pair("apiVersion", Node::verbatim("v1")),
        pair("kind", Node::verbatim("ConfigMap")),
        pair("metadata", Node::from_pairs(metadata)),
        pair("data", Node::from_pairs(data)),
    ]));
    resource.set_path(FILE).map_err(|error| error.to_string())?;
    Ok(resource)
}

#[cfg(test)]
mod tests {
    use loggia_krm::StreamOptions;

    use super::*;

    fn list(text: &str) -> ResourceList {
        ResourceList::parse(text.as_bytes(), StreamOptions::default()).expect("is a list")
    }

    const PACKAGE: &str = "kind: ResourceList
items:
- apiVersion: v1
  kind: ConfigMap
  metadata:
    name: kptfile.kpt.dev
    annotations:
      internal.config.kubernetes.io/path: package-context.yaml
  data:
    name: example
- apiVersion: kpt.dev/v1
  kind: Kptfile
  metadata:
    name: app
    annotations:
      internal.config.kubernetes.io/path: Kptfile
- apiVersion: kpt.dev/v1
  kind: Kptfile
  metadata:
    name: db
    annotations:
      internal.config.kubernetes.io/path: db/Kptfile
functionConfig:
  data:
    package-path: team/app
    repository: blueprints
    other: ignored
";

    #[test]
    fn the_root_package_alone_gets_a_context_and_an_old_one_goes() {
        let mut list = list(PACKAGE);
        run(&mut list).expect("has a name");
        assert_eq!(list.items.len(), 3);
        let mut context = list.items.pop().expect("comes last");
        context.retain_annotations(|key| key == LOCAL_CONFIG);
        assert_eq!(
            loggia_yaml::node_to_string(context.node()),
            "apiVersion: v1
kind: ConfigMap
metadata:
  name: kptfile.kpt.dev
  annotations:
    config.kubernetes.io/local-config: \"true\"
data:
  name: app
  package-path: team/app
  repository: blueprints
"
        );
        assert_eq!(list.results().expect("a list").to_string(), "[info]: generated package context");
    }

    #[test]
    fn running_it_again_changes_nothing() {
        let mut once = list(PACKAGE);
        run(&mut once).expect("has a name");
        let mut twice = once.clone();
        run(&mut twice).expect("has a name");
        assert_eq!(once.emit(), twice.emit());
    }

    #[test]
    fn it_is_found_by_the_name_that_kpt_has_for_it() {
        for image in ["builtins/gen-pkg-context", "builtins/gen-pkg-context:latest", "gen-pkg-context"] {
            assert!(crate::find(image).is_some(), "{image}");
        }
        assert!(crate::find("builtins/no-op").is_none());
    }
}
