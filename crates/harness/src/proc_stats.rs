//! Figures about processes and the machine, from `/proc`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::error::HarnessError;

/// Resources used by a process so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessFigures {
    /// User and system time.
    pub cpu: Duration,
    /// Largest resident size, in bytes.
    pub resident_bytes_max: u64,
    /// Resident size now, in bytes.
    pub resident_bytes: u64,
    /// Calls of the read family (`syscr`): read, pread, readv; not recv.
    pub reads: u64,
    /// Calls of the write family (`syscw`): write, pwrite, writev; not send.
    pub writes: u64,
    /// Bytes that were sent to the disk (`write_bytes`).
    pub disk_written_bytes: u64,
    /// Voluntary context switches: a thread waited.
    pub switches_voluntary: u64,
    /// Involuntary context switches: a thread was preempted.
    pub switches_involuntary: u64,
}

impl ProcessFigures {
    /// Resources used since `start`; sizes are the current ones.
    pub fn since(&self, start: &Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(start.cpu),
            reads: self.reads.saturating_sub(start.reads),
            writes: self.writes.saturating_sub(start.writes),
            disk_written_bytes: self.disk_written_bytes.saturating_sub(start.disk_written_bytes),
            switches_voluntary: self.switches_voluntary.saturating_sub(start.switches_voluntary),
            switches_involuntary: self
                .switches_involuntary
                .saturating_sub(start.switches_involuntary),
            ..*self
        }
    }
}

/// The environment of a run, in addition to [`Machine`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct Environment {
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// Type of the file system under the data directory of a spawned switch.
    pub filesystem: Option<String>,
    /// The device of that file system.
    pub device: Option<String>,
    /// Mean number of runnable processes in the minute before the run.
    pub load_average_before: f64,
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
    /// Cargo profile that this program was built with.
    pub profile: &'static str,
}

/// The commit this program was built from; empty when unknown.
pub const COMMIT: &str = env!("UPESI_COMMIT");
/// The cargo profile of this build.
pub const PROFILE: &str = env!("UPESI_PROFILE");
/// Version and profile of this build, for `--version`.
pub const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (profile ", env!("UPESI_PROFILE"), ")");

/// The machine, environment and commit of a result.
#[derive(Clone, Debug, Serialize)]
pub struct Origin {
    /// The machine.
    pub machine: Machine,
    /// Memory, file system and load before the run.
    pub environment: Environment,
    /// The commit that this program was built from; empty when not known.
    pub commit: &'static str,
}

impl Origin {
    /// Reads the current origin, before something is measured with files in `data`.
    #[must_use]
    pub fn here(data: Option<&Path>) -> Self {
        let (machine, environment) = (machine(), environment(data));
        Self { machine, environment, commit: env!("UPESI_COMMIT") }
    }
}

/// Figures of a process; zeros if it has exited.
pub fn process_figures(id: u32) -> ProcessFigures {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    ProcessFigures {
        cpu: cpu_time(&stat).unwrap_or_default(),
        resident_bytes_max: number(&status, "VmHWM:").unwrap_or(0) * 1_024,
        resident_bytes: number(&status, "VmRSS:").unwrap_or(0) * 1_024,
        ..system_calls(id)
    }
}

/// System calls and context switches of all threads of a process.
fn system_calls(id: u32) -> ProcessFigures {
    let calls = std::fs::read_to_string(format!("/proc/{id}/io")).unwrap_or_default();
    let mut figures = ProcessFigures {
        reads: number(&calls, "syscr:").unwrap_or(0),
        writes: number(&calls, "syscw:").unwrap_or(0),
        disk_written_bytes: number(&calls, "write_bytes:").unwrap_or(0),
        ..ProcessFigures::default()
    };
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten();
    for thread in threads.flatten() {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let count = |name| number(&status, name).unwrap_or(0);
        figures.switches_voluntary += count("voluntary_ctxt_switches:");
        figures.switches_involuntary += count("nonvoluntary_ctxt_switches:");
    }
    figures
}

/// CPU time of the threads of a process so far, by name; threads whose names differ only in their
/// numbers, such as `io-0` and `io-1`, are counted together.
pub fn thread_times(id: u32) -> BTreeMap<String, Duration> {
    let mut times = BTreeMap::new();
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten();
    for thread in threads.flatten() {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let Some((name, cpu)) = thread_name(&stat).zip(cpu_time(&stat)) else { continue };
        *times.entry(name).or_default() += cpu;
    }
    times
}

/// Memory, load, and the file system under `data`.
pub fn environment(data: Option<&Path>) -> Environment {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let path = data.and_then(|data| data.canonicalize().ok());
    let mount = path.and_then(|path| mount_of(&mounts, &path));
    let (device, filesystem) = mount.unzip();
    Environment {
        memory_bytes: number(&memory, "MemTotal:").unwrap_or(0) * 1_024,
        filesystem,
        device,
        load_average_before: load.split(' ').next().and_then(|it| it.parse().ok()).unwrap_or(0.0),
    }
}

/// Device and type of the file system that a path is on: the longest mount point above it.
fn mount_of(mounts: &str, path: &Path) -> Option<(String, String)> {
    let mounted = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (device, point, kind) = (fields.next()?, fields.next()?, fields.next()?);
        path.starts_with(point).then_some((point.len(), device, kind))
    });
    let (_, device, kind) = mounted.max_by_key(|&(length, ..)| length)?;
    Some((device.to_owned(), kind.to_owned()))
}

