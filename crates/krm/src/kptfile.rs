//! The Kptfile: what makes a folder a package, and the pipeline it is rendered with.
//!
//! [`Kptfile`] has every field of the schema. [`Kptfile::parse`] reads strictly and fails in kpt's words;
//! `kptfile/validate.rs` checks what the schema cannot say. [`KptfileDocument`] keeps the text beside the
//! types, so that a change of one condition is a change of a few lines.

mod edit;
mod image;
mod schema;
#[cfg(test)]
mod tests;
mod validate;

use std::collections::BTreeMap;

use loggia_go::quote;
use loggia_yaml::{EmitOptions, Fidelity, SequenceStyle, node_to_string_with, parse_first, to_node};
use serde::{Deserialize, Serialize};

pub use self::edit::KptfileDocument;
pub use self::image::is_tag;
pub use self::validate::{InvalidImage, ValidateError, check_image};
use crate::resource::Resource;
use crate::results::ResultItem;

/// The only apiVersion there is.
pub const API_VERSION: &str = "kpt.dev/v1";
/// The only kind there is.
pub const KIND: &str = "Kptfile";

/// Empty means not given, here as in the original: it is not written.
macro_rules! record {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $([$($attribute:tt)*])? $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            $($(#[$field_doc])* #[serde(skip_serializing_if = "is_empty", $($($attribute)*)?)] pub $field: $type,)*
        }
    };
}

record! {
    /// Everything a Kptfile says.
    Kptfile {
        /// `kpt.dev/v1`.
        api_version: String,
        /// `Kptfile`.
        kind: String,
        /// The package's name and what is pinned to it.
        metadata: Metadata,
        /// Where the package was taken from.
        upstream: Option<Upstream>,
        /// What exactly was taken.
        upstream_lock: Option<UpstreamLock>,
        /// About the package, for people.
        info: Option<Info>,
        /// The functions that render it.
        pipeline: Option<Pipeline>,
        /// What it is called in a cluster.
        inventory: Option<Inventory>,
        /// How it fares.
        status: Option<Status>,
    }
}

record! {
    /// Name, namespace, labels, annotations and nothing else.
    Metadata {
        /// The package's name.
        name: String,
        /// Its namespace.
        namespace: String,
        /// Its labels.
        labels: BTreeMap<String, String>,
        /// Its annotations.
        annotations: BTreeMap<String, String>,
    }
}

record! {
    /// Where a package was taken from.
    Upstream {
        /// `git`.
        [rename = "type"] origin: String,
        /// The place in a git repository.
        git: Option<Git>,
        /// How to take over newer versions.
        update_strategy: String,
    }
}

record! {
    /// A place in a git repository.
    Git {
        /// The repository.
        repo: String,
        /// The folder in it.
        directory: String,
        /// A branch, tag or commit.
        [rename = "ref"] reference: String,
    }
}

record! {
    /// What exactly was taken from upstream.
    UpstreamLock {
        /// `git` or `generic`.
        [rename = "type"] origin: String,
        /// The commit in a git repository.
        git: Option<GitLock>,
        /// The version in another store.
        generic: Option<GenericLock>,
    }
}

record! {
    /// A commit in a git repository.
    GitLock {
        /// The repository.
        repo: String,
        /// The folder in it.
        directory: String,
        /// The branch, tag or commit that was asked for.
        [rename = "ref"] reference: String,
        /// The commit that was found.
        commit: String,
    }
}

record! {
    /// A version in a store that is not git.
    GenericLock {
        /// The store.
        [rename = "storeID"] store_id: String,
        /// The package in it.
        [rename = "resourceID"] resource_id: String,
        /// Its version.
        resource_version: String,
    }
}

record! {
    /// About a package, for people.
    Info {
        /// A web page.
        site: String,
        /// Whom to write to.
        emails: Vec<String>,
        /// The licence by its SPDX name.
        license: String,
        /// The file with the licence.
        license_file: String,
        /// One or two sentences.
        description: String,
        /// Words to find it by.
        keywords: Vec<String>,
        /// The file with the manual.
        man: String,
        /// The conditions that must hold before it is ready.
        readiness_gates: Vec<ReadinessGate>,
    }
}

/// A condition that must hold before a package is ready.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReadinessGate {
    /// The condition's type.
    pub condition_type: String,
}

record! {
    /// The functions that render a package.
    Pipeline {
        /// Those that change resources, in order.
        mutators: Vec<Function>,
        /// Those that only look at them, in order.
        validators: Vec<Function>,
    }
}

