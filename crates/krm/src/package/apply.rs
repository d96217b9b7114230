//! Changes carried out on disk, all or nothing.
//!
//! Everything is checked first, then every new content is written to a temporary file beside its target, and
//! only then do files change, each by a rename. What they replace keeps a second name until the end, so a
//! failure on the way puts back the very same files.

use std::collections::HashMap;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::names::{Paths, check_new_file, has_git_part};
use super::plan::{Changes, WriteError, WriteErrorKind};
use crate::path;

/// A file to write or, without a new content, to remove.
struct Job<'a> {
    /// The path within the package.
    path: &'a str,
    /// The file itself, links resolved.
    target: PathBuf,
    content: Option<&'a str>,
    /// The mode to keep, if there is a file already.
    permissions: Option<Permissions>,
}

/// A file that has changed and how to undo it.
struct Done {
    target: PathBuf,
    /// What the file was, under another name; none if it was not there.
    backup: Option<PathBuf>,
}

/// What went wrong where.
struct Failure {
    path: String,
    action: &'static str,
    cause: io::Error,
}

impl Changes {
    /// Carries the changes out on a folder, all or nothing. What differs is replaced with its mode kept, but for the
    /// right to run it; what does not is never touched. Links to files are written through if they lead to a resource
    /// file inside the package.
    ///
    /// # Errors
    /// If a path leads out of the package or to a folder, or the system does not let us. Then the folder is as
    /// it was, or the error says what is not.
    pub fn apply_to_folder(&self, folder: &Path) -> Result<(), WriteError> {
        self.apply(folder, &|_| Ok(()))
    }

    /// `fault` is asked before each step that changes a file, so that a test can make one fail.
    pub(super) fn apply(
        &self,
        folder: &Path,
        fault: &dyn Fn(&str) -> io::Result<()>,
    ) -> Result<(), WriteError> {
        let root = folder.canonicalize().map_err(|cause| self.no_package(folder, cause))?;
        if self.is_empty() {
            return Ok(());
        }
        let jobs = self.jobs(&root)?;
        let mut created = Vec::new();
        let mut temporaries = Vec::new();
        let mut done = Vec::new();
        let outcome = prepare(&jobs, &root, &mut created, &mut temporaries)
            .and_then(|()| commit(&jobs, &temporaries, &mut done, fault));
        match outcome {
            Ok(()) => {
                for backup in done.into_iter().filter_map(|done: Done| done.backup) {
                    // The package is complete; a second name that stays is untidy, not wrong.
                    let _ = fs::remove_file(backup);
                }
                Ok(())
            }
            Err(failure) => Err(self.undo(failure, done, temporaries, &created)),
        }
    }

    fn no_package(&self, folder: &Path, cause: io::Error) -> WriteError {
        let folder = folder.display().to_string();
        self.error(
            "",
            match cause.kind() {
                io::ErrorKind::NotFound => WriteErrorKind::NoPackage(folder),
                _ => WriteErrorKind::Io { path: folder, action: "open", cause },
            },
        )
    }

    fn undo(
        &self,
        failure: Failure,
        done: Vec<Done>,
        temporaries: Vec<Option<PathBuf>>,
        created: &[PathBuf],
    ) -> WriteError {
        let mut left = Vec::new();
        for Done { target, backup } in done.into_iter().rev() {
            let result = match &backup {
                Some(backup) => fs::rename(backup, &target),
                None => fs::remove_file(&target),
            };
            if result.is_err() {
                let backup = backup.map(|backup| format!(" (see {})", backup.display())).unwrap_or_default();
                left.push(format!("{}{backup}", target.display()));
            }
        }
        for temporary in temporaries.into_iter().flatten() {
            let _ = fs::remove_file(temporary);
        }
        for folder in created.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
        let Failure { path, action, cause } = failure;
        let file = path.clone();
        self.error(
            &file,
            if left.is_empty() {
                WriteErrorKind::Io { path, action, cause }
            } else {
                WriteErrorKind::Broken { path, action, cause, left: left.join(", ") }
            },
        )
    }

    // --- checks ---

