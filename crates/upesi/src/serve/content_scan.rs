//! Reads the contents that an erasure would erase.
//!
//! They are counted, and searched for identifiers of parties that the reason of the erasure has: a
//! reason is never erased.
//!
//! # Costs and bounds
//! One pass over the frames with the records, or a read of each record in a short range. Messages
//! that name parties are parsed if there is a reason.

use std::sync::atomic::{AtomicBool, Ordering};

use journal::DurableFrames;
use ledger::{Command, ErasureForm, FspName, LogIndex, RecordRange, Stamp};
use ports::{Disk, LogError, OwnedPayload, RecordReader, StopReading};
use record::command::is_from_participant;
use record::frame::{Frame, Payload};

use crate::serve::identifiers::has_identifier_of;

/// Longest range whose records are read one by one.
const SHORT_RANGE: u64 = 32;

/// The contents that an erasure of a form would erase.
pub(crate) struct ContentScan<'a> {
    form: ErasureForm,
    /// Only contents of this participant.
    participant: Option<FspName>,
    reason: &'a str,
    /// The first and the last of their records.
    pub(crate) found: Option<RecordRange>,
    /// Their number.
    pub(crate) contents: u64,
    /// Those of them that are messages about bulk transfers.
    pub(crate) bulks: u64,
    /// The time of the first of them.
    pub(crate) oldest: Option<Stamp>,
    /// Whether the reason has an identifier that one of them names.
    pub(crate) is_named: bool,
}

impl<'a> ContentScan<'a> {
    pub(crate) fn new(form: ErasureForm, reason: &'a str) -> Self {
        let (participant, found, oldest) = Default::default();
        Self { form, participant, reason, found, contents: 0, bulks: 0, oldest, is_named: false }
    }

    /// Only contents of a participant.
    pub(crate) fn of_participant(self, participant: Option<FspName>) -> Self {
        Self { participant, ..self }
    }

    /// Reads the records of some ranges, until the requester is gone.
    pub(crate) fn read<D: Disk>(
        &mut self,
        (frames, reader): (&DurableFrames<D>, &dyn RecordReader),
        ranges: &[RecordRange],
        gone: &AtomicBool,
    ) -> Result<(), LogError> {
        for &range in ranges {
            if gone.load(Ordering::Relaxed) {
                return Ok(());
            }
            match range.last.0 - range.first.0 < SHORT_RANGE {
                true => self.read_records(reader, range)?,
                false => {
                    frames.replay(range.first, &mut |frame| self.examine(frame, range, gone))?
                }
            }
        }
        Ok(())
    }

    fn read_records(
        &mut self,
        reader: &dyn RecordReader,
        range: RecordRange,
    ) -> Result<(), LogError> {
        for record in range.first.0..=range.last.0 {
            let Some(owned) = reader.read(LogIndex(record))? else { return Ok(()) };
            if let OwnedPayload::Stored(payload) = &owned.payload {
                let fields = (owned.kind, owned.version, &owned.fields[..]);
                self.add((LogIndex(record), owned.stamp), fields, payload);
            }
        }
        Ok(())
    }

    fn examine(
        &mut self,
        frame: &Frame<'_>,
        range: RecordRange,
        gone: &AtomicBool,
    ) -> Result<(), StopReading> {
        for record in frame.records().filter(|it| range.contains(it.log_index)) {
            if let Payload::Stored(payload) = record.payload {
                let fields = (record.kind, record.version, record.fields);
                self.add((record.log_index, frame.header().batch.stamp), fields, payload);
            }
        }
        let is_over = range.last <= frame.header().last() || gone.load(Ordering::Relaxed);
        if is_over { Err(StopReading) } else { Ok(()) }
    }

    fn add(
        &mut self,
        (record, stamp): (LogIndex, Stamp),
        fields: (u16, u16, &[u8]),
        payload: &[u8],
    ) {
        let (kind, ..) = fields;
        let is_from = |name: &FspName| is_from_participant(fields, name);
        if !self.form.selects(kind) || !self.participant.as_ref().is_none_or(is_from) {
            return;
        }
        self.found.get_or_insert(RecordRange { first: record, last: record }).last = record;
        self.contents += 1;
        self.bulks += u64::from(Command::is_bulk(kind));
        self.oldest.get_or_insert(stamp);
        self.is_named = self.is_named || has_identifier_of(self.reason, payload);
    }
}
