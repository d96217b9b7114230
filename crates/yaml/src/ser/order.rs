//! The order of map keys: as people sort, not as bytes compare.

use std::cmp::Ordering;

use crate::node::{Node, Tag};

/// Numbers by value and before strings. In strings, at the first difference, signs come before
/// letters (inside digits after them), and runs of digits compare as numbers: `keyList.Less` of go-yaml's
/// `sorter.go`. It is public for callers that put keys into a map as [`to_node`](crate::to_node) would.
#[must_use]
pub fn natural_order(left: &Node, right: &Node) -> Ordering {
    let is_number = |node: &Node| matches!(node.tag(), Tag::Int | Tag::Float | Tag::Bool);
    match (is_number(left), is_number(right)) {
        (true, true) => number(left).total_cmp(&number(right)),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => {
            natural_text_order(left.scalar().unwrap_or_default(), right.scalar().unwrap_or_default())
        }
    }
}

fn number(node: &Node) -> f64 {
    node.as_f64().unwrap_or_else(|| f64::from(u8::from(node.as_bool() == Some(true))))
}

fn natural_text_order(left: &str, right: &str) -> Ordering {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let Some(at) = left.iter().zip(&right).position(|(a, b)| a != b) else {
        return left.len().cmp(&right.len());
    };
    let in_digits = at > 0 && left[at - 1].is_ascii_digit();
    let (a, b) = (left[at], right[at]);
    match (a.is_alphabetic(), b.is_alphabetic()) {
        (true, true) => a.cmp(&b),
        (true, false) if in_digits => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if in_digits => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => by_digits(&left, &right, at),
    }
}

/// Compares the runs of digits at the difference: by value, then by length, then by code point.
fn by_digits(left: &[char], right: &[char], at: usize) -> Ordering {
    // Zeros inside a number are not leading zeros: 10 and 1 differ by more than a 0.
    let inside_number = (left[at] == '0' || right[at] == '0')
        && left[..at].iter().rev().take_while(|c| c.is_ascii_digit()).any(|&c| c != '0');
    let run = |text: &[char]| {
        let digits: Vec<i64> = text[at..].iter().map_while(|c| c.to_digit(10)).map(i64::from).collect();
        let start = i64::from(inside_number);
        // Numbers too large wrap around, there as here.
        let value = digits.iter().fold(start, |value, digit| value.wrapping_mul(10).wrapping_add(*digit));
        (value, digits.len())
    };
    run(left).cmp(&run(right)).then_with(|| left[at].cmp(&right[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_people_sort_them() {
        let expected = ["-z", "_x", "1", "2", "10", "A", "B", "a", "a_b", "a1b", "a2", "a10", "ab", "z", "é"];
        let mut keys = expected;
        keys.reverse();
        keys.sort_by(|a, b| natural_text_order(a, b));
        assert_eq!(keys, expected);
    }
}
