//! References held against go-containerregistry.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use loggia_registry::Reference;

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// What one side makes of a reference.
type Parts = Option<(String, String, String)>;

fn ours(text: &str) -> Parts {
    let reference: Reference = text.parse().ok()?;
    let name = reference.digest().or(reference.tag())?.to_owned();
    Some((reference.registry().to_owned(), reference.repository().to_owned(), name))
}

/// Where we do as Docker and the nodes do, and the library does otherwise.
fn differs_on_purpose(text: &str, ours: &Parts, theirs: &Parts) -> bool {
    let name = text.split('@').next().unwrap_or_default();
    match (ours, theirs) {
        // `localhost/x` is on this machine, as Docker has it, and not on Docker Hub.
        (Some((registry, ..)), _) if registry == "localhost" => text.starts_with("localhost/"),
        // Docker takes a repository of one letter.
        (Some((_, repository, _)), None) => {
            repository.len() == 1 || repository.strip_prefix("library/").is_some_and(|name| name.len() == 1)
        }
        // Hosts have one spelling.
        (Some((registry, repository, tag)), Some((other, path, name))) => {
            let other = other.to_ascii_lowercase();
            let same = *registry == other || *registry == other.replace("docker.io", "index.docker.io");
            same && repository == path && tag == name
        }
        // The grammar of the distribution project, which registries and nodes follow, is stricter: in elements of a
        // repository, in hosts, in the first character of a tag, and in what stands for a tag before a digest.
        (None, Some((registry, repository, tag))) => {
            let end = |c: char| c.is_ascii_alphanumeric();
            let odd = |element: &str| {
                !element.starts_with(end)
                    || !element.ends_with(end)
                    || ["..", "._", "_.", "-.", ".-", "-_", "_-", "___"]
                        .iter()
                        .any(|pair| element.contains(pair))
            };
            let host = registry.rsplit_once(':').map_or(registry.as_str(), |(host, _)| host);
            repository.split('/').any(odd)
                || host.split('.').any(|label| !label.starts_with(end) || !label.ends_with(end))
                || host.bytes().any(|b| !b.is_ascii_alphanumeric() && !b"-.".contains(&b))
                || host.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()))
                || registry
                    .rsplit_once(':')
                    .is_some_and(|(_, port)| port.parse::<u16>().is_err() || port.starts_with('0'))
                || tag.starts_with(['.', '-'])
                || name.rsplit_once(':').is_some_and(|(_, tag)| tag.starts_with(['.', '-']))
                || name.is_empty()
        }
        _ => false,
    }
}

fn cases() -> Vec<String> {
    let mut cases: Vec<String> = [
        "set-labels",
        "set-labels:v0.2",
        "nephio/fn",
        "nephio/fn:v1",
        "library/fn",
        "docker.io/fn",
        "docker.io/a/b:c",
        "index.docker.io/fn",
        "index.docker.io/a/b",
        "ghcr.io/kptdev/krm-functions-catalog/set-labels:v0.2.0",
        "gcr.io/kpt-fn/set-namespace",
        "localhost:5000/fn",
        "localhost/fn",
        "localhost",
        "registry:5000/fn:v1",
        "registry:5000",
        "127.0.0.1:5000/a/b",
        "[::1]:5000/fn",
        "a.b/c",
        "a/b/c/d",
        "UPPER/fn",
        "fn:UPPER",
        "fn:",
        ":tag",
        "fn:a:b",
        "fn@",
        "@",
        "",
        " ",
        "fn fn",
        "a//b",
        "gcr.io/",
        "gcr.io//x",
        "/fn",
        "fn/",
        "http://gcr.io/fn",
        "https://gcr.io/fn",
        "gcr.io:port/fn",
        "gcr.io:/fn",
        "gcr.io:99999/fn",
        "x",
        "xy",
        "a.b.c",
        "a.b.c:tag",
        "fn:v_1.2-3",
        "fn:.dot",
        "fn:-dash",
        "fn_a.b-c",
        "-fn",
        "fn-",
        "ghcr.io/a__b/c",
        "GHCR.io/fn",
        "ghcr.io/Fn",
        "é/fn",
        "fn:é",
    ]
    .map(str::to_owned)
    .to_vec();
    for name in ["fn", "fn:v1", "gcr.io/x/fn", "gcr.io:443/x/fn:v1", "localhost:5000/fn"] {
        cases.push(format!("{name}@{DIGEST}"));
        cases.push(format!("{name}@{}", DIGEST.to_uppercase()));
        cases.push(format!("{name}@sha256:12"));
        cases.push(format!("{name}@sha512:{}", "0".repeat(128)));
        cases.push(format!("{name}@{DIGEST}@{DIGEST}"));
    }
    for length in [127, 128, 129] {
        cases.push(format!("fn:{}", "t".repeat(length)));
    }
    for length in [254, 255, 256] {
        cases.push(format!("gcr.io/{}", "r".repeat(length)));
    }
    // Random ones of the letters that matter, always the same.
    let letters: Vec<char> = "aab.:/@-_A0%".chars().collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..4000 {
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize
        };
        let length = 1 + next() % 12;
        cases.push((0..length).map(|_| letters[next() % letters.len()]).collect());
    }
    cases
}

