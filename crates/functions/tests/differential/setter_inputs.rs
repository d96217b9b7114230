//! Lists with setter comments where others have any comment.

use crate::generator::{any, resource_list};
use crate::random::Random;
use crate::tree::Tree;

pub(crate) const SETTERS: [&str; 7] = ["image", "tag", "name", "list", "env", "db-password", "odd name"];

const PATTERNS: [&str; 16] = [
    "${image}",
    "${tag}",
    "${name}",
    "${image}:${tag}",
    "${name}-${tag}",
    "${list}",
    "${env}",
    "${db-password}",
    "x-${odd name}",
    "${a}${b}",
    "${image}:${image}",
    "plain",
    "",
    "${unclosed",
    "${} ${name}",
    "reg.io/${name}@${tag}",
];

/// A list whose comments beside values are setters' more often than not.
pub(crate) fn with_setters(random: &mut Random, config: Option<&Tree>) -> String {
    let text = resource_list(random, config, any);
    let mut out = String::new();
    for line in text.lines() {
        // What readers write has no comments.
        if line.contains("config.kubernetes.io/") {
            let before = line.split_once(" # beside ").map_or(line, |(before, _)| before);
            out += &format!("{before}\n");
            continue;
        }
        match line.split_once(" # beside ") {
            Some((before, _)) if !random.one_in(5) => {
                let mark =
                    *random.pick(&["# kpt-set: ", "# kpt-set: ", "# kpt-set: ", "# kpt-set:", "#kpt-set: "]);
                out += &format!("{before} {mark}{}\n", random.pick(&PATTERNS));
            }
            // Values deep inside have too few comments for a test of comments.
            None if line.contains(": ") && !line.contains('#') && random.one_in(6) => {
                out += &format!("{line} # kpt-set: {}\n", random.pick(&PATTERNS));
            }
            _ => out += &format!("{line}\n"),
        }
    }
    out
}
