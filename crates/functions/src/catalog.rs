//! The functions, one module each, and their lookup by image.

mod apply_replacements;
mod apply_setters;
mod create_setters;
mod drop_comments;
mod enable_gcp_services;
mod ensure_name_substring;
mod fix;
mod format;
mod gatekeeper;
mod gen_pkg_context;
mod kubeconform;
mod kubeval;
mod list_setters;
mod no_op;
mod remove_local_config_resources;
mod search_replace;
mod set_annotations;
mod set_enforcement_action;
mod set_image;
mod set_labels;
mod set_namespace;
mod set_project_id;
mod starlark;
mod upsert_resource;

use crate::function::{Function, Version};

/// Every function, in the order of its name.
pub static CATALOG: &[&Function] = &[
    &apply_replacements::FUNCTION,
    &apply_setters::FUNCTION,
    &create_setters::FUNCTION,
    &drop_comments::FUNCTION,
    &enable_gcp_services::FUNCTION,
    &ensure_name_substring::FUNCTION,
    &fix::FUNCTION,
    &format::FUNCTION,
    &gatekeeper::FUNCTION,
    &gen_pkg_context::FUNCTION,
    &kubeconform::FUNCTION,
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
    &starlark::FUNCTION,
    &upsert_resource::FUNCTION,
];

/// Where the catalog's images live; a name without any of these is one of its short names.
const REPOSITORIES: [&str; 3] =
    ["ghcr.io/kptdev/krm-functions-catalog/", "gcr.io/kpt-fn/", "gcr.io/kpt-fn-contrib/"];

/// Where the catalog's functions are as WebAssembly.
const WASM: &str = "ghcr.io/kptdev/krm-functions-catalog/wasm/";

/// Looks an image up: in any of the catalog's repositories, or by short name; no tag means `latest`.
///
/// An unknown version is not found, so that the caller can run the image itself.
#[must_use]
pub fn find(image: &str) -> Option<(&'static Function, &'static Version)> {
    let name = REPOSITORIES.iter().find_map(|repository| image.strip_prefix(repository)).unwrap_or(image);
    // The same functions, built as WebAssembly.
    let name = image.strip_prefix(WASM).unwrap_or(name);
    // What kpt itself has built in goes by a name of its own.
    let own = name.strip_prefix("builtins/").filter(|name| name.starts_with(gen_pkg_context::FUNCTION.name));
    let name = own.unwrap_or(name);
    let (name, tag) = name.split_once(':').unwrap_or((name, "latest"));
    let function = CATALOG.iter().find(|function| function.name == name)?;
    let version = function.versions.iter().find(|version| version.tags.contains(&tag))?;
    Some((function, version))
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
