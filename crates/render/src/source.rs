//! Where a package is read from: a folder on disk, or files in memory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use loggia_krm::annotation::PACKAGE_PATH;
use loggia_krm::kptfile::{KptfileDocument, KptfileError};
use loggia_krm::package::{
    Files, KPTFILE, ReadError, ReadOptions, subpackages_of_files, subpackages_of_folder,
};
use loggia_krm::{Package, path};

/// A package to render.
#[derive(Clone, Debug)]
pub enum Source {
    /// On disk; the path is absolute and free of links.
    Folder(PathBuf),
    /// In memory, as the root of a file system.
    Files(Files),
}

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

    /// Reads a Kptfile strictly.
    pub(crate) fn kptfile(&self, folder: &str) -> Result<KptfileDocument, KptfileError> {
        let unique_path = self.unique_path(folder);
        let text = self.kptfile_text(folder)?;
        KptfileDocument::parse(&without_stray_comments(&text), &unique_path)
    }

    fn kptfile_text(&self, folder: &str) -> Result<String, KptfileError> {
        let unique_path = self.unique_path(folder);
        let missing = || KptfileError::Missing { folder: unique_path.clone() };
        let unreadable = |cause: String| KptfileError::Unreadable { folder: unique_path.clone(), cause };
        let bytes = match self {
            Self::Folder(root) => {
                let file = root.join(folder).join(KPTFILE);
                if !file.is_file() {
                    return Err(missing());
                }
                fs::read(file).map_err(|error| unreadable(error.to_string()))?
            }
            Self::Files(files) => files.get(&path::inside(folder, KPTFILE)).ok_or_else(missing)?.clone(),
        };
        String::from_utf8(bytes).map_err(|_| unreadable("yaml: invalid leading UTF-8 octet".to_owned()))
    }

    /// Reads the resources of one package, which know whose they are.
    pub(crate) fn read(&self, folder: &str) -> Result<Package, ReadError> {
        let annotations = BTreeMap::from([(PACKAGE_PATH.to_owned(), self.unique_path(folder))]);
        let options = ReadOptions { annotations, ..ReadOptions::default() };
        match self {
            Self::Folder(root) => Package::from_folder(&root.join(folder), &options),
            Self::Files(files) if folder.is_empty() => Package::from_files(files, &options),
            Self::Files(files) => {
                let below = format!("{folder}/");
                let inside = files
                    .range(below.clone()..)
                    .take_while(|(path, _)| path.starts_with(&below))
                    .map(|(path, content)| (path[below.len()..].to_owned(), content.clone()));
                Package::from_files(&inside.collect(), &options)
            }
        }
    }

    /// The packages directly inside a package, in order.
    pub(crate) fn subpackages(&self, folder: &str) -> Result<Vec<String>, ReadError> {
        match self {
            Self::Folder(root) => subpackages_of_folder(root, folder),
            Self::Files(files) => subpackages_of_files(files, folder),
        }
    }

    /// The content of a file of a package, or why there is none in the words of Go.
    pub(crate) fn open(&self, folder: &str, file: &str) -> Result<Vec<u8>, String> {
        let unique_path = path::join(&[&self.unique_path(folder), file]);
        let missing = || format!("open {unique_path}: no such file or directory");
        match self {
            Self::Folder(root) => {
                fs::read(root.join(folder).join(file)).map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => missing(),
                    io::ErrorKind::PermissionDenied => format!("open {unique_path}: permission denied"),
                    io::ErrorKind::IsADirectory => format!("read {unique_path}: is a directory"),
                    _ => format!("open {unique_path}: {error}"),
                })
            }
            Self::Files(files) => files.get(&path::join(&[folder, file])).cloned().ok_or_else(missing),
        }
    }
}

/// A comment left of the list it stands in belongs to no entry of it. kpt loses every comment of a Kptfile, and
/// this kind is lost here too.
fn without_stray_comments(text: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let is_comment = |line: &str| line.trim_start_matches(' ').starts_with('#');
    let is_stray = |at: usize| {
        let next = lines[at..].iter().find(|line| !is_comment(line) && !line.trim().is_empty());
        let item = next.filter(|line| line.trim_start_matches(' ').starts_with("- "));
        is_comment(lines[at]) && item.is_some_and(|item| indent(item) > indent(lines[at]))
    };
    (0..lines.len()).filter(|&at| !is_stray(at)).map(|at| lines[at]).collect()
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
}
