//! Figures about processes and the machine, from `/proc`.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// What a process used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessFigures {
    /// User and system time.
    pub(crate) cpu: Duration,
    /// Largest resident size, in bytes.
    pub(crate) resident_bytes_max: u64,
}

/// The machine that a run took place on.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Processors that may be used.
    pub cores: usize,
    /// Model of the first processor.
    pub processor: String,
    /// Release of the kernel.
    pub kernel: String,
}

/// Figures of a process; zeros when it is gone.
pub(crate) fn process_figures(id: u32) -> ProcessFigures {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let ticks = cpu_ticks(&stat).unwrap_or(0);
    let nanos = ticks.saturating_mul(1_000_000_000) / rustix::param::clock_ticks_per_second();
    ProcessFigures {
        cpu: Duration::from_nanos(nanos),
        resident_bytes_max: kilobytes(&status, "VmHWM:").unwrap_or(0) * 1_024,
    }
}

/// CPU time of this process so far.
pub(crate) fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time of this thread so far.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The machine this runs on.
pub(crate) fn machine() -> Machine {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim().to_owned())
    });
    Machine {
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        processor: model.unwrap_or_default(),
        kernel: kernel.trim().to_owned(),
    }
}

/// `utime` and `stime` are the 12th and 13th field after the name, which may contain anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let user: u64 = fields.get(11)?.parse().ok()?;
    let system: u64 = fields.get(12)?.parse().ok()?;
    Some(user + system)
}

fn kilobytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_past_any_name() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1 0 1 2 3";
        assert_eq!(cpu_ticks(stat), Some(200));
        assert_eq!(cpu_ticks(""), None);
    }

    #[test]
    fn this_process_has_figures() {
        let figures = process_figures(std::process::id());
        assert!(figures.resident_bytes_max > 1_000_000);
        assert_eq!(process_figures(u32::MAX).resident_bytes_max, 0);
    }
}
