//! Generated resources, whole and wrecked, against the original's validator.

use loggia_yaml::parse_all;

use crate::compare::{Comparison, Level};
use crate::generator::{any, config_map, resource_list, seeds};
use crate::oracle::Answer;
use crate::random::Random;
use crate::tree::{Tree, list, map, raw, text};

/// A resource with one to three things wrong with it.
fn wrecked(random: &mut Random) -> Tree {
    let mut item = any(random);
    for _ in 0..random.below(4) {
        item.wreck(random);
    }
    item
}

fn config(random: &mut Random) -> Tree {
    let mut data = map([]);
    if random.one_in(2) {
        data.set("strict", text(*random.pick(&["true", "True", "1", "false", "yes"])));
    }
    if random.one_in(6) {
        data.set(
            "skip_kinds",
            text(*random.pick(&["Deployment", "Service,ConfigMap", "apps/v1/Deployment"])),
        );
    }
    config_map(random, data)
}

/// The original walks maps in random order, so the same results in another order are the same results.
fn excuse(_: &str, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    let results = |answer: &Answer| {
        let documents = parse_all(&answer.stdout).ok()?;
        let mut texts: Vec<String> = documents[0].root.get("results")?.items().iter().map(in_order).collect();
        texts.sort();
        Some(texts)
    };
    let same = ours.exit_code == theirs.exit_code && ours.stderr == theirs.stderr;
    (same && results(ours).is_some() && results(ours) == results(theirs))
        .then_some("results in another order")
}

/// A result's text, with the surplus fields it lists in order.
fn in_order(result: &loggia_yaml::Node) -> String {
    let parts = [["field", "path"], ["resourceRef", "kind"], ["resourceRef", "name"], ["file", "index"]];
    let at =
        |path: &[&str]| result.at(path).and_then(loggia_yaml::Node::scalar).unwrap_or_default().to_owned();
    let text = format!("{} {}", parts.map(|path| at(&path)).join("|"), at(&["message"]));
    match text
        .split_once("additional properties ")
        .and_then(|(before, rest)| Some((before, rest.split_once(" not allowed")?)))
    {
        Some((before, (names, after))) => {
            let mut names: Vec<&str> = names.split(", ").collect();
            names.sort_unstable();
            format!("{before}{names:?}{after}")
        }
        None => text,
    }
}

#[test]
fn kubeconform_finds_what_the_original_finds() {
    let inputs = seeds().map(|mut random| {
        let config = config(&mut random);
        resource_list(&mut random, Some(&config), wrecked)
    });
    Comparison {
        function: "kubeconform",
        version: "latest",
        original: "v0.7.0",
        inputs: "lists",
        level: Level::Values,
        excuse,
    }
    .run(inputs);
}

/// The locations of a config, relative to the folder that tests run in.
fn locations(random: &mut Random) -> Tree {
    let folder = "tests/fixtures/schemas";
    let template =
        "tests/fixtures/schemas/by-group/{{.Group}}/{{ .ResourceKind }}_{{.ResourceAPIVersion}}.json";
    let suffix = "tests/fixtures/schemas/{{.NormalizedKubernetesVersion}}-standalone{{.StrictSuffix}}/{{.ResourceKind}}{{.KindSuffix}}.json";
    let (first, others) = match random.below(6) {
        0 => (folder, template.to_owned()),
        1 => (template, format!("default,{folder}")),
        2 => ("default", format!("{template},{suffix}")),
        3 => ("", format!("{folder},,{template}")),
        4 => (suffix, String::new()),
        _ => (template, "default".to_owned()),
    };
    let mut data = map([]);
    for (key, value) in [("schema_location", first), ("additional_schema_locations", &others)] {
        if !value.is_empty() {
            data.set(key, text(value));
        }
    }
    if random.one_in(2) {
        data.set("strict", text("true"));
    }
    config_map(random, data)
}

/// A value for a field of a custom resource, often a wrong one.
fn value(random: &mut Random) -> Tree {
    match random.below(12) {
        0 => raw("null"),
        1 => raw("true"),
        2 => raw("7"),
        3 => raw("0"),
        4 => raw("0.75"),
        5 => text("fast"),
        6 => text("2026-01-02T03:04:05Z"),
        7 => text("x"),
        8 => list([map([("id", raw("1"))]), map([("id", raw("1")), ("port", raw("true"))])]),
        9 => list([map([("colour", text("blue"))]), map([("colour", raw("1")), ("~a/b", raw("2"))])]),
        10 => map([("a", text("b")), ("c", raw("1")), ("d", text("e"))]),
        _ => map([("a", raw("true"))]),
    }
}

/// A resource that the folder has a schema of, or one that everybody knows.
fn custom(random: &mut Random) -> Tree {
    let (kind, right, fields): (_, _, &[&str]) = match random.below(5) {
        0 | 1 => (
            "Thing",
            map([("size", raw("3")), ("mode", text("slow"))]),
            &[
                "size", "mode", "name", "since", "share", "parts", "tags", "either", "both", "open", "empty",
                "odd",
            ],
        ),
        2 | 3 => ("Box", map([("sides", list([]))]), &["sides", "inside", "weight", "odd"]),
        _ => return wrecked(random),
    };
    let mut spec = right;
    for field in fields {
        if random.one_in(4) {
            spec.set(field, value(random));
        }
    }
    let metadata = map([("name", text(*random.pick(&["a", "web", "longer"])))]);
    let mut item =
        map([("apiVersion", text("example.com/v1")), ("kind", text(kind)), ("metadata", metadata)]);
    if !random.one_in(8) {
        item.set("spec", spec);
    }
    for field in ["lid", "since", "never"] {
        if random.one_in(8) {
            item.set(field, value(random));
        }
    }
    item
}

#[test]
fn kubeconform_finds_the_same_with_schemas_of_a_folder() {
    let inputs = seeds().map(|mut random| {
        let config = locations(&mut random);
        resource_list(&mut random, Some(&config), custom)
    });
    Comparison {
        function: "kubeconform",
        version: "latest",
        original: "v0.7.0",
        inputs: "folders",
        level: Level::Values,
        excuse,
    }
    .run(inputs);
}
