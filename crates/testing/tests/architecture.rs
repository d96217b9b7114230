//! The table of rooms in `ARCHITECTURE.md` against the dependencies that Cargo sees.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The words in the table of a program, which may use every room.
const ALL: &str = "all they need";

/// What a row of the table allows.
#[derive(Debug, PartialEq, Eq)]
enum MayUse {
    Any,
    Rooms(BTreeSet<String>),
}

/// One dependency between two crates of the workspace.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    from: String,
    to: String,
    dev: bool,
}

#[test]
fn every_room_uses_what_the_table_allows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let table = table(&text).unwrap_or_else(|problem| panic!("ARCHITECTURE.md: {problem}"));
    let (rooms, edges) = workspace(&root);
    let wrong = violations(&table, &rooms, &edges);
    assert!(wrong.is_empty(), "ARCHITECTURE.md and `cargo metadata` disagree:\n{}", wrong.join("\n"));
}

/// The rows of the table `| Room | … | May use | … |`.
fn table(text: &str) -> Result<BTreeMap<String, MayUse>, String> {
    let cells = |line: &str| -> Vec<String> {
        line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = text.lines().skip_while(|line| !line.starts_with("| Room |"));
    let head = cells(lines.next().ok_or("there is no table `| Room | In one sentence | May use | …`")?);
    let column = head.iter().position(|cell| cell == "May use").ok_or("the table has no column `May use`")?;
    let mut table = BTreeMap::new();
    for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
        let row = cells(line);
        let may_use = row.get(column).ok_or_else(|| format!("a row is too short: {line}"))?;
        for room in row[0].split(',').map(|name| name.trim().trim_matches('`').to_owned()) {
            table.insert(room, may_use_of(may_use));
        }
    }
    for (room, may_use) in &table {
        let MayUse::Rooms(names) = may_use else { continue };
        if let Some(unknown) = names.iter().find(|name| !table.contains_key(*name)) {
            return Err(format!("`{room}` may use `{unknown}`, which has no row"));
        }
    }
    Ok(table)
}

/// A cell of names, each perhaps with words in parentheses behind it.
fn may_use_of(cell: &str) -> MayUse {
    if cell == ALL {
        return MayUse::Any;
    }
    let mut names = String::new();
    let mut depth = 0;
    for letter in cell.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            '`' => {}
            _ if depth == 0 => names.push(letter),
            _ => {}
        }
    }
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != "-");
    MayUse::Rooms(names.map(str::to_owned).collect())
}

/// The rooms, by their folder's name, and the dependencies among the crates of the workspace. Those outside of `crates/`
/// are not rooms, but may not use `testing` either unless they are tests or benchmarks.
fn workspace(root: &Path) -> (BTreeSet<String>, Vec<Edge>) {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let folder = |path: &Value| {
        let path = Path::new(path.as_str().unwrap());
        path.file_name().unwrap().to_str().unwrap().to_owned()
    };
    let (mut rooms, mut edges) = (BTreeSet::new(), Vec::new());
    for package in metadata["packages"].as_array().unwrap() {
        let place = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        let from = folder(&Value::from(place.to_str().unwrap()));
        if place.parent().is_some_and(|parent| parent.ends_with("crates")) {
            rooms.insert(from.clone());
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            if dependency["path"].is_string() {
                let dev = dependency["kind"] == "dev";
                edges.push(Edge { from: from.clone(), to: folder(&dependency["path"]), dev });
            }
        }
    }
    edges.sort();
    edges.dedup();
    (rooms, edges)
}

/// What is not as the table says, in sentences.
fn violations(table: &BTreeMap<String, MayUse>, rooms: &BTreeSet<String>, edges: &[Edge]) -> Vec<String> {
    let mut wrong = Vec::new();
    for room in rooms.iter().filter(|room| *room != "testing" && !table.contains_key(*room)) {
        wrong.push(format!("`{room}` has no row in the table"));
    }
    for room in table.keys().filter(|room| !rooms.contains(*room)) {
        wrong.push(format!("`{room}` has a row, and no folder in crates/"));
    }
    for Edge { from, to, .. } in edges.iter().filter(|edge| !edge.dev) {
        if to == "testing" && !["e2e", "bench"].contains(&from.as_str()) {
            wrong.push(format!("`{from}` uses `testing` outside of its tests"));
        }
        if from == "testing" {
            wrong.push(format!("`testing` uses `{to}`, and may use no room"));
        }
        if let Some(MayUse::Rooms(allowed)) = table.get(from)
            && to != "testing"
            && !allowed.contains(to)
        {
            wrong.push(format!("`{from}` uses `{to}`, which its row does not allow"));
        }
    }
    wrong
}

const SAMPLE: &str = "\
Text.

| Room | In one sentence | May use | Deliberately lacks |
|---|---|---|---|
| `yaml` | documents | - | all else |
| `krm` | resources | yaml | running anything |
| `registry` | images | krm (for `Image`, and its like), `yaml` | pods |
| `loggia`, `runner` | flags | all they need | logic |

`testing` is for tests.
";

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn a_table_is_read_by_its_columns() {
    let table = table(SAMPLE).unwrap();
    assert_eq!(table.keys().collect::<Vec<_>>(), ["krm", "loggia", "registry", "runner", "yaml"]);
    assert_eq!(table["yaml"], MayUse::Rooms(set(&[])));
    assert_eq!(table["registry"], MayUse::Rooms(set(&["krm", "yaml"])));
    assert_eq!((&table["loggia"], &table["runner"]), (&MayUse::Any, &MayUse::Any));
}

#[test]
fn a_table_that_is_missing_or_names_an_unknown_room_is_an_error() {
    assert!(table("# Rooms\n").unwrap_err().starts_with("there is no table"));
    let unknown = SAMPLE.replace("| yaml | running", "| yaml, helpers | running");
    assert_eq!(table(&unknown).unwrap_err(), "`krm` may use `helpers`, which has no row");
}

#[test]
fn each_kind_of_disagreement_is_named() {
    let table = table(SAMPLE).unwrap();
    let rooms = set(&["yaml", "krm", "registry", "loggia", "runner", "testing"]);
    let edge = |from: &str, to: &str, dev| Edge { from: from.to_owned(), to: to.to_owned(), dev };
    let fine = [edge("krm", "yaml", false), edge("yaml", "testing", true), edge("yaml", "krm", true)];
    assert_eq!(violations(&table, &rooms, &fine), Vec::<String>::new());
    assert_eq!(violations(&table, &rooms, &[edge("loggia", "yaml", false)]), Vec::<String>::new());
    for (edge, expected) in [
        (edge("yaml", "krm", false), "`yaml` uses `krm`, which its row does not allow"),
        (edge("loggia", "testing", false), "`loggia` uses `testing` outside of its tests"),
        (edge("testing", "yaml", false), "`testing` uses `yaml`, and may use no room"),
    ] {
        assert_eq!(violations(&table, &rooms, &[edge]), [expected]);
    }
    let others = set(&["yaml", "krm", "registry", "loggia", "pods"]);
    assert_eq!(
        violations(&table, &others, &[]),
        ["`pods` has no row in the table", "`runner` has a row, and no folder in crates/"]
    );
}
