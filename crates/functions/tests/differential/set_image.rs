use crate::compare::{Comparison, Level, crash_only};
use crate::generator::{any, config_map, custom_config, resource_list, seeds};
use crate::oracle::Answer;
use crate::random::Random;
use crate::tree::{Tree, list, map, text};

fn config(random: &mut Random) -> Option<Tree> {
    let mut image =
        map([("name", text(*random.pick(&["nginx", "reg.io/nginx", "busybox", "ngin.", "(", "nginx:1.0"])))]);
    for (key, value) in [("newName", "r.io/new"), ("newTag", "2.0"), ("digest", "sha256:ef")] {
        if random.one_in(2) {
            image.set(key, text(value));
        }
    }
    if random.one_in(15) {
        image.set("odd", text("x"));
    }
    if random.one_in(15) {
        image.set("name", text(""));
    }
    let mut fields = map([("image", image.clone())]);
    if random.one_in(2) {
        let path = *random.pick(&[
            "spec/image",
            "spec/template/spec/containers[]/image",
            "spec/containers",
            "metadata/name",
        ]);
        let kind = *random.pick(&["Widget", "Job", "Pod", ""]);
        fields.set("additionalImageFields", list([map([("path", text(path)), ("kind", text(kind))])]));
    }
    Some(match random.below(12) {
        0 => return None,
        1 => map([]),
        2 => map([("apiVersion", text("v1")), ("kind", text("Other"))]),
        3..=7 => custom_config(random, "SetImage", fields),
        _ => config_map(random, image),
    })
}

/// Which keys are read before the unknown one ends the reading is up to Go's random order.
fn excuse(input: &str, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    let unknown_key = theirs.stdout.contains("ConfigMap has wrong field name");
    if unknown_key {
        return Some("an unknown key, in random order");
    }
    // A message that is taken for a format prints the whole resource behind itself.
    let printed_resource = theirs.stdout.contains("%!(EXTRA *fn.KubeObject=");
    if printed_resource && ours.exit_code == theirs.exit_code {
        return Some("a resource printed behind a message");
    }
    crash_only(input, ours, theirs)
}

#[test]
fn set_image_answers_as_the_original() {
    let inputs = seeds().map(|mut random| {
        let config = config(&mut random);
        resource_list(&mut random, config.as_ref(), any)
    });
    Comparison {
        function: "set-image",
        version: "latest",
        original: "api-v0.21.1",
        inputs: "lists",
        level: Level::Values,
        excuse,
    }
    .run(inputs);
}
