//! How built-in functions run.

use std::time::Duration;

use loggia_runtimes::SchemaFolders;
use loggia_runtimes::workers::{Settings, TIMEOUT};

use super::{UsageError, within};
use crate::flags::BuiltinFlags;

/// How built-in functions run, but for the memory that they may use together.
#[derive(Debug)]
pub(crate) struct BuiltinConfig {
    pub(crate) timeout: Duration,
    /// Bytes of one call, if that was asked for.
    pub(crate) memory: Option<u64>,
    /// Calls at once that are not cheap, if that was asked for.
    pub(crate) concurrent: Option<usize>,
    pub(crate) cores: usize,
    pub(crate) output: usize,
    /// What the functions may read.
    pub(crate) schemas: SchemaFolders,
}

// === impl BuiltinConfig ===

impl BuiltinConfig {
    pub(super) fn resolve(
        flags: &BuiltinFlags,
        cores: usize,
        output: usize,
        schemas: SchemaFolders,
    ) -> Result<Self, UsageError> {
        let BuiltinFlags { builtin_timeout, builtin_memory, max_concurrent_builtins } = flags;
        let concurrent: usize = within("max-concurrent-builtins", *max_concurrent_builtins, 0..=10_000)?;
        Ok(Self {
            timeout: builtin_timeout.positive().unwrap_or(TIMEOUT),
            memory: Some(builtin_memory.0).filter(|memory| *memory > 0),
            concurrent: Some(concurrent).filter(|concurrent| *concurrent > 0),
            cores,
            output,
            schemas,
        })
    }

    /// The settings of workers that use no more than so many bytes together, unless flags ask for more.
    pub(crate) fn workers(self, budget: u64) -> Settings {
        let Self { timeout, memory, concurrent, cores, output, schemas } = self;
        let derived = Settings::within(budget, cores, output);
        let memory = memory.unwrap_or(derived.memory);
        Settings {
            memory,
            cheap_memory: derived.cheap_memory.min(memory),
            slots: concurrent.unwrap_or(derived.slots),
            timeout,
            schemas,
            ..derived
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flags: &BuiltinFlags) -> Settings {
        let config = BuiltinConfig::resolve(flags, 2, 6 << 20, SchemaFolders::default()).unwrap();
        config.workers(1 << 30)
    }

    #[test]
    fn limits_follow_from_the_budget_unless_flags_say_otherwise() {
        let derived = settings(&BuiltinFlags::default());
        assert_eq!((derived.timeout, derived.output, derived.slots), (TIMEOUT, 6 << 20, 2));
        let flags = BuiltinFlags {
            builtin_memory: loggia_go::quantity::Size(32 << 20),
            max_concurrent_builtins: 5,
            builtin_timeout: loggia_go::Duration::from_secs(2),
        };
        let asked = settings(&flags);
        assert_eq!((asked.memory, asked.cheap_memory, asked.slots), (32 << 20, 32 << 20, 5));
        assert_eq!(asked.timeout, Duration::from_secs(2));
    }
}
