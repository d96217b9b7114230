//! Packages on disk and in memory: what is read, what is written, what is left alone.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use tempfile::TempDir;

use super::*;

mod boundaries;

const CM: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm\n";
const KPT: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\n";

fn folder(files: &[(&str, &str)]) -> TempDir {
    let temporary = TempDir::new().expect("there is room");
    for (path, content) in files {
        let path = temporary.path().join(path);
        fs::create_dir_all(path.parent().expect("is below the root")).expect("there is room");
        fs::write(path, content).expect("there is room");
    }
    temporary
}

fn read(folder: &Path) -> Package {
    Package::from_folder(folder, &ReadOptions::default()).expect("can be read")
}

fn write(package: Package) -> Changes {
    package.write(&WriteOptions::default()).expect("can be written")
}

fn text(folder: &Path, path: &str) -> String {
    fs::read_to_string(folder.join(path)).expect("is there")
}

fn paths(package: &Package) -> Vec<&str> {
    package.resources.iter().map(Resource::path).collect()
}

fn resource(yaml: &str) -> Resource {
    Resource::from(loggia_yaml::parse_first(yaml).expect("is YAML").expect("is there"))
}

fn rename(resource: &mut Resource, name: &str) {
    resource.node_mut().entry_mapping("metadata").set("name", loggia_yaml::Node::string(name));
}

fn memory(files: &[(&str, &str)]) -> Files {
    files.iter().map(|(path, content)| ((*path).to_owned(), content.as_bytes().to_vec())).collect()
}

fn listing(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(&next).expect("is a folder") {
            let path = entry.expect("can be read").path();
            names.push(path.strip_prefix(folder).expect("is inside").display().to_string());
            if path.is_dir() && !path.is_symlink() {
                waiting.push(path);
            }
        }
    }
    names.sort();
    names
}

// === reading ===

#[test]
fn files_and_folders_are_read_by_name_in_each_folder() {
    let folder =
        folder(&[("c.yaml", CM), ("b/x.yaml", CM), ("a.yaml", CM), ("Kptfile", KPT), ("b-c/y.yml", CM)]);
    assert_eq!(paths(&read(folder.path())), ["Kptfile", "a.yaml", "b/x.yaml", "b-c/y.yml", "c.yaml"]);
}

#[test]
fn a_package_ends_where_another_begins() {
    let files = [
        ("Kptfile", KPT),
        ("db/Kptfile", KPT),
        ("db/x.yaml", CM),
        ("plain/x.yaml", CM),
        ("a/b/Kptfile", KPT),
    ];
    let folder = folder(&files);
    assert_eq!(paths(&read(folder.path())), ["Kptfile", "plain/x.yaml"]);
    let all = ReadOptions { subpackages: true, ..ReadOptions::default() };
    let package = Package::from_folder(folder.path(), &all).expect("can be read");
    assert_eq!(paths(&package), ["Kptfile", "a/b/Kptfile", "db/Kptfile", "db/x.yaml", "plain/x.yaml"]);
}

#[test]
fn json_is_read_on_request_only() {
    let files = memory(&[("a.json", "{\"kind\": \"A\"}"), ("b.yaml", CM)]);
    let package = Package::from_files(&files, &ReadOptions::default()).expect("can be read");
    assert_eq!(paths(&package), ["a.json", "b.yaml"]);
    let options = ReadOptions { json: false, ..ReadOptions::default() };
    assert_eq!(paths(&Package::from_files(&files, &options).expect("can be read")), ["b.yaml"]);
}

/// The original goes by the text of paths and so takes `db2` for a part of package `db`.
#[test]
fn the_patterns_of_a_package_do_not_reach_its_sibling() {
    let files = memory(&[
        ("Kptfile", KPT),
        ("db/Kptfile", KPT),
        ("db/.krmignore", "x.yaml\n"),
        ("db/x.yaml", CM),
        ("db2/x.yaml", CM),
    ]);
    let options = ReadOptions { subpackages: true, ..ReadOptions::default() };
    let package = Package::from_files(&files, &options).expect("can be read");
    assert_eq!(paths(&package), ["Kptfile", "db/Kptfile", "db2/x.yaml"]);
}

