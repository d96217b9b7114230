//! Where a package is read from: a folder on disk, or files in memory.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use loggia_krm::annotation::PACKAGE_PATH;
use loggia_krm::kptfile::{KptfileDocument, KptfileError};
use loggia_krm::package::{Files, KPTFILE, Limits, ReadError, ReadErrorKind, ReadOptions, Reader};
use loggia_krm::{Package, path};

/// A package to render.
#[derive(Clone, Debug)]
pub enum Source {
    /// On disk; the path is absolute and free of links.
    Folder(PathBuf),
    /// In memory, as the root of a file system.
    Files(Files),
}

/// A package that is being read.
#[derive(Debug)]
pub(crate) struct Opened<'a> {
    pub(crate) source: &'a Source,
    pub(crate) reader: Reader<'a>,
}

// === impl Source ===

impl Source {
    /// A folder on disk, wherever it leads.
    ///
    /// # Errors
    /// If there is no such folder.
    pub fn folder(folder: &Path) -> io::Result<Self> {
        folder.canonicalize().map(Self::Folder)
    }

    /// The absolute path of the root package.
    #[must_use]
    pub fn root(&self) -> String {
        match self {
            Self::Folder(root) => root.display().to_string(),
            Self::Files(_) => "/".to_owned(),
        }
    }

    /// The absolute path of a package by its path from the root.
    pub(crate) fn unique_path(&self, folder: &str) -> String {
        path::join(&[&self.root(), folder])
    }

    /// What people call a package: its path from the root's parent.
    pub(crate) fn display_path(&self, folder: &str) -> String {
        let root = self.root();
        match path::base_name(&root) {
            "" => path::join(&["/", folder]),
            name => path::join(&[name, folder]),
        }
    }

    pub(crate) fn disk_folder(&self, folder: &str) -> Option<PathBuf> {
        match self {
            Self::Folder(root) => Some(root.join(folder)),
            Self::Files(_) => None,
        }
    }

    /// Opens the package for reading.
    pub(crate) fn open(&self, limits: Limits) -> Result<Opened<'_>, ReadError> {
        let reader = match self {
            Self::Folder(root) => Reader::folder(root, limits)?,
            Self::Files(files) => Reader::files(files, limits),
        };
        Ok(Opened { source: self, reader })
    }
}

// === impl Opened ===

impl Opened<'_> {
    /// Reads a Kptfile strictly.
    pub(crate) fn kptfile(&self, folder: &str) -> Result<KptfileDocument, KptfileError> {
        let unique_path = self.source.unique_path(folder);
        let text = self.kptfile_text(folder)?;
        KptfileDocument::parse(&without_stray_comments(&text), &unique_path)
    }

    fn kptfile_text(&self, folder: &str) -> Result<String, KptfileError> {
        let folder_path = self.source.unique_path(folder);
        let missing = || KptfileError::Missing { folder: folder_path.clone() };
        let unreadable = |cause: String| KptfileError::Unreadable { folder: folder_path.clone(), cause };
        let bytes = match self.reader.file(&path::inside(folder, KPTFILE)) {
            Ok(content) => content.ok_or_else(missing)?,
            // A folder of that name is none.
            Err(ReadErrorKind::NotAFile) => return Err(missing()),
            Err(error) => return Err(unreadable(error.to_string())),
        };
        String::from_utf8(bytes).map_err(|_| unreadable("yaml: invalid leading UTF-8 octet".to_owned()))
    }

    /// Reads the resources of one package, which know whose they are.
    pub(crate) fn read(&mut self, folder: &str) -> Result<Package, ReadError> {
        let annotations = BTreeMap::from([(PACKAGE_PATH.to_owned(), self.source.unique_path(folder))]);
        self.reader.package(folder, &ReadOptions { annotations, ..ReadOptions::default() })
    }

    /// The packages directly inside a package, in order.
    pub(crate) fn subpackages(&self, folder: &str) -> Result<Vec<String>, ReadError> {
        self.reader.subpackages(folder)
    }

    /// The content of a file of a package, or why there is none in the words of Go.
    pub(crate) fn file(&self, folder: &str, file: &str) -> Result<Vec<u8>, String> {
        let unique_path = path::join(&[&self.source.unique_path(folder), file]);
        match self.reader.file(&path::join(&[folder, file])) {
            Ok(Some(content)) => Ok(content),
            Ok(None) => Err(format!("open {unique_path}: no such file or directory")),
            Err(ReadErrorKind::Io(error)) => Err(match error.kind() {
                io::ErrorKind::PermissionDenied => format!("open {unique_path}: permission denied"),
                _ => format!("open {unique_path}: {error}"),
            }),
            Err(kind) => Err(format!("open {unique_path}: {kind}")),
        }
    }
}

/// A comment left of the list it stands in belongs to no entry of it. kpt loses every comment of a Kptfile, and
/// this kind is lost here too.
fn without_stray_comments(text: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let mut kept = Vec::with_capacity(lines.len());
    // The indentation of the entry of a list that comes next, with nothing but comments before it.
    let mut item: Option<usize> = None;
    for line in lines.into_iter().rev() {
        let content = line.trim_start_matches(' ');
        if content.starts_with('#') {
            if item.is_some_and(|item| item > indent(line)) {
                continue;
            }
        } else if !content.trim().is_empty() {
            item = content.starts_with("- ").then(|| indent(line));
        }
        kept.push(line);
    }
    kept.into_iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_in_memory_are_named_from_the_root() {
        let files = Source::Files(Files::new());
        assert_eq!((files.root(), files.unique_path("a/b")), ("/".to_owned(), "/a/b".to_owned()));
        assert_eq!((files.display_path(""), files.display_path("a")), ("/".to_owned(), "/a".to_owned()));
        let folder = Source::Folder("/x/app".into());
        assert_eq!(folder.unique_path("db"), "/x/app/db");
        assert_eq!((folder.display_path(""), folder.display_path("db/c")), ("app".into(), "app/db/c".into()));
    }

    #[test]
    fn only_a_comment_left_of_its_list_is_a_stray_one() {
        let text = "a:\n# stray\n  - x\n  # kept\n  - y\n# kept\nb: # kept\n# kept\n- z\n";
        assert_eq!(without_stray_comments(text), text.replace("# stray\n", ""));
    }

    #[test]
    fn very_many_comments_take_no_time() {
        let text = "#\n".repeat(300_000) + "a:\n" + &"# stray\n".repeat(100_000) + "  - x\n";
        let begin = std::time::Instant::now();
        assert_eq!(without_stray_comments(&text).len(), text.len() - "# stray\n".len() * 100_000);
        assert!(begin.elapsed() < std::time::Duration::from_secs(10), "{:?}", begin.elapsed());
    }
}