/// The library's answers, or none with a line that says so.
fn theirs(cases: &[String]) -> Option<Vec<Parts>> {
    let program = std::env::var_os("LOGGIA_REGISTRY_ORACLE")
        .map_or_else(|| loggia_testing::cache().join("oracle/registry-oracle"), PathBuf::from);
    let Ok(mut child) = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        let folder = "e2e/oracle/registry";
        let what =
            format!("no oracle (`make -C {folder} build` builds it); only recorded answers are compared");
        loggia_testing::missing("oracle", &what);
        return None;
    };
    let mut input = child.stdin.take().unwrap();
    let lines: String = cases.iter().map(|case| format!("{}\n", loggia_go::quote(case))).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Some(String::from_utf8(output.stdout).unwrap().lines().map(parts).collect())
}

fn parts(line: &str) -> Parts {
    let mut fields = line.split('\t').map(str::to_owned);
    fields.next().filter(|verdict| verdict == "ok")?;
    Some((fields.next()?, fields.next()?, fields.next()?))
}

fn compare(cases: &[String], theirs: &[Parts]) {
    assert_eq!(cases.len(), theirs.len());
    let mut on_purpose = 0;
    for (case, theirs) in cases.iter().zip(theirs) {
        let ours = ours(case);
        if ours != *theirs {
            assert!(differs_on_purpose(case, &ours, theirs), "{case:?}: ours {ours:?}, theirs {theirs:?}");
            on_purpose += 1;
        }
    }
    println!("{} references, {on_purpose} differ on purpose", cases.len());
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/references.txt")
}

#[test]
fn references_mean_what_they_mean_to_go_containerregistry() {
    let cases = cases();
    if let Some(theirs) = theirs(&cases) {
        compare(&cases, &theirs);
    }
}

#[test]
fn recorded_references_mean_what_they_did() {
    let recorded = std::fs::read_to_string(fixture()).expect("the recording is part of the repository");
    let (cases, theirs): (Vec<_>, Vec<_>) = recorded
        .lines()
        .map(|line| {
            let (case, answer) = line.split_once("\t\t").unwrap();
            (case.to_owned(), parts(answer))
        })
        .unzip();
    assert!(cases.len() > 60);
    compare(&cases, &theirs);
}

/// `cargo test -p loggia-registry --test registry -- --ignored record` writes the recording anew.
#[test]
#[ignore = "writes the fixtures"]
fn record() {
    let cases: Vec<_> = cases().into_iter().take(90).collect();
    let theirs = theirs(&cases).unwrap();
    let line = |(case, parts): (&String, &Parts)| match parts {
        Some((registry, repository, name)) => format!("{case}\t\tok\t{registry}\t{repository}\t{name}\n"),
        None => format!("{case}\t\terror\n"),
    };
    std::fs::write(fixture(), cases.iter().zip(&theirs).map(line).collect::<String>()).unwrap();
}