record! {
    /// One step of a pipeline.
    Function {
        /// The image to run.
        image: String,
        /// Or the command to run.
        exec: String,
        /// The file with its function config.
        config_path: String,
        /// Or the function config's data.
        config_map: BTreeMap<String, String>,
        /// What to call the step.
        name: String,
        /// Overrides the image's tag; may be a range of versions.
        tag: String,
        /// The resources to run on; all if there are none.
        selectors: Vec<Selector>,
        /// The resources not to run on.
        [rename = "exclude"] exclusions: Vec<Selector>,
    }
}

record! {
    /// What a resource must have, all of it.
    Selector {
        /// Its apiVersion.
        api_version: String,
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
        /// Some of its labels.
        labels: BTreeMap<String, String>,
        /// Some of its annotations.
        annotations: BTreeMap<String, String>,
    }
}

record! {
    /// What a package is called in a cluster.
    Inventory {
        /// The inventory's namespace.
        namespace: String,
        /// The inventory's name.
        name: String,
        /// What tells it from all others.
        [rename = "inventoryID"] inventory_id: String,
        /// Its labels.
        labels: BTreeMap<String, String>,
        /// Its annotations.
        annotations: BTreeMap<String, String>,
    }
}

record! {
    /// How a package fares.
    Status {
        /// What holds and what does not.
        conditions: Vec<Condition>,
        /// What the last render did.
        render_status: Option<RenderStatus>,
    }
}

/// Something that holds or does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What.
    #[serde(rename = "type")]
    pub condition_type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, in sentences.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

record! {
    /// What a render did.
    RenderStatus {
        /// The mutators that ran, in order.
        mutation_steps: Vec<StepResult>,
        /// The validators that ran, in order.
        validation_steps: Vec<StepResult>,
        /// What went wrong, a line for each step.
        error_summary: String,
    }
}

/// What one function of a render did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StepResult {
    /// The step's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The image that ran.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// The command that ran.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub exec: String,
    /// Why it did not run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub execution_error: String,
    /// What it wrote to standard error.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// How it ended.
    pub exit_code: i32,
    /// What it had to say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ResultItem>,
    /// What of it is an error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub error_results: Vec<ResultItem>,
}

/// Why a Kptfile cannot be used. The texts are kpt's; the folder is that of the package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KptfileError {
    /// The folder has no Kptfile.
    #[error("No Kptfile found at {}.", quote(.folder))]
    Missing {
        /// The package.
        folder: String,
    },
    /// It has an older version of the schema.
    #[error(
        "Kptfile at {} has an old version ({}) of the Kptfile schema.\n{}",
        quote(.folder),
        quote(.version),
        upgrade_hint(version)
    )]
    Deprecated {
        /// The package.
        folder: String,
        /// `v1alpha1` or `v1alpha2`.
        version: String,
    },
    /// Its apiVersion and kind are not those of a Kptfile.
    #[error("Kptfile at {} has an unknown resource type ({}).", quote(.folder), quote(&format!("{group_version}, Kind={kind}")))]
    UnknownType {
        /// The package.
        folder: String,
        /// Group and version, with a slash even if there is no group.
        group_version: String,
        /// The kind.
        kind: String,
    },
    /// It cannot be read.
    #[error("Kptfile at {} can't be read.\n\nDetails:\n{cause}", quote(.folder))]
    Unreadable {
        /// The package.
        folder: String,
        /// Why not.
        cause: String,
    },
}

fn upgrade_hint(version: &str) -> &'static str {
    if version == "v1alpha1" {
        "Please update the package to the latest format by following https://kpt.dev/installation/migration."
    } else {
        "Please run \"kpt fn eval <PKG_PATH> -i ghcr.io/kptdev/krm-functions-catalog/fix:latest --include-meta-resources\" to upgrade the package and retry."
    }
}

// === emptiness ===

trait Emptiness {
    fn is_empty(&self) -> bool;
}

impl Emptiness for String {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl<T> Emptiness for Vec<T> {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl<K, V> Emptiness for BTreeMap<K, V> {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl<T> Emptiness for Option<T> {
    fn is_empty(&self) -> bool {
        self.is_none()
    }
}

impl Emptiness for Metadata {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn is_empty(value: &impl Emptiness) -> bool {
    value.is_empty()
}

// === impl Kptfile ===

impl Kptfile {
    /// A Kptfile that says nothing but its name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            metadata: Metadata { name: name.into(), ..Metadata::default() },
            ..Self::default()
        }
    }

