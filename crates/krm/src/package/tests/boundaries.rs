//! What a package cannot do: make us read outside of it, or write where no resource was.

use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use super::*;
use crate::package::disk::Folder;
use crate::package::walk::{EntryKind, Tree as _};

fn link(target: impl AsRef<Path>, link: &Path) {
    symlink(target, link).expect("links work here");
}

/// The error of reading a package with a link `a.yaml` to `target`.
fn link_error(target: &str, prepare: impl FnOnce(&Path)) -> String {
    let parent = folder(&[("outside/secret.yaml", CM), ("app/Kptfile", KPT), ("app/b.yaml", CM)]);
    let app = parent.path().join("app");
    prepare(&app);
    link(target, &app.join("a.yaml"));
    let begin = Instant::now();
    let error = read_error(&app, &ReadOptions::default());
    assert!(begin.elapsed() < Duration::from_secs(5));
    error
}

#[test]
fn reading_never_leaves_the_package() {
    const OUT: &str =
        "PKG/a.yaml: leads out of the package through a symbolic link; copy the file into the package";
    assert_eq!(link_error("../outside/secret.yaml", |_| {}), OUT);
    assert_eq!(link_error("/etc/hostname", |_| {}), OUT);
    assert_eq!(link_error("/dev/zero", |_| {}), OUT);
    assert_eq!(link_error("/dev/stdin", |_| {}), OUT);
    assert_eq!(link_error("/proc/self/fd/0", |_| {}), OUT);
    assert_eq!(link_error("x/../../outside/secret.yaml", |app| fs::create_dir(app.join("x")).unwrap()), OUT);
    let chain = |app: &Path| link("../outside/secret.yaml", &app.join("hop"));
    assert_eq!(link_error("hop", chain), OUT);
    let through_folder = |app: &Path| link("../outside", &app.join("dir"));
    assert_eq!(link_error("dir/secret.yaml", through_folder), OUT);
}

#[test]
fn links_in_circles_pipes_sockets_and_folders_are_refused_at_once() {
    let circle = |app: &Path| link("a.yaml", &app.join("hop"));
    assert_eq!(
        link_error("hop", circle),
        "PKG/a.yaml: a symbolic link that leads in a circle or over too many others"
    );
    let pipe = |app: &Path| {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            app.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .expect("pipes can be made");
    };
    assert_eq!(link_error("pipe", pipe), "PKG/a.yaml: not a regular file");
    let socket = |app: &Path| drop(UnixListener::bind(app.join("socket")).expect("sockets can be made"));
    assert_eq!(link_error("socket", socket), "PKG/a.yaml: not a regular file");
    assert_eq!(link_error(".", |_| {}), "PKG/a.yaml: not a regular file");
}

#[test]
fn a_link_into_the_git_folder_is_not_followed() {
    let git = |app: &Path| {
        fs::create_dir_all(app.join(".git/info")).unwrap();
        fs::write(app.join(".git/info/exclude"), "# nothing\n").unwrap();
    };
    assert_eq!(
        link_error(".git/info/exclude", git),
        "PKG/a.yaml: leads into a `.git` folder, which is not part of the package"
    );
}

#[test]
fn the_git_folder_is_not_read() {
    let folder = folder(&[("a.yaml", CM), (".git/refs/heads/x.yaml", "0123\n"), ("sub/.git/y.yaml", "no\n")]);
    assert_eq!(paths(&read(folder.path())), ["a.yaml"]);
}

#[test]
fn without_support_of_the_kernel_the_answers_are_the_same() {
    let parent = folder(&[("secret.yaml", CM), ("app/real.yaml", CM), ("app/sub/x.yaml", CM)]);
    let app = parent.path().canonicalize().unwrap().join("app");
    link("../secret.yaml", &app.join("out.yaml"));
    link("/dev/zero", &app.join("zero.yaml"));
    link("circle.yaml", &app.join("circle.yaml"));
    link("real.yaml", &app.join("in.yaml"));
    link("..", &app.join("up"));
    for tree in [Folder::open(&app).unwrap(), Folder::open(&app).unwrap().without_kernel_support()] {
        let read =
            |path: &str| tree.read(path, EntryKind::Other, 1000).map(|content| content.map(|c| c.len()));
        assert!(matches!(read("out.yaml"), Err(ReadErrorKind::LeadsOutside)));
        assert!(matches!(read("zero.yaml"), Err(ReadErrorKind::LeadsOutside)));
        assert!(matches!(read("up/secret.yaml"), Err(ReadErrorKind::LeadsOutside)));
        assert!(matches!(read("../secret.yaml"), Err(ReadErrorKind::LeadsOutside)));
        assert!(matches!(read("circle.yaml"), Err(ReadErrorKind::LinkLoop)));
        assert_eq!(read("in.yaml").unwrap(), Some(CM.len()));
        assert_eq!(read("sub/x.yaml").unwrap(), Some(CM.len()));
        assert!(tree.list("up", 100).is_err());
        assert_eq!(tree.list("sub", 100).unwrap().len(), 1);
        assert!(tree.has_file("in.yaml") && tree.has_file("out.yaml") && !tree.has_file("none"));
    }
}

