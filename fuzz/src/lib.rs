//! Fuzz targets: bytes from outside, given to the code that reads them.
//!
//! A target is a function of bytes that must return: no panic, no overflow, no endless loop, no memory without bound.
//! Where bytes alone would hardly get past the parser they are first made into something with structure ([`made`]).
//! `src/main.rs` puts one of them behind libFuzzer; `tests/replay.rs` runs all on their seeds.

pub mod made;
mod targets;

pub use targets::TARGETS;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, also of its folders of seeds and corpus.
    pub name: &'static str,
    /// What reads the bytes.
    pub run: fn(&[u8]),
    /// The longest input that is worth trying.
    pub longest: usize,
}

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}