/// Free bytes on the file system of a directory.
///
/// # Errors
///
/// The directory does not exist.
pub fn free_bytes(directory: &Path) -> Result<u64, HarnessError> {
    let found = rustix::fs::statvfs(directory).map_err(std::io::Error::from);
    let found = found.map_err(HarnessError::file(directory))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// CPU time of this process so far.
pub fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time of this thread so far.
pub fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Time of all processors since the start of the machine, in ticks of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTicks {
    idle: u64,
    all: u64,
}

impl ProcessorTicks {
    /// Zeros if the kernel does not show them.
    pub fn now() -> Self {
        Self::of(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// The first line of `/proc/stat`. Its fourth and fifth field are the time without work, and
    /// the time without work while a disk was busy. The ninth and tenth are in the first two.
    fn of(stat: &str) -> Self {
        let line =
            stat.lines().next().and_then(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        let sum = |from: usize, to: usize| ticks.iter().take(to).skip(from).sum();
        Self { idle: sum(3, 5), all: sum(0, 8) }
    }

    /// The share of the time since `start` in which the processors had no work, 0 to 1; `None` if
    /// it is not known. Work of other programs counts as work.
    pub fn idle_share_since(self, start: Self) -> Option<f64> {
        let all = self.all.saturating_sub(start.all);
        (0 < all).then(|| self.idle.saturating_sub(start.idle) as f64 / all as f64)
    }
}

/// This machine.
pub fn machine() -> Machine {
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
        profile: PROFILE,
    }
}

/// The name of a thread without its number.
fn thread_name(stat: &str) -> Option<String> {
    let (_, rest) = stat.split_once('(')?;
    let (name, _) = rest.rsplit_once(')')?;
    let is_number = |end: char| end.is_ascii_digit() || end == '-';
    Some(name.trim_end_matches(is_number).to_owned())
}

fn cpu_time(stat: &str) -> Option<Duration> {
    let nanos = cpu_ticks(stat)?.saturating_mul(1_000_000_000);
    Some(Duration::from_nanos(nanos / rustix::param::clock_ticks_per_second()))
}

/// `utime` and `stime` are the 12th and 13th field after the name, which may contain anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let user: u64 = fields.get(11)?.parse().ok()?;
    let system: u64 = fields.get(12)?.parse().ok()?;
    Some(user + system)
}

/// The number after a name at the start of a line.
fn number(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_is_marked_dirty_when_sources_differ() {
        let git = |arguments: &[&str]| {
            let output = std::process::Command::new("git").args(arguments).output().ok()?;
            let text = String::from_utf8(output.stdout).ok()?;
            output.status.success().then(|| text.trim().to_owned())
        };
        let Some(head) = git(&["rev-parse", "HEAD"]) else { return };
        let sources = ["../../crates", "../../Cargo.toml", "../../Cargo.lock"];
        let changed = git(&[&["diff", "--stat", "HEAD", "--"][..], &sources].concat());
        let commit = env!("UPESI_COMMIT");
        let is_dirty = changed.is_some_and(|changed| !changed.is_empty());
        assert_eq!(commit.ends_with("-dirty"), is_dirty, "{commit}");
        assert!(commit.contains(&head[..12]), "{commit} is not {head}");
    }

    #[test]
    fn idle_time_includes_waits_for_disks() {
        let ticks = |line: &str| ProcessorTicks::of(&format!("{line}\ncpu0 1 1 1 1 1 1 1 1 0 0\n"));
        let start = ticks("cpu  100 0 50 800 50 0 0 0 7 0");
        let end = ticks("cpu  150 0 100 880 70 0 0 0 9 0");
        assert_eq!(end.idle_share_since(start), Some(0.5));
        assert_eq!(start.idle_share_since(start), None);
        assert_eq!(ProcessorTicks::of("nothing"), ProcessorTicks::default());
    }

    #[test]
    fn cpu_time_is_read_after_any_process_name() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1 0 1 2 3";
        assert_eq!(cpu_ticks(stat), Some(200));
        assert_eq!(cpu_ticks(""), None);
    }

    #[test]
    fn threads_are_counted_by_name() {
        assert_eq!(thread_name("7 (io-12) S 1"), Some("io".to_owned()));
        assert_eq!(thread_name("7 (a) b-) S 1"), Some("a) b".to_owned()));
        let busy = std::thread::Builder::new().name("busy-3".to_owned()).spawn(|| {
            while thread_cpu() < Duration::from_millis(50) {
                std::hint::spin_loop();
            }
            thread_times(std::process::id())
        });
        let times = busy.expect("a thread").join().expect("it ends");
        assert!(Duration::from_millis(20) < times["busy"], "{times:?}");
    }

    #[test]
    fn longest_matching_mount_point_is_selected() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/data xfs rw 0 0";
        for (path, device, kind) in [
            ("/home/x", "/dev/a", "ext4"),
            ("/tmp/y", "tmpfs", "tmpfs"),
            ("/tmp/data/1", "/dev/b", "xfs"),
        ] {
            let found = mount_of(mounts, Path::new(path));
            assert_eq!(found, Some((device.to_owned(), kind.to_owned())), "{path}");
        }
    }

    #[test]
    fn this_process_has_figures() {
        let figures = process_figures(std::process::id());
        assert!(figures.resident_bytes_max > 1_000_000);
        assert_eq!(process_figures(u32::MAX).resident_bytes_max, 0);
    }
}
