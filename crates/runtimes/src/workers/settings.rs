//! What bounds workers, and how that follows from the memory that they may use together.

use std::path::PathBuf;
use std::time::Duration;

use crate::SchemaFolders;

/// How long a built-in function may run unless told otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// What the stack of a call can come to beside its memory: programs of users recurse.
const STACK: u64 = 128 << 20;

/// The memory of a call that is expected to be cheap.
const CHEAP: u64 = 64 << 20;

/// The least and the most memory of a call that is not.
const LEAST: u64 = 64 << 20;
const MOST: u64 = 2 << 30;

/// How many bytes a call needs for each byte of a message, about.
const GROWTH: u64 = 20;

/// What bounds workers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program to start, which calls [`enter`](super::enter) first thing.
    pub program: PathBuf,
    /// Bytes that a call may use, beside its stack.
    pub memory: u64,
    /// The same for a call that is expected to be cheap. One that needs more runs once more with [`memory`](Self::memory).
    pub cheap_memory: u64,
    /// Calls at the same time that are expected to be cheap, and those that are not. More wait in the order they came.
    pub cheap_slots: usize,
    pub slots: usize,
    /// Bytes of standard output.
    pub output: usize,
    /// How long a call may run.
    pub timeout: Duration,
    /// Folders that functions may take schemas from.
    pub schemas: SchemaFolders,
    /// The flags that raise the limits, for messages.
    pub flags: LimitFlags,
}

/// The flags that raise the limits of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitFlags {
    pub memory: &'static str,
    pub timeout: &'static str,
}

// === impl Settings ===

impl Settings {
    /// Settings for a command that runs one function after another.
    #[must_use]
    pub fn one_by_one() -> Self {
        Self {
            // The link stays right when the program's file is replaced by an update.
            program: PathBuf::from("/proc/self/exe"),
            memory: MOST,
            cheap_memory: MOST,
            cheap_slots: 1,
            slots: 1,
            output: 1 << 30,
            timeout: TIMEOUT,
            schemas: SchemaFolders::default(),
            flags: LimitFlags { memory: "--memory", timeout: "--timeout" },
        }
    }

    /// Settings for a service: workers use no more than `budget` bytes together, and give back no more than
    /// `message_limit` bytes each.
    #[must_use]
    pub fn within(budget: u64, cores: usize, message_limit: usize) -> Self {
        let cores = cores.max(1) as u64;
        let cheap_slots = (budget / 4 / CHEAP).clamp(1, 2 * cores);
        let rest = budget.saturating_sub(cheap_slots * CHEAP);
        let wanted = STACK + (message_limit as u64).saturating_mul(GROWTH).clamp(LEAST, MOST);
        let slots = (rest / wanted).clamp(1, cores);
        Self {
            memory: (rest / slots).saturating_sub(STACK).clamp(LEAST, MOST),
            cheap_memory: CHEAP,
            cheap_slots: usize::try_from(cheap_slots).unwrap_or(1),
            slots: usize::try_from(slots).unwrap_or(1),
            output: message_limit,
            flags: LimitFlags { memory: "--builtin-memory", timeout: "--builtin-timeout" },
            ..Self::one_by_one()
        }
    }

    /// The most bytes that a worker can be allowed for a call.
    pub(super) fn most_memory(&self) -> u64 {
        self.memory.max(self.cheap_memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn workers_stay_within_their_budget() {
        for budget in [256, 512, 1024, 4096, 65_536].map(|budget| budget * MIB) {
            for cores in [1, 2, 8, 64] {
                let settings = Settings::within(budget, cores, 6 << 20);
                let cheap = settings.cheap_slots as u64 * settings.cheap_memory;
                let other = settings.slots as u64 * (settings.memory + STACK);
                assert!(cheap + other <= budget, "{settings:?}");
                assert!(settings.slots <= cores && settings.cheap_slots <= 2 * cores, "{settings:?}");
            }
        }
    }

    #[test]
    fn a_large_machine_gives_each_call_what_it_may_need_at_most() {
        let settings = Settings::within(64 << 30, 8, 6 << 20);
        assert_eq!((settings.cheap_slots, settings.slots, settings.memory), (16, 8, MOST));
    }

    #[test]
    fn with_hardly_any_memory_one_of_each_kind_can_run() {
        let settings = Settings::within(0, 2, 6 << 20);
        assert_eq!((settings.cheap_slots, settings.slots, settings.memory), (1, 1, LEAST));
    }
}
