//! The original, as a program to ask: `e2e/oracle`, where it is built.

pub(crate) use loggia_testing::{Answer, Oracle, cache};

/// The oracle, or none with a line that says so.
pub(crate) fn start() -> Option<Oracle> {
    Oracle::launch("LOGGIA_YAML_ORACLE", "yaml-oracle", "e2e/oracle")
}
