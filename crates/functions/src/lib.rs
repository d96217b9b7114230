//! The built-in catalog: KRM functions that need no container.
//!
//! One module a function. Each declares a [`Function`]: its name, what it is for, and what runs for which
//! version. [`find`] takes an image as people write it in a Kptfile. Nothing here reads a file, a clock or
//! the network, and nothing here knows who calls it. What a function wants of the world outside of its list is
//! handed in as [`SchemaFiles`].

mod apply_replacements;
mod apply_setters;
mod config;
mod create_setters;
mod data;
mod depends_on;
mod drop_comments;
mod enable_gcp_services;
mod ensure_name_substring;
mod entries;
mod failure;
mod field_spec;
mod fields;
#[cfg(feature = "schemas")]
mod fix;
#[cfg(feature = "schemas")]
mod format;
mod framework;
#[cfg(feature = "gatekeeper")]
mod gatekeeper;
mod gen_pkg_context;
mod glob;
#[cfg(feature = "schemas")]
mod kubeconform;
#[cfg(feature = "schemas")]
mod kubeval;
mod kustomize;
mod list_setters;
mod lookup;
mod migration;
mod no_op;
mod object;
mod outcome;
mod regexp;
mod remove_local_config_resources;
mod report;
mod schema_files;
#[cfg(feature = "schemas")]
mod schemas;
mod scope;
mod search_replace;
mod selector;
mod set_annotations;
mod set_enforcement_action;
mod set_image;
mod set_labels;
mod set_namespace;
mod set_project_id;
mod setters;
#[cfg(feature = "starlark")]
mod starlark;
mod upsert_resource;

use loggia_krm::ResourceList;

pub use self::failure::Failure;
pub use self::framework::Framework;
pub use self::schema_files::{NoSchemaFiles, SchemaFiles};

/// Every function, in the order of its name.
pub static CATALOG: &[&Function] = &[
    &apply_replacements::FUNCTION,
    &apply_setters::FUNCTION,
    &create_setters::FUNCTION,
    &drop_comments::FUNCTION,
    &enable_gcp_services::FUNCTION,
    &ensure_name_substring::FUNCTION,
    #[cfg(feature = "schemas")]
    &fix::FUNCTION,
    #[cfg(feature = "schemas")]
    &format::FUNCTION,
    #[cfg(feature = "gatekeeper")]
    &gatekeeper::FUNCTION,
    &gen_pkg_context::FUNCTION,
    #[cfg(feature = "schemas")]
    &kubeconform::FUNCTION,
    #[cfg(feature = "schemas")]
    &kubeval::FUNCTION,
    &list_setters::FUNCTION,
    &no_op::FUNCTION,
    &remove_local_config_resources::FUNCTION,
    &search_replace::FUNCTION,
    &set_annotations::FUNCTION,
    &set_enforcement_action::FUNCTION,
    &set_image::FUNCTION,
    &set_labels::FUNCTION,
    &set_namespace::FUNCTION,
    &set_project_id::FUNCTION,
    #[cfg(feature = "starlark")]
    &starlark::FUNCTION,
    &upsert_resource::FUNCTION,
];

/// Where the catalog's images live; a name without any of these is one of its short names.
const REPOSITORIES: [&str; 3] =
    ["ghcr.io/kptdev/krm-functions-catalog/", "gcr.io/kpt-fn/", "gcr.io/kpt-fn-contrib/"];

/// Where the catalog's functions are as WebAssembly.
const WASM: &str = "ghcr.io/kptdev/krm-functions-catalog/wasm/";

/// A function of the catalog.
#[derive(Debug)]
pub struct Function {
    /// The last part of its image's name.
    pub name: &'static str,
    /// One line: what it is for.
    pub purpose: &'static str,
    /// What it does to a package.
    pub role: Role,
    /// Its manual, in Markdown: config, behaviour, one example.
    pub manual: &'static str,
    /// It runs programs of its user, so it wants a process of its own with limits.
    pub guarded: bool,
    /// What runs for which tags. No tag is in two of them.
    pub versions: &'static [Version],
}

/// What a function does to a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It changes resources.
    Mutator,
    /// It checks resources and changes nothing.
    Validator,
    /// It makes resources.
    Generator,
}

/// Versions of a function that behave alike.
#[derive(Debug)]
pub struct Version {
    /// The image tags that mean this behaviour.
    pub tags: &'static [&'static str],
    /// What the original is built on, which decides how it reads, writes and fails.
    pub framework: Framework,
    /// What runs; [`Version::run`] is how.
    pub(crate) run: Run,
}