#[test]
fn the_ignore_file_is_a_file_of_the_package_too() {
    let folder = folder(&[("a.yaml", CM)]);
    link("/dev/zero", &folder.path().join(".krmignore"));
    assert_eq!(
        read_error(folder.path(), &ReadOptions::default()),
        "PKG/.krmignore: leads out of the package through a symbolic link; copy the file into the package"
    );
}

#[test]
fn folders_with_very_many_names_are_refused() {
    let folder = folder(&[("a.yaml", CM)]);
    for number in 0..30 {
        fs::write(folder.path().join(format!("{number}.txt")), "").unwrap();
    }
    let mut options = ReadOptions::default();
    options.limits.files = 2;
    let error = read_error(folder.path(), &options);
    assert!(error.contains("too many names") && error.contains("--max-package-files"), "{error}");
}

#[test]
fn limits_count_for_all_packages_of_a_tree() {
    let folder = folder(&[("Kptfile", KPT), ("sub/Kptfile", KPT), ("sub/sub/Kptfile", KPT)]);
    let limits = Limits { files: 2, ..Limits::default() };
    let mut reader = Reader::folder(folder.path(), limits).unwrap();
    reader.package("", &ReadOptions::default()).unwrap();
    reader.package("sub", &ReadOptions::default()).unwrap();
    let error = reader.package("sub/sub", &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.ends_with("/sub/sub: the package has more than 2 resource files (--max-package-files)"));
}

#[test]
fn a_link_that_comes_back_is_followed() {
    let folder = folder(&[("b.yaml", CM), ("sub/x.txt", "")]);
    let name = folder.path().file_name().unwrap().to_owned();
    link(Path::new("..").join(&name).join("b.yaml"), &folder.path().join("back.yaml"));
    link(folder.path().canonicalize().unwrap().join("b.yaml"), &folder.path().join("absolute.yaml"));
    assert_eq!(paths(&read(folder.path())), ["absolute.yaml", "b.yaml", "back.yaml"]);
}

#[test]
fn a_subpackage_may_link_into_the_package_around_it() {
    let folder = folder(&[("Kptfile", KPT), ("common.yaml", CM), ("sub/Kptfile", KPT)]);
    link("../common.yaml", &folder.path().join("sub/a.yaml"));
    let mut reader = Reader::folder(folder.path(), Limits::default()).unwrap();
    let package = reader.package("sub", &ReadOptions::default()).unwrap();
    assert_eq!(paths(&package), ["Kptfile", "a.yaml"]);
}

// === writing ===

/// Writes one more resource to a package.
fn add(folder: &Path, path: &str, paths: Paths) -> Result<Changes, String> {
    let mut package = read(folder);
    let mut stray = resource("apiVersion: v1\nkind: A\nmetadata:\n  name: a\n");
    stray.set_path(path).expect("becomes a mapping");
    package.resources.push(stray);
    let options = WriteOptions { paths, ..WriteOptions::default() };
    package.write(&options).map_err(|error| error.to_string())
}

