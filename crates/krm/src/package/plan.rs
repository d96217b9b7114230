//! What has to change for the files of a package to hold given resources. A pure function.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::{IntErrorKind, ParseIntError};

use loggia_go::quote;
use loggia_yaml::Fidelity;

use super::names::{Paths, check_any_file, check_new_file};
use super::{Files, Sources};
use crate::annotation::{INDEX, PATH};
use crate::document;
use crate::path;
use crate::resource::{PlacementError, Resource, set_default_places};

/// How to write.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// Remove the files that supplied resources and no longer have any.
    pub prune: bool,
    /// Whether to repeat the original's mistakes.
    pub fidelity: Fidelity,
    /// Which files may be made beside those that supplied resources.
    pub paths: Paths,
}

/// What has to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// What the package is called in errors.
    pub package: String,
    /// The new content of files that are new or differ from what was read.
    pub writes: BTreeMap<String, String>,
    /// The files to remove.
    pub removals: BTreeSet<String>,
    /// How many files hold already what they should.
    pub unchanged: usize,
    /// The files to write that were read before. Any other must not exist yet.
    pub replaces: BTreeSet<String>,
    /// Which files may be made or replaced beside those.
    pub paths: Paths,
}

/// Why resources could not be written. The text of an error that users know from kyaml is its text.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct WriteError {
    /// The package's path.
    pub package: String,
    /// The file it is about, relative to the package; empty if none is to blame.
    pub file: String,
    /// What is wrong.
    pub kind: Box<WriteErrorKind>,
}

/// What can be wrong.
#[derive(Debug, thiserror::Error)]
pub enum WriteErrorKind {
    /// A resource cannot be given a place.
    #[error("{0}")]
    NoPlace(PlacementError),
    /// A resource has an empty path or index.
    #[error("resources must be annotated with {0} to be written to files")]
    MissingAnnotation(&'static str),
    /// A path starts at the root of the file system.
    #[error("package paths may not be absolute paths")]
    AbsolutePath,
    /// A path leads out of the package.
    #[error("resource must be written under package {package}: {path}")]
    OutsidePackage {
        /// The package.
        package: String,
        /// The path, cleaned.
        path: String,
    },
    /// A path leads out of the package by way of a link.
    #[error("`{path}` leads out of package `{package}` through a symbolic link to `{target}`")]
    LinkOutsidePackage {
        /// The package.
        package: String,
        /// The path.
        path: String,
        /// Where it leads.
        target: String,
    },
    /// A path leads through a link to a place that is not read by its own name.
    #[error(
        "`{path}` cannot be written through a symbolic link to `{target}`, which is not a resource file; --allow-any-path allows it"
    )]
    ThroughLink {
        /// The path.
        path: String,
        /// Where it leads.
        target: String,
    },
    /// No reader would read the file again.
    #[error(
        "`{0}` cannot be written: it is not a name that resources are read from (*.yaml, *.yml, *.json, Kptfile); --allow-any-path allows it"
    )]
    NotResourceFile(String),
    /// A new file that is hidden.
    #[error(
        "`{0}` cannot be written: it would be a new hidden file or in a hidden folder, where other programs look for their settings; --allow-any-path allows it"
    )]
    Hidden(String),
    /// A new file with a name that shows something else than it is.
    #[error("{0} cannot be written: its name has characters that cannot be seen; --allow-any-path allows it")]
    Unprintable(String),
    /// The file is there, but it was not read.
    #[error(
        "`{0}` cannot be replaced: it is not among the files that the package was read from; --allow-any-path allows it"
    )]
    NotRead(String),
    /// The file would be git's.
    #[error("`{0}` cannot be written: nothing is written into a `.git` folder")]
    InGitFolder(String),
    /// The path could not be read again.
    #[error("`{start}…` cannot be written: its path has {length} bytes; the most are 4096, and 256 folders")]
    PathTooLong {
        /// How it begins.
        start: String,
        /// How long it is.
        length: usize,
    },
    /// A path names a folder.
    #[error("config.kubernetes.io/path cannot be a directory: {0}")]
    IsFolder(String),
    /// A path leads through a file.
    #[error("`{path}` cannot be written: `{file}` is a file, not a folder")]
    FileInTheWay {
        /// The path.
        path: String,
        /// The file.
        file: String,
    },
    /// Resources of one file cannot be put in order.
    #[error("unable to parse config.kubernetes.io/index {index} :strconv.Atoi: parsing {}: {reason}", quote(.index))]
    BadIndex {
        /// The index.
        index: String,
        /// What Go says about it.
        reason: &'static str,
    },
    /// A resource for a JSON file holds what JSON cannot say.
    #[error("{path}: {cause}")]
    NotJson {
        /// The file.
        path: String,
        /// What it is.
        cause: loggia_yaml::Error,
    },
    /// There is no such folder.
    #[error("could not write to {}: file does not exist", quote(.0))]
    NoPackage(String),
    /// The system does not let us; nothing has changed.
    #[error("{path}: cannot {action}: {cause}")]
    Io {
        /// The file or folder.
        path: String,
        /// What was tried.
        action: &'static str,
        /// What the system says.
        cause: io::Error,
    },
    /// The system did not let us, nor could everything be put back.
    #[error("{path}: cannot {action}: {cause}; some files could not be put back: {left}")]
    Broken {
        /// The file or folder.
        path: String,
        /// What was tried.
        action: &'static str,
        /// What the system says.
        cause: io::Error,
        /// The files that are not as they were, and where their content is.
        left: String,
    },
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { prune: true, fidelity: Fidelity::Faithful, paths: Paths::default() }
    }
}

