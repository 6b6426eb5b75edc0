//! Measurements of a filled directory without a running switch: the rate at which its store is
//! rebuilt, and the compression of its log. Also the rate of kernel, log and store without HTTP,
//! from `upesi-bench core`. Parts of [`crate::sweep::stored_transfers`].

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::sweep::stored_transfers::{SizedSwitch, short};
use harness::error::HarnessError;
use harness::footprint::Footprint;
use harness::switch_process::{SwitchCommand, SwitchProcess, own_program, run_json_command};

/// The figures; `None` if not available.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OfflineFigures {
    pub(crate) rebuilt_per_s: Option<f64>,
    /// Length of the compressed log divided by that of the plain one.
    pub(crate) packed_share: Option<f64>,
}

impl OfflineFigures {
    /// Measures two directories without a running switch: the store of one is rebuilt, the log of
    /// the other is compressed. The first has a new store afterwards; both are otherwise unchanged.
    pub(crate) fn measure(
        place: &Path,
        (rebuilt, packed): (Option<&SizedSwitch>, Option<&SizedSwitch>),
        command: &SwitchCommand,
    ) -> Result<Self, HarnessError> {
        let mut figures = Self::default();
        if let Some(SizedSwitch { data, stored, .. }) = rebuilt {
            eprintln!("rebuilding the store of {} transfers", short(*stored));
            figures.rebuilt_per_s = rebuild(data, *stored, command)?;
        }
        if let Some(SizedSwitch { data, stored, .. }) = packed {
            eprintln!("compressing the log of {} transfers", short(*stored));
            figures.packed_share = pack(place, data, command)?;
        }
        Ok(figures)
    }
}

/// Transfers per second from the start of the process until it is ready. All of them are replayed.
fn rebuild(data: &Path, stored: u64, command: &SwitchCommand) -> Result<Option<f64>, HarnessError> {
    let store = data.join("store");
    if !store.exists() {
        return Ok(None);
    }
    fs::remove_dir_all(&store).map_err(HarnessError::file(&store))?;
    let switch = SwitchProcess::start(command, data)?;
    let seconds = switch.ready_after.as_secs_f64();
    switch.stop()?;
    Ok(Some(stored as f64 / seconds))
}

/// Compresses the closed segments in a copy. The directory is unchanged.
fn pack(place: &Path, data: &Path, command: &SwitchCommand) -> Result<Option<f64>, HarnessError> {
    let copy = place.join("packed");
    fs::create_dir_all(&copy).map_err(HarnessError::file(&copy))?;
    let to = format!("file://{}", copy.display());
    let arguments = ["--to".as_ref(), to.as_ref(), "--data".as_ref(), data.as_os_str()];
    let made = run_json_command::<Value>(&command.program, "backup", &arguments);
    let packed = Footprint::of(&copy.join("segments")).total();
    // The copy was made only to be measured.
    let _ = fs::remove_dir_all(&copy);
    made?;
    let plain = closed_bytes(data)?;
    Ok((plain > 0).then(|| packed as f64 / plain as f64))
}

/// Size of all segments but the last.
fn closed_bytes(data: &Path) -> Result<u64, HarnessError> {
    let entries = fs::read_dir(data).map_err(HarnessError::file(data))?.flatten();
    let named = entries.filter(|entry| entry.path().extension().is_some_and(|it| it == "segment"));
    let mut segments: Vec<_> = named.map(|entry| entry.path()).collect();
    segments.sort();
    segments.pop();
    let length = |path: &std::path::PathBuf| fs::metadata(path).map_or(0, |found| found.len());
    Ok(segments.iter().map(length).sum())
}

/// Commands per second of kernel, log and store in large batches, for this number of transfers.
pub(crate) fn core_rate(place: &Path, stored: u64) -> Result<Option<f64>, HarnessError> {
    let what = format!("core --only store --transfers {stored}");
    let report: Value =
        run_json_command(&own_program()?, &what, &["--data".as_ref(), place.as_os_str()])?;
    Ok(report.pointer("/sections/0/rows/0/figures/0").and_then(Value::as_f64))
}
