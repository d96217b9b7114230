//! Packages: a folder, or a map of files in memory, as resources, and resources as files again.
//!
//! Reading and planning are pure: a private tree of files in, resources out (`package/walk.rs`); resources and
//! what the files held in, [`Changes`] out (`package/plan.rs`). The disk is a thin shell on either side
//! (`package/disk.rs`, `package/apply.rs`). Which files count, what is ignored and where a file goes is the same
//! for both forms.
//!
//! ```
//! use loggia_krm::package::{Files, Package, ReadOptions, WriteOptions};
//!
//! let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: # ours\n  name: cm\n";
//! let mut files = Files::from([("cm.yaml".to_owned(), text.into()), ("README.md".to_owned(), "# Hi".into())]);
//! let mut package = Package::from_files(&files, &ReadOptions::default())?;
//! package.resources[0].set_annotation("team", "ours")?;
//! package.changes(&WriteOptions::default())?.apply_to_files(&mut files)?;
//! assert_eq!(files["cm.yaml"], b"apiVersion: v1\nkind: ConfigMap\nmetadata: # ours\n  name: cm\n  annotations:\n    team: ours\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod apply;
mod disk;
mod glob;
mod ignore;
mod memory;
mod names;
mod plan;
mod reader;
mod walk;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use loggia_yaml::Fidelity;

pub use self::names::{MAX_DEPTH, MAX_PATH, Paths, check_new_file};
pub use self::plan::{Changes, WriteError, WriteErrorKind, WriteOptions, changes};
pub use self::reader::Reader;
use crate::document::StreamErrorKind;
use crate::path;
use crate::resource::Resource;

/// The name of the file that makes a folder a package.
pub const KPTFILE: &str = "Kptfile";
/// The name of the file that lists what a reader is to leave alone.
pub const IGNORE_FILE: &str = ".krmignore";

/// A package in memory: content by slash path relative to its folder.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The resources of a package and what its files held when they were read.
#[derive(Clone, Debug, Default)]
pub struct Package {
    /// What errors call the package: its path.
    pub name: String,
    /// The resources in the order of their files: by name in each folder, files and folders mixed.
    pub resources: Vec<Resource>,
    /// What the files held that supplied a resource.
    pub sources: Sources,
}

/// What files held when they were read, so that only what changed is written and what lost all its resources
/// is removed.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The files that supplied a resource.
    files: BTreeMap<String, Vec<u8>>,
    /// The files that were read and had none in them.
    empty: BTreeSet<String>,
}

/// What to read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Read the packages inside this one as well.
    pub subpackages: bool,
    /// Read `*.json` beside `*.yaml`, `*.yml` and `Kptfile`.
    pub json: bool,
    /// More annotations to set on each resource.
    pub annotations: BTreeMap<String, String>,
    /// How much to read at most.
    pub limits: Limits,
    /// [`Fidelity::Exact`] refuses what the original refuses for no good reason.
    pub fidelity: Fidelity,
}

/// How much to read at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of all files.
    pub total_bytes: u64,
    /// How many files.
    pub files: usize,
    /// How deep folders nest.
    pub depth: usize,
}

/// Why a package could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", self.location())]
pub struct ReadError {
    /// The package's path.
    pub package: String,
    /// The file or folder, relative to the package; empty for the package itself.
    pub file: String,
    /// The line of the file, counted from 1, if it is known.
    pub line: Option<u32>,
    /// What is wrong.
    pub kind: ReadErrorKind,
}

