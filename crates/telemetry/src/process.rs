//! The figures of this process that Prometheus' own clients have, from `/proc`.

use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Reads the figures of this process on demand.
#[derive(Debug, Default)]
pub(crate) struct Process;

/// What `/proc/self` says.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    cpu_seconds: f64,
    start_seconds: f64,
    threads: u64,
    virtual_bytes: u64,
    pub(crate) resident_bytes: u64,
    open_fds: u64,
    max_fds: Option<u64>,
}

// === impl Figures ===

impl Figures {
    /// Nothing where `/proc` is not mounted.
    pub(crate) fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The program's name is in brackets and may hold brackets and spaces itself.
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        // Numbered as in proc(5), where the name is the second.
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok());
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let boot = fs::read_to_string("/proc/stat").ok().and_then(|stat| {
            stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse::<f64>().ok()
        });
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let open_files = limits.lines().find(|line| line.starts_with("Max open files"));
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) as f64 / ticks,
            start_seconds: boot.unwrap_or_default() + field(22)? as f64 / ticks,
            threads: field(20)?,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * rustix::param::page_size() as u64,
            open_fds: fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64),
            max_fds: open_files.and_then(|line| line.split_whitespace().nth(3)?.parse().ok()),
        })
    }
}

// === impl Process ===

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(figures) = Figures::read() else { return Ok(()) };
        let cpu = ConstCounter::new(figures.cpu_seconds);
        let help = "Time that this process spent on processors";
        cpu.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, cpu.metric_type())?)?;
        let start = ConstGauge::new(figures.start_seconds);
        let help = "When this process started, in seconds since 1970";
        start.encode(encoder.encode_descriptor(
            "process_start_time_seconds",
            help,
            None,
            start.metric_type(),
        )?)?;
        let gauges = [
            ("process_threads", "Threads of this process", Some(figures.threads)),
            ("process_virtual_memory_bytes", "Address space in use", Some(figures.virtual_bytes)),
            ("process_resident_memory_bytes", "Memory in use", Some(figures.resident_bytes)),
            ("process_open_fds", "Open file descriptors", Some(figures.open_fds)),
            ("process_max_fds", "How many file descriptors may be open", figures.max_fds),
        ];
        for (name, help, value) in gauges {
            let Some(value) = value.and_then(|value| i64::try_from(value).ok()) else { continue };
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_those_of_this_process() {
        let figures = Figures::read().unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((now - figures.start_seconds).abs() < 600.0, "{figures:?}");
        assert!(figures.threads >= 1 && figures.open_fds >= 3, "{figures:?}");
        assert!(figures.resident_bytes > 1 << 20 && figures.virtual_bytes > figures.resident_bytes);
        assert!(figures.max_fds.is_none_or(|most| most >= figures.open_fds));
    }
}
