//! The manifests of `deploy/`, which are a package that Loggia renders.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use support::loggia;

fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => {
                    let name = entry.path().strip_prefix(folder).unwrap().to_owned();
                    found.insert(name, fs::read_to_string(entry.path()).unwrap());
                }
            }
        }
    }
    found
}

/// A copy of the package to render.
fn copy() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("deploy");
    for (name, text) in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")) {
        let file = package.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    (folder, package)
}

#[test]
fn the_manifests_render_and_are_valid_and_are_as_they_render() {
    let (_folder, package) = copy();
    let before = files(&package);
    let ran = loggia(&["fn", "render", "--strict"], &package, "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for (name, text) in files(&package) {
        // A Kptfile gets a status below what it has.
        let (text, _) = text.split_once("status:\n  conditions:\n").unwrap_or((&text, ""));
        assert_eq!(text.trim_end(), before[&name].trim_end(), "{}", name.display());
    }
}

#[test]
fn an_installation_sets_its_images_in_one_place() {
    let (_folder, package) = copy();
    let kptfile = package.join("Kptfile");
    let text = fs::read_to_string(&kptfile).unwrap();
    fs::write(&kptfile, text.replace("example.com/loggia", "registry.corp/kpt").replace("\"2\"", "\"3\""))
        .unwrap();
    let ran = loggia(&["fn", "render"], &package, "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let rendered = files(&package);
    for file in ["20-deployment.yaml", "porch-swap/deployment.yaml"] {
        let text = &rendered[Path::new(file)];
        assert!(text.contains("image: registry.corp/kpt/function-runner:v0.1.0"), "{text}");
        assert!(text.contains("value: registry.corp/kpt/wrapper-server:v0.1.0"), "{text}");
        assert!(!text.contains("example.com"), "{text}");
    }
    assert!(rendered[Path::new("20-deployment.yaml")].contains("replicas: 3"));
}
