//! `cp -a SOURCE ... TARGET`: how pod templates take the server out of its image.

use std::ffi::OsString;
use std::fs::{self, FileTimes, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::say;

pub(crate) fn main(arguments: Vec<OsString>) -> ExitCode {
    match read(arguments).and_then(|(sources, target)| copy_all(&sources, &target)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            say(&format!("cp: {reason}"));
            ExitCode::FAILURE
        }
    }
}

fn read(arguments: Vec<OsString>) -> Result<(Vec<PathBuf>, PathBuf), String> {
    let (mut paths, mut flags_over) = (Vec::new(), false);
    for argument in arguments {
        match argument.to_str() {
            Some("--") if !flags_over => flags_over = true,
            // All of these say no more than `-a` does.
            Some("--archive" | "--recursive" | "--force") if !flags_over => {}
            Some(flag) if !flags_over && flag.len() > 1 && flag.starts_with('-') => {
                if let Some(unknown) = flag[1..].chars().find(|letter| !"aRrpdfPT".contains(*letter)) {
                    return Err(format!("unknown option `{unknown}`; this is a small cp that knows -a"));
                }
            }
            _ => paths.push(PathBuf::from(argument)),
        }
    }
    match paths.pop() {
        Some(target) if !paths.is_empty() => Ok((paths, target)),
        _ => Err("write cp -a SOURCE ... TARGET".to_owned()),
    }
}

fn copy_all(sources: &[PathBuf], target: &Path) -> Result<(), String> {
    for source in sources {
        // `folder/.` stands for what is in the folder, and has no name of its own.
        let contents = source.as_os_str().as_encoded_bytes().ends_with(b"/.") || source == Path::new(".");
        let target = match source.file_name().filter(|_| !contents && target.is_dir()) {
            Some(name) => target.join(name),
            None => target.to_owned(),
        };
        copy(source, &target).map_err(|(path, error)| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

type Failure = (PathBuf, io::Error);

fn copy(source: &Path, target: &Path) -> Result<(), Failure> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| (path, error)
    };
    let metadata = fs::symlink_metadata(source).map_err(at(source))?;
    if metadata.is_dir() {
        if !target.is_dir() {
            fs::create_dir(target).map_err(at(target))?;
        }
        for entry in fs::read_dir(source).map_err(at(source))? {
            let entry = entry.map_err(at(source))?;
            copy(&entry.path(), &target.join(entry.file_name()))?;
        }
    } else {
        match fs::remove_file(target) {
            // A program that runs cannot be written to, only replaced.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err((target.to_owned(), error)),
            _ => {}
        }
        if metadata.is_symlink() {
            let link = fs::read_link(source).map_err(at(source))?;
            symlink(link, target).map_err(at(target))?;
        } else if metadata.is_file() {
            fs::copy(source, target).map_err(at(source))?;
        } else {
            return Err((source.to_owned(), io::Error::other("neither a file, a folder nor a link")));
        }
    }
    take_over(&metadata, target).map_err(at(target))
}

/// Gives the copy the owner, mode and times of the original.
fn take_over(metadata: &Metadata, target: &Path) -> io::Result<()> {
    // Only root may give files away, and a copy of one's own serves as well.
    let _ = lchown(target, Some(metadata.uid()), Some(metadata.gid()));
    if metadata.is_symlink() {
        return Ok(());
    }
    // The volume of a pod may belong to another user; its own mode is not ours to set then.
    match fs::set_permissions(target, PermissionsExt::from_mode(metadata.mode() & 0o7777)) {
        Err(error) if !(metadata.is_dir() && error.kind() == io::ErrorKind::PermissionDenied) => {
            return Err(error);
        }
        _ => {}
    }
    if let (true, Ok(modified), Ok(file)) = (metadata.is_file(), metadata.modified(), fs::File::open(target))
    {
        let accessed = metadata.accessed().unwrap_or(modified);
        let _ = file.set_times(FileTimes::new().set_modified(modified).set_accessed(accessed));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cp(words: &[&str]) -> Result<(), String> {
        let (sources, target) = read(words.iter().map(Into::into).collect())?;
        copy_all(&sources, &target)
    }

    fn folder() -> (tempfile::TempDir, impl Fn(&str) -> String) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display().to_string();
        fs::create_dir_all(folder.path().join("from/inner")).unwrap();
        fs::write(folder.path().join("from/server"), "binary").unwrap();
        fs::set_permissions(folder.path().join("from/server"), PermissionsExt::from_mode(0o555)).unwrap();
        fs::write(folder.path().join("from/inner/file"), "text").unwrap();
        symlink("server", folder.path().join("from/probe")).unwrap();
        (folder, move |path| format!("{root}/{path}"))
    }

    #[test]
    fn the_contents_of_a_folder_land_in_an_existing_one_as_templates_expect() {
        let (_folder, path) = folder();
        fs::create_dir(path("tools")).unwrap();
        // Twice: an init container may run again.
        for _ in 0..2 {
            cp(&["-a", &path("from/."), &path("tools")]).unwrap();
        }
        assert_eq!(fs::read_to_string(path("tools/server")).unwrap(), "binary");
        assert_eq!(fs::metadata(path("tools/server")).unwrap().mode() & 0o777, 0o555);
        assert_eq!(fs::read_link(path("tools/probe")).unwrap(), Path::new("server"));
        assert_eq!(fs::read_to_string(path("tools/inner/file")).unwrap(), "text");
        let times = |name: &str| fs::metadata(path(name)).unwrap().modified().unwrap();
        assert_eq!(times("from/server"), times("tools/server"));
    }

    #[test]
    fn a_folder_keeps_its_name_in_an_existing_one_and_gets_a_new_one_otherwise() {
        let (_folder, path) = folder();
        fs::create_dir(path("to")).unwrap();
        cp(&["-a", &path("from"), &path("to")]).unwrap();
        assert!(Path::new(&path("to/from/server")).exists());
        cp(&["-a", &path("from"), &path("new")]).unwrap();
        assert!(Path::new(&path("new/server")).exists());
        cp(&["-a", &path("from/server"), &path("from/probe"), &path("new/inner")]).unwrap();
        assert!(Path::new(&path("new/inner/server")).exists());
    }

    #[test]
    fn what_cannot_be_copied_is_named() {
        let (_folder, path) = folder();
        assert!(cp(&["-a", &path("missing"), &path("to")]).unwrap_err().contains("/missing: No such file"));
        assert!(cp(&["-a", &path("from/."), &path("a/b")]).unwrap_err().contains("/a/b: No such file"));
        assert_eq!(cp(&["-a", "x"]).unwrap_err(), "write cp -a SOURCE ... TARGET");
        assert_eq!(
            cp(&["-x", "a", "b"]).unwrap_err(),
            "unknown option `x`; this is a small cp that knows -a"
        );
    }
}
