//! A folder on disk as a tree that reading never leaves.
//!
//! The kernel resolves every path below the root's descriptor (`openat2` with `RESOLVE_BENEATH`), so no link and no race
//! leads out. Where the kernel or a seccomp filter does not allow that call, paths are resolved first and compared with
//! the root. What is opened is looked at before it is read: only a regular file is.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, statat};
use rustix::io::Errno;

use super::ReadErrorKind;
use super::names::has_git_part;
use super::walk::{Entry, EntryKind, Tree};

/// How often to try again when files were renamed while the kernel resolved a path.
const ATTEMPTS: usize = 16;

/// The folder everything is relative to.
#[derive(Debug)]
pub(super) struct Folder {
    /// Free of links.
    root: PathBuf,
    descriptor: OwnedFd,
    /// The kernel has `openat2` and lets us call it.
    kernel_confines: AtomicBool,
}

// === impl Folder ===

impl Folder {
    /// Opens a folder whose path is free of links.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(root, flags, Mode::empty())?;
        Ok(Self { root: root.to_owned(), descriptor, kernel_confines: AtomicBool::new(true) })
    }

    #[cfg(test)]
    pub(super) fn without_kernel_support(self) -> Self {
        Self { kernel_confines: AtomicBool::new(false), ..self }
    }

    /// Opens what is at a path, wherever links lead as long as that is below the root.
    fn open_inside(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = Path::new(if path.is_empty() { "." } else { path });
        let links = ResolveFlags::NO_MAGICLINKS;
        match self.open_beneath(path, flags, links) {
            // An absolute link, or one that leaves the root on its way, may still lead into it. What it leads to is
            // opened by its own name, which no link has a part in.
            Some(Err(Errno::XDEV)) => {
                let real = self.resolve(path).map_err(|_| Errno::XDEV)?;
                self.open_beneath(&real, flags, ResolveFlags::NO_SYMLINKS).unwrap_or(Err(Errno::XDEV))
            }
            Some(opened) => opened,
            None => {
                let real = self.resolve(path)?;
                let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NOFOLLOW;
                openat(&self.descriptor, real, flags, Mode::empty())
            }
        }
    }

    /// Has the kernel open a path without leaving the root; none if it cannot.
    fn open_beneath(&self, path: &Path, flags: OFlags, how: ResolveFlags) -> Option<Result<OwnedFd, Errno>> {
        if !self.kernel_confines.load(Ordering::Relaxed) {
            return None;
        }
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        for _ in 0..ATTEMPTS {
            match openat2(&self.descriptor, path, flags, Mode::empty(), how | ResolveFlags::BENEATH) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::NOSYS | Errno::PERM) => {
                    self.kernel_confines.store(false, Ordering::Relaxed);
                    return None;
                }
                other => return Some(other),
            }
        }
        Some(Err(Errno::AGAIN))
    }

    /// Where a path leads, relative to the root.
    fn resolve(&self, path: &Path) -> Result<PathBuf, Errno> {
        let errno = |error: &io::Error| Errno::from_io_error(error).unwrap_or(Errno::IO);
        let real = self.root.join(path).canonicalize().map_err(|error| errno(&error))?;
        match real.strip_prefix(&self.root) {
            Ok(inside) if inside.as_os_str().is_empty() => Ok(PathBuf::from(".")),
            Ok(inside) => Ok(inside.to_owned()),
            Err(_) => Err(Errno::XDEV),
        }
    }

    /// A link to a file of git's own is not followed: what is read may be written again.
    fn check_target(&self, path: &str) -> Result<(), ReadErrorKind> {
        let real = self.resolve(Path::new(path)).map_err(kind_of)?;
        if has_git_part(&real.to_string_lossy()) { Err(ReadErrorKind::InGitFolder) } else { Ok(()) }
    }
}

fn kind_of(errno: Errno) -> ReadErrorKind {
    match errno {
        Errno::XDEV => ReadErrorKind::LeadsOutside,
        Errno::LOOP => ReadErrorKind::LinkLoop,
        // A socket, or a device without a driver.
        Errno::NXIO | Errno::NODEV => ReadErrorKind::NotAFile,
        errno => ReadErrorKind::Io(errno.into()),
    }
}

impl Tree for Folder {
    fn list(&self, folder: &str, limit: usize) -> Result<Vec<Entry>, ReadErrorKind> {
        let io = |errno: Errno| ReadErrorKind::Io(errno.into());
        let opened = self.open_inside(folder, OFlags::RDONLY | OFlags::DIRECTORY).map_err(kind_of)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&opened).map_err(io)? {
            let entry = entry.map_err(io)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if entries.len() >= limit {
                return Err(ReadErrorKind::TooManyEntries);
            }
            let file_type = match entry.file_type() {
                // Some file systems say what a name stands for only when asked.
                FileType::Unknown => {
                    let found = statat(opened.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).map_err(io)?;
                    FileType::from_raw_mode(found.st_mode)
                }
                known => known,
            };
            let kind = match file_type {
                FileType::Directory => EntryKind::Folder,
                FileType::RegularFile => EntryKind::File,
                _ => EntryKind::Other,
            };
            let is_utf8 = name.to_str().is_ok();
            entries.push(Entry { name: name.to_string_lossy().into_owned(), kind, is_utf8 });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// A link that cannot be followed counts: reading it will say why.
    fn has_file(&self, path: &str) -> bool {
        match statat(&self.descriptor, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Symlink => {
                !matches!(self.open_inside(path, OFlags::PATH), Err(Errno::NOENT | Errno::NOTDIR))
            }
            found => found.is_ok(),
        }
    }

    fn read(&self, path: &str, kind: EntryKind, limit: u64) -> Result<Option<Cow<'_, [u8]>>, ReadErrorKind> {
        // Without `NONBLOCK`, opening a pipe would wait for its other end.
        let opened = match self.open_inside(path, OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(opened) => opened,
            Err(Errno::NOENT) if kind == EntryKind::Unknown => return Ok(None),
            Err(errno) => return Err(kind_of(errno)),
        };
        let found = fstat(&opened).map_err(|errno| ReadErrorKind::Io(errno.into()))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(ReadErrorKind::NotAFile);
        }
        if kind != EntryKind::File {
            self.check_target(path)?;
        }
        let size = u64::try_from(found.st_size).unwrap_or(0);
        if size > limit {
            return Err(ReadErrorKind::FileTooLarge { size, limit });
        }
        let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
        // A file may grow while it is read.
        let read = File::from(opened).take(limit + 1).read_to_end(&mut content).map_err(ReadErrorKind::Io)?;
        if read as u64 > limit {
            return Err(ReadErrorKind::FileTooLarge { size: read as u64, limit });
        }
        Ok(Some(Cow::Owned(content)))
    }
}
