//! A writer that writes twice: between two epochs the last batch is appended again, under the
//! numbers that its node gave it.
//!
//! No client can cause that, and a log in files never holds it: its one writer numbers its records
//! and appends each once. A log that is written over a network may, when an append is tried again
//! whose answer was lost. The kernel drops such records (`Repeated`), and here it has to, on every
//! replay from then on.

use journal::{FileLog, LogOptions};
use ledger::LogIndex;
use ports::{Log, LogError};
use record::frame::{BatchHeader, FrameBuilder, NewRecord, Payload};
use sequencer::ReplayResult;

use crate::archive::HubDisk;
use crate::faults::NEVER;
use crate::simulation::SimulationRun;

/// Starts, in a thousand, before which the last batch is appended again.
const ECHOES_PER_MILLE: u32 = 60;

impl SimulationRun {
    /// Sometimes, before a recovery: appends the last batch to the log a second time.
    pub(crate) fn echo(&mut self) {
        let wanted =
            self.outcome_workload.arrivals.is_active() && !self.env.calm && 0 < self.epochs;
        if !wanted || !self.outcome_workload.random.chance(ECHOES_PER_MILLE) {
            return;
        }
        // The echo itself is no place for a fault: whether it is in the log must be known.
        self.disk.crash_at(NEVER);
        self.disk.fail_sync_at(NEVER);
        let Ok(disk) = self.archiver.tiers(&self.disk) else { return };
        let options = LogOptions { segment_bytes: u64::MAX, ..self.log_options() };
        let (mut log, _) = match FileLog::open(disk, options) {
            Ok(opened) => opened,
            Err(_) => return,
        };
        let end = log.tail().end.0;
        match append_again(&mut log) {
            Ok(records) => self.external.duplicated(end + 1..=end + records),
            Err(LogError::Full) => {}
            Err(error) => panic!("a sound disk takes a batch: {error}"),
        }
        self.disk = self.disk.kill();
    }
}

/// Appends the last batch again and syncs it; gives the number of its records. None where part of
/// the log is out of reach.
fn append_again(log: &mut FileLog<HubDisk>) -> Result<u64, LogError> {
    let mut last: Option<(BatchHeader, FrameBuilder, u64)> = None;
    let from = LogIndex(log.tail().end.0.max(1));
    log.replay(from, &mut |frame| {
        let mut builder = FrameBuilder::new();
        for record in frame.records() {
            let payload = match record.payload {
                Payload::Stored(bytes) => Some((bytes, record.payload_digest)),
                Payload::None | Payload::Erased => None,
            };
            let (kind, version, fields) = (record.kind, record.version, record.fields);
            let encoded = NewRecord { kind, version, fields, payload }.encode();
            let fits = builder.push(&encoded.expect("it was a record")).is_ok();
            assert!(fits, "the records of a frame fit into one");
        }
        last = Some((frame.header().batch, builder, u64::from(frame.header().count)));
        Ok(())
    })?;
    let Some((header, mut builder, records)) = last else { return Ok(0) };
    // The writer of a frame records the outcome digest of the frames before it.
    let Ok(ReplayResult { state, .. }) = sequencer::replay(log, &mut |_| {}) else { return Ok(0) };
    let (applied, outcome_digest) = (state.log_index(), *state.digest());
    let header = BatchHeader { applied, outcome_digest, ..header };
    let tail = log.tail();
    log.append(builder.seal(&tail, &header).bytes)?;
    log.sync()?;
    Ok(records)
}
