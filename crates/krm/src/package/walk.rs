//! Which files of a tree count, in which order, and what resources they hold.

use std::borrow::Cow;
use std::io;

use loggia_yaml::{Fidelity, Text};

use super::ignore::Ignore;
use super::{IGNORE_FILE, KPTFILE, Limits, Package, ReadError, ReadErrorKind, ReadOptions};
use crate::document::{self, Reading};
use crate::path;

/// Files by slash path relative to a root, on disk or in memory.
pub(super) trait Tree {
    /// What a folder holds, sorted by name. The empty path is the root.
    fn list(&self, folder: &str) -> io::Result<Vec<Entry>>;

    /// Whether there is something at a path, links followed.
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

/// Reads a package.
pub(super) fn read(tree: &impl Tree, name: &str, options: &ReadOptions) -> Result<Package, ReadError> {
    let annotations =
        options.annotations.iter().map(|(key, value)| (key.clone(), Text::from(value))).collect();
    let package = Package { name: name.to_owned(), ..Package::default() };
    let mut walk = Walk { tree, options, annotations, ignores: Vec::new(), package, files: 0, bytes: 0 };
    walk.enter_package("")?;
    walk.folder("", 0)?;
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
    let mut waiting = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = waiting.pop() {
        if depth > limits.depth {
            return Err((folder, ReadErrorKind::TooDeep(limits.depth)));
        }
        let entries = tree.list(&folder).map_err(|error| (folder.clone(), ReadErrorKind::Io(error)))?;
        for entry in entries {
            if entry.kind != EntryKind::Folder || entry.name == ".git" || !entry.is_utf8 {
                continue;
            }
            let inner = path::inside(&folder, &entry.name);
            if tree.has_file(&path::inside(&inner, KPTFILE)) {
                found.push(inner);
            } else {
                waiting.push((inner, depth + 1));
            }
        }
    }
    found.sort();
    Ok(found)
}

struct Walk<'a, T> {
    tree: &'a T,
    options: &'a ReadOptions,
    annotations: Vec<(String, Text)>,
    /// The packages we are in, from the outside in, with what each ignores.
    ignores: Vec<(String, Ignore)>,
    package: Package,
    files: usize,
    bytes: u64,
}

impl<T: Tree> Walk<'_, T> {
    fn error(&self, file: &str, line: Option<u32>, kind: ReadErrorKind) -> ReadError {
        ReadError { package: self.package.name.clone(), file: file.to_owned(), line, kind }
    }

    fn folder(&mut self, folder: &str, depth: usize) -> Result<(), ReadError> {
        if depth > self.options.limits.depth {
            return Err(self.error(folder, None, ReadErrorKind::TooDeep(self.options.limits.depth)));
        }
        let entries =
            self.tree.list(folder).map_err(|error| self.error(folder, None, ReadErrorKind::Io(error)))?;
        for entry in entries {
            let path = path::inside(folder, &entry.name);
            let is_folder = entry.kind == EntryKind::Folder;
            if (!is_folder && !self.counts(&entry.name)) || self.is_ignored(&path, is_folder) {
                continue;
            }
            if !entry.is_utf8 {
                return Err(self.error(&path, None, ReadErrorKind::NameNotUtf8));
            }
            if is_folder { self.subfolder(&path, depth)? } else { self.file(path, entry.kind)? }
        }
        Ok(())
    }

    fn subfolder(&mut self, path: &str, depth: usize) -> Result<(), ReadError> {
        if !self.tree.has_file(&path::inside(path, KPTFILE)) {
            return self.folder(path, depth + 1);
        }
        if self.options.subpackages {
            self.enter_package(path)?;
            self.folder(path, depth + 1)?;
            self.ignores.pop();
        }
        Ok(())
    }

    fn enter_package(&mut self, folder: &str) -> Result<(), ReadError> {
        let path = path::inside(folder, IGNORE_FILE);
        let content = self.tree.read(&path, EntryKind::Unknown, self.options.limits.file_bytes);
        let content = content.map_err(|kind| self.error(&path, None, kind))?;
        let ignore =
            content.map_or_else(Ignore::default, |text| Ignore::parse(&String::from_utf8_lossy(&text)));
        self.ignores.push((folder.to_owned(), ignore));
        Ok(())
    }

    /// Only the innermost package has a say, and on what is inside it.
    fn is_ignored(&self, path: &str, is_folder: bool) -> bool {
        self.ignores.last().is_some_and(|(package, ignore)| {
            let relative = path.strip_prefix(package.as_str()).unwrap_or(path).trim_start_matches('/');
            ignore.matches(relative, is_folder)
        })
    }

    fn counts(&self, name: &str) -> bool {
        name == KPTFILE
            || name.ends_with(".yaml")
            || name.ends_with(".yml")
            || (self.options.json && name.ends_with(".json"))
    }

    fn file(&mut self, path: String, kind: EntryKind) -> Result<(), ReadError> {
        let limits = self.options.limits;
        let content =
            self.tree.read(&path, kind, limits.file_bytes).map_err(|kind| self.error(&path, None, kind))?;
        let Some(content) = content else { return Ok(()) };
        self.files += 1;
        self.bytes += content.len() as u64;
        if self.files > limits.files {
            return Err(self.error("", None, ReadErrorKind::TooManyFiles(limits.files)));
        }
        if self.bytes > limits.total_bytes {
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
        if !resources.is_empty() {
            self.package.resources.extend(resources);
            self.package.sources.insert(path, content.into_owned());
        }
        Ok(())
    }
}
