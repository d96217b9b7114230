//! Habits that no lint can ask for.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::fs;
use std::path::{Path, PathBuf};

/// Where tests may sleep in real time: the file or folder, how many times at most, and the reason. Elsewhere a test waits
/// for a condition (`loggia_testing::eventually`, `until`, `wait_for`) or has a paused clock.
const SLEEPS: [(&str, usize, &str); 9] = [
    ("crates/process/src/tests.rs", 2, "polls `/proc`, with a deadline"),
    ("crates/process/src/", 3, "polls `/proc`, with a deadline"),
    ("crates/grpc/tests/", 5, "peers that are slow, and polls with a deadline"),
    ("crates/wrapper-server/tests/limits.rs", 1, "asks for health again and again while a call runs"),
    ("crates/loggia/tests/killed.rs", 1, "kills a render at every moment of its life"),
    ("crates/runtimes/tests/workers.rs", 2, "plays a worker that is slow"),
    ("crates/pods/src/pool/", 6, "looks for what must not happen, between real sockets"),
    ("crates/registry/tests/registry/", 13, "a real registry and real time stamps"),
    (
        "e2e/tests/",
        54,
        "stories on a cluster: load runs for a while, times to live end, polls have deadlines",
    ),
];

#[test]
fn tests_do_not_sleep() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut files = Vec::new();
    for folder in ["crates", "e2e"] {
        find_tests(&root.join(folder), &mut files);
    }
    let mut found: Vec<(String, usize)> = Vec::new();
    for file in &files {
        let count = fs::read_to_string(file).unwrap().matches("sleep(").count();
        let path = file.strip_prefix(&root).unwrap().display().to_string();
        let place = SLEEPS.iter().map(|(place, ..)| *place).find(|place| path.starts_with(place));
        let place = place.map_or(path.clone(), str::to_owned);
        match found.iter_mut().find(|(name, _)| *name == place) {
            Some((_, sum)) => *sum += count,
            None => found.push((place, count)),
        }
    }
    assert!(files.len() > 100, "only {} files of tests were found", files.len());
    for (place, count) in found {
        let allowed = SLEEPS.iter().find(|(name, ..)| *name == place).map_or(0, |(_, count, _)| *count);
        assert!(
            count <= allowed,
            "{place} sleeps {count} times, and may {allowed} times; wait for a condition instead \
             (loggia_testing::eventually), or with a paused clock"
        );
    }
}

/// The Rust files of tests: in a folder `tests`, or called so. This file has the word in it.
fn find_tests(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_called_so = path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("tests.rs"));
        let is_test = is_called_so || path.components().any(|part| part.as_os_str() == "tests");
        if path.is_dir() {
            find_tests(&path, files);
        } else if is_test && path.extension().is_some_and(|end| end == "rs") && !path.ends_with(file!()) {
            files.push(path);
        }
    }
}