/// What can be wrong with a file or folder.
#[derive(Debug, thiserror::Error)]
pub enum ReadErrorKind {
    /// Its content.
    #[error("{0}")]
    Content(StreamErrorKind),
    /// The system does not let us read it.
    #[error("{0}")]
    Io(io::Error),
    /// It is neither a file nor a link to one.
    #[error("not a regular file")]
    NotAFile,
    /// It is a link that leads out of the package.
    #[error("leads out of the package through a symbolic link; copy the file into the package")]
    LeadsOutside,
    /// It is a link that leads to itself, or over too many others.
    #[error("a symbolic link that leads in a circle or over too many others")]
    LinkLoop,
    /// It is a link into git's own folder.
    #[error("leads into a `.git` folder, which is not part of the package")]
    InGitFolder,
    /// It is larger than allowed.
    #[error("has {size} bytes, more than the {limit} that are allowed for one file (--max-file-size)")]
    FileTooLarge {
        /// Its size.
        size: u64,
        /// What is allowed.
        limit: u64,
    },
    /// All files together are larger than allowed.
    #[error("the package has more than {0} bytes of resource files (--max-package-size)")]
    PackageTooLarge(u64),
    /// There are more files than allowed.
    #[error("the package has more than {0} resource files (--max-package-files)")]
    TooManyFiles(usize),
    /// There are more names in folders than allowed.
    #[error(
        "the package's folders hold too many names, ten times as many as resource files are allowed (--max-package-files)"
    )]
    TooManyEntries,
    /// `.krmignore` has too many patterns with too many stars.
    #[error("the patterns of .krmignore take too long to compare; use fewer or simpler ones")]
    IgnoreFileTooCostly,
    /// Folders nest deeper than allowed.
    #[error("folders nest more than {0} deep")]
    TooDeep(usize),
    /// Its name is not UTF-8, so no annotation could hold it.
    #[error("its name is not UTF-8; rename it")]
    NameNotUtf8,
}

// === impl Package ===

impl Package {
    /// Reads a folder. Symbolic links in `folder` itself are resolved; below it, links to files are read if they stay
    /// inside, and links to folders are not followed.
    ///
    /// # Errors
    /// On the first file that cannot be read.
    pub fn from_folder(folder: &Path, options: &ReadOptions) -> Result<Self, ReadError> {
        Reader::folder(folder, options.limits)?.package("", options)
    }

    /// Reads files in memory. Their keys are taken as they are, so clean slash paths are expected.
    ///
    /// # Errors
    /// On the first file that cannot be read.
    pub fn from_files(files: &Files, options: &ReadOptions) -> Result<Self, ReadError> {
        Reader::files(files, options.limits).package("", options)
    }

    /// What has to change for the files to hold the resources as they are now.
    ///
    /// # Errors
    /// If a resource has no place to go, or an impossible one.
    pub fn changes(self, options: &WriteOptions) -> Result<Changes, WriteError> {
        changes(self.resources, &self.sources, &self.name, options)
    }

    /// Writes the resources back to the folder they came from, all or nothing.
    ///
    /// # Errors
    /// If a resource has no place to go, or the folder cannot be written. Then it is as it was.
    pub fn write(self, options: &WriteOptions) -> Result<Changes, WriteError> {
        let folder = self.name.clone();
        let changes = self.changes(options)?;
        changes.apply_to_folder(Path::new(&folder))?;
        Ok(changes)
    }
}

// === impl Sources ===

impl Sources {
    /// The files that supplied a resource.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// What a file held.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// Takes over the files of a package inside this one.
    pub fn add_subpackage(&mut self, folder: &str, sources: Sources) {
        let inside = |path: &str| path::inside(folder, path);
        self.files.extend(sources.files.into_iter().map(|(path, content)| (inside(&path), content)));
        self.empty.extend(sources.empty.iter().map(|path| inside(path)));
    }

    /// Whether a file was read, with resources in it or without.
    #[must_use]
    pub fn was_read(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.empty.contains(path)
    }

    pub(crate) fn insert(&mut self, path: String, content: Vec<u8>) {
        self.files.insert(path, content);
    }

    pub(crate) fn insert_empty(&mut self, path: String) {
        self.empty.insert(path);
    }
}

// === impl ReadOptions ===

impl Default for ReadOptions {
    /// A package without those inside it, JSON included, as a render reads it.
    fn default() -> Self {
        Self {
            subpackages: false,
            json: true,
            annotations: BTreeMap::new(),
            limits: Limits::default(),
            fidelity: Fidelity::Faithful,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        Self { file_bytes: 64 * MIB, total_bytes: 512 * MIB, files: 100_000, depth: MAX_DEPTH }
    }
}

impl Limits {
    /// How many names folders may hold, those of other files included.
    fn entries(self) -> usize {
        self.files.saturating_mul(10)
    }
}

// === impl ReadError ===

impl ReadError {
    /// The file's path as users know it: below that of its package.
    #[must_use]
    pub fn location(&self) -> String {
        match (self.package.as_str(), self.file.as_str()) {
            (package, "") => package.to_owned(),
            ("", file) => file.to_owned(),
            (package, file) => format!("{}/{file}", package.trim_end_matches('/')),
        }
    }
}
