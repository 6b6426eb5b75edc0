//! `upesi drill`: restores the newest copy into a scratch directory, verifies it, and measures the
//! recovery point and the recovery time.
//!
//! The recovery point is the time between the last record of the copy and the end of the log, or
//! the start of the drill if the log is not known. The recovery time is that of the restore with
//! its complete replay. The scratch directory is removed at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use crate::CliError;
use crate::cli::admin_address::AdminAddress;
use crate::cli::admin_get::admin_get;
use crate::cli::stdout::print_json;
use crate::cli::units::{Bytes, Count, Milliseconds, counted};
use crate::data::restore::{RestoredLog, restore_for_drill};
use crate::operate::liquidity::now_ms;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi drill --from file:///mnt/backup --scratch /var/tmp
  upesi drill --from s3://backups/hub-1 --recovery-point 60 --recovery-time 3600 --json
Exit codes: 0 proved and within the bounds, 1 not proved, 2 proved but beyond a bound.
deploy/systemd has a weekly timer.";

/// Exit code of a drill whose times are beyond the bounds.
const BEYOND: u8 = 2;

/// Arguments of `drill`.
#[derive(clap::Args)]
pub(crate) struct DrillArguments {
    /// Backup to restore: any destination of `backup --to`.
    #[arg(long, value_name = "URL|DIR")]
    from: String,
    /// Directory for the restored log; a directory below it is created and removed.
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    scratch: PathBuf,
    /// Longest accepted recovery point, in seconds.
    #[arg(long, value_name = "SECONDS")]
    recovery_point: Option<u64>,
    /// Longest accepted recovery time, in seconds.
    #[arg(long, value_name = "SECONDS")]
    recovery_time: Option<u64>,
    /// Do not ask the running switch for the end of its log.
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    switch: AdminAddress,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// The result of a drill.
#[derive(Serialize)]
struct DrillReport {
    /// Whether the times are within the bounds.
    ok: bool,
    from: String,
    last_record: u64,
    last_time: String,
    records: u64,
    bytes: u64,
    state_hash: String,
    /// Records of the running switch that the copy does not have; absent if it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    records_missing: Option<u64>,
    recovery_point_seconds: f64,
    recovery_time_seconds: f64,
}

pub(crate) fn drill(arguments: &DrillArguments) -> Result<(), CliError> {
    // Before the restore, because the log grows meanwhile.
    let log_end = match arguments.offline {
        true => None,
        false => log_end(&arguments.switch).map(Some).or_else(warn)?,
    };
    let began_ms = now_ms();
    let scratch = Scratch::create(&arguments.scratch)?;
    let started = Instant::now();
    let restored = restore_for_drill(&arguments.from, &scratch.0.join("data"))?;
    let recovery_time_seconds = started.elapsed().as_secs_f64();
    drop(scratch);
    let report = DrillReport::of(arguments, restored, (log_end, began_ms), recovery_time_seconds);
    match arguments.json {
        true => print_json(&report)?,
        false => print(&report),
    }
    match report.ok {
        true => Ok(()),
        false => Err(CliError::new(format!(
            "{}: proved, but {}",
            arguments.from,
            beyond(arguments, [report.recovery_point_seconds, report.recovery_time_seconds])
                .join(" and ")
        ))
        .with_code(BEYOND)),
    }
}

/// A switch that is down does not prevent a drill.
fn warn(error: CliError) -> Result<Option<u64>, CliError> {
    eprintln!("upesi: the recovery point is that of the clock: {error}");
    Ok(None)
}

/// The last record of the running switch.
fn log_end(switch: &AdminAddress) -> Result<u64, CliError> {
    let text = admin_get(switch, "/status")?;
    let status: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| CliError::new(error.to_string()))?;
    let index = status["log"]["index"].as_u64();
    index.ok_or_else(|| CliError::new("/status: it has no log index"))
}

/// The exceeded bounds, in words. The measured seconds are those of the recovery point and of the
/// recovery time.
fn beyond(arguments: &DrillArguments, [point, time]: [f64; 2]) -> Vec<String> {
    let measured = [
        ("recovery point", point, arguments.recovery_point),
        ("recovery time", time, arguments.recovery_time),
    ];
    let exceeded = measured.into_iter().filter_map(|(name, seconds, bound)| {
        let bound = bound.filter(|bound| (*bound as f64) < seconds)?;
        Some(format!("the {name} of {seconds:.1} s is beyond {bound} s"))
    });
    exceeded.collect()
}

impl DrillReport {
    fn of(
        arguments: &DrillArguments,
        restored: RestoredLog,
        (log_end, began_ms): (Option<u64>, u64),
        recovery_time_seconds: f64,
    ) -> Self {
        let RestoredLog { last_record, last_stamp, records, bytes, state_hash } = restored;
        let records_missing = log_end.map(|end| end.saturating_sub(last_record));
        // A copy that has everything loses nothing, however old its last record is.
        let age_ms = match records_missing {
            Some(0) => 0,
            _ => began_ms.saturating_sub(last_stamp.millis()),
        };
        let recovery_point_seconds = age_ms as f64 / 1e3;
        let measured = [recovery_point_seconds, recovery_time_seconds];
        Self {
            ok: beyond(arguments, measured).is_empty(),
            from: arguments.from.clone(),
            last_record,
            last_time: crate::cli::stdout::moment(last_stamp),
            records,
            bytes,
            state_hash,
            records_missing,
            recovery_point_seconds,
            recovery_time_seconds,
        }
    }
}

fn print(report: &DrillReport) {
    let seconds = |seconds: f64| Milliseconds((seconds * 1e3) as u64);
    println!("restored {} and proved it", report.from);
    println!("  recovery point  {}", seconds(report.recovery_point_seconds));
    println!("  recovery time   {}", seconds(report.recovery_time_seconds));
    let missing = report.records_missing.map_or_else(String::new, |count| {
        format!(", {} before the end of the log", counted(count, "record"))
    });
    println!(
        "  last record     {}, stamped {}{missing}",
        Count(report.last_record),
        report.last_time
    );
    println!("  replayed        {}, {}", counted(report.records, "record"), Bytes(report.bytes));
    println!("  state hash      {}", report.state_hash);
}

/// A directory that is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn create(above: &Path) -> Result<Self, CliError> {
        let path = above.join(format!("upesi-drill-{}", std::process::id()));
        fs::create_dir(&path)
            .map_err(|error| CliError::new(format!("--scratch: {}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("upesi: {}: it cannot be removed: {error}", self.0.display());
        }
    }
}
