use crate::compare::{Comparison, Level, crash_only, early_kustomize, same_values};
use crate::generator::{NAMESPACES, any, config_map, custom_config, resource_list, seeds};
use crate::oracle::Answer;
use crate::random::Random;
use crate::tree::{Tree, list, map, raw, text};

fn config(random: &mut Random) -> Option<Tree> {
    let mut fields = map([("namespace", text(*random.pick(&["staging", "new", "a", "5", ""])))]);
    if random.one_in(3) {
        fields.set("namespaceMatcher", text(*random.pick(&NAMESPACES)));
    }
    if random.one_in(12) {
        fields.wreck(random);
    }
    Some(match random.below(16) {
        0 => return None,
        1 => map([]),
        2 => map([("apiVersion", text("v1")), ("kind", text("Other"))]),
        3 => map([("apiVersion", text("example.com/v1")), ("kind", text("ConfigMap"))]),
        4 => {
            let data = map([("name", text(*random.pick(&["pkg", ""])))]);
            let metadata = map([("name", text("kptfile.kpt.dev"))]);
            map([
                ("apiVersion", text("v1")),
                ("kind", text("ConfigMap")),
                ("metadata", metadata),
                ("data", data),
            ])
        }
        5 => custom_config(random, "SetNamespaceConfig", fields),
        6..=9 => custom_config(random, "SetNamespace", fields),
        _ => config_map(random, fields),
    })
}

fn inputs() -> impl Iterator<Item = String> {
    seeds().map(|mut random| {
        let config = config(&mut random);
        resource_list(&mut random, config.as_ref(), any)
    })
}

/// Compares again after both answers were changed.
fn same_after(ours: &Answer, theirs: &Answer, change: impl Fn(&str) -> String) -> bool {
    let changed = |answer: &Answer| Answer { stdout: change(&answer.stdout), ..answer.clone() };
    ours.exit_code == theirs.exit_code && same_values(&changed(ours), &changed(theirs))
}

/// The old namespaces of a message in order; the original has them in Go's random one.
fn with_old_in_order(stdout: &str) -> String {
    let line = |line: &str| {
        let Some((head, rest)) = line.split_once("namespace \"") else { return line.to_owned() };
        let Some((old, tail)) = rest.split_once("\" updated to ") else { return line.to_owned() };
        let mut old: Vec<&str> = old.split("\",\"").collect();
        old.sort_unstable();
        format!("{head}namespace \"{}\" updated to {tail}", old.join("\",\""))
    };
    stdout.lines().map(|text| line(text) + "\n").collect()
}

#[test]
fn set_namespace_answers_as_the_functions_sdk() {
    Comparison {
        function: "set-namespace",
        version: "latest",
        original: "sdk-v1.0.3",
        inputs: "lists",
        level: Level::Text,
        excuse: crash_only,
    }
    .run(inputs());
}

#[test]
fn set_namespace_0_4_1_answers_as_the_original() {
    fn excuse(input: &str, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
        let same = same_after(ours, theirs, with_old_in_order);
        same.then_some("several old namespaces in random order").or(crash_only(input, ours, theirs))
    }
    Comparison {
        function: "set-namespace",
        version: "v0.4.1",
        original: "v0.4.1",
        inputs: "lists",
        level: Level::Values,
        excuse,
    }
    .run(inputs());
}

#[test]
fn set_namespace_0_3_1_answers_as_the_original() {
    fn excuse(input: &str, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
        let without_empty = |stdout: &str| stdout.replace("functionConfig: {}\n", "");
        if same_after(ours, theirs, without_empty) {
            return Some("an empty config is written back");
        }
        let panicked = |part: &str| theirs.exit_code == 1 && theirs.stdout.contains(part);
        if panicked("panic with {") && ours.exit_code == 1 {
            return Some("a field of another type, told with an address in memory");
        }
        if panicked("nil pointer dereference") {
            return Some("no config at all");
        }
        crash_only(input, ours, theirs)
    }
    Comparison {
        function: "set-namespace",
        version: "v0.3.1",
        original: "v0.3.1",
        inputs: "lists",
        level: Level::Values,
        excuse,
    }
    .run(inputs());
}

#[test]
fn set_namespace_0_2_answers_as_kustomize() {
    let inputs = seeds().map(|mut random| {
        let mut config = config(&mut random);
        if let Some(Tree::Map(pairs)) = &mut config
            && random.one_in(4)
        {
            let spec = map([
                ("path", text(*random.pick(&["spec/ns", "metadata/labels/ns"]))),
                ("create", raw("true")),
            ]);
            let field = *random.pick(&["additionalNamespaceFields", "fieldSpecs"]);
            pairs.push((field.to_owned(), list([spec])));
        }
        resource_list(&mut random, config.as_ref(), any)
    });
    Comparison {
        function: "set-namespace",
        version: "v0.2.0",
        original: "api-v0.8.11",
        inputs: "lists",
        level: Level::Values,
        excuse: early_kustomize,
    }
    .run(inputs);
}