/// Works out what has to change for the files of a package to hold these resources.
///
/// Resources without path or index get the default ones. Each file is written as kyaml would write it, in the
/// order of indices; it counts as changed if that differs from what was read in any byte.
///
/// # Errors
/// If a resource has no place to go, or an impossible one.
pub fn changes(
    mut resources: Vec<Resource>,
    sources: &Sources,
    package: &str,
    options: &WriteOptions,
) -> Result<Changes, WriteError> {
    let error = |file: &str, kind| WriteError {
        package: package.to_owned(),
        file: file.to_owned(),
        kind: Box::new(kind),
    };
    set_default_places(&mut resources)
        .map_err(|(at, cause)| error(resources[at].path(), WriteErrorKind::NoPlace(cause)))?;

    let mut files: BTreeMap<String, Vec<Resource>> = BTreeMap::new();
    for resource in resources {
        let path = place(&resource, package).map_err(|kind| error(resource.path(), kind))?;
        files.entry(path).or_default().push(resource);
    }

    let mut changes = Changes { package: package.to_owned(), paths: options.paths, ..Changes::default() };
    if options.prune {
        let gone = sources.paths().filter(|path| !files.contains_key(*path));
        changes.removals = gone.map(str::to_owned).collect();
    }
    for (path, mut resources) in files {
        sort_by_index(&mut resources).map_err(|kind| error(&path, kind))?;
        let text = document::write(resources, &path, options.fidelity)
            .map_err(|cause| error(&path, WriteErrorKind::NotJson { path: path.clone(), cause }))?;
        if sources.get(&path) == Some(text.as_bytes()) {
            changes.unchanged += 1;
            continue;
        }
        if sources.was_read(&path) {
            check_any_file(&path).map_err(|kind| error(&path, kind))?;
            changes.replaces.insert(path.clone());
        } else {
            check_new_file(&path, options.paths).map_err(|kind| error(&path, kind))?;
        }
        changes.writes.insert(path, text);
    }
    Ok(changes)
}

/// The file a resource goes to, as a clean path inside the package.
fn place(resource: &Resource, package: &str) -> Result<String, WriteErrorKind> {
    for key in [INDEX, PATH] {
        if resource.annotation(key).is_none_or(str::is_empty) {
            return Err(WriteErrorKind::MissingAnnotation(key));
        }
    }
    let path = resource.path();
    if path.starts_with('/') {
        return Err(WriteErrorKind::AbsolutePath);
    }
    let path = path::clean(path);
    // As the original, this refuses `a..b.yaml` as well.
    if path.contains("..") || path.contains('\0') {
        return Err(WriteErrorKind::OutsidePackage { package: package.to_owned(), path });
    }
    if path == "." {
        return Err(WriteErrorKind::IsFolder(path));
    }
    Ok(path)
}

/// Sorts by the number in the index, keeping the order of equals. An index need not be a number if there is no
/// other to compare it with.
fn sort_by_index(resources: &mut Vec<Resource>) -> Result<(), WriteErrorKind> {
    if resources.len() < 2 || resources.iter().all(|resource| resource.index() == resources[0].index()) {
        return Ok(());
    }
    let mut keyed = Vec::with_capacity(resources.len());
    for resource in resources.drain(..) {
        let index: i64 =
            resource.index().parse().map_err(|cause: ParseIntError| WriteErrorKind::BadIndex {
                index: resource.index().to_owned(),
                reason: match cause.kind() {
                    IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                    _ => "invalid syntax",
                },
            })?;
        keyed.push((index, resource));
    }
    keyed.sort_by_key(|(index, _)| *index);
    resources.extend(keyed.into_iter().map(|(_, resource)| resource));
    Ok(())
}

// === impl Changes ===

impl Changes {
    /// Whether everything is as it should be.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.removals.is_empty()
    }

    /// Whether a file that exists may be written.
    pub(super) fn may_replace(&self, path: &str) -> bool {
        self.paths == Paths::Any || self.replaces.contains(path)
    }

    pub(super) fn error(&self, file: &str, kind: WriteErrorKind) -> WriteError {
        WriteError { package: self.package.clone(), file: file.to_owned(), kind: Box::new(kind) }
    }

    /// Carries the changes out on files in memory, all or nothing.
    ///
    /// # Errors
    /// If a file would have to be a folder or the other way round, or was not read and would be replaced.
    pub fn apply_to_files(&self, files: &mut Files) -> Result<(), WriteError> {
        for path in self.writes.keys() {
            if files.contains_key(path) && !self.may_replace(path) {
                return Err(self.error(path, WriteErrorKind::NotRead(path.clone())));
            }
            let below = format!("{path}/");
            if files.range(below.clone()..).next().is_some_and(|(other, _)| other.starts_with(&below)) {
                return Err(self.error(path, WriteErrorKind::IsFolder(path.clone())));
            }
            let mut above = path::folder(path);
            while !above.is_empty() {
                if files.contains_key(above) || self.writes.contains_key(above) {
                    let kind = WriteErrorKind::FileInTheWay { path: path.clone(), file: above.to_owned() };
                    return Err(self.error(path, kind));
                }
                above = path::folder(above);
            }
        }
        for (path, text) in &self.writes {
            files.insert(path.clone(), text.clone().into_bytes());
        }
        for path in &self.removals {
            files.remove(path);
        }
        Ok(())
    }
}