    fn jobs(&self, root: &Path) -> Result<Vec<Job<'_>>, WriteError> {
        let mut folders = HashMap::new();
        let mut jobs = Vec::with_capacity(self.writes.len() + self.removals.len());
        for (path, content) in &self.writes {
            jobs.push(self.write_job(root, path, content, &mut folders)?);
        }
        for path in &self.removals {
            // A link is removed itself, not what it leads to.
            let target = self.folder_of(root, path, &mut folders)?.join(path::base_name(path));
            if target.symlink_metadata().is_ok() {
                jobs.push(Job { path, target, content: None, permissions: None });
            }
        }
        Ok(jobs)
    }

    fn write_job<'a>(
        &self,
        root: &Path,
        path: &'a str,
        content: &'a str,
        folders: &mut HashMap<&'a str, PathBuf>,
    ) -> Result<Job<'a>, WriteError> {
        let mut target = self.folder_of(root, path, folders)?.join(path::base_name(path));
        let mut permissions = None;
        if let Ok(metadata) = target.symlink_metadata() {
            if metadata.is_symlink() {
                target = target.canonicalize().map_err(|cause| self.io(path, "follow the link", cause))?;
                self.check_target(root, path, &target)?;
            }
            let metadata = target.metadata().map_err(|cause| self.io(path, "look at it", cause))?;
            if metadata.is_dir() {
                return Err(self.error(path, WriteErrorKind::IsFolder(path.to_owned())));
            }
            if !self.may_replace(path) {
                return Err(self.error(path, WriteErrorKind::NotRead(path.to_owned())));
            }
            permissions = Some(not_executable(&metadata.permissions()));
        }
        Ok(Job { path, target, content: Some(content), permissions })
    }

    /// What a link leads to must be a file that could have been made itself.
    fn check_target(&self, root: &Path, path: &str, target: &Path) -> Result<(), WriteError> {
        self.check_inside(root, path, target)?;
        let inside = target.strip_prefix(root).unwrap_or(target).to_string_lossy();
        match check_new_file(&inside, self.paths) {
            Ok(()) => Ok(()),
            Err(kind @ WriteErrorKind::InGitFolder(_)) => Err(self.error(path, kind)),
            Err(_) => {
                let (path, target) = (path.to_owned(), inside.into_owned());
                Err(self.error(&path.clone(), WriteErrorKind::ThroughLink { path, target }))
            }
        }
    }

    /// The folder of a path, with the links in what exists of it resolved; it must lie inside the package.
    fn folder_of<'a>(
        &self,
        root: &Path,
        path: &'a str,
        folders: &mut HashMap<&'a str, PathBuf>,
    ) -> Result<PathBuf, WriteError> {
        let folder = path::folder(path);
        if let Some(known) = folders.get(folder) {
            return Ok(known.clone());
        }
        let mut existing = folder;
        let resolved = loop {
            match root.join(existing).canonicalize() {
                Ok(resolved) => break resolved,
                Err(cause) if existing.is_empty() || !is_missing(&cause) => {
                    return Err(self.io(path, "reach its folder", cause));
                }
                Err(_) if root.join(existing).is_symlink() => {
                    let target = fs::read_link(root.join(existing)).unwrap_or_default().display().to_string();
                    return Err(self.outside(path, target));
                }
                Err(_) => existing = path::folder(existing),
            }
        };
        self.check_inside(root, path, &resolved)?;
        if resolved != root.join(existing) && self.paths != Paths::Any {
            // A reader does not follow links to folders.
            let target = resolved.strip_prefix(root).unwrap_or(&resolved).display().to_string();
            return Err(self.error(path, WriteErrorKind::ThroughLink { path: path.to_owned(), target }));
        }
        if has_git_part(&resolved.strip_prefix(root).unwrap_or(&resolved).to_string_lossy()) {
            return Err(self.error(path, WriteErrorKind::InGitFolder(path.to_owned())));
        }
        if !resolved.is_dir() {
            let kind = WriteErrorKind::FileInTheWay { path: path.to_owned(), file: existing.to_owned() };
            return Err(self.error(path, kind));
        }
        let rest = folder[existing.len()..].trim_start_matches('/');
        let resolved = if rest.is_empty() { resolved } else { resolved.join(rest) };
        folders.insert(folder, resolved.clone());
        Ok(resolved)
    }

    fn check_inside(&self, root: &Path, path: &str, target: &Path) -> Result<(), WriteError> {
        if target.starts_with(root) { Ok(()) } else { Err(self.outside(path, target.display().to_string())) }
    }

    fn outside(&self, path: &str, target: String) -> WriteError {
        let package = self.package.clone();
        self.error(path, WriteErrorKind::LinkOutsidePackage { package, path: path.to_owned(), target })
    }

    fn io(&self, path: &str, action: &'static str, cause: io::Error) -> WriteError {
        self.error(path, WriteErrorKind::Io { path: path.to_owned(), action, cause })
    }
}

