use crate::compare::{Comparison, Level, odd_list, same_values};
use crate::generator::{any, resource_list, seeds};
use crate::oracle::Answer;
use crate::random::Random;
use crate::tree::{Tree, list, map, raw, text};

/// A resource with values of every kind where the schema wants one.
fn resource(random: &mut Random) -> Tree {
    const ODD: [&str; 16] = [
        "yes",
        "\"yes\"",
        "'on'",
        "1",
        "\"1\"",
        "1.5",
        "true",
        "'false'",
        "null",
        "\"null\"",
        "~",
        "0x1F",
        "2001-01-01",
        "\"\"",
        "12:30",
        "a",
    ];
    let mut item = any(random);
    // The schemas of both sides know these versions alike.
    if let Tree::Map(pairs) = &mut item
        && let Some((_, Tree::Text(version))) = pairs.iter_mut().find(|(key, _)| key == "apiVersion")
    {
        *version = version
            .replace("v1beta1", "v1")
            .replace("v1beta2", "v1")
            .replace("autoscaling/v2", "autoscaling/v1");
    }
    for (path, keys) in [
        ("metadata", &["labels", "annotations"][..]),
        ("data", &["b", "a"]),
        ("spec", &["replicas", "paused", "schedule", "clusterIP", "unknown"]),
    ] {
        if !random.one_in(2) {
            continue;
        }
        let mut part = map([]);
        for key in keys {
            let value = *random.pick(&ODD);
            let value = raw(value);
            part.set(key, if path == "metadata" { map([("z", value), ("name", text("a"))]) } else { value });
        }
        if let Tree::Map(pairs) = &mut item {
            match pairs.iter_mut().find(|(key, _)| key == path) {
                Some((_, Tree::Map(present))) => {
                    let Tree::Map(more) = part else { continue };
                    present.retain(|(key, _)| !more.iter().any(|(added, _)| added == key));
                    present.extend(more);
                }
                Some(_) => {}
                None => pairs.push((path.to_owned(), part)),
            }
        }
    }
    if random.one_in(5) {
        item = containers(random);
    }
    if random.one_in(8)
        && let Tree::Map(pairs) = &mut item
        && let Some((_, metadata)) = pairs.iter_mut().find(|(key, _)| key == "metadata")
    {
        let value = *random.pick(&["none", "standard", "other", ""]);
        metadata.set("annotations", map([("config.kubernetes.io/formatting", text(value))]));
    }
    item
}

/// Lists that are sorted, and numbers that are not whole.
fn containers(random: &mut Random) -> Tree {
    let container = |name: &str, port: &str| {
        map([
            ("image", text("x")),
            ("name", raw(name)),
            ("ports", list([map([("containerPort", raw(port))])])),
        ])
    };
    let mut containers = vec![container("b", "\"80\""), container("a", "80"), container("\"0\"", "'x'")];
    if random.one_in(2) {
        containers.reverse();
    }
    let pod = map([("spec", map([("containers", list(containers))]))]);
    let (version, kind) =
        *random.pick(&[("apps/v1", "Deployment"), ("batch/v1", "Job"), ("apps/v9", "Deployment")]);
    let paused = *random.pick(&["\"true\"", "yes", "\"on\""]);
    map([
        ("kind", text(kind)),
        ("spec", map([("template", pod), ("paused", raw(paused))])),
        ("metadata", map([("name", text("x"))])),
        ("apiVersion", text(version)),
    ])
}

fn excuse(input: &str, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    let list = theirs.stdout.strip_suffix(&format!("{}\n", theirs.stderr)).unwrap_or_default();
    let printed_once = Answer { stdout: list.to_owned(), ..theirs.clone() };
    if theirs.exit_code == 1 && ours.exit_code == 1 && same_values(ours, &printed_once) {
        return Some("the error is printed behind the list as well");
    }
    let refused = theirs.stderr.starts_with("wrong node kind: expected MappingNode");
    if refused && theirs.stdout == format!("{}\n", theirs.stderr) {
        return Some("metadata that is no mapping");
    }
    odd_list(input, ours, theirs)
}

#[test]
fn format_answers_as_kyaml() {
    let inputs = seeds().map(|mut random| {
        let config = random.one_in(3).then(|| map([("kind", text("ConfigMap"))]));
        resource_list(&mut random, config.as_ref(), resource)
    });
    Comparison {
        function: "format",
        version: "latest",
        original: "kyaml-v0.19.0",
        inputs: "lists",
        level: Level::Text,
        excuse,
    }
    .run(inputs);
}
