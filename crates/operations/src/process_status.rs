//! Figures of the process, as Linux reports them. A figure that cannot be read is absent.

use std::fs;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Figures of the process.
#[derive(Clone, Debug, Default)]
pub struct ProcessStatus {
    /// Processor time used by all threads.
    pub processor_time: Duration,
    /// The part of it outside the kernel of the operating system, in steps of a clock tick, which
    /// is 10 ms on most machines.
    pub user_time: Option<Duration>,
    /// Resident memory.
    pub resident_bytes: Option<u64>,
    /// Virtual memory.
    pub virtual_bytes: Option<u64>,
    /// Open file descriptors.
    pub open_descriptors: Option<u64>,
    /// Maximum number of open file descriptors; `None` without a limit.
    pub descriptors_max: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
}

impl ProcessStatus {
    /// Reads the current figures.
    #[must_use]
    pub fn read() -> Self {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let kilobytes = |name| field(&status, name).map(|value| value * 1_024);
        // The directory that is read has a descriptor too.
        let descriptors = fs::read_dir("/proc/self/fd").map(|entries| entries.count() as u64 - 1);
        Self {
            processor_time: Duration::new(used.tv_sec as u64, used.tv_nsec as u32),
            user_time: user_time(),
            resident_bytes: kilobytes("VmRSS"),
            virtual_bytes: kilobytes("VmSize"),
            open_descriptors: descriptors.ok(),
            descriptors_max: getrlimit(Resource::Nofile).current,
            threads: field(&status, "Threads"),
        }
    }
}

fn user_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may have blanks. `utime` is the twelfth field after
    // it, counted from 1.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields.split_ascii_whitespace().nth(11)?.parse().ok()?;
    let per_second = rustix::param::clock_ticks_per_second();
    Some(Duration::from_millis(ticks.saturating_mul(1_000) / per_second))
}

/// The number of a line `name: number kB` or `name: number`.
fn field(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        let status = ProcessStatus::read();
        let [resident, size] = [status.resident_bytes, status.virtual_bytes].map(Option::unwrap);
        assert!(1_000_000 < resident && resident <= size, "{status:?}");
        let [open, most] = [status.open_descriptors, status.descriptors_max].map(Option::unwrap);
        assert!(3 <= open && open <= most, "{status:?}");
        assert!(status.user_time.unwrap() <= status.processor_time, "{status:?}");
        assert!(1 <= status.threads.unwrap(), "{status:?}");
    }
}
