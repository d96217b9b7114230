//! Folders with schemas that built-in functions may read.
//!
//! Who starts the program names the folders. A package's config can only point into them: neither `..` nor a link leads
//! out, and whether something outside exists is not told.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loggia_functions::SchemaFiles;
use loggia_krm::path::clean;

/// The largest file that is read.
const FILE_LIMIT: u64 = 16 << 20;

/// The most files of a folder.
const COUNT_LIMIT: usize = 10_000;

/// Folders that were allowed; none to begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaFolders(Arc<[PathBuf]>);

/// Why a folder cannot be allowed.
#[derive(Debug, thiserror::Error)]
#[error("`{}`", folder.display())]
pub struct SchemaFolderError {
    folder: PathBuf,
    #[source]
    source: std::io::Error,
}

impl SchemaFolders {
    /// # Errors
    /// If one of them is not a folder.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Result<Self, SchemaFolderError> {
        let resolve = |folder: PathBuf| match absolute(&folder) {
            // Listing it once shows that it is a folder and may be read.
            Ok(path) => fs::read_dir(&path).map(|_| path).map_err(|source| (folder, source)),
            Err(source) => Err((folder, source)),
        };
        let folders: Result<Vec<_>, _> = folders.into_iter().map(resolve).collect();
        folders
            .map(|folders| Self(folders.into()))
            .map_err(|(folder, source)| SchemaFolderError { folder, source })
    }

    /// The folders of a process that has checked them, for one that it started.
    pub(crate) fn checked(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(folders.into_iter().collect())
    }

    /// The folders, from the root on.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.0
    }

    /// Where the folders really are now; one that is missing is left out.
    pub(crate) fn real(&self) -> Vec<PathBuf> {
        // A folder may be a link to one that changes, so where it leads is looked up each time.
        self.0.iter().filter_map(|folder| folder.canonicalize().ok()).collect()
    }

    /// Where a path really leads, if it leads to something; an error if that is not allowed.
    fn locate(&self, path: &str) -> Result<Option<PathBuf>, String> {
        let path = absolute(Path::new(path)).map_err(|error| unreadable(&error))?;
        let real = self.real();
        let allowed = |path: &Path| real.iter().any(|folder| path.starts_with(folder));
        if !allowed(&path) && !self.0.iter().any(|folder| path.starts_with(folder)) {
            return Err(self.refusal());
        }
        match path.canonicalize() {
            Ok(path) if allowed(&path) => Ok(Some(path)),
            Ok(_) => Err(self.refusal()),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(unreadable(&error)),
        }
    }

    fn refusal(&self) -> String {
        match self.0.len() {
            0 => "no folder with schemas may be read; `--schema-folder DIR` allows one".to_owned(),
            _ => "it is outside of the folders that may be read; another `--schema-folder DIR` allows more"
                .to_owned(),
        }
    }
}

impl SchemaFiles for SchemaFolders {
    fn check(&self, folder: &str) -> Result<(), String> {
        match self.locate(folder)? {
            Some(folder) if folder.is_dir() => Ok(()),
            _ => Err("there is no such folder".to_owned()),
        }
    }

