//! Which files of a tree count, in which order, and what resources they hold.

use std::borrow::Cow;

use loggia_yaml::{Fidelity, Text};

use super::ignore::{IGNORE_FILE_BYTES, Ignore};
use super::names::{is_git, is_resource_file};
use super::{IGNORE_FILE, KPTFILE, Limits, Package, ReadError, ReadErrorKind, ReadOptions};
use crate::document::{self, Reading};
use crate::path;

/// Files by slash path relative to a root, on disk or in memory.
pub(super) trait Tree {
    /// What a folder holds, sorted by name. The empty path is the root.
    /// At most `limit` entries are taken.
    fn list(&self, folder: &str, limit: usize) -> Result<Vec<Entry>, ReadErrorKind>;

    /// Whether there is something at a path, or a link that does not lead to nothing.
    fn has_file(&self, path: &str) -> bool;

    /// The content of a file. `None` if it is not there, which only [`EntryKind::Unknown`] may turn out to be.
    fn read(&self, path: &str, kind: EntryKind, limit: u64) -> Result<Option<Cow<'_, [u8]>>, ReadErrorKind>;
}

/// A name in a folder.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The name; approximate if it is not UTF-8.
    pub(super) name: String,
    pub(super) kind: EntryKind,
    pub(super) is_utf8: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    File,
    Folder,
    /// A link, which may lead to a file, or something stranger.
    Other,
    /// Nobody has looked yet.
    Unknown,
}

/// How much was read so far of a tree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    files: usize,
    bytes: u64,
    entries: usize,
}

/// Reads the package in a folder of a tree.
pub(super) fn read(
    tree: &impl Tree,
    folder: &str,
    name: String,
    options: &ReadOptions,
    usage: &mut Usage,
) -> Result<Package, ReadError> {
    let annotations =
        options.annotations.iter().map(|(key, value)| (key.clone(), Text::from(value))).collect();
    let package = Package { name, ..Package::default() };
    let mut walk = Walk { tree, base: folder, options, annotations, ignores: Vec::new(), package, usage };
    walk.enter_package("")?;
    walk.folder("")?;
    Ok(walk.package)
}

