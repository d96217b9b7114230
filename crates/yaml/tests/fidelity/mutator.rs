//! Documents with a small fault: what people and programs do to YAML by accident.

use crate::random::Random;

/// Bytes that mean something to a YAML scanner, and some that nothing may hold.
#[rustfmt::skip]
const TELLING: &[&str] = &[
    ":", ": ", "-", "- ", "?", "? ", ",", "[", "]", "{", "}", "#", " #", "&", "&a ", "*", "*a", "!",
    "!!str ", "!<", "|", ">", "'", "\"", "%", "@", "`", "\t", " ", "  ", "\n", "\n\n", "\r", "\r\n", "---",
    "---\n", "...\n", "<<: ", "~", "\\", "\\x", "\u{0}", "\u{7f}", "\u{85}", "\u{2028}", "\u{feff}", "é",
    "😀", "0", "a", "=", "\n ", "\n\t", "%YAML 1.1\n", "|2-\n", ">+\n",
];

/// Applies one to three small changes to `text`; the result need not be UTF-8.
pub(crate) fn mutate(random: &mut Random, text: &[u8]) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for _ in 0..1 + random.below(3) {
        change(random, &mut bytes);
    }
    bytes
}

fn change(random: &mut Random, bytes: &mut Vec<u8>) {
    let at = random.below(bytes.len() + 1);
    match random.below(12) {
        0..=3 => {
            let insert = random.pick(TELLING).bytes();
            bytes.splice(at..at, insert);
        }
        4 | 5 if at < bytes.len() => {
            bytes.remove(at);
        }
        6 if at < bytes.len() => {
            let end = (at + 1 + random.below(6)).min(bytes.len());
            bytes.drain(at..end);
        }
        7 if at < bytes.len() => {
            let end = (at + 1 + random.below(1)).min(bytes.len());
            let insert = random.pick(TELLING).bytes();
            bytes.splice(at..end, insert);
        }
        8 if random.chance(15) => bytes.truncate(at),
        8 | 9 => on_line(random, bytes, at),
        10 if random.chance(20) && at < bytes.len() => bytes[at] = random.below(256) as u8,
        _ => {
            let end = (at + random.below(8)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            let to = random.below(bytes.len() + 1);
            bytes.splice(to..to, copy);
        }
    }
}

/// Doubles, drops, indents or outdents the line at `at`.
fn on_line(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    let start = bytes[..at].iter().rposition(|b| *b == b'\n').map_or(0, |p| p + 1);
    let end = bytes[at..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |p| at + p + 1);
    match random.below(4) {
        0 => {
            let line = bytes[start..end].to_vec();
            bytes.splice(end..end, line);
        }
        1 => {
            bytes.drain(start..end);
        }
        2 => {
            let by = 1 + random.below(3);
            bytes.splice(start..start, std::iter::repeat_n(b' ', by));
        }
        _ => {
            let spaces = bytes[start..end].iter().take_while(|b| **b == b' ').count();
            let by = spaces.min(1 + random.below(2));
            bytes.drain(start..start + by);
        }
    }
}
