use crate::compare::{Comparison, Level, crash_only};
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
