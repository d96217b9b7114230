use crate::compare::{Comparison, Level, early, same_values};
use crate::generator::{config_map, seeds};
use crate::oracle::Answer;
use crate::random::Random;
use crate::setter_inputs::{SETTERS, with_setters};
use crate::tree::{Tree, map, raw, text};

const VALUES: [&str; 20] = [
    "nginx",
    "1.7",
    "5",
    "true",
    "",
    "null",
    "a: b",
    "- a",
    "[a, b]",
    "- x\n- y # c\n",
    "[]",
    "{}",
    "[a",
    "~",
    "-----BEGIN RSA PRIVATE KEY-----",
    "postgres://u:pw@host/db",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2",
    "é ü",
    "multi\nline",
];

fn config(random: &mut Random) -> Option<Tree> {
    let mut data = Tree::Map(Vec::new());
    for name in SETTERS {
        if random.one_in(2) {
            let value = match random.below(14) {
                0 => raw("7"),
                1 => raw("null"),
                2 => text("long ".repeat(40)),
                _ => text(*random.pick(&VALUES)),
            };
            data.set(name, value);
        }
    }
    if random.one_in(15) {
        data.wreck(random);
    }
    Some(match random.below(12) {
        0 => return None,
        1 => map([]),
        2 => map([("data", data)]),
        _ => config_map(random, data),
    })
}

fn inputs() -> impl Iterator<Item = String> {
    seeds().map(|mut random| {
        let config = config(&mut random);
        with_setters(&mut random, config.as_ref())
    })
}

/// The comment of a list in brackets stays there too in the original, and lands on what follows.
fn excuse(input: &str, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    early(input, ours, theirs)
        .or(same_values(ours, theirs).then_some("a list's comment does not reach the field behind it"))
}

fn compare(version: &'static str) {
    Comparison {
        function: "apply-setters",
        version,
        original: version,
        inputs: "lists",
        level: Level::Text,
        excuse,
    }
    .run(inputs());
}

#[test]
fn apply_setters_of_2021_answers_as_the_original() {
    compare("v0.2.0");
}
