//! Private temporary folders: one for each call that runs, emptied when the call is over.

use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

use rustix::fs::{AtFlags, FlockOperation, flock, renameat, unlinkat};

/// How the folders of running programs are called.
const PREFIX: &str = "loggia-exec-";

/// The file by which a running program holds its folder.
const LOCK: &str = ".lock";

/// A folder for the private folders of this process; removed with it.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: PathBuf,
    next: AtomicU64,
    _lock: fs::File,
}

/// What a folder holds, counted up to a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

// === impl Scratch ===

impl Scratch {
    /// Makes the folder in another one, and removes those that programs left there which did not end well.
    pub(crate) fn new(inside: &Path) -> io::Result<Self> {
        remove_abandoned(inside);
        let folder = inside.join(format!("{PREFIX}{}", loggia_go::random_id()));
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let lock = fs::File::create(folder.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { folder: fs::canonicalize(folder)?, next: AtomicU64::new(0), _lock: lock })
    }

    /// A new, empty folder.
    pub(crate) fn make(&self) -> io::Result<PathBuf> {
        let path = self.folder.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = remove(&self.folder);
    }
}

fn remove_abandoned(inside: &Path) {
    for entry in fs::read_dir(inside).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX))
            && entry
                .metadata()
                .is_ok_and(|found| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw());
        let lock = ours.then(|| fs::File::open(entry.path().join(LOCK)).ok()).flatten();
        if lock.is_some_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            let _ = remove(&entry.path());
        }
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    empty(folder)?;
    fs::remove_dir(folder)
}

/// Empties a folder, whatever is in it.
///
/// Folders are not descended into: what is in one is moved up beside it until it is empty. So neither the stack nor the
/// number of open files depends on how deep a function has nested them.
pub(crate) fn empty(folder: &Path) -> io::Result<()> {
    loop {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                fs::set_permissions(folder, Permissions::from_mode(0o700))?;
                fs::read_dir(folder)?
            }
            entries => entries?,
        };
        let mut left = false;
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                left = true;
                flatten(folder, &entry.file_name())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        if !left {
            return Ok(());
        }
    }
}

/// Moves the folders of a folder up beside it, and removes the rest and the folder itself.
fn flatten(parent: &Path, name: &OsString) -> io::Result<()> {
    let path = parent.join(name);
    match fs::remove_dir(&path) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        removed => return removed,
    }
    fs::set_permissions(&path, Permissions::from_mode(0o700))?;
    let folder = fs::File::open(&path)?;
    let above = fs::File::open(parent)?;
    for entry in fs::read_dir(&path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            // A folder that cannot be written to cannot be moved either: its `..` changes.
            fs::set_permissions(entry.path(), Permissions::from_mode(0o700))?;
            renameat(&folder, entry.file_name(), &above, format!(".moved-{:x}", loggia_go::random_id()))?;
        } else {
            unlinkat(&folder, entry.file_name(), AtFlags::empty())?;
        }
    }
    fs::remove_dir(&path)
}

/// What is in a folder. It stops counting where either bound is passed.
pub(crate) fn usage(folder: &Path, most: Usage) -> Usage {
    let mut usage = Usage::default();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            usage.entries += 1;
            if let Ok(found) = entry.metadata() {
                usage.bytes = usage.bytes.saturating_add(found.blocks().saturating_mul(512));
                if found.is_dir() {
                    folders.push(entry.path());
                }
            }
            if usage.bytes > most.bytes || usage.entries > most.entries {
                return usage;
            }
        }
    }
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch() -> (tempfile::TempDir, Scratch) {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(folder.path()).unwrap();
        (folder, scratch)
    }

    #[test]
    fn a_folder_of_any_shape_is_emptied() {
        let (_outer, scratch) = scratch();
        let folder = scratch.make().unwrap();
        fs::create_dir_all(folder.join("a/b/c")).unwrap();
        fs::create_dir_all(folder.join("a/d/.moved-1-1")).unwrap();
        for file in ["x", "a/x", "a/b/x", "a/b/c/x", "a/d/.hidden"] {
            fs::write(folder.join(file), "text").unwrap();
        }
        std::os::unix::fs::symlink("/", folder.join("a/link")).unwrap();
        fs::set_permissions(folder.join("a/b"), Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(folder.join("a"), Permissions::from_mode(0o500)).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o000)).unwrap();
        empty(&folder).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn depth_costs_neither_stack_nor_descriptors() {
        let (_outer, scratch) = scratch();
        let folder = scratch.make().unwrap();
        // Longer than a path may be, so it is built from the inside of the one before.
        let mut inner = fs::File::open(&folder).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&inner, "d", rustix::fs::Mode::RWXU).unwrap();
            let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::RDONLY;
            inner = rustix::fs::openat(&inner, "d", flags, rustix::fs::Mode::empty()).unwrap().into();
        }
        empty(&folder).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn what_a_dead_program_left_is_removed_and_what_a_living_one_uses_is_not() {
        let outer = tempfile::tempdir().unwrap();
        let dead = outer.path().join(format!("{PREFIX}dead"));
        fs::create_dir_all(dead.join("0")).unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        let first = Scratch::new(outer.path()).unwrap();
        let second = Scratch::new(outer.path()).unwrap();
        assert!(!dead.exists());
        assert!(first.folder.exists() && second.folder.exists());
        drop((first, second));
        assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 0);
    }

    #[test]
    fn counting_stops_at_the_bound() {
        let (_outer, scratch) = scratch();
        let folder = scratch.make().unwrap();
        for number in 0..50 {
            fs::write(folder.join(number.to_string()), vec![1; 5000]).unwrap();
        }
        let most = Usage { bytes: u64::MAX, entries: u64::MAX };
        assert_eq!(usage(&folder, most).entries, 50);
        assert!(usage(&folder, most).bytes >= 250_000);
        assert_eq!(usage(&folder, Usage { entries: 10, ..most }).entries, 11);
        assert!(usage(&folder, Usage { bytes: 10_000, ..most }).bytes < 30_000);
    }
}
