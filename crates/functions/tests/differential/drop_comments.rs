use crate::compare::{Comparison, Level, crash_only};
use crate::generator::{any, resource_list, seeds};
use crate::tree::map;

#[test]
fn drop_comments_answers_as_its_library_would() {
    Comparison {
        function: "drop-comments",
        version: "latest",
        original: "kyaml-v0.21.1",
        inputs: "lists",
        level: Level::Text,
        excuse: crash_only,
    }
    .run(seeds().map(|mut random| resource_list(&mut random, Some(&map([])), any)));
}
