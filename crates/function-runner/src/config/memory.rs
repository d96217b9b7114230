//! The memory that the service may use, and how it is split.

use std::fmt;

use loggia_process::memory::{self, Limit};
use tracing::warn;

use super::UsageError;

/// The budget where no cgroup limits memory: half of the machine's, and no more than this.
const MOST_OF_MACHINE: u64 = 4 << 30;

/// The budget where nothing is known.
const UNKNOWN: u64 = 1 << 30;

/// The memory that the service may use.
///
/// | Share | For |
/// |---|---|
/// | 1/2 | the worker processes of built-in functions |
/// | 1/4 | messages: requests from their first byte to the answer's last |
/// | 1/8 | what connections may hold before a message has memory |
/// | 1/8 | the program itself, outputs of functions that run, trees of packages |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryBudget {
    pub(crate) total: u64,
}

/// A number of bytes, as people read it.
struct Bytes(u64);

// === impl MemoryBudget ===

impl MemoryBudget {
    /// The budget that the flag names, or else what the process may use. One message must fit.
    pub(crate) fn resolve(
        flag: &str,
        limit: Option<Limit>,
        message_limit: usize,
    ) -> Result<Self, UsageError> {
        let total = match (flag, limit) {
            ("", Some(Limit::Cgroup(bytes))) => bytes,
            ("", Some(Limit::Machine(bytes))) => (bytes / 2).min(MOST_OF_MACHINE),
            ("", None) => UNKNOWN,
            (text, _) => parse(text)
                .ok_or_else(|| UsageError::Size { flag: "memory-budget", value: text.to_owned() })?,
        };
        let budget = Self { total };
        if budget.messages() < message_limit {
            let (total, message) = (Bytes(total).to_string(), message_limit);
            if !flag.is_empty() {
                return Err(UsageError::SmallBudget { total, message });
            }
            warn!(
                "There is little memory: messages get a quarter of {total}, and one may have {message} bytes"
            );
        }
        Ok(budget)
    }

    /// What this process may use.
    pub(crate) fn of_this_process() -> Option<Limit> {
        memory::limit()
    }

    /// The share of messages.
    pub(crate) fn messages(self) -> usize {
        usize::try_from(self.total / 4).unwrap_or(usize::MAX)
    }

    /// The share of the worker processes of built-in functions.
    pub(crate) fn builtins(self) -> u64 {
        self.total / 2
    }

    /// The share of connections.
    pub(crate) fn connections(self) -> usize {
        usize::try_from(self.total / 8).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (messages, builtins) = (Bytes(self.messages() as u64), Bytes(self.builtins()));
        write!(
            f,
            "{}, of which {messages} for messages and {builtins} for built-in functions",
            Bytes(self.total)
        )
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 10 << 30 => write!(f, "{}Gi", bytes >> 30),
            bytes if bytes >= 10 << 20 => write!(f, "{}Mi", bytes >> 20),
            bytes => write!(f, "{}Ki", bytes >> 10),
        }
    }
}

fn parse(text: &str) -> Option<u64> {
    loggia_go::quantity::bytes(text).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: usize = 6 << 20;

    #[test]
    fn sizes_are_read_as_kubernetes_writes_them() {
        let sizes = [("1", 1), ("512Mi", 512 << 20), ("2Gi", 2 << 30), ("5M", 5_000_000), ("7Ki", 7168)];
        for (text, bytes) in sizes {
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
        for text in ["", "0", "Mi", "-1Mi", "1.5Gi", "1 Gi", "1gi", "99999999999Ti", "ä"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_budget_is_the_flag_or_the_cgroup_or_part_of_the_machine() {
        let total =
            |flag, limit| MemoryBudget::resolve(flag, limit, MESSAGE).map(|budget| budget.total).unwrap();
        let cgroup = Some(Limit::Cgroup(512 << 20));
        assert_eq!(total("", cgroup), 512 << 20);
        assert_eq!(total("1Gi", cgroup), 1 << 30);
        assert_eq!(total("", Some(Limit::Machine(2 << 30))), 1 << 30);
        assert_eq!(total("", Some(Limit::Machine(256 << 30))), 4 << 30);
        assert_eq!(total("", None), 1 << 30);
        // A pod with little memory starts nevertheless.
        assert_eq!(total("", Some(Limit::Cgroup(8 << 20))), 8 << 20);
    }

    #[test]
    fn a_budget_that_no_message_fits_into_is_refused() {
        let refused = |flag| MemoryBudget::resolve(flag, None, MESSAGE).unwrap_err().to_string();
        assert_eq!(
            refused("16Mi"),
            "--memory-budget: 16Mi is too little: messages get a quarter of it, and one may have 6291456 bytes \
             (--max-request-body-size)"
        );
        assert!(refused("lots").starts_with("--memory-budget: `lots` is not a size"));
    }

    #[test]
    fn the_shares_are_less_than_the_whole() {
        let budget = MemoryBudget { total: 512 << 20 };
        let shares = budget.messages() as u64 + budget.builtins() + budget.connections() as u64;
        assert!(shares < budget.total);
        assert_eq!(budget.to_string(), "512Mi, of which 128Mi for messages and 256Mi for built-in functions");
    }
}