    fn read(&self, file: &str) -> Result<Option<Vec<u8>>, String> {
        let Some(path) = self.locate(file)? else { return Ok(None) };
        // Opening a pipe would wait for its other end.
        if !path.is_file() {
            return Err("it is no file".to_owned());
        }
        let file = File::open(&path).map_err(|error| unreadable(&error))?;
        let mut content = Vec::new();
        file.take(FILE_LIMIT + 1).read_to_end(&mut content).map_err(|error| unreadable(&error))?;
        match content.len() as u64 > FILE_LIMIT {
            true => Err(format!("it is larger than {} MiB", FILE_LIMIT >> 20)),
            false => Ok(Some(content)),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, String> {
        let Some(path) = self.locate(folder)? else { return Ok(Vec::new()) };
        let mut files = Vec::new();
        for entry in fs::read_dir(&path).map_err(|error| unreadable(&error))? {
            let entry = entry.map_err(|error| unreadable(&error))?;
            // What is not UTF-8 is nothing that anybody could name.
            if let Ok(name) = entry.file_name().into_string()
                && entry.path().is_file()
            {
                files.push(format!("{}/{name}", folder.trim_end_matches('/')));
            }
            if files.len() > COUNT_LIMIT {
                return Err(format!("it has more than {COUNT_LIMIT} files"));
            }
        }
        files.sort();
        Ok(files)
    }
}

fn unreadable(error: &std::io::Error) -> String {
    format!("it cannot be read: {error}")
}

/// The path from the root on, without `..`, which could lead elsewhere behind a link.
fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let text = absolute.to_str().ok_or_else(|| std::io::Error::new(ErrorKind::InvalidInput, "not UTF-8"))?;
    Ok(PathBuf::from(clean(text)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const OUTSIDE: &str =
        "it is outside of the folders that may be read; another `--schema-folder DIR` allows more";

    /// A folder `allowed` beside a file `secret.json` and a folder `allowed-not`.
    struct Stage {
        _folder: tempfile::TempDir,
        root: String,
        folders: SchemaFolders,
    }

    fn stage() -> Stage {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it is there");
        for name in ["allowed/below", "allowed-not"] {
            fs::create_dir_all(root.join(name)).expect("a folder");
        }
        for name in ["secret.json", "allowed-not/a.json", "allowed/a.json", "allowed/below/b.json"] {
            fs::write(root.join(name), name).expect("a file");
        }
        let folders = SchemaFolders::new([root.join("allowed")]).expect("it is a folder");
        Stage { _folder: folder, root: root.display().to_string(), folders }
    }

    fn read(stage: &Stage, path: &str) -> Result<Option<String>, String> {
        let content = stage.folders.read(&format!("{}/{path}", stage.root))?;
        Ok(content.map(|content| String::from_utf8_lossy(&content).into_owned()))
    }

    #[test]
    fn files_inside_are_read_and_others_are_missing() {
        let stage = stage();
        for path in ["allowed/a.json", "allowed//./below/../a.json", "allowed/missing/../a.json"] {
            assert_eq!(read(&stage, path), Ok(Some("allowed/a.json".to_owned())), "{path}");
        }
        for path in ["allowed/c.json", "allowed/a.json/c.json", "allowed/x/y.json"] {
            assert_eq!(read(&stage, path), Ok(None), "{path}");
        }
        assert_eq!(read(&stage, "allowed/below"), Err("it is no file".to_owned()));
    }

    #[test]
    fn nothing_outside_is_read_and_what_is_there_is_not_told() {
        let stage = stage();
        for path in [
            "secret.json",
            "missing.json",
            "allowed/../secret.json",
            "allowed/../missing.json",
            "allowed/below/../../secret.json",
            "allowed-not/a.json",
            "../../../../../../../../etc/passwd",
        ] {
            assert_eq!(read(&stage, path), Err(OUTSIDE.to_owned()), "{path}");
        }
        assert_eq!(stage.folders.read("/etc/passwd"), Err(OUTSIDE.to_owned()));
        assert_eq!(stage.folders.read("etc/passwd"), Err(OUTSIDE.to_owned()));
        for folder in [stage.root.clone(), format!("{}/allowed/..", stage.root), "/".to_owned()] {
            assert_eq!(stage.folders.check(&folder), Err(OUTSIDE.to_owned()), "{folder}");
            assert_eq!(stage.folders.list(&folder), Err(OUTSIDE.to_owned()), "{folder}");
        }
    }

    #[test]
    fn a_link_may_not_lead_out() {
        let stage = stage();
        let inside = |name: &str| format!("{}/allowed/{name}", stage.root);
        symlink("../secret.json", inside("file")).expect("a link");
        symlink("/etc", inside("folder")).expect("a link");
        symlink("below/b.json", inside("fine")).expect("a link");
        symlink("loop", inside("loop")).expect("a link");
        assert_eq!(read(&stage, "allowed/file"), Err(OUTSIDE.to_owned()));
        assert_eq!(read(&stage, "allowed/folder/passwd"), Err(OUTSIDE.to_owned()));
        assert_eq!(stage.folders.list(&inside("folder")), Err(OUTSIDE.to_owned()));
        assert_eq!(read(&stage, "allowed/fine"), Ok(Some("allowed/below/b.json".to_owned())));
        // The link is taken out of the path before the path is walked.
        assert_eq!(read(&stage, "allowed/folder/../a.json"), Ok(Some("allowed/a.json".to_owned())));
        assert!(read(&stage, "allowed/loop").is_err());
    }

    #[test]
    fn a_folder_that_is_a_link_may_come_to_lead_elsewhere() {
        let stage = stage();
        let current = format!("{}/current", stage.root);
        symlink("allowed", &current).expect("a link");
        let folders = SchemaFolders::new([PathBuf::from(&current)]).expect("it is a folder");
        let read = |path: &str| folders.read(&format!("{}/{path}", stage.root));
        assert_eq!(read("current/a.json"), Ok(Some(b"allowed/a.json".to_vec())));
        assert_eq!(read("allowed/a.json"), Ok(Some(b"allowed/a.json".to_vec())));
        fs::remove_file(&current).expect("it is there");
        symlink("allowed-not", &current).expect("a link");
        assert_eq!(read("current/a.json"), Ok(Some(b"allowed-not/a.json".to_vec())));
        assert_eq!(read("allowed/a.json"), Err(OUTSIDE.to_owned()));
    }

    #[test]
    fn a_folder_lists_its_files_by_name() {
        let stage = stage();
        let folder = format!("{}/allowed/", stage.root);
        fs::write(format!("{folder}0.yaml"), "").expect("a file");
        let expected = ["0.yaml", "a.json"].map(|name| format!("{folder}{name}"));
        assert_eq!(stage.folders.list(&folder), Ok(expected.to_vec()));
        assert_eq!(stage.folders.check(&folder), Ok(()));
        assert_eq!(stage.folders.check(&format!("{folder}x")), Err("there is no such folder".to_owned()));
    }

    #[test]
    fn what_is_too_large_or_no_file_is_told() {
        let stage = stage();
        let large = File::create(format!("{}/allowed/large.json", stage.root)).expect("a file");
        large.set_len(FILE_LIMIT + 1).expect("room");
        assert_eq!(read(&stage, "allowed/large.json"), Err("it is larger than 16 MiB".to_owned()));
        large.set_len(FILE_LIMIT).expect("room");
        assert!(read(&stage, "allowed/large.json").is_ok());
        assert!(read(&stage, "allowed/\0").is_err());
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let stage = stage();
        let pipe = format!("{}/allowed/pipe", stage.root);
        let mode = rustix::fs::Mode::from_bits_truncate(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
        assert_eq!(read(&stage, "allowed/pipe"), Err("it is no file".to_owned()));
    }

    #[test]
    fn without_folders_everything_is_refused() {
        let refusal = "no folder with schemas may be read; `--schema-folder DIR` allows one";
        assert_eq!(SchemaFolders::default().read("/etc/passwd"), Err(refusal.to_owned()));
        assert_eq!(SchemaFolders::default().check("."), Err(refusal.to_owned()));
    }

    #[test]
    fn a_folder_that_is_none_is_told() {
        let stage = stage();
        for (path, reason) in [
            ("allowed/a.json", "Not a directory (os error 20)"),
            ("missing", "No such file or directory (os error 2)"),
        ] {
            let path = PathBuf::from(format!("{}/{path}", stage.root));
            let error = SchemaFolders::new([path.clone()]).expect_err("it is no folder");
            let source = std::error::Error::source(&error).map(ToString::to_string);
            assert_eq!(
                (error.to_string(), source),
                (format!("`{}`", path.display()), Some(reason.to_owned()))
            );
        }
    }
}
