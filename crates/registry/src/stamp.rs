//! Detects changes of files without reading them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The state of some files: two stamps differ if a file was changed, replaced, created or removed. The inode is
/// part of it because Kubernetes updates a mounted Secret by pointing a link to new files, which may have the size
/// and even the time of the old ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(Vec<Option<FileStamp>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    length: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
}

// === impl Stamp ===

impl Stamp {
    pub(crate) fn of(files: impl IntoIterator<Item: AsRef<Path>>) -> Self {
        let stamp = |found: fs::Metadata| FileStamp {
            inode: found.ino(),
            length: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
        };
        Self(files.into_iter().map(|file| fs::metadata(file).ok().map(stamp)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_changes_with_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let stamp = || Stamp::of([&one, &two]);
        fs::write(&one, "a").unwrap();
        let first = stamp();
        assert_eq!(stamp(), first);
        fs::write(&two, "b").unwrap();
        let created = stamp();
        assert_ne!(created, first);
        fs::rename(&two, &one).unwrap();
        assert_ne!(stamp(), created);
        fs::remove_file(&one).unwrap();
        assert_eq!(stamp(), Stamp(vec![None, None]));
    }
}
