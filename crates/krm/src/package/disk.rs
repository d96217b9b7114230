//! A folder on disk as a tree.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::ReadErrorKind;
use super::walk::{Entry, EntryKind, Tree};

/// The folder everything is relative to; its path is free of links.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }
}

impl Tree for Folder {
    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.root.join(folder))? {
            let entry = entry?;
            let file_type = entry.file_type()?;
            let kind = if file_type.is_dir() {
                EntryKind::Folder
            } else if file_type.is_file() {
                EntryKind::File
            } else {
                EntryKind::Other
            };
            entries.push(match entry.file_name().into_string() {
                Ok(name) => Entry { name, kind, is_utf8: true },
                Err(name) => Entry { name: name.to_string_lossy().into_owned(), kind, is_utf8: false },
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn has_file(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    fn read(&self, path: &str, kind: EntryKind, limit: u64) -> Result<Option<Cow<'_, [u8]>>, ReadErrorKind> {
        let path = self.root.join(path);
        // Opening a pipe would wait for its other end.
        if kind != EntryKind::File {
            match fs::metadata(&path) {
                Ok(metadata) if !metadata.is_file() => return Err(ReadErrorKind::NotAFile),
                Ok(_) => {}
                Err(error) if kind == EntryKind::Unknown && error.kind() == io::ErrorKind::NotFound => {
                    return Ok(None);
                }
                Err(error) => return Err(ReadErrorKind::Io(error)),
            }
        }
        let mut file = File::open(&path).map_err(ReadErrorKind::Io)?;
        let size = file.metadata().map_err(ReadErrorKind::Io)?.len();
        if size > limit {
            return Err(ReadErrorKind::FileTooLarge { size, limit });
        }
        let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
        // A file may grow while it is read.
        let read = file.by_ref().take(limit + 1).read_to_end(&mut content).map_err(ReadErrorKind::Io)?;
        if read as u64 > limit {
            return Err(ReadErrorKind::FileTooLarge { size: read as u64, limit });
        }
        Ok(Some(Cow::Owned(content)))
    }
}