#[test]
fn links_to_files_are_read_and_links_to_folders_are_not_followed() {
    let folder = folder(&[("real/x.yaml", CM), ("target.txt", CM)]);
    symlink("real", folder.path().join("linked")).expect("links work here");
    symlink("target.txt", folder.path().join("link.yaml")).expect("links work here");
    assert_eq!(paths(&read(folder.path())), ["link.yaml", "real/x.yaml"]);
}

#[test]
fn the_folder_itself_may_be_a_link() {
    let real = folder(&[("a.yaml", CM)]);
    let other = folder(&[]);
    let link = other.path().join("link");
    symlink(real.path(), &link).expect("links work here");
    let package = read(&link);
    assert_eq!(Path::new(&package.name), real.path().canonicalize().expect("is there"));
    assert_eq!(paths(&package), ["a.yaml"]);
}

#[test]
fn annotations_of_the_callers_choice_are_set_in_order() {
    let mut options = ReadOptions::default();
    options.annotations.insert(crate::annotation::PACKAGE_PATH.to_owned(), "/p".to_owned());
    let package = Package::from_files(&memory(&[("a.yaml", CM)]), &options).expect("can be read");
    let keys: Vec<&str> = package.resources[0].annotations().map(|(key, _)| key).collect();
    assert_eq!(
        keys,
        [
            "config.kubernetes.io/index",
            "config.kubernetes.io/path",
            "internal.config.kubernetes.io/index",
            "internal.config.kubernetes.io/package-path",
            "internal.config.kubernetes.io/path",
            "internal.config.kubernetes.io/seqindent",
        ]
    );
    assert_eq!(package.resources[0].package_path(), "/p");
}

// === reading: errors ===

fn read_error(folder: &Path, options: &ReadOptions) -> String {
    let error = Package::from_folder(folder, options).expect_err("cannot be read");
    let root = folder.canonicalize().expect("is there").display().to_string();
    error.to_string().replace(&root, "PKG")
}

#[test]
fn an_error_names_package_file_and_line() {
    let folder = folder(&[("sub/bad.yaml", "a: 1\n---\nb: 2\nc: d: e\n")]);
    let error = Package::from_folder(folder.path(), &ReadOptions::default()).expect_err("is no YAML");
    assert_eq!(error.file, "sub/bad.yaml");
    assert_eq!(error.line, Some(4));
    assert!(error.package.starts_with('/'));
    assert!(
        error.to_string().ends_with(
            "/sub/bad.yaml: MalformedYAMLError: yaml: line 2: mapping values are not allowed in this context"
        ),
        "{error}"
    );
    let error = Package::from_files(&memory(&[("bad.yaml", "text\n")]), &ReadOptions::default())
        .expect_err("no mapping");
    assert_eq!(
        error.to_string(),
        "bad.yaml: wrong node kind: expected MappingNode but got ScalarNode: node contents:\ntext\n"
    );
}

