//! kustomize's resource map: identities, and what it refuses.

use std::collections::HashSet;
use std::fmt;

use loggia_krm::{Resource, ResourceList, annotation};

use crate::kustomize::field_spec::split_api_version;
use crate::sdk::scope;

/// What kustomize tells resources apart by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Id {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
}

impl Id {
    pub(crate) fn of(resource: &Resource) -> Self {
        let (group, version) = split_api_version(resource.api_version());
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: resource.kind().to_owned(),
            name: resource.name().to_owned(),
            namespace: resource.namespace().to_owned(),
        }
    }

    /// Whether kustomize is certain that the resource has no namespace.
    pub(crate) fn is_cluster_scoped(&self) -> bool {
        let api_version = match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        };
        scope::is_known_cluster_scoped(&api_version, &self.kind)
    }

    /// `GROUP_VERSION_KIND|NAMESPACE|NAME`, as kustomize wrote it in 2021.
    fn to_early_string(&self) -> String {
        let or = |text: &str, nothing: &'static str| if text.is_empty() { nothing } else { text }.to_owned();
        let (group, version) = (or(&self.group, "~G"), or(&self.version, "~V"));
        let (namespace, name) = (or(&self.namespace, "~X"), or(&self.name, "~N"));
        format!("{group}_{version}_{}|{namespace}|{name}", or(&self.kind, "~K"))
    }

    /// The namespace that counts: none for what has none, `default` for what says none.
    pub(crate) fn effective_namespace(&self) -> &str {
        if self.is_cluster_scoped() {
            "_non_namespaceable_"
        } else if self.namespace.is_empty() {
            "default"
        } else {
            &self.namespace
        }
    }
}

/// `KIND.VERSION.GROUP/NAME.NAMESPACE`
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or =
            |text: &str, nothing: &str| if text.is_empty() { nothing.to_owned() } else { text.to_owned() };
        write!(
            f,
            "{}.{}.{}/{}.{}",
            or(&self.kind, "[noKind]"),
            or(&self.version, "[noVer]"),
            or(&self.group, "[noGrp]"),
            or(&self.name, "[noName]"),
            or(&self.namespace, "[noNs]"),
        )
    }
}

/// Checks the items as a resource map does when it is made; empty ones are dropped.
///
/// # Errors
/// With kustomize's text if a resource has no kind or no name, or is there twice.
pub(crate) fn check(list: &mut ResourceList) -> Result<(), String> {
    list.items.retain(|item| !item.node().is_empty());
    for (at, item) in list.items.iter().enumerate() {
        if item.kind().is_empty() {
            return Err(format!("missing kind in object {}", described(item, at)));
        }
        if item.name().is_empty() && !item.kind().ends_with("List") {
            return Err(format!("missing metadata.name in object {}", described(item, at)));
        }
    }
    check_unique(list, Id::to_string)
}

/// Checks the items as a resource map did in 2021: kinds and names may be missing. Empty items are dropped.
///
/// # Errors
/// With kustomize's text if a resource is there twice.
fn check_early(list: &mut ResourceList) -> Result<(), String> {
    list.items.retain(|item| !item.node().is_empty());
    check_unique(list, Id::to_early_string)
}

fn check_unique(list: &ResourceList, written: fn(&Id) -> String) -> Result<(), String> {
    let mut seen = HashSet::new();
    for item in &list.items {
        let id = Id::of(item);
        let namespace = id.effective_namespace().to_owned();
        if !seen.insert(Id { namespace, ..id.clone() }) {
            return Err(format!("may not add resource with an already registered id: {}", written(&id)));
        }
    }
    Ok(())
}

/// Runs a function of 2021 on checked items. What fails says at which step, and if that is not the reading of the
/// config, no items come back.
///
/// # Errors
/// With the original's text.
pub(crate) fn run_early<C>(
    list: &mut ResourceList,
    config: Result<C, String>,
    run: impl FnOnce(&mut [Resource], &C) -> Result<(), String>,
) -> Result<(), String> {
    let config = config.map_err(|cause| format!("failed to configure function: {cause}"))?;
    check_early(list).and_then(|()| run(&mut list.items, &config)).map_err(|cause| {
        list.items.clear();
        format!("failed to run function: {cause}")
    })
}

/// The metadata as Go prints it, with the number that kyaml's framework notes on every resource.
fn described(item: &Resource, at: usize) -> String {
    let number = at.to_string();
    let entries = |entries: &mut dyn Iterator<Item = (&str, &str)>| {
        let mut entries: Vec<(&str, &str)> = entries.collect();
        entries.sort_unstable();
        let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{key}:{value}")).collect();
        format!("map[{}]", entries.join(" "))
    };
    format!(
        "{{{{{} {}}} {{{{{} {}}} {} {}}}}}",
        item.api_version(),
        item.kind(),
        item.name(),
        item.namespace(),
        entries(&mut item.labels()),
        entries(&mut item.annotations().chain([(annotation::MIGRATION_ID, number.as_str())])),
    )
}
