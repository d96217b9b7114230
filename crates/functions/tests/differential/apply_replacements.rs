use crate::compare::{Comparison, Level, early, same_values};
use crate::generator::{NAMES, NAMESPACES, any, config_map, custom_config, resource_list, seeds};
use crate::oracle::Answer;
use crate::random::Random;
use crate::tree::{Tree, list, map, raw, text};

const PATHS: [&str; 26] = [
    "metadata.name",
    "metadata.namespace",
    "spec.replicas",
    "data.k",
    "spec.template.spec.containers.[name=web].image",
    "spec.template.spec.containers.[name=w].image",
    "spec.template.spec.containers.0.image",
    "spec.template.spec.containers.*.name",
    "spec.template.spec.containers.7.name",
    "metadata.labels",
    "metadata.labels.app",
    "metadata.labels.[app.kubernetes.io/name]",
    r"metadata.labels.app\.kubernetes\.io/name",
    "spec.selector",
    "spec.ports.[port=80].port",
    "subjects.[kind=User].name",
    "spec.nope",
    "spec.nope.deeper",
    "data.k.x",
    "rules.0.resources.[=configmaps]",
    "spec.containers.-.name",
    "spec.[name=(].x",
    "spec.containers.[nothing].x",
    "",
    "metadata..name",
    "spec.ports.1.port",
];

fn selector(random: &mut Random, patterns: bool) -> Tree {
    let mut selector = Tree::Map(Vec::new());
    let mut some = |random: &mut Random, key: &str, share: usize, values: &[&str]| {
        if random.one_in(share) {
            selector.set(key, text(*random.pick(values)));
        }
    };
    some(random, "kind", 2, &["Deployment", "ConfigMap", "Service", "Pod", "Namespace", "Deploy.*"]);
    some(random, "name", 3, &NAMES);
    some(random, "namespace", 5, &NAMESPACES);
    some(random, "group", 8, &["apps", "batch"]);
    some(random, "version", 8, &["v1", "v1beta1"]);
    if patterns {
        some(
            random,
            "labelSelector",
            8,
            &["app=web", "app in (web, be)", "!tier", "a b", "app=a/b", "x/y/z=1", "n>0"],
        );
        some(random, "annotationSelector", 12, &["note", "note!=x", "note=by hand"]);
        some(random, "name", 20, &["(", "w.*"]);
    }
    selector
}

fn options(random: &mut Random) -> Tree {
    let mut options = Tree::Map(Vec::new());
    if random.one_in(2) {
        options.set("delimiter", text(*random.pick(&[":", "/", "-", "."])));
    }
    if random.one_in(2) {
        let index: &str = random.pick::<&str>(&["0", "1", "-1", "5"]);
        options.set("index", raw(index));
    }
    if random.one_in(3) {
        options.set("create", raw("true"));
    }
    options
}

fn replacement(random: &mut Random) -> Tree {
    let mut replacement = Tree::Map(Vec::new());
    if !random.one_in(10) {
        let mut source = selector(random, false);
        if !random.one_in(4) {
            source.set("fieldPath", text(*random.pick(&PATHS)));
        }
        if random.one_in(5) {
            source.set("options", options(random));
        }
        replacement.set("source", source);
    }
    if random.one_in(5) {
        if !random.one_in(4) {
            replacement = Tree::Map(Vec::new());
        }
        replacement.set("sourceValue", text(*random.pick(&["fixed", "5", ""])));
    }
    if !random.one_in(15) {
        let targets = (0..1 + random.below(2)).map(|_| {
            let mut target = Tree::Map(Vec::new());
            if !random.one_in(15) {
                target.set("select", selector(random, true));
            }
            if random.one_in(5) {
                target.set("reject", list([selector(random, true)]));
            }
            if !random.one_in(5) {
                target.set("fieldPaths", list((0..1 + random.below(2)).map(|_| text(*random.pick(&PATHS)))));
            }
            if random.one_in(2) {
                target.set("options", options(random));
            }
            target
        });
        let targets: Vec<Tree> = targets.collect();
        replacement.set("targets", list(targets));
    }
    if random.one_in(20) {
        replacement.wreck(random);
    }
    replacement
}

fn config(random: &mut Random) -> Option<Tree> {
    let replacements = list((0..random.below(3)).map(|_| replacement(random)));
    let fields = map([("replacements", replacements)]);
    Some(match random.below(20) {
        0 => return None,
        1 => map([]),
        2 => config_map(random, fields),
        _ => custom_config(random, "ApplyReplacements", fields),
    })
}

fn excuse(input: &str, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    let logged = theirs.stderr.contains("ParseInt failed for value");
    early(input, ours, theirs)
        .or(logged.then_some("a label that is no number is logged with the time"))
        .or(same_values(ours, theirs)
            .then_some("a replaced field keeps its comment, as the host would have it"))
}

fn compare(version: &'static str) {
    let inputs = seeds().map(|mut random| {
        let config = config(&mut random);
        resource_list(&mut random, config.as_ref(), any)
    });
    Comparison {
        function: "apply-replacements",
        version,
        original: version,
        inputs: "lists",
        level: Level::Text,
        excuse,
    }
    .run(inputs);
}

#[test]
fn apply_replacements_of_2022_answers_as_the_original() {
    compare("v0.1.1");
}
