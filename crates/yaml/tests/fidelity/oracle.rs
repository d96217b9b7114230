//! The original, as a program to ask: `e2e/oracle`, where it is built.

mod process;

pub(crate) use self::process::{Answer, Oracle, cache};

impl Oracle {
    /// The oracle, or none with a line that says so.
    pub(crate) fn start() -> Option<Self> {
        Self::launch("LOGGIA_YAML_ORACLE", "yaml-oracle", "e2e/oracle")
    }
}
