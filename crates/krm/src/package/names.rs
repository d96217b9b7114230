//! Which names files of a package may have: what a reader reads, and what nothing may write to.

use std::borrow::Cow;

use super::{KPTFILE, plan::WriteErrorKind};

/// The longest path of a file in a package, in bytes. It is that of the system.
pub const MAX_PATH: usize = 4096;
/// How deep folders of a package may nest.
pub const MAX_DEPTH: usize = 256;

/// Which files may be made beside those that supplied resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paths {
    /// Those that a reader would read again, and none that is hidden: in a package other programs may act on them.
    #[default]
    Package,
    /// Those that a reader would read again. For a folder that did not exist before.
    NewFolder,
    /// Any that is not in a `.git` folder.
    Any,
}

/// Whether a reader takes resources from files of this name.
pub(super) fn is_resource_file(name: &str, json: bool) -> bool {
    name == KPTFILE || name.ends_with(".yaml") || name.ends_with(".yml") || (json && name.ends_with(".json"))
}

/// Whether a part of the path is git's folder, under any name that some file system takes for it.
pub(super) fn has_git_part(path: &str) -> bool {
    path.split(['/', '\\']).any(is_git)
}

/// HFS+ ignores letters without width, NTFS ignores trailing dots and spaces and what is behind a colon, and has short
/// names such as `git~1`. See CVE-2014-9390.
pub(super) fn is_git(part: &str) -> bool {
    let part = part.split(':').next().unwrap_or(part);
    let folded: String = part
        .chars()
        .filter(|c| !matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}'))
        .flat_map(char::to_lowercase)
        .collect();
    let folded = folded.trim_end_matches(['.', ' ']);
    let short = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    folded == ".git" || folded.strip_prefix("git~").is_some_and(short)
}

fn is_hidden(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with('.'))
}

/// Checks that a file may be written that did not supply a resource before. The path is clean and relative.
///
/// # Errors
/// If other programs than readers of packages might act on the file, or no reader would read it.
pub fn check_new_file(path: &str, paths: Paths) -> Result<(), WriteErrorKind> {
    check_any_file(path)?;
    let name = crate::path::base_name(path);
    match paths {
        Paths::Any => Ok(()),
        _ if !is_resource_file(name, true) => Err(WriteErrorKind::NotResourceFile(path.to_owned())),
        _ if matches!(loggia_go::printable_line(path), Cow::Owned(_)) || path.contains('\t') => {
            Err(WriteErrorKind::Unprintable(loggia_go::quote(path)))
        }
        Paths::Package if is_hidden(path) => Err(WriteErrorKind::Hidden(path.to_owned())),
        _ => Ok(()),
    }
}

/// Checks what holds for every file that is written.
pub(super) fn check_any_file(path: &str) -> Result<(), WriteErrorKind> {
    if has_git_part(path) {
        return Err(WriteErrorKind::InGitFolder(path.to_owned()));
    }
    if path.len() > MAX_PATH || path.split('/').count() > MAX_DEPTH {
        let start = path.chars().take(80).collect();
        return Err(WriteErrorKind::PathTooLong { start, length: path.len() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_is_known_under_all_its_names() {
        for name in [
            ".git",
            ".GIT",
            ".Git",
            ".git.",
            ".git ",
            ".git . .",
            ".g\u{200c}it",
            "\u{feff}.git",
            "GIT~1",
            "git~12",
            ".git::$INDEX_ALLOCATION",
        ] {
            assert!(is_git(name), "{name:?}");
            assert!(has_git_part(&format!("a/{name}/hooks/x.yaml")), "{name:?}");
        }
        for name in [".gitignore", ".github", "git", "git~", "git~x", "x.git", ".gitlab-ci.yml"] {
            assert!(!is_git(name), "{name:?}");
        }
        assert!(has_git_part("a\\.git\\config.yaml"));
    }

    #[test]
    fn a_new_file_is_one_that_a_reader_would_read() {
        let check = |path: &str, paths| check_new_file(path, paths).map_err(|error| error.to_string());
        for path in ["a.yaml", "a/b.yml", "x.json", "Kptfile", "sub/Kptfile"] {
            assert_eq!(check(path, Paths::Package), Ok(()), "{path}");
        }
        for path in
            ["Makefile", "GNUmakefile", "run.sh", "a.yaml.sh", "kptfile", "sub/x.YAML", "yaml", "a.yaml~"]
        {
            let error = check(path, Paths::Package).expect_err(path);
            assert!(error.contains("is not a name that resources are read from"), "{error}");
            assert_eq!(check(path, Paths::Any), Ok(()), "{path}");
        }
        for path in [".github/workflows/x.yaml", ".pre-commit-config.yaml", "a/.b/c.json"] {
            let error = check(path, Paths::Package).expect_err(path);
            assert!(error.contains("hidden"), "{error}");
            assert_eq!(check(path, Paths::NewFolder), Ok(()), "{path}");
        }
        for path in ["a\n.yaml", "a\u{1b}[2J.yaml", "a\u{202e}lmay.yaml"] {
            let error = check(path, Paths::NewFolder).expect_err(path);
            assert!(error.contains("cannot be seen") && error.contains("--allow-any-path"), "{error}");
        }
        for paths in [Paths::Package, Paths::NewFolder, Paths::Any] {
            let error = check(".git/x.yaml", paths).expect_err("is git's");
            assert_eq!(error, "`.git/x.yaml` cannot be written: nothing is written into a `.git` folder");
            check(&"a/".repeat(300), paths).expect_err("is too deep");
            check(&"a".repeat(5000), paths).expect_err("is too long");
        }
    }
}
