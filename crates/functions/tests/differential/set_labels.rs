use crate::compare::{Comparison, Level, crash_only, early_kustomize};
use crate::generator::{any, config_map, custom_config, resource_list, seeds};
use crate::random::Random;
use crate::tree::{Tree, list, map, raw, text};

fn config(random: &mut Random) -> Option<Tree> {
    let mut labels = Tree::Map(Vec::new());
    for key in ["app", "tier", "x.io/y", "1"] {
        if random.one_in(2) {
            labels.set(key, text(*random.pick(&["web", "v 2", "1", "yes", ""])));
        }
    }
    if random.one_in(12) {
        labels.wreck(random);
    }
    Some(match random.below(14) {
        0 => return None,
        1 => map([]),
        2 => map([("apiVersion", text("v1")), ("kind", text("Other"))]),
        3 => map([("apiVersion", text("example.com/v1")), ("kind", text("SetLabels"))]),
        4 => custom_config(random, "SetLabels", map([("labels", list([text("a")]))])),
        5 => custom_config(random, "SetLabels", map([("labels", map([("a", raw("5"))]))])),
        6..=8 => custom_config(random, "SetLabels", map([("labels", labels)])),
        _ => config_map(random, labels),
    })
}

#[test]
fn set_labels_answers_as_the_original() {
    let inputs = seeds().map(|mut random| {
        let config = config(&mut random);
        resource_list(&mut random, config.as_ref(), any)
    });
    Comparison {
        function: "set-labels",
        version: "v0.2.5",
        original: "sdk-v1.0.3",
        inputs: "lists",
        level: Level::Text,
        excuse: crash_only,
    }
    .run(inputs);
}

/// As 0.1 wants it: with places of its own, and a kind with another name.
fn old_config(random: &mut Random) -> Option<Tree> {
    let mut config = config(random);
    if let Some(Tree::Map(pairs)) = &mut config
        && random.one_in(3)
    {
        let path = *random.pick(&["spec/labels", "metadata/labels", "spec/containers/labels"]);
        let spec = map([("path", text(path)), ("create", raw("true"))]);
        pairs.push((random.pick(&["additionalLabelFields", "fieldSpecs"]).to_string(), list([spec])));
    }
    config
}

#[test]
fn set_labels_0_1_answers_as_kustomize() {
    let inputs = seeds().map(|mut random| {
        let config = old_config(&mut random);
        resource_list(&mut random, config.as_ref(), any)
    });
    Comparison {
        function: "set-labels",
        version: "v0.1.5",
        original: "api-v0.8.11",
        inputs: "lists",
        level: Level::Values,
        excuse: early_kustomize,
    }
    .run(inputs);
}