    /// Reads the first document of a text strictly: fields that the schema does not have are errors.
    /// `folder` is what errors call the package.
    ///
    /// # Errors
    /// If it is of another type, does not fit the schema or is not YAML.
    pub fn parse(source: &str, folder: &str) -> Result<Self, KptfileError> {
        Self::from_resource(&Self::parse_resource(source, folder)?, folder)
    }

    fn parse_resource(source: &str, folder: &str) -> Result<Resource, KptfileError> {
        let cause = match parse_first(source) {
            Ok(Some(document)) => return Ok(Resource::from(document)),
            Ok(None) => "EOF".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(KptfileError::Unreadable { folder: folder.to_owned(), cause })
    }

    /// Reads a resource strictly; see [`Kptfile::parse`].
    ///
    /// # Errors
    /// If it is of another type or does not fit the schema.
    pub fn from_resource(resource: &Resource, folder: &str) -> Result<Self, KptfileError> {
        check_type(resource, folder)?;
        let unreadable = |cause: String| KptfileError::Unreadable { folder: folder.to_owned(), cause };
        schema::check(resource.node()).map_err(unreadable)?;
        loggia_yaml::from_node(resource.node()).map_err(|error| unreadable(error.to_string()))
    }

    /// The text as kpt writes it anew: schema order, wide sequences, quotes where needed, no comments.
    #[must_use]
    pub fn to_canonical_yaml(&self) -> String {
        let node = to_node(self).expect("strings, numbers and maps of strings always fit");
        node_to_string_with(
            &node,
            EmitOptions { sequences: SequenceStyle::Wide, fidelity: Fidelity::Faithful },
        )
    }

    /// An annotation of the package.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.get(key).map(String::as_str)
    }

    /// Whether there is no function to run.
    #[must_use]
    pub fn has_empty_pipeline(&self) -> bool {
        self.pipeline
            .as_ref()
            .is_none_or(|pipeline| pipeline.mutators.is_empty() && pipeline.validators.is_empty())
    }
}

/// The type comes first: the schema of another one would only be confusing.
fn check_type(resource: &Resource, folder: &str) -> Result<(), KptfileError> {
    let folder = || folder.to_owned();
    let unreadable = |cause: String| KptfileError::Unreadable { folder: folder(), cause };
    if resource.lacks_metadata() && resource.document().is_empty() {
        return Err(KptfileError::UnknownType {
            folder: folder(),
            group_version: "/".into(),
            kind: String::new(),
        });
    }
    if resource.lacks_metadata() {
        return Err(unreadable("missing Resource metadata".to_owned()));
    }
    let api_version = resource.api_version();
    let (group, version) = match api_version.split('/').collect::<Vec<_>>()[..] {
        [version] => ("", version),
        [group, version] => (group, version),
        _ => return Err(unreadable(format!("unexpected GroupVersion string: {api_version}"))),
    };
    match (group, version, resource.kind()) {
        ("kpt.dev", "v1", KIND) => Ok(()),
        ("kpt.dev", "v1alpha1" | "v1alpha2", KIND) => {
            Err(KptfileError::Deprecated { folder: folder(), version: version.to_owned() })
        }
        (group, version, kind) => Err(KptfileError::UnknownType {
            folder: folder(),
            group_version: format!("{group}/{version}"),
            kind: kind.to_owned(),
        }),
    }
}

// === impl Selector ===

impl Selector {
    /// Whether it asks for nothing. As an exclusion it then matches nothing, as a selector everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a resource has all that is asked for.
    #[must_use]
    pub fn matches(&self, resource: &Resource) -> bool {
        let Self { api_version, kind, name, namespace, labels, annotations } = self;
        let equal = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        equal(api_version, resource.api_version())
            && equal(kind, resource.kind())
            && equal(name, resource.name())
            && equal(namespace, resource.namespace())
            && labels.iter().all(|(key, value)| resource.label(key) == Some(value))
            && annotations.iter().all(|(key, value)| resource.annotation(key) == Some(value))
    }
}

// === impl Function ===

impl Function {
    /// What to call it: its name, or the last part of its image without tag and digest, or its command.
    #[must_use]
    pub fn display_name(&self) -> &str {
        match (self.name.as_str(), self.image.as_str()) {
            ("", "") => &self.exec,
            ("", image) => {
                let base = crate::path::base_name(image);
                base.split(['@', ':']).next().unwrap_or(base)
            }
            (name, _) => name,
        }
    }
}