fn is_missing(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

// === steps ===

/// Makes folders and writes every new content to a temporary file, one for each job that has content.
fn prepare(
    jobs: &[Job<'_>],
    root: &Path,
    created: &mut Vec<PathBuf>,
    temporaries: &mut Vec<Option<PathBuf>>,
) -> Result<(), Failure> {
    for job in jobs {
        let Some(content) = job.content else {
            temporaries.push(None);
            continue;
        };
        let failure = |action| move |cause| Failure { path: job.path.to_owned(), action, cause };
        let folder = job.target.parent().unwrap_or(root);
        create_folders(folder, created).map_err(failure("make its folder"))?;
        let temporary = unused_name(folder);
        temporaries.push(Some(temporary.clone()));
        write_new(&temporary, content, job.permissions.as_ref())
            .map_err(failure("write a temporary file for it"))?;
    }
    Ok(())
}

/// Renames the temporary files to their targets and removes what is to go.
fn commit(
    jobs: &[Job<'_>],
    temporaries: &[Option<PathBuf>],
    done: &mut Vec<Done>,
    fault: &dyn Fn(&str) -> io::Result<()>,
) -> Result<(), Failure> {
    for (job, temporary) in jobs.iter().zip(temporaries) {
        let failure = |action| move |cause| Failure { path: job.path.to_owned(), action, cause };
        let target = job.target.clone();
        let folder = target.parent().unwrap_or(&target);
        let exists = temporary.is_none() || job.permissions.is_some();
        let backup = exists.then(|| unused_name(folder));
        match (temporary, &backup) {
            (None, Some(backup)) => {
                fault(job.path).and_then(|()| fs::rename(&target, backup)).map_err(failure("remove it"))?;
                done.push(Done { target, backup: Some(backup.clone()) });
            }
            (Some(temporary), backup) => {
                if let Some(backup) = backup {
                    second_name(&target, backup).map_err(failure("keep its old content"))?;
                }
                let renamed = fault(job.path).and_then(|()| match backup {
                    Some(_) => fs::rename(temporary, &target),
                    None => rename_new(temporary, &target),
                });
                if let Err(cause) = renamed {
                    if let Some(backup) = backup {
                        let _ = fs::remove_file(backup);
                    }
                    return Err(failure("replace it")(cause));
                }
                done.push(Done { target, backup: backup.clone() });
            }
            (None, None) => {}
        }
    }
    Ok(())
}

/// A name in a folder that no file has and no reader looks at.
fn unused_name(folder: &Path) -> PathBuf {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    folder.join(format!(".loggia-{}-{number}.tmp", std::process::id()))
}

/// Renames a file to a name that no other has.
fn rename_new(file: &Path, name: &Path) -> io::Result<()> {
    match renameat_with(CWD, file, CWD, name, RenameFlags::NOREPLACE) {
        // Not every file system can.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => fs::rename(file, name),
        other => other.map_err(Into::into),
    }
}

/// What a function wrote must not become a program because the file it replaces was one.
fn not_executable(permissions: &Permissions) -> Permissions {
    Permissions::from_mode(permissions.mode() & 0o666)
}

fn write_new(path: &Path, content: &str, permissions: Option<&Permissions>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    file.write_all(content.as_bytes())?;
    match permissions {
        Some(permissions) => file.set_permissions(permissions.clone()),
        None => Ok(()),
    }
}

/// Gives a file a second name, or copies it where names cannot be shared.
fn second_name(file: &Path, name: &Path) -> io::Result<()> {
    fs::hard_link(file, name).or_else(|_| fs::copy(file, name).map(|_| ()))
}

fn create_folders(folder: &Path, created: &mut Vec<PathBuf>) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        create_folders(parent, created)?;
    }
    match fs::create_dir(folder) {
        Ok(()) => {
            created.push(folder.to_owned());
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}
