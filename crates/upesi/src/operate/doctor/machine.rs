//! Checks of the machine: disk, memory, descriptors, clock.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};

use super::finding::Finding;
use crate::cli::units::Bytes;
use crate::config::Config;

/// Writes that are synced to measure the disk.
const SYNCS: usize = 30;
/// A sync that takes less has not reached a disk, unless its cache survives a power failure.
const FAST_SYNC: Duration = Duration::from_micros(30);
/// A sync that takes more limits the rate of transfers.
const SLOW_SYNC: Duration = Duration::from_millis(20);
/// Free memory below which the switch may be ended by the system.
const MEMORY_MIN: u64 = 1 << 30;
/// Descriptors for the log, the store and callbacks.
const OWN_DESCRIPTORS: u64 = 1_024;
/// File system types that lose everything at a restart.
const VOLATILE: [&str; 2] = ["tmpfs", "ramfs"];
/// A year after which a clock is plausible, in seconds since 1970: 2024.
const PLAUSIBLE: u64 = 1_704_067_200;
/// Files that exist while a service has synchronized the clock.
const SYNCHRONIZED: [&str; 2] = ["/run/systemd/timesync/synchronized", "/run/chrony/chronyd.sock"];

/// The disk of a data directory: its kind, its room, and whether a sync reaches it.
pub(super) fn disk(data: &Path) -> Vec<Finding> {
    let existing = data.ancestors().find(|path| path.is_dir());
    let Some(directory) = existing else {
        return vec![Finding::problem("disk", format!("{}: not found", data.display()), "make it")];
    };
    let mut findings = vec![file_system(directory)];
    findings.extend(room(directory));
    findings.push(sync(directory));
    findings
}

/// Type and options of the file system, as /proc/mounts lists them.
fn file_system(directory: &Path) -> Finding {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let lines = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?, fields.next()?))
    });
    let mount = lines.filter(|(point, ..)| directory.starts_with(point));
    let Some((point, kind, options)) = mount.max_by_key(|(point, ..)| point.len()) else {
        return Finding::warning("disk", "its file system is unknown", "check /proc/mounts");
    };
    let found = format!("{}: {kind} mounted at {point}", directory.display());
    if VOLATILE.contains(&kind) {
        return Finding::problem("disk", found, "use a disk: this one is memory");
    }
    if options.split(',').any(|it| ["nobarrier", "barrier=0"].contains(&it)) {
        let what = "mount it without nobarrier: a power failure loses acknowledged transfers";
        return Finding::problem("disk", format!("{found} with {options}"), what);
    }
    Finding::ok("disk", found)
}

fn room(directory: &Path) -> Option<Finding> {
    let disk = rustix::fs::statvfs(directory).ok()?;
    let (free, all) = (disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize);
    let percent = free.saturating_mul(100) / all.max(1);
    let found = format!("{} free of {}, {percent} %", Bytes(free), Bytes(all));
    let remedy = "see docs/operating/sizing.md, or archive segments: `upesi archive`";
    Some(match percent {
        0..5 => Finding::problem("room", found, remedy),
        5..10 => Finding::warning("room", found, remedy),
        _ => Finding::ok("room", found),
    })
}

/// The median time of a synced write.
fn sync(directory: &Path) -> Finding {
    let path = directory.join(format!(".upesi-doctor-{}", std::process::id()));
    let measured = measure_syncs(&path);
    let _removed = fs::remove_file(&path);
    let mut times = match measured {
        Ok(times) => times,
        Err(error) => {
            let found = format!("{}: {error}", directory.display());
            return Finding::problem("sync", found, "run it as the user of the switch");
        }
    };
    times.sort_unstable();
    let median = times[times.len() / 2];
    let found = format!("a synced write takes {:.2} ms", median.as_secs_f64() * 1e3);
    if median < FAST_SYNC {
        let remedy = "make sure that the disk keeps its cache at a power failure, or turn the \
                      cache off; otherwise acknowledged transfers can be lost";
        return Finding::warning("sync", format!("{found}: too fast for a disk"), remedy);
    }
    if SLOW_SYNC < median {
        let remedy = "use a faster disk, and one that no other program writes to";
        return Finding::warning("sync", found, remedy);
    }
    Finding::ok("sync", found)
}

fn measure_syncs(path: &Path) -> std::io::Result<Vec<Duration>> {
    let mut file = File::create(path)?;
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let started = Instant::now();
        file.write_all(&[0x5a; 4_096])?;
        file.sync_data()?;
        times.push(started.elapsed());
    }
    Ok(times)
}

/// The memory that programs can still use.
pub(super) fn memory() -> Finding {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let Some(bytes) = kib.map(|kib| kib.saturating_mul(1_024)) else {
        return Finding::warning("memory", "unknown", "check /proc/meminfo");
    };
    let found = format!("{} available", Bytes(bytes));
    match MEMORY_MIN <= bytes {
        true => Finding::ok("memory", found),
        false => Finding::warning("memory", found, "see docs/operating/sizing.md"),
    }
}

/// Whether the limit of open files suffices for the configured connections.
pub(super) fn descriptors(config: &Config) -> Finding {
    let needed = config.fspiop.connections_max as u64 * config.threads() as u64 + OWN_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let found = format!("{limit} open files allowed, {needed} needed at most");
    match needed <= limit {
        true => Finding::ok("limits", found),
        false => Finding::warning(
            "limits",
            found,
            "raise LimitNOFILE of the service, or lower fspiop.connections_max",
        ),
    }
}

/// Whether the clock is plausible, and synchronized as far as this is visible.
pub(super) fn clock() -> Finding {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    if now.map_or(0, |now| now.as_secs()) < PLAUSIBLE {
        return Finding::problem("clock", "its year is before 2024", "set it: timedatectl");
    }
    match SYNCHRONIZED.iter().find(|file| Path::new(file).exists()) {
        Some(file) => Finding::ok("clock", format!("synchronized: {file}")),
        None => Finding::warning(
            "clock",
            "no service that synchronizes it was found",
            "run chrony or systemd-timesyncd, or make sure that the host does",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Gravity;
    use super::*;

    #[test]
    fn a_missing_directory_uses_that_above_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let findings = disk(&directory.path().join("not/yet"));
        let checks: Vec<_> = findings.iter().map(|finding| finding.check).collect();
        assert_eq!(checks, ["disk", "room", "sync"]);
        assert_eq!(fs::read_dir(directory.path()).expect("it exists").count(), 0);
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_a_problem() {
        let finding = sync(Path::new("/proc"));
        assert_eq!((finding.check, finding.gravity), ("sync", Gravity::Problem));
        assert!(finding.remedy.is_some());
    }
}
