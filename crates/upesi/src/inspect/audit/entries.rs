//! Reads the entries of the audit trail from a log.

use journal::DurableFrames;
use ledger::{Administer, AssignParties, ChangeParties, Command, LogIndex, Stamp};
use operations::{AUDIT_READ_MAX, AuditEntryData, AuditPage, AuditPlace, AuditQuery};
use ports::{Disk, LogError, RecordReader, StopReading};
use record::frame::{Frame, Payload, Record};
use switch::reveal_parties;

/// Passes the wanted entries of a batch to `visit`.
pub(crate) fn visit_entries(
    frame: &Frame<'_>,
    query: &AuditQuery,
    visit: &mut dyn FnMut(AuditEntryData),
) {
    let header = frame.header();
    for record in frame.records().filter(is_administrative) {
        let read = record::command::read_fields(record.kind, record.version, record.fields);
        let Some(mut administer) = read.ok().and_then(administered) else { continue };
        let recorded = match query.with_values {
            true => administer.change.named_parties().to_vec(),
            false => Vec::new(),
        };
        if let Payload::Stored(payload) = record.payload {
            reveal_parties(administer.change.named_parties_mut(), payload);
        }
        let place = AuditPlace {
            log_index: record.log_index,
            stamp: header.batch.stamp,
            batch_end: header.last(),
            chain_head: frame.chain(),
        };
        let mut entry = AuditEntryData::of(place, &administer);
        entry.note_parties(&recorded, administer.change.named_parties());
        if query.accepts(&entry) {
            visit(entry);
        }
    }
}

/// Reads a page of a log that is being written.
pub(crate) fn read_page<D: Disk>(
    frames: &DurableFrames<D>,
    reader: &dyn RecordReader,
    query: &AuditQuery,
) -> Result<AuditPage, LogError> {
    let mut after = query.after;
    let end = frames.end();
    if let Some(from) = query.from {
        after = after.max(last_before(reader, (after, end), from)?);
    }
    let mut page = AuditPage { next: after, end, ..AuditPage::default() };
    let wanted = AuditQuery { after, ..query.clone() };
    frames.replay(LogIndex(after.0 + 1), &mut |frame| {
        let header = frame.header();
        if query.to.is_some_and(|to| to <= header.batch.stamp) {
            page.next = end;
            return Err(StopReading);
        }
        visit_entries(frame, &wanted, &mut |entry| page.entries.push(entry));
        page.next = header.last();
        let is_full = query.limit <= page.entries.len();
        let is_far = after.0 + AUDIT_READ_MAX <= page.next.0;
        if is_full || is_far { Err(StopReading) } else { Ok(()) }
    })?;
    if query.limit < page.entries.len() {
        page.entries.truncate(query.limit);
        page.next = page.entries.last().map_or(after, |entry| entry.place().log_index);
    }
    page.next = page.next.max(after);
    Ok(page)
}

/// The last record after `after` that is earlier than a time; `after` if none is.
pub(crate) fn last_before(
    reader: &dyn RecordReader,
    (after, end): (LogIndex, LogIndex),
    from: Stamp,
) -> Result<LogIndex, LogError> {
    let (mut low, mut high) = (after.0, end.0);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        let record = reader.read(LogIndex(middle))?;
        match record.is_some_and(|record| record.stamp < from) {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    Ok(LogIndex(low))
}

/// Whether a record may be a change by an operator, a request that made none, or a change of owner
/// in the party directory.
fn is_administrative(record: &Record<'_>) -> bool {
    let is_kind = |(name, number): &(&str, u16)| {
        ["Administer", "ChangeParties"].contains(name) && *number == record.kind
    };
    Command::TABLE.iter().any(is_kind)
}

/// The change of an entry. An FSP that takes or releases the identifier of another FSP is the actor
/// of that change.
fn administered(command: Command) -> Option<Administer> {
    if let Command::Administer(administer) = command {
        return Some(*administer);
    }
    let Command::ChangeParties(change) = command else { return None };
    let ChangeParties { source, form, parties, rule, .. } = *change;
    let former = rule.map(|rule| rule.former).filter(|former| !former.is_empty())?;
    Some(Administer {
        actor: format!("fsp:{source}"),
        reason: String::new(),
        change: AssignParties { form, parties, former }.into(),
    })
}
