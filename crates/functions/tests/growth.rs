//! How the cost of the functions grows with their list: at most in proportion, whatever is in it.
#![allow(clippy::print_stderr, clippy::disallowed_methods, reason = "a test that measures")]

use loggia_functions::{Limits, NoSchemaFiles, find};
use loggia_testing::growth::{Shape, processor_time, shapes};

const LIMITS: Limits = Limits { output: 16 << 20, advice: "-" };

fn seconds(shape: &Shape, bytes: usize) -> f64 {
    let (_, version) = find(shape.image).unwrap_or_else(|| panic!("{} is built in", shape.image));
    let list = shape.list(bytes);
    let start = processor_time();
    drop(version.filter_within(list.as_bytes(), &NoSchemaFiles, LIMITS));
    processor_time() - start
}

/// Every list that is bad for one function, and for each function one that people write.
fn chosen() -> Vec<Shape> {
    let wanted = std::env::var("GROWTH").unwrap_or_default();
    let mut shapes = shapes();
    shapes.retain(|shape| {
        let text = format!("{shape:?}");
        let is_general = shape.image == "no-op" || !shape.is_general || shape.name == "deployments";
        text.contains(&wanted) && (is_general || !wanted.is_empty())
    });
    shapes
}

/// Every list has steps that are free, and up to those a product of two parts of it is allowed to grow. In an unoptimised
/// build they take no longer than this.
const ENOUGH: f64 = 5.0;

/// Four times the list may take four times as long. What takes eleven times as long, in the best of three tries, and
/// more than free steps do, is on its way to the square.
#[test]
fn no_function_takes_time_with_the_square_of_its_list() {
    const SMALL: usize = 24 << 10;
    let mut bad = Vec::new();
    for shape in chosen() {
        let ratio = || {
            let (small, large) = (seconds(&shape, SMALL), seconds(&shape, 4 * SMALL));
            (large, if large < ENOUGH { 0.0 } else { large / small.max(0.01) })
        };
        let mut best = ratio();
        for _ in 0..2 {
            if best.1 > 11.0 {
                let again = ratio();
                best = if again.1 < best.1 { again } else { best };
            }
        }
        if best.1 > 11.0 {
            let (large, ratio) = best;
            bad.push(format!("{shape:?}: {ratio:.1} times as long ({large:.2} s) for four times the list"));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