/// A function's code. It edits the items and sets the results.
#[derive(Debug)]
pub(crate) enum Run {
    /// All it needs is in the list.
    List(fn(&mut ResourceList) -> Result<(), Failure>),
    /// Its config may name files with schemas.
    #[cfg(feature = "schemas")]
    WithSchemas(fn(&mut ResourceList, &dyn SchemaFiles) -> Result<(), Failure>),
}

/// What a function's process would have left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The list, as text.
    pub stdout: String,
    /// What it complains about.
    pub stderr: String,
    /// 0, or 1 if it failed.
    pub exit_code: i32,
}

/// Looks an image up: in any of the catalog's repositories, or by short name; no tag means `latest`.
///
/// A version that is not known is not found, so that whoever asks can have the image itself run.
#[must_use]
pub fn find(image: &str) -> Option<(&'static Function, &'static Version)> {
    let name = REPOSITORIES.iter().find_map(|repository| image.strip_prefix(repository)).unwrap_or(image);
    // The same functions for another kind of machine.
    let name = image.strip_prefix(WASM).unwrap_or(name);
    // What kpt itself has built in goes by a name of its own.
    let own = name.strip_prefix("builtins/").filter(|name| name.starts_with(gen_pkg_context::FUNCTION.name));
    let name = own.unwrap_or(name);
    let (name, tag) = name.split_once(':').unwrap_or((name, "latest"));
    let function = CATALOG.iter().find(|function| function.name == name)?;
    let version = function.versions.iter().find(|version| version.tags.contains(&tag))?;
    Some((function, version))
}

// === impl Version ===

impl Version {
    /// Runs the function on a list, with no files beside it.
    ///
    /// # Errors
    /// As [`Version::run_with`].
    pub fn run(&self, list: &mut ResourceList) -> Result<(), Failure> {
        self.run_with(list, &NoSchemaFiles)
    }

    /// Runs the function on a list.
    ///
    /// # Errors
    /// If the original would end with exit code 1. The list then holds what it would have written: its
    /// results, and the changes made so far.
    #[cfg_attr(not(feature = "schemas"), allow(unused_variables, reason = "what wants files is left out"))]
    pub fn run_with(&self, list: &mut ResourceList, files: &dyn SchemaFiles) -> Result<(), Failure> {
        self.framework.prepare(list);
        let outcome = match self.run {
            Run::List(run) => run(list),
            #[cfg(feature = "schemas")]
            Run::WithSchemas(run) => run(list, files),
        };
        self.framework.finish(list);
        outcome
    }

    /// Runs the function on a list as text, as its program would, with no files beside it.
    #[must_use]
    pub fn filter(&self, stdin: &[u8]) -> Output {
        self.filter_with(stdin, &NoSchemaFiles)
    }

    /// Runs the function on a list as text, as its program would.
    #[must_use]
    pub fn filter_with(&self, stdin: &[u8], files: &dyn SchemaFiles) -> Output {
        self.filter_list(stdin, files).unwrap_or_else(|Failure { stderr }| Output {
            stdout: String::new(),
            stderr,
            exit_code: 1,
        })
    }

    /// Fails where the program would end before it writes.
    fn filter_list(&self, stdin: &[u8], files: &dyn SchemaFiles) -> Result<Output, Failure> {
        let mut list = self.framework.read(stdin)?;
        let spellings = self.framework.note_spellings(&mut list)?;
        let (stderr, exit_code) = match self.run_with(&mut list, files) {
            Ok(()) => (std::mem::take(&mut list.printed), 0),
            Err(failure) => (failure.stderr, 1),
        };
        self.framework.restore_spellings(&mut list, spellings)?;
        Ok(Output { stdout: self.framework.write(&list), stderr, exit_code })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_found_under_each_of_its_names() {
        let wasm = "ghcr.io/kptdev/krm-functions-catalog/wasm/no-op:latest";
        for image in ["no-op", "no-op:latest", "gcr.io/kpt-fn/no-op:unstable", wasm] {
            assert_eq!(find(image).map(|(function, _)| function.name), Some("no-op"), "{image}");
        }
    }

    #[test]
    fn another_version_registry_or_digest_is_not_guessed_at() {
        for image in ["no-op:v9", "wasm/no-op", "example.com/no-op", "no-op@sha256:0000", "no", ""] {
            assert!(find(image).is_none(), "{image}");
        }
    }

    #[test]
    fn the_catalog_is_in_order_and_no_tag_means_two_things() {
        assert!(CATALOG.is_sorted_by_key(|function| function.name));
        for function in CATALOG {
            let mut tags: Vec<_> = function.versions.iter().flat_map(|version| version.tags).collect();
            let count = tags.len();
            tags.sort();
            tags.dedup();
            assert_eq!(tags.len(), count, "{}", function.name);
        }
    }
}
