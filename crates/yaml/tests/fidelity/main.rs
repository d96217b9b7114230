//! `loggia-yaml` held against kyaml and go-yaml v3.
//!
//! Where `e2e/oracle` is built the original itself is asked; its recorded answers are compared everywhere.
//! `docs/yaml-fidelity.md` says what the figures mean. Variables:
//!
//! - `LOGGIA_YAML_CASES`: how many documents to generate of each kind (3000; 1000 in a debug build)
//! - `LOGGIA_YAML_SEED`: where the seeds start (0)
//! - `LOGGIA_YAML_REPORT`: a folder for the differences, made small
//! - `LOGGIA_YAML_CORPUS`: a folder of texts to compare as well, such as a fuzzer's corpus
//! - `LOGGIA_YAML_ORACLE`: the oracle's program, if not the one in the cache

#![allow(clippy::print_stderr, clippy::unwrap_used)] // Test code throughout.

mod bounds;
mod compare;
mod conformance;
mod digests;
mod generated;
mod generator;
mod mutator;
mod oracle;
mod properties;
mod random;
mod recorded;
mod recording;
mod same;
mod scalars;
mod shrink;
mod subject;
mod suite;
mod values;

/// A number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("the variable holds a number"))
}

/// How many documents to generate of each kind.
fn cases() -> u64 {
    setting("LOGGIA_YAML_CASES", if cfg!(debug_assertions) { 1000 } else { 3000 })
}
