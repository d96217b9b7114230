//! Generated resources, whole and wrecked, against the original's validator.

use loggia_yaml::parse_all;

use crate::compare::{Comparison, Level};
use crate::generator::{any, config_map, resource_list, seeds};
use crate::oracle::Answer;
use crate::random::Random;
use crate::tree::{Tree, map, text};

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
