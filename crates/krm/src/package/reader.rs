//! Reading several packages of one tree, with limits that count for all of them.

use std::path::Path;

use super::disk::Folder;
use super::memory::Index;
use super::walk::{self, EntryKind, Tree as _, Usage};
use super::{Files, Limits, Package, ReadError, ReadErrorKind, ReadOptions};
use crate::path;

/// Reads the packages of a folder, or of files in memory, and single files of them. Nothing outside is ever read.
#[derive(Debug)]
pub struct Reader<'a> {
    tree: Root<'a>,
    /// The folder's absolute path; empty for files in memory.
    name: String,
    limits: Limits,
    usage: Usage,
}

#[derive(Debug)]
enum Root<'a> {
    Folder(Folder),
    Files(Index<'a>),
}

impl<'a> Reader<'a> {
    /// Opens a folder. Symbolic links in its path are resolved.
    ///
    /// # Errors
    /// If there is no such folder.
    pub fn folder(folder: &Path, limits: Limits) -> Result<Self, ReadError> {
        let opened = folder.canonicalize().and_then(|root| Ok((Folder::open(&root)?, root)));
        let (tree, root) = opened.map_err(|error| ReadError {
            package: folder.display().to_string(),
            file: String::new(),
            line: None,
            kind: ReadErrorKind::Io(error),
        })?;
        let name = root.to_string_lossy().into_owned();
        Ok(Self { tree: Root::Folder(tree), name, limits, usage: Usage::default() })
    }

    /// Looks at files in memory, whose keys are clean slash paths.
    #[must_use]
    pub fn files(files: &'a Files, limits: Limits) -> Self {
        let tree = Root::Files(Index::new(files));
        Self { tree, name: String::new(), limits, usage: Usage::default() }
    }

    /// Reads the package in a folder, given by its path from the root. The limits count for all packages together;
    /// those in `options` do not matter.
    ///
    /// # Errors
    /// On the first file that cannot be read.
    pub fn package(&mut self, folder: &str, options: &ReadOptions) -> Result<Package, ReadError> {
        let options = ReadOptions { limits: self.limits, ..options.clone() };
        let name = self.name_of(folder);
        match &self.tree {
            Root::Folder(tree) => walk::read(tree, folder, name, &options, &mut self.usage),
            Root::Files(tree) => walk::read(tree, folder, name, &options, &mut self.usage),
        }
    }

    /// The packages directly inside a package, by path from the root, sorted.
    ///
    /// # Errors
    /// If a folder cannot be listed, or folders nest too deep.
    pub fn subpackages(&self, folder: &str) -> Result<Vec<String>, ReadError> {
        let found = match &self.tree {
            Root::Folder(tree) => walk::subpackages(tree, folder, self.limits),
            Root::Files(tree) => walk::subpackages(tree, folder, self.limits),
        };
        found.map_err(|(file, kind)| ReadError { package: self.name.clone(), file, line: None, kind })
    }

    /// The content of a file, by its clean path from the root; `None` if there is no such file.
    ///
    /// # Errors
    /// If it is not a regular file of the tree, or too large.
    pub fn file(&self, path: &str) -> Result<Option<Vec<u8>>, ReadErrorKind> {
        let limit = self.limits.file_bytes;
        let content = match &self.tree {
            Root::Folder(tree) => tree.read(path, EntryKind::Unknown, limit),
            Root::Files(tree) => tree.read(path, EntryKind::Unknown, limit),
        };
        Ok(content?.map(std::borrow::Cow::into_owned))
    }

    /// Whether there is something at a path.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        match &self.tree {
            Root::Folder(tree) => tree.has_file(path),
            Root::Files(tree) => tree.has_file(path),
        }
    }

    fn name_of(&self, folder: &str) -> String {
        match (self.name.as_str(), folder) {
            (name, "") => name.to_owned(),
            ("", folder) => folder.to_owned(),
            (name, folder) => path::join(&[name, folder]),
        }
    }
}
