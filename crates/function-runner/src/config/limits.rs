//! What the service takes from its callers, from flags and the memory budget.

use std::net::IpAddr;

use loggia_grpc::{Limits, MessageMemory};
use loggia_process::memory::Limit;

use super::{MemoryBudget, UsageError, within};
use crate::flags::LimitFlags;

/// What the service takes from its callers, and what it offers them.
#[derive(Debug)]
pub(crate) struct LimitConfig {
    pub(crate) budget: MemoryBudget,
    pub(crate) limits: Limits,
    /// The one address to listen on.
    pub(crate) address: Option<IpAddr>,
    pub(crate) reflection: bool,
    pub(crate) package_service: bool,
}

// === impl LimitConfig ===

impl LimitConfig {
    pub(super) fn resolve(
        flags: &LimitFlags,
        memory: Option<Limit>,
        message_limit: usize,
    ) -> Result<Self, UsageError> {
        let LimitFlags {
            memory_budget,
            request_timeout,
            answer_timeout,
            call_timeout,
            max_connections,
            max_connection_age,
            max_connection_age_grace,
            max_connection_idle,
            address,
            enable_reflection,
            enable_package_service,
        } = flags;
        let budget = MemoryBudget::resolve(memory_budget, memory, message_limit)?;
        let above_zero = |flag, time: &loggia_go::Duration| {
            time.positive().ok_or_else(|| UsageError::NoTime { flag, value: time.to_string() })
        };
        let connections = match within("max-connections", *max_connections, 0..=1_000_000)? {
            0 => Limits::connections_within(budget.connections()),
            count => count,
        };
        let limits = Limits {
            memory: MessageMemory::new(budget.messages()),
            request_time: above_zero("request-timeout", request_timeout)?,
            answer_time: above_zero("answer-timeout", answer_timeout)?,
            call_time: call_timeout.positive(),
            connections,
            connection_age: max_connection_age.positive(),
            connection_age_grace: max_connection_age_grace.positive(),
            connection_idle: max_connection_idle.positive(),
        };
        let address = match address.as_str() {
            "" => None,
            text => Some(
                text.trim_matches(['[', ']']).parse().map_err(|_| UsageError::Address(text.to_owned()))?,
            ),
        };
        let (reflection, package_service) = (*enable_reflection, *enable_package_service);
        Ok(Self { budget, limits, address, reflection, package_service })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Surroundings;
    use super::super::tests::resolve;
    use super::*;

    fn limits(line: &[&str]) -> Result<LimitConfig, String> {
        let memory = Some(Limit::Cgroup(512 << 20));
        resolve(line, &Surroundings { memory, ..Default::default() }).map(|config| config.limits)
    }

    #[test]
    fn by_default_limits_follow_the_memory() {
        let LimitConfig { budget, limits, address, reflection, package_service } = limits(&[]).unwrap();
        assert_eq!((budget.total, limits.memory.limit()), (512 << 20, 128 << 20));
        assert_eq!(limits.connections, 128);
        assert_eq!(limits.call_time, Some(Duration::from_secs(600)));
        assert_eq!((address, reflection, package_service), (None, true, true));
    }

    #[test]
    fn every_limit_has_its_flag() {
        let config = limits(&[
            "--memory-budget=1Gi",
            "--request-timeout=1s",
            "--answer-timeout=2s",
            "--call-timeout=0",
            "--max-connections=7",
            "--max-connection-age=0",
            "--max-connection-age-grace=3s",
            "--max-connection-idle=4s",
            "--address=::1",
            "--enable-reflection=false",
            "--enable-package-service=false",
        ])
        .unwrap();
        let Limits { memory, request_time, answer_time, call_time, connections, connection_age, .. } =
            config.limits;
        assert_eq!((memory.limit(), connections), (256 << 20, 7));
        assert_eq!((request_time.as_secs(), answer_time.as_secs()), (1, 2));
        assert_eq!((call_time, connection_age), (None, None));
        assert_eq!(config.address.map(|address| address.to_string()).as_deref(), Some("::1"));
        assert!(!config.reflection && !config.package_service);
        for line in
            ["--request-timeout=0", "--answer-timeout=-1s", "--max-connections=-1", "--address=localhost"]
        {
            let flag = line.split('=').next().unwrap();
            assert!(limits(&[line]).unwrap_err().starts_with(flag), "{line}");
        }
    }
}