/// The packages inside a folder that no other package is between, sorted. `.git` holds none, and what is
/// ignored is one all the same.
pub(super) fn subpackages(
    tree: &impl Tree,
    folder: &str,
    limits: Limits,
) -> Result<Vec<String>, (String, ReadErrorKind)> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    let mut left = limits.entries();
    while let Some(folder) = waiting.pop() {
        if depth(&folder) > limits.depth {
            return Err((folder, ReadErrorKind::TooDeep(limits.depth)));
        }
        let entries = tree.list(&folder, left).map_err(|kind| (folder.clone(), kind))?;
        left = left.saturating_sub(entries.len());
        for entry in entries {
            if entry.kind != EntryKind::Folder || is_git(&entry.name) || !entry.is_utf8 {
                continue;
            }
            let inner = path::inside(&folder, &entry.name);
            if tree.has_file(&path::inside(&inner, KPTFILE)) {
                found.push(inner);
            } else {
                waiting.push(inner);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// How many folders a path has below the root.
fn depth(path: &str) -> usize {
    if path.is_empty() { 0 } else { path.matches('/').count() + 1 }
}

struct Walk<'a, T> {
    tree: &'a T,
    /// The folder of the package in the tree; all other paths are relative to it.
    base: &'a str,
    options: &'a ReadOptions,
    annotations: Vec<(String, Text)>,
    /// The packages we are in, from the outside in, with what each ignores.
    ignores: Vec<(String, Ignore)>,
    package: Package,
    usage: &'a mut Usage,
}

impl<T: Tree> Walk<'_, T> {
    fn error(&self, file: &str, line: Option<u32>, kind: ReadErrorKind) -> ReadError {
        ReadError { package: self.package.name.clone(), file: file.to_owned(), line, kind }
    }

    fn in_tree(&self, path: &str) -> String {
        if path.is_empty() { self.base.to_owned() } else { path::inside(self.base, path) }
    }

    /// The depth of folders is limited, so recursing is fine.
    fn folder(&mut self, folder: &str) -> Result<(), ReadError> {
        let limits = self.options.limits;
        let in_tree = self.in_tree(folder);
        if depth(&in_tree) > limits.depth {
            return Err(self.error(folder, None, ReadErrorKind::TooDeep(limits.depth)));
        }
        let left = limits.entries().saturating_sub(self.usage.entries);
        let entries = self.tree.list(&in_tree, left).map_err(|kind| self.error(folder, None, kind))?;
        self.usage.entries += entries.len();
        for entry in entries {
            let path = path::inside(folder, &entry.name);
            let is_folder = entry.kind == EntryKind::Folder;
            let counts = if is_folder {
                !is_git(&entry.name)
            } else {
                is_resource_file(&entry.name, self.options.json)
            };
            if !counts || self.is_ignored(&path, is_folder)? {
                continue;
            }
            if !entry.is_utf8 {
                return Err(self.error(&path, None, ReadErrorKind::NameNotUtf8));
            }
            if is_folder { self.subfolder(&path)? } else { self.file(path, entry.kind)? }
        }
        Ok(())
    }

    fn subfolder(&mut self, path: &str) -> Result<(), ReadError> {
        if !self.tree.has_file(&self.in_tree(&path::inside(path, KPTFILE))) {
            return self.folder(path);
        }
        if self.options.subpackages {
            self.enter_package(path)?;
            self.folder(path)?;
            self.ignores.pop();
        }
        Ok(())
    }

    fn enter_package(&mut self, folder: &str) -> Result<(), ReadError> {
        let path = path::inside(folder, IGNORE_FILE);
        let content = self.tree.read(&self.in_tree(&path), EntryKind::Unknown, IGNORE_FILE_BYTES);
        let content = content.map_err(|kind| match kind {
            ReadErrorKind::FileTooLarge { .. } => self.error(&path, None, ReadErrorKind::IgnoreFileTooCostly),
            kind => self.error(&path, None, kind),
        })?;
        let ignore =
            content.map_or_else(Ignore::default, |text| Ignore::parse(&String::from_utf8_lossy(&text)));
        self.ignores.push((folder.to_owned(), ignore));
        Ok(())
    }

    /// Only the innermost package has a say, and on what is inside it.
    fn is_ignored(&mut self, path: &str, is_folder: bool) -> Result<bool, ReadError> {
        let Some((package, ignore)) = self.ignores.last_mut() else { return Ok(false) };
        let relative = path.strip_prefix(package.as_str()).unwrap_or(path).trim_start_matches('/');
        let ignored = ignore.matches(relative, is_folder);
        ignored.ok_or_else(|| self.error(path, None, ReadErrorKind::IgnoreFileTooCostly))
    }

    fn file(&mut self, path: String, kind: EntryKind) -> Result<(), ReadError> {
        let limits = self.options.limits;
        let content = self
            .tree
            .read(&self.in_tree(&path), kind, limits.file_bytes)
            .map_err(|kind| self.error(&path, None, kind))?;
        let Some(content) = content else { return Ok(()) };
        self.usage.files += 1;
        self.usage.bytes += content.len() as u64;
        if self.usage.files > limits.files {
            return Err(self.error("", None, ReadErrorKind::TooManyFiles(limits.files)));
        }
        if self.usage.bytes > limits.total_bytes {
            return Err(self.error("", None, ReadErrorKind::PackageTooLarge(limits.total_bytes)));
        }
        let reading = Reading {
            path: Some(&path),
            annotations: &self.annotations,
            sequence_style: true,
            exact: self.options.fidelity == Fidelity::Exact,
        };
        let resources = document::read(&content, &reading)
            .map_err(|error| self.error(&path, error.line, ReadErrorKind::Content(error.kind)))?;
        if resources.is_empty() {
            self.package.sources.insert_empty(path);
        } else {
            self.package.resources.extend(resources);
            self.package.sources.insert(path, content.into_owned());
        }
        Ok(())
    }
}
