//! What is found out about a filled directory on which no switch runs: how fast its store is built
//! anew, and how much shorter its log is when it is packed. And what kernel, log and store do
//! without HTTP, by this program's own `core`. Parts of [`crate::sweep::stored_transfers`].

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::sweep::stored_transfers::{SizedSwitch, short};
use harness::error::HarnessError;
use harness::footprint::Footprint;
use harness::switch_process::{SwitchCommand, SwitchProcess, ask, own_program};

/// What was found out; nothing where it cannot be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct After {
    pub(crate) rebuilt_per_s: Option<f64>,
    /// Length of the packed form by that of the plain one.
    pub(crate) packed_share: Option<f64>,
}

impl After {
    /// Of two directories, on neither of which a switch runs: one whose store is built anew, and
    /// one that is packed. They are as before, but that the first has a new store.
    pub(crate) fn of(
        place: &Path,
        (rebuilt, packed): (Option<&SizedSwitch>, Option<&SizedSwitch>),
        command: &SwitchCommand,
    ) -> Result<Self, HarnessError> {
        let mut after = Self::default();
        if let Some(SizedSwitch { data, stored, .. }) = rebuilt {
            eprintln!("building the store of {} anew", short(*stored));
            after.rebuilt_per_s = rebuild(data, *stored, command)?;
        }
        if let Some(SizedSwitch { data, stored, .. }) = packed {
            eprintln!("packing the log of {}", short(*stored));
            after.packed_share = pack(place, data, command)?;
        }
        Ok(after)
    }
}

/// Transfers a second, from the start of the process until it is ready: everything is decided
/// again on the way.
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

/// A copy has the closed segments packed, and leaves the directory alone.
fn pack(place: &Path, data: &Path, command: &SwitchCommand) -> Result<Option<f64>, HarnessError> {
    let copy = place.join("packed");
    fs::create_dir_all(&copy).map_err(HarnessError::file(&copy))?;
    let to = format!("file://{}", copy.display());
    let arguments = ["--to".as_ref(), to.as_ref(), "--data".as_ref(), data.as_os_str()];
    let made = ask::<Value>(&command.program, "backup", &arguments);
    let packed = Footprint::of(&copy.join("segments")).total();
    // It was made to be measured.
    let _ = fs::remove_dir_all(&copy);
    made?;
    let plain = closed_bytes(data)?;
    Ok((plain > 0).then(|| packed as f64 / plain as f64))
}

/// Bytes of all segments but the last.
fn closed_bytes(data: &Path) -> Result<u64, HarnessError> {
    let entries = fs::read_dir(data).map_err(HarnessError::file(data))?.flatten();
    let named = entries.filter(|entry| entry.path().extension().is_some_and(|it| it == "segment"));
    let mut segments: Vec<_> = named.map(|entry| entry.path()).collect();
    segments.sort();
    segments.pop();
    let length = |path: &std::path::PathBuf| fs::metadata(path).map_or(0, |found| found.len());
    Ok(segments.iter().map(length).sum())
}

/// Commands a second of kernel, log and store in large batches, so many transfers.
pub(crate) fn core_rate(place: &Path, stored: u64) -> Result<Option<f64>, HarnessError> {
    let what = format!("core --only store --transfers {stored}");
    let report: Value = ask(&own_program()?, &what, &["--data".as_ref(), place.as_os_str()])?;
    Ok(report.pointer("/sections/0/rows/0/figures/0").and_then(Value::as_f64))
}
