//! The package context: a ConfigMap in `package-context.yaml` that tells functions which package they are in.
//!
//! kpt's generator knows the package's name and path. A package server knows more, and says it. The context of a
//! package inside this one stays as it is; kpt drops it without making a new one (kptdev/kpt#4333).

use std::collections::{BTreeMap, BTreeSet};

use loggia_krm::package::{KPTFILE, Package, ReadOptions, WriteOptions};
use loggia_krm::{Files, Kptfile, Resource, mend, path};
use loggia_yaml::{Node, Pair};

use super::mutation::{package_folders, parents, top_package};

const FILE: &str = "package-context.yaml";
const NAME: &str = "kptfile.kpt.dev";

/// What a package server knows of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageConfig {
    /// The package's path: that of its parent and its own name.
    pub package_path: String,
    /// The repository it is in.
    pub repository: String,
    /// The namespace of its package revision.
    pub namespace: String,
    /// It is in a deployment repository, so it is an instance of its own.
    pub deployment: bool,
}

/// Makes the context of the package anew. Doing it twice is doing it once.
pub(super) fn generate(files: &mut Files, config: &PackageConfig) -> Result<(), String> {
    let Some(root) = top_package(files)? else { return Ok(()) };
    let options = ReadOptions { subpackages: true, json: false, ..ReadOptions::default() };
    let mut package = Package::from_files(files, &options).map_err(|error| error.to_string())?;
    let name = package_name(files, &root)?;
    let file = path::inside(&root, FILE);
    let mut subpackages = package_folders(files);
    subpackages.remove(root.as_str());

    let mut touched = BTreeSet::from([file.clone()]);
    let mut former = None;
    package.resources.retain(|resource| {
        let of_this = !parents(resource.path()).any(|folder| subpackages.contains(folder));
        let stays = !(of_this && is_context(resource));
        if !stays {
            touched.insert(resource.path().to_owned());
            if resource.path() == file {
                former = Some(resource.clone());
            }
        }
        stays
    });
    let mut context = context(&name, config);
    if let Some(former) = former {
        mend::restore(&former, &mut context);
    }
    context.set_path(file.as_str()).map_err(|error| error.to_string())?;
    let index = package.resources.iter().filter(|resource| resource.path() == file).count();
    context.set_index(index).map_err(|error| error.to_string())?;
    package.resources.push(context);

    let mut changes = package.changes(&WriteOptions::default()).map_err(|error| error.to_string())?;
    // Nothing else is this function's business, not even how it is indented.
    changes.writes.retain(|path, _| touched.contains(path));
    changes.removals.retain(|path| touched.contains(path));
    changes.apply_to_files(files).map_err(|error| error.to_string())
}

fn is_context(resource: &Resource) -> bool {
    (resource.api_version(), resource.kind(), resource.name()) == ("v1", "ConfigMap", NAME)
}

fn package_name(files: &Files, root: &str) -> Result<String, String> {
    let content = files.get(&path::inside(root, KPTFILE)).map(Vec::as_slice).unwrap_or_default();
    let folder = path::join(&["/", root]);
    let kptfile =
        Kptfile::parse(&String::from_utf8_lossy(content), &folder).map_err(|error| error.to_string())?;
    match kptfile.metadata.name {
        name if name.is_empty() => Err(format!("Kptfile at {folder:?} has no metadata.name")),
        name => Ok(name),
    }
}

fn context(name: &str, config: &PackageConfig) -> Resource {
    let pair = |key: &str, value: Node| Pair { key: Node::verbatim(key), value };
    let text = |value: &str| Node::string_for_field(value);
    let PackageConfig { package_path, repository, namespace, deployment } = config;
    let mut data = BTreeMap::from([("name", name)]);
    let known = [("package-path", package_path), ("repository", repository), ("namespace", namespace)];
    data.extend(
        known.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key, value.as_str())),
    );
    if *deployment {
        data.insert("deployment", "true");
    }
    let local = Node::from_pairs(vec![pair(loggia_krm::annotation::LOCAL_CONFIG, text("true"))]);
    Resource::new(Node::from_pairs(vec![
        pair("apiVersion", Node::verbatim("v1")),
        pair("kind", Node::verbatim("ConfigMap")),
        pair("metadata", Node::from_pairs(vec![pair("name", text(NAME)), pair("annotations", local)])),
        pair("data", data.into_iter().map(|(key, value)| pair(key, text(value))).collect()),
    ]))
}
