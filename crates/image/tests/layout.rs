//! Images as others read them.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::read::GzDecoder;
use loggia_image::{Config, Entries, Error, Image, Platform};
use serde_json::Value;

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn blob(layout: &Path, descriptor: &Value) -> PathBuf {
    let digest = descriptor["digest"].as_str().unwrap();
    let path = layout.join("blobs").join(digest.replace(':', "/"));
    assert_eq!(path.metadata().unwrap().len(), descriptor["size"].as_u64().unwrap());
    path
}

/// Path, kind, mode and content (or link target) of all that a layer has, in its order.
fn contents(layer: &Path) -> Vec<(String, char, u32, String)> {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(layer).unwrap()));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let header = entry.header();
        assert_eq!((header.mtime().unwrap(), header.uid().unwrap(), header.gid().unwrap()), (0, 0, 0));
        let kind = header.entry_type().as_byte() as char;
        let mode = header.mode().unwrap();
        let path = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        let target = entry.link_name().unwrap().map(|target| target.display().to_string());
        (path, kind, mode, target.unwrap_or(text))
    });
    entries.collect()
}

fn example() -> Image {
    let mut entries = Entries::default();
    entries.text("/home/nonroot/server", "program", 0o555).unwrap();
    entries.text("/config.yaml", "functions: []\n", 0o444).unwrap();
    entries.link("/a-link", "/home/nonroot/server").unwrap();
    entries.folder("/tmp", 0o1777).unwrap();
    let config = Config {
        entrypoint: vec!["/home/nonroot/server".into(), "--config=/config.yaml".into()],
        cmd: vec!["--port=9445".into()],
        env: vec!["PATH=/bin".into()],
        user: Some("10001:10001".into()),
        working_dir: Some("/home/nonroot".into()),
        labels: BTreeMap::from([("org.example".into(), "yes".into())]),
    };
    Image { entries, config, platform: "linux/arm64".parse().unwrap(), tag: Some("latest".into()) }
}

#[test]
fn a_layout_holds_the_files_and_the_config_that_were_asked_for() {
    let layout = tempfile::tempdir().unwrap();
    let written = example().write(layout.path()).unwrap();
    let index = json(&layout.path().join("index.json"));
    let named = &index["manifests"][0];
    assert_eq!(named["digest"], written.digest.as_str());
    assert_eq!(named["annotations"]["org.opencontainers.image.ref.name"], "latest");
    let manifest = json(&blob(layout.path(), named));
    let config = json(&blob(layout.path(), &manifest["config"]));
    assert_eq!((config["os"].as_str(), config["architecture"].as_str()), (Some("linux"), Some("arm64")));
    let expected = serde_json::json!({
        "Entrypoint": ["/home/nonroot/server", "--config=/config.yaml"],
        "Cmd": ["--port=9445"],
        "Env": ["PATH=/bin"],
        "User": "10001:10001",
        "WorkingDir": "/home/nonroot",
        "Labels": {"org.example": "yes"},
    });
    assert_eq!(config["config"], expected);
    let own = |path: &str, kind, mode, content: &str| (path.to_owned(), kind, mode, content.to_owned());
    let layer = blob(layout.path(), &manifest["layers"][0]);
    assert_eq!(
        contents(&layer),
        [
            own("config.yaml", '0', 0o444, "functions: []\n"),
            own("home/", '5', 0o755, ""),
            own("home/nonroot/", '5', 0o755, ""),
            own("home/nonroot/server", '0', 0o555, "program"),
            own("tmp/", '5', 0o1777, ""),
            own("a-link", '1', 0o555, "home/nonroot/server"),
        ]
    );
}

#[test]
fn equal_images_have_equal_bytes_in_whatever_order_they_were_described() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = example().write(one.path()).unwrap();
    let mut turned = example();
    turned.entries = Entries::default();
    turned.entries.folder("/tmp", 0o1777).unwrap();
    turned.entries.text("/config.yaml", "functions: []\n", 0o444).unwrap();
    turned.entries.text("/home/nonroot/server", "program", 0o555).unwrap();
    turned.entries.link("/a-link", "/home/nonroot/server").unwrap();
    assert_eq!(turned.write(two.path()).unwrap(), first);
    // Writing over another image leaves nothing of that.
    Image::default().write(two.path()).unwrap();
    example().write(two.path()).unwrap();
    assert_eq!(fs::read_dir(two.path().join("blobs/sha256")).unwrap().count(), 3);
}

#[test]
fn a_folder_is_taken_with_all_that_is_in_it() {
    let (source, layout) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(source.path().join("sub")).unwrap();
    fs::write(source.path().join("sub/file"), "x").unwrap();
    let mut image = Image::default();
    image.entries.file("/functions", source.path(), Some(0o555)).unwrap();
    image.write(layout.path()).unwrap();
    let manifest = json(&blob(layout.path(), &json(&layout.path().join("index.json"))["manifests"][0]));
    let paths: Vec<_> =
        contents(&blob(layout.path(), &manifest["layers"][0])).into_iter().map(|one| one.0).collect();
    assert_eq!(paths, ["functions/", "functions/sub/", "functions/sub/file"]);
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let mut entries = Entries::default();
    let text = |result: Result<(), Error>| result.unwrap_err().to_string();
    assert_eq!(text(entries.text("relative", "", 0o444)), "`relative` is no absolute path without `..`");
    assert_eq!(text(entries.text("/a/../b", "", 0o444)), "`/a/../b` is no absolute path without `..`");
    assert_eq!(text(entries.link("/a", "/b")), "`/a`: it is a link to `/b`, which is no file of the image");
    assert_eq!(text(entries.file("/a", Path::new("/nowhere"), None)), "`/nowhere` cannot be read");
    let platform = "linux".parse::<Platform>().unwrap_err().to_string();
    assert_eq!(platform, "`linux` is no platform; write OS/ARCHITECTURE, as in `linux/amd64`");
}

#[test]
fn the_program_makes_the_image_that_its_flags_describe_and_skopeo_reads_it() {
    let layout = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_loggia-image");
    let run = |arguments: &[&str]| Command::new(program).args(arguments).output().unwrap();
    let output = layout.path().to_str().unwrap();
    let file = format!("/bin/tool={program}:555");
    let words = [
        "--output",
        output,
        "--entrypoint",
        "/bin/tool",
        "--cmd",
        "--help",
        "--file",
        &file,
        "--user",
        "1:1",
    ];
    let made = run(&words);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let digest = String::from_utf8(made.stdout).unwrap();
    match Command::new("skopeo").args(["inspect", &format!("oci:{output}")]).output() {
        Err(_) => loggia_testing::missing("registry", "skopeo is not installed (e2e/registry/install)"),
        Ok(seen) => {
            assert!(seen.status.success(), "{}", String::from_utf8_lossy(&seen.stderr));
            let seen: Value = serde_json::from_slice(&seen.stdout).unwrap();
            assert_eq!(seen["Digest"], digest.trim());
        }
    }
    let bad = run(&["--output", output, "--file", "/a=/b:999"]);
    let expected = "loggia-image: `/b:999`: `999` is no octal mode; write as in `555`\n";
    assert_eq!((bad.status.code(), String::from_utf8_lossy(&bad.stderr).as_ref()), (Some(1), expected));
}