#[test]
fn only_files_that_supplied_resources_are_replaced() {
    let files = [
        ("a.yaml", CM),
        ("Makefile", "all:\n"),
        (".envrc", "x\n"),
        (".krmignore", "ci\n"),
        ("ci/pipeline.yaml", "steps: []\n"),
        (".git/hooks/pre-commit", "#!/bin/sh\n"),
        ("comment.yaml", "# only this\n"),
    ];
    let folder = folder(&files);
    let before = listing(folder.path());
    for (path, part) in [
        ("Makefile", "is not a name that resources are read from"),
        ("new.sh", "is not a name that resources are read from"),
        (".envrc", "is not a name that resources are read from"),
        (
            "ci/pipeline.yaml",
            "`ci/pipeline.yaml` cannot be replaced: it is not among the files that the package was read from",
        ),
        (".github/workflows/x.yaml", "hidden"),
        (".git/hooks/pre-commit", "nothing is written into a `.git` folder"),
        (".GIT/x.yaml", "nothing is written into a `.git` folder"),
        ("sub/git~1/x.yaml", "nothing is written into a `.git` folder"),
        (".git", "nothing is written into a `.git` folder"),
    ] {
        let error = add(folder.path(), path, Paths::Package).expect_err(path);
        assert!(error.contains(part), "{path}: {error}");
        assert_eq!(error.contains("--allow-any-path"), !part.contains(".git"), "{error}");
        assert_eq!(listing(folder.path()), before, "{path}");
    }
    for (path, content) in files {
        assert_eq!(text(folder.path(), path), content);
    }
    add(folder.path(), "comment.yaml", Paths::Package).expect("was read");
    add(folder.path(), "Makefile", Paths::Any).expect("was allowed");
    add(folder.path(), ".git/x.yaml", Paths::Any).expect_err("never");
}

#[test]
fn nothing_is_written_through_links_to_other_files() {
    let folder = folder(&[("build.sh", CM), ("real/x.yaml", CM)]);
    link("build.sh", &folder.path().join("a.yaml"));
    link("real", &folder.path().join("linked"));
    let mut package = read(folder.path());
    rename(&mut package.resources[0], "other");
    let error = package.write(&WriteOptions::default()).unwrap_err().to_string();
    assert!(error.starts_with("`a.yaml` cannot be written through a symbolic link to `build.sh`"), "{error}");
    assert_eq!(text(folder.path(), "build.sh"), CM);
    let error = add(folder.path(), "linked/y.yaml", Paths::Package).unwrap_err();
    assert!(
        error.starts_with("`linked/y.yaml` cannot be written through a symbolic link to `real`"),
        "{error}"
    );
    assert_eq!(listing(&folder.path().join("real")), ["x.yaml"]);
}

#[test]
fn what_is_written_is_no_program() {
    let folder = folder(&[("a.yaml", CM)]);
    let file = folder.path().join("a.yaml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4755)).unwrap();
    let mut package = read(folder.path());
    rename(&mut package.resources[0], "other");
    write(package);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&file), 0o644);
    add(folder.path(), "new.yaml", Paths::Package).unwrap();
    assert_eq!(mode(&folder.path().join("new.yaml")) & 0o133, 0);
}

#[test]
fn a_file_that_appears_meanwhile_is_not_replaced() {
    let folder = folder(&[("a.yaml", CM)]);
    let mut package = read(folder.path());
    package.resources[0].set_path("b.yaml").unwrap();
    let changes = package.changes(&WriteOptions::default()).unwrap();
    let late = folder.path().join("b.yaml");
    let fault = |path: &str| if path == "b.yaml" { fs::write(&late, "mine\n") } else { Ok(()) };
    let error = changes.apply(folder.path(), &fault).unwrap_err().to_string();
    assert!(error.contains("File exists"), "{error}");
    assert_eq!(text(folder.path(), "b.yaml"), "mine\n");
    assert_eq!(text(folder.path(), "a.yaml"), CM);
}

#[test]
fn in_memory_the_same_files_are_refused() {
    let mut files =
        memory(&[("a.yaml", CM), ("Makefile", "all:\n"), (".krmignore", "ci\n"), ("ci/x.yaml", "a: 1\n")]);
    let before = files.clone();
    for (path, part) in
        [("Makefile", "is not a name"), ("ci/x.yaml", "cannot be replaced"), (".git/x.yaml", ".git")]
    {
        let mut package = Package::from_files(&files, &ReadOptions::default()).unwrap();
        package.resources[0].set_path(path).unwrap();
        let ended =
            package.changes(&WriteOptions::default()).and_then(|changes| changes.apply_to_files(&mut files));
        let error = ended.expect_err(path).to_string();
        assert!(error.contains(part), "{error}");
        assert_eq!(files, before);
    }
}
