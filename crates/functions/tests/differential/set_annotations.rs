use crate::compare::{Comparison, Level, odd_list};
use crate::generator::{any, config_map, custom_config, resource_list, seeds};
use crate::random::Random;
use crate::tree::{Tree, list, map, raw, text};

fn config(random: &mut Random) -> Option<Tree> {
    let mut annotations = Tree::Map(Vec::new());
    for key in ["note", "x.io/y", "owner", "1"] {
        if random.one_in(2) {
            annotations.set(key, text(*random.pick(&["web", "a: b", "1", "yes", "", "<&>"])));
        }
    }
    if random.one_in(15) {
        annotations.wreck(random);
    }
    let mut fields = map([("annotations", annotations.clone())]);
    if random.one_in(3) {
        let path = *random.pick(&[
            "data/meta",
            "spec/x",
            "spec/containers/notes",
            "/metadata/annotations",
            "spec/size",
        ]);
        let mut spec = map([("path", text(path))]);
        if random.one_in(2) {
            spec.set("create", raw("true"));
        }
        if random.one_in(2) {
            spec.set("kind", text(*random.pick(&["ConfigMap", "Pod", "Widget"])));
        }
        let key = *random.pick(&["additionalAnnotationFields", "fieldSpecs"]);
        fields.set(key, list([spec]));
        if random.one_in(8) {
            fields.set("fieldSpecs", list([]));
        }
    }
    Some(match random.below(14) {
        0 => return None,
        1 => map([]),
        2 => map([("apiVersion", text("v1")), ("kind", text("Other"))]),
        3 => custom_config(random, "SetAnnotationConfig", fields),
        4..=8 => custom_config(random, "SetAnnotations", fields),
        _ => config_map(random, annotations),
    })
}

#[test]
fn set_annotations_answers_as_the_original() {
    let inputs = seeds().take(60).map(|mut random| {
        let config = config(&mut random);
        resource_list(&mut random, config.as_ref(), any)
    });
    Comparison {
        function: "set-annotations",
        version: "latest",
        original: "api-v0.11.0",
        inputs: "lists",
        level: Level::NoComments,
        excuse: odd_list,
    }
    .run(inputs);
}
