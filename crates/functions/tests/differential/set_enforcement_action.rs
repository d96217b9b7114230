use crate::compare::{Comparison, Level, odd_list};
use crate::generator::{any, config_map, labels, metadata, resource_list, seeds};
use crate::random::Random;
use crate::tree::{Tree, map, raw, text};

fn constraint(random: &mut Random) -> Tree {
    if random.one_in(3) {
        return any(random);
    }
    let version = *random.pick(&["constraints.gatekeeper.sh/v1beta1", "constraints.gatekeeper.sh/v1"]);
    let mut item =
        map([("apiVersion", text(version)), ("kind", text("NoRoot")), ("metadata", metadata(random))]);
    match random.below(6) {
        0 => {}
        1 => item.set("spec", raw("null")),
        2 => item.set("spec", map([("enforcementAction", text("deny")), ("match", labels(random))])),
        3 => item.set("spec", map([])),
        _ => item.set("spec", map([("match", labels(random))])),
    }
    item
}

#[test]
fn set_enforcement_action_answers_as_the_original() {
    let inputs = seeds().map(|mut random| {
        let mut data = map([("enforcementAction", text(*random.pick(&["deny", "warn", "dryrun", "off"])))]);
        if random.one_in(10) {
            data.set("other", text("x"));
        }
        if random.one_in(15) {
            data.wreck(&mut random);
        }
        let config = config_map(&mut random, data);
        let config = Some(&config).filter(|_| !random.one_in(20));
        resource_list(&mut random, config, constraint)
    });
    Comparison {
        function: "set-enforcement-action",
        version: "latest",
        original: "kyaml-v0.12.0",
        inputs: "lists",
        level: Level::NoComments,
        excuse: odd_list,
    }
    .run(inputs);
}
