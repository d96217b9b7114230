//! The built-in catalog: KRM functions that need no container.
//!
//! One module a function. Each declares a [`Function`]: its name, what it is for, and what runs for which
//! version. [`find`] takes an image as people write it in a Kptfile. Nothing here reads a file, a clock or
//! the network, and nothing here knows who calls it.

mod no_op;
mod order;

use loggia_krm::{ResourceList, StreamOptions};

/// Every function, in the order of its name.
pub static CATALOG: &[&Function] = &[&no_op::FUNCTION];

/// Where the catalog's images live; a name without any of these is one of its short names.
const REPOSITORIES: [&str; 3] =
    ["ghcr.io/kptdev/krm-functions-catalog/", "gcr.io/kpt-fn/", "gcr.io/kpt-fn-contrib/"];

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
    /// What runs.
    pub run: Run,
}

/// A function's code. It edits the items and sets the results.
///
/// On failure the list holds what the original would have written: its results, and the changes made so far.
pub type Run = fn(&mut ResourceList) -> Result<(), Failure>;

/// A function's failure: the original ends with exit code 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the original writes to standard error, to the byte.
    pub stderr: String,
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
    let (name, tag) = name.split_once(':').unwrap_or((name, "latest"));
    let function = CATALOG.iter().find(|function| function.name == name)?;
    let version = function.versions.iter().find(|version| version.tags.contains(&tag))?;
    Some((function, version))
}

// === impl Version ===

impl Version {
    /// Runs the function on a list as text, as its program would.
    #[must_use]
    pub fn filter(&self, stdin: &[u8]) -> Output {
        let mut list = match ResourceList::parse(stdin, StreamOptions::default()) {
            Ok(list) => list,
            Err(error) => {
                let stderr = format!("failed to read ResourceList input: {error}");
                return Output { stdout: String::new(), stderr, exit_code: 1 };
            }
        };
        let (stderr, exit_code) = match (self.run)(&mut list) {
            Ok(()) => (String::new(), 0),
            Err(failure) => (failure.stderr, 1),
        };
        Output { stdout: list.emit(), stderr, exit_code }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_found_under_each_of_its_names() {
        for image in ["no-op", "no-op:latest", "gcr.io/kpt-fn/no-op:unstable"] {
            assert_eq!(find(image).map(|(function, _)| function.name), Some("no-op"), "{image}");
        }
    }

    #[test]
    fn another_version_registry_or_digest_is_not_guessed_at() {
        for image in ["no-op:v9", "example.com/no-op", "no-op@sha256:0000", "no", ""] {
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
