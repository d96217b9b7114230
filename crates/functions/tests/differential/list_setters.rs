use crate::compare::{Comparison, Level, early};
use crate::generator::seeds;
use crate::setter_inputs::with_setters;
use crate::tree::map;

#[test]
fn list_setters_of_2021_answers_as_the_original() {
    Comparison {
        function: "list-setters",
        version: "v0.1.0",
        original: "v0.1.0",
        inputs: "lists",
        level: Level::Text,
        excuse: early,
    }
    .run(seeds().map(|mut random| with_setters(&mut random, Some(&map([])))));
}
