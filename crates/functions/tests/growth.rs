//! How the cost of the functions grows with their list: at most in proportion, whatever is in it.
#![allow(clippy::print_stderr, clippy::disallowed_methods, reason = "a test that measures")]

use std::time::{Duration, Instant};

use loggia_functions::{Limits, NoSchemaFiles, find};
use loggia_testing::growth::{Shape, shapes};

const LIMITS: Limits = Limits { output: 64 << 20, advice: "-" };

fn seconds(shape: &Shape, bytes: usize) -> f64 {
    let (_, version) = find(shape.image).unwrap_or_else(|| panic!("{} is built in", shape.image));
    let list = shape.list(bytes);
    let start = Instant::now();
    let output = version.filter_within(list.as_bytes(), &NoSchemaFiles, LIMITS);
    let took = start.elapsed();
    drop(output);
    took.as_secs_f64()
}

/// Which shapes to look at: all of them unless `GROWTH` names one.
fn chosen() -> Vec<Shape> {
    let wanted = std::env::var("GROWTH").unwrap_or_default();
    shapes().into_iter().filter(|shape| format!("{shape:?}").contains(&wanted)).collect()
}

#[test]
#[ignore = "prints a table, for people"]
fn table() {
    for shape in chosen() {
        let size: usize = std::env::var("SIZE").ok().and_then(|size| size.parse().ok()).unwrap_or(64);
        let times = [1, 2, 4].map(|factor| seconds(&shape, factor * size << 10));
        let exponent = (times[2] / times[0]).log2() / 2.0;
        eprintln!("{exponent:5.2} {:8.3} {:8.3} {:8.3}  {shape:?}", times[0], times[1], times[2]);
    }
}
