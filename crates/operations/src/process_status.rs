//! Figures of the process, as Linux reports them. A figure that cannot be read is absent.

use std::fs;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Figures of the process.
#[derive(Debug, Default)]
pub(crate) struct ProcessStatus {
    /// Processor time used by all threads.
    pub(crate) processor_time: Duration,
    /// Resident memory.
    pub(crate) resident_bytes: Option<u64>,
    /// Virtual memory.
    pub(crate) virtual_bytes: Option<u64>,
    /// Open file descriptors.
    pub(crate) open_descriptors: Option<u64>,
    /// Maximum number of open file descriptors; `None` without a limit.
    pub(crate) descriptors_max: Option<u64>,
    /// Threads.
    pub(crate) threads: Option<u64>,
}

impl ProcessStatus {
    pub(crate) fn read() -> Self {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let kilobytes = |name| field(&status, name).map(|value| value * 1_024);
        // The directory that is read has a descriptor too.
        let descriptors = fs::read_dir("/proc/self/fd").map(|entries| entries.count() as u64 - 1);
        Self {
            processor_time: Duration::new(used.tv_sec as u64, used.tv_nsec as u32),
            resident_bytes: kilobytes("VmRSS"),
            virtual_bytes: kilobytes("VmSize"),
            open_descriptors: descriptors.ok(),
            descriptors_max: getrlimit(Resource::Nofile).current,
            threads: field(&status, "Threads"),
        }
    }
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
        assert!(1 <= status.threads.unwrap(), "{status:?}");
    }
}