#[test]
fn limits_are_kept() {
    let folder = folder(&[("a.yaml", CM), ("b.yaml", CM), ("x/y/z/c.yaml", CM)]);
    let limited = |change: fn(&mut Limits)| {
        let mut options = ReadOptions::default();
        change(&mut options.limits);
        read_error(folder.path(), &options)
    };
    assert_eq!(
        limited(|limits| limits.file_bytes = 10),
        "PKG/a.yaml: has 52 bytes, more than the 10 that are allowed for one file (--max-file-size)"
    );
    assert_eq!(
        limited(|limits| limits.files = 1),
        "PKG: the package has more than 1 resource files (--max-package-files)"
    );
    assert_eq!(
        limited(|limits| limits.total_bytes = 80),
        "PKG: the package has more than 80 bytes of resource files (--max-package-size)"
    );
    assert_eq!(limited(|limits| limits.depth = 2), "PKG/x/y/z: folders nest more than 2 deep");
    let files = memory(&[("a.yaml", CM)]);
    let mut options = ReadOptions::default();
    options.limits.file_bytes = 10;
    let error = Package::from_files(&files, &options).expect_err("too large").to_string();
    assert_eq!(
        error,
        "a.yaml: has 52 bytes, more than the 10 that are allowed for one file (--max-file-size)"
    );
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = folder(&[("sub/x.txt", "")]);
    symlink("sub", folder.path().join("a.yaml")).expect("links work here");
    assert_eq!(read_error(folder.path(), &ReadOptions::default()), "PKG/a.yaml: not a regular file");
    fs::remove_file(folder.path().join("a.yaml")).expect("is there");
    symlink("nowhere", folder.path().join("b.yaml")).expect("links work here");
    let error = read_error(folder.path(), &ReadOptions::default());
    assert_eq!(error, "PKG/b.yaml: No such file or directory (os error 2)");
    let error =
        Package::from_folder(&folder.path().join("none"), &ReadOptions::default()).expect_err("is not there");
    assert!(error.to_string().ends_with("/none: No such file or directory (os error 2)"), "{error}");
}

#[test]
fn a_name_that_is_not_utf8_is_refused_where_it_matters() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder(&[("a.yaml", CM)]);
    fs::write(folder.path().join(std::ffi::OsStr::from_bytes(b"\xff.txt")), "").expect("there is room");
    assert_eq!(paths(&read(folder.path())), ["a.yaml"]);
    fs::write(folder.path().join(std::ffi::OsStr::from_bytes(b"\xff.yaml")), "").expect("there is room");
    let error = read_error(folder.path(), &ReadOptions::default());
    assert_eq!(error, "PKG/\u{fffd}.yaml: its name is not UTF-8; rename it");
}

#[test]
fn hostile_texts_cost_an_error_not_the_process() {
    let nested =
        |open: &str, depth: usize, close: &str| format!("{}{}", open.repeat(depth), close.repeat(depth));
    let bomb: String =
        (0..20).map(|n: usize| format!("a{n}: &a{n} [*a{m}, *a{m}]\n", m = n.saturating_sub(1))).collect();
    let texts = [
        "[".repeat(200_000),
        nested("[", 9_000, "]"),
        format!("a: {}", nested("{a: ", 9_000, "}")),
        format!("kind: List\nitems:\n- &x {}\n- *x\n", nested("[", 9_000, "]")),
        format!("results: {}\nkind: List\nitems: []\n", nested("[", 9_000, "]")),
        format!("a0: x\n{bomb}"),
        "\0".to_owned(),
        "a: \u{1}\n".to_owned(),
        "- ".repeat(9_000),
        "---\n".repeat(50_000),
        "# c\n".repeat(50_000),
    ];
    let work = move || {
        for text in &texts {
            let files = memory(&[("a.yaml", text), ("b.json", text)]);
            if let Ok(package) = Package::from_files(&files, &ReadOptions::default()) {
                let _ = package.changes(&WriteOptions::default());
            }
            if let Ok(list) = crate::ResourceList::parse(text.as_bytes(), crate::StreamOptions::default()) {
                let _ = (list.emit().len(), list.results().is_ok());
            }
            let _ =
                crate::Kptfile::parse(&format!("apiVersion: kpt.dev/v1\nkind: Kptfile\ninfo: {text}"), "");
        }
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(work).expect("a thread starts");
    thread.join().expect("nothing overflows");
    let odd = Files::from([("a.yaml".to_owned(), vec![0xff, 0xfe, 0x00])]);
    assert!(Package::from_files(&odd, &ReadOptions::default()).is_err());
}

#[test]
fn json_does_not_nest_without_end() {
    let text = format!("{{\"a\": {}{}}}", "[".repeat(2000), "]".repeat(2000));
    let package =
        Package::from_files(&memory(&[("a.json", &text)]), &ReadOptions::default()).expect("is YAML");
    let error = package.changes(&WriteOptions::default()).expect_err("too deep").to_string();
    assert_eq!(error, "a.json: yaml: nests more than 1000 deep");
}

// === writing ===

#[test]
fn a_file_that_does_not_change_is_not_touched() {
    let folder = folder(&[("a.yaml", CM), ("b.yaml", "a:   1\n"), ("README.md", "x")]);
    let stat = |path: &str| {
        let metadata = fs::metadata(folder.path().join(path)).expect("is there");
        (metadata.ino(), metadata.mtime_nsec(), metadata.mtime())
    };
    let before = (stat("a.yaml"), stat("README.md"));
    let changes = write(read(folder.path()));
    assert_eq!((stat("a.yaml"), stat("README.md")), before);
    assert_eq!((changes.unchanged, changes.writes.len()), (1, 1));
    assert_eq!(text(folder.path(), "b.yaml"), "a: 1\n");
    assert!(write(read(folder.path())).is_empty());
    assert_eq!(listing(folder.path()), ["README.md", "a.yaml", "b.yaml"]);
}

#[test]
fn an_edit_changes_its_file_and_keeps_its_mode() {
    let folder = folder(&[("a.yaml", CM), ("b.yaml", CM)]);
    let file = folder.path().join("a.yaml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("is ours");
    let mut package = read(folder.path());
    rename(&mut package.resources[0], "other");
    let changes = write(package);
    assert_eq!(changes.writes.keys().collect::<Vec<_>>(), ["a.yaml"]);
    assert_eq!(text(folder.path(), "a.yaml"), CM.replace("cm", "other"));
    assert_eq!(fs::metadata(&file).expect("is there").permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_file_that_lost_its_resources_goes_and_its_folder_stays() {
    let folder = folder(&[("sub/a.yaml", CM), ("b.yaml", "a: 1\n---\nb: 2\n"), ("c.yaml", "# nothing\n")]);
    let mut package = read(folder.path());
    package.resources.retain(|resource| resource.path() == "b.yaml" && resource.index() == "1");
    let changes = write(package);
    assert_eq!(changes.removals.iter().collect::<Vec<_>>(), ["sub/a.yaml"]);
    assert_eq!(listing(folder.path()), ["b.yaml", "c.yaml", "sub"]);
    assert_eq!(text(folder.path(), "b.yaml"), "b: 2\n");
}

#[test]
fn nothing_is_removed_without_pruning() {
    let folder = folder(&[("a.yaml", CM)]);
    let mut package = read(folder.path());
    package.resources.clear();
    let options = WriteOptions { prune: false, ..WriteOptions::default() };
    assert!(package.write(&options).expect("can be written").is_empty());
    assert_eq!(listing(folder.path()), ["a.yaml"]);
}

#[test]
fn a_resource_moves_with_its_path_and_its_comments() {
    let folder = folder(&[("a.yaml", "# head\n\nkind: A # line\n---\nkind: B\n")]);
    let mut package = read(folder.path());
    package.resources[0].set_path("new/deep/x.yaml").expect("is a mapping");
    write(package);
    assert_eq!(text(folder.path(), "new/deep/x.yaml"), "# head\n\nkind: A # line\n");
    assert_eq!(text(folder.path(), "a.yaml"), "kind: B\n");
    let mut package = read(folder.path());
    for resource in &mut package.resources {
        resource.set_path("all.yaml").expect("is a mapping");
    }
    write(package);
    assert_eq!(text(folder.path(), "all.yaml"), "kind: B\n---\n# head\n\nkind: A # line\n");
    assert_eq!(listing(folder.path()), ["all.yaml", "new", "new/deep"]);
}

#[test]
fn indices_decide_the_order_within_a_file() {
    let folder = folder(&[("a.yaml", "kind: A\n---\nkind: B\n---\nkind: C\n")]);
    let mut package = read(folder.path());
    package.resources[0].set_index(10).expect("is a mapping");
    package.resources[1].set_index(9).expect("is a mapping");
    write(package);
    assert_eq!(text(folder.path(), "a.yaml"), "kind: C\n---\nkind: B\n---\nkind: A\n");
}

#[test]
fn a_new_resource_gets_a_file_of_its_own() {
    let folder = folder(&[("a.yaml", CM)]);
    let mut package = read(folder.path());
    package.resources.push(resource("kind: Secret\nmetadata:\n  name: s\n  namespace: ns\n"));
    write(package);
    assert_eq!(
        text(folder.path(), "ns/secret_s.yaml"),
        "kind: Secret\nmetadata:\n  name: s\n  namespace: ns\n"
    );
}

#[test]
fn a_link_to_a_resource_file_inside_the_package_is_written_through() {
    let folder = folder(&[(".krmignore", "data\n"), ("data/real.yml", "a:   1\n")]);
    symlink("data/real.yml", folder.path().join("link.yaml")).expect("links work here");
    write(read(folder.path()));
    assert!(folder.path().join("link.yaml").is_symlink());
    assert_eq!(text(folder.path(), "data/real.yml"), "a: 1\n");
}

#[test]
fn subpackages_can_be_read_apart_and_written_together() {
    let folder =
        folder(&[("Kptfile", KPT), ("a.yaml", "a:   1\n"), ("db/Kptfile", KPT), ("db/b.yaml", "b:   1\n")]);
    let mut package = read(folder.path());
    let sub = read(&folder.path().join("db"));
    package.sources.add_subpackage("db", sub.sources);
    for mut resource in sub.resources {
        let path = format!("db/{}", resource.path());
        resource.set_path(path).expect("is a mapping");
        package.resources.push(resource);
    }
    package.resources.retain(|resource| resource.path() != "db/Kptfile");
    let changes = write(package);
    assert_eq!(changes.writes.keys().collect::<Vec<_>>(), ["a.yaml", "db/b.yaml"]);
    assert_eq!(changes.removals.iter().collect::<Vec<_>>(), ["db/Kptfile"]);
    assert_eq!(changes.unchanged, 1);
}

#[test]
fn memory_and_disk_agree() {
    let files = [("a.yaml", "a:   1\n"), ("sub/b.yaml", CM), ("x.txt", "text")];
    let folder = folder(&files);
    let mut in_memory = memory(&files);
    let edit = |mut package: Package| {
        package.resources[0].set_path("moved/a.yaml").expect("is a mapping");
        package.resources.remove(1);
        package
    };
    write(edit(read(folder.path())));
    let package = edit(Package::from_files(&in_memory, &ReadOptions::default()).expect("can be read"));
    let changes = package.changes(&WriteOptions::default()).expect("can be written");
    changes.apply_to_files(&mut in_memory).expect("can be written");
    assert_eq!(in_memory.keys().collect::<Vec<_>>(), ["moved/a.yaml", "x.txt"]);
    for (path, content) in in_memory {
        assert_eq!(text(folder.path(), &path).as_bytes(), content);
    }
}

// === writing: errors ===

/// The error of writing one resource with a path, and the listing afterwards.
fn write_error(folder: &Path, path: &str) -> String {
    let before = listing(folder);
    let mut package = read(folder);
    let mut stray = resource("kind: A\n");
    stray.set_path(path).expect("becomes a mapping");
    package.resources.push(stray);
    let error = package.write(&WriteOptions::default()).expect_err("has no place");
    assert_eq!(listing(folder), before, "nothing has changed");
    error.to_string().replace(&folder.canonicalize().expect("is there").display().to_string(), "PKG")
}

#[test]
fn a_path_must_stay_inside_the_package() {
    let outside = folder(&[]);
    let folder = folder(&[("a.yaml", "a:   1\n"), ("sub.yaml/b.yaml", CM)]);
    symlink(outside.path(), folder.path().join("exit")).expect("links work here");
    symlink("nowhere", folder.path().join("dangling")).expect("links work here");
    assert_eq!(write_error(folder.path(), "/etc/x.yaml"), "package paths may not be absolute paths");
    assert_eq!(
        write_error(folder.path(), "../x.yaml"),
        "resource must be written under package PKG: ../x.yaml"
    );
    assert_eq!(
        write_error(folder.path(), "a/../../x.yaml"),
        "resource must be written under package PKG: ../x.yaml"
    );
    assert_eq!(
        write_error(folder.path(), "sub.yaml"),
        "config.kubernetes.io/path cannot be a directory: sub.yaml"
    );
    assert_eq!(
        write_error(folder.path(), "sub.yaml/.."),
        "config.kubernetes.io/path cannot be a directory: ."
    );
    let real = outside.path().canonicalize().expect("is there");
    assert_eq!(
        write_error(folder.path(), "exit/new/x.yaml"),
        format!(
            "`exit/new/x.yaml` leads out of package `PKG` through a symbolic link to `{}`",
            real.display()
        )
    );
    assert_eq!(
        write_error(folder.path(), "dangling/x.yaml"),
        "`dangling/x.yaml` leads out of package `PKG` through a symbolic link to `nowhere`"
    );
    assert_eq!(
        write_error(folder.path(), "a.yaml/x.yaml"),
        "`a.yaml/x.yaml` cannot be written: `a.yaml` is a file, not a folder"
    );
    assert_eq!(
        write_error(folder.path(), "a.yaml/x/y.yaml"),
        "`a.yaml/x/y.yaml` cannot be written: `a.yaml` is a file, not a folder"
    );
    assert!(outside.path().read_dir().expect("is a folder").next().is_none());
    assert_eq!(text(folder.path(), "a.yaml"), "a:   1\n", "nothing was written");
}

#[test]
fn resources_without_a_usable_place_are_refused() {
    let change = |yaml: &str| {
        let document = loggia_yaml::parse_first(yaml).expect("is YAML").expect("is there");
        let resources = vec![Resource::from(document)];
        changes(resources, &Sources::default(), "/p", &WriteOptions::default())
            .expect_err("no place")
            .to_string()
    };
    let annotated = |path: &str, index: &str| {
        format!(
            "kind: A\nmetadata:\n  annotations:\n    internal.config.kubernetes.io/path: {path}\n    internal.config.kubernetes.io/index: {index}\n"
        )
    };
    assert_eq!(change("a: b\n"), "missing Resource metadata");
    assert_eq!(
        change(&annotated("''", "'0'")),
        "resources must be annotated with internal.config.kubernetes.io/path to be written to files"
    );
    assert_eq!(
        change(&annotated("a.yaml", "''")),
        "resources must be annotated with internal.config.kubernetes.io/index to be written to files"
    );
    assert_eq!(
        change("kind: A\nmetadata: [a]\n"),
        "wrong node kind: expected MappingNode but got SequenceNode: node contents:\n[a]\n"
    );
    assert_eq!(
        change(&format!("{}1: .nan\n", annotated("a.json", "'0'"))),
        "a.json: yaml: json: unsupported value: .nan"
    );
    assert_eq!(change(&annotated("\"a\\0b\"", "'0'")), "resource must be written under package /p: a\0b");
}

#[test]
fn indices_that_are_no_numbers_are_refused_where_they_matter() {
    let resource = |index: &str| {
        let mut resource = Resource::default();
        resource.set_path("a.yaml").expect("becomes a mapping");
        resource.set_reader_annotation(crate::annotation::INDEX, index).expect("is a mapping");
        resource
    };
    let change = |indices: &[&str]| {
        let resources = indices.iter().map(|index| resource(index)).collect();
        changes(resources, &Sources::default(), "", &WriteOptions::default())
            .map_err(|error| error.to_string())
    };
    assert!(change(&["zz"]).is_ok());
    assert_eq!(
        change(&["zz", "1"]),
        Err("unable to parse config.kubernetes.io/index zz :strconv.Atoi: parsing \"zz\": invalid syntax"
            .into())
    );
    assert_eq!(
        change(&["1", "99999999999999999999"]),
        Err("unable to parse config.kubernetes.io/index 99999999999999999999 :strconv.Atoi: parsing \"99999999999999999999\": value out of range".into())
    );
}

#[test]
fn a_folder_that_is_not_there_is_not_made() {
    let folder = folder(&[]);
    let changes =
        Changes { writes: BTreeMap::from([("a.yaml".into(), "a: 1\n".into())]), ..Changes::default() };
    let error = changes.apply_to_folder(&folder.path().join("none")).expect_err("is not there").to_string();
    assert!(
        error.starts_with("could not write to \"") && error.ends_with("/none\": file does not exist"),
        "{error}"
    );
}

#[test]
fn in_memory_a_file_cannot_be_a_folder() {
    let mut files = memory(&[("a.yaml", CM), ("sub/b.yaml", CM)]);
    let before = files.clone();
    let apply = |path: &str, files: &mut Files| {
        let writes =
            BTreeMap::from([("first.yaml".to_owned(), String::new()), (path.to_owned(), String::new())]);
        let changes = Changes { writes, ..Changes::default() };
        changes.apply_to_files(files).expect_err("has no place").to_string()
    };
    assert_eq!(apply("sub", &mut files), "config.kubernetes.io/path cannot be a directory: sub");
    assert_eq!(
        apply("a.yaml/x.yaml", &mut files),
        "`a.yaml/x.yaml` cannot be written: `a.yaml` is a file, not a folder"
    );
    assert_eq!(files, before);
}

#[test]
fn a_failure_on_the_way_puts_everything_back() {
    let files = [("a.yaml", "a:   1\n"), ("b.yaml", CM), ("c.yaml", "c:   1\n"), ("keep.txt", "x")];
    for failing in ["a.yaml", "b.yaml", "c.yaml", "new/deep/d.yaml"] {
        let folder = folder(&files);
        let before: Vec<u64> = files
            .iter()
            .map(|(path, _)| fs::metadata(folder.path().join(path)).expect("is there").ino())
            .collect();
        let mut package = read(folder.path());
        package.resources[1].set_path("new/deep/d.yaml").expect("is a mapping");
        let changes = package.changes(&WriteOptions::default()).expect("have places");
        assert_eq!((changes.writes.len(), changes.removals.len()), (3, 1));
        let fault = |path: &str| if path == failing { Err(io::Error::other("no")) } else { Ok(()) };
        let error = changes.apply(folder.path(), &fault).expect_err("was told to fail").to_string();
        let action = if failing == "b.yaml" { "remove it" } else { "replace it" };
        assert_eq!(error, format!("{failing}: cannot {action}: no"));
        assert_eq!(listing(folder.path()), ["a.yaml", "b.yaml", "c.yaml", "keep.txt"], "{failing}");
        for ((path, content), ino) in files.iter().zip(&before) {
            assert_eq!(text(folder.path(), path), *content);
            assert_eq!(
                fs::metadata(folder.path().join(path)).expect("is there").ino(),
                *ino,
                "the very same file"
            );
        }
    }
}

#[test]
fn what_cannot_be_put_back_is_named() {
    let folder = folder(&[("a.yaml", "a:   1\n"), ("b.yaml", "b:   1\n")]);
    let changes = read(folder.path()).changes(&WriteOptions::default()).expect("have places");
    let root = folder.path().to_owned();
    let fault = move |path: &str| {
        if path == "b.yaml" {
            // Somebody takes the file away and leaves a folder that cannot be replaced.
            fs::remove_file(root.join("a.yaml"))?;
            fs::create_dir_all(root.join("a.yaml/x"))?;
            return Err(io::Error::other("no"));
        }
        Ok(())
    };
    let error = changes.apply(folder.path(), &fault).expect_err("was told to fail").to_string();
    assert!(
        error.starts_with("b.yaml: cannot replace it: no; some files could not be put back: "),
        "{error}"
    );
    assert!(error.contains("/a.yaml (see "), "{error}");
}
