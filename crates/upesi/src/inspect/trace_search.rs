//! Finds the payments of a trace in a log that is being written.

use journal::DurableFrames;
use ledger::{Command, LogIndex, Stamp, TraceId, TransferId};
use operations::{
    TRACE_PERIOD_US, TRACE_READ_MAX, TRACED_MAX, TracePage, TraceQuery, TracedMessage,
};
use ports::{Disk, LogError, RecordReader, StopReading};
use record::frame::Frame;

use crate::inspect::audit::entries::last_before;

/// Reads a page of the messages of a trace.
pub(crate) fn read_trace_page<D: Disk>(
    frames: &DurableFrames<D>,
    reader: &dyn RecordReader,
    query: &TraceQuery,
) -> Result<TracePage, LogError> {
    let end = frames.end();
    let from = match (query.from, query.after) {
        (None, None) => last_hour(reader, end)?,
        (from, _) => from,
    };
    let mut after = query.after.unwrap_or_default().min(end);
    if let Some(from) = from {
        after = after.max(last_before(reader, (after, end), from)?);
    }
    let mut page = TracePage { messages: Vec::new(), after, next: after, end };
    frames.replay(LogIndex(after.0 + 1), &mut |frame| {
        let header = frame.header();
        if query.to.is_some_and(|to| to <= header.batch.stamp) {
            page.next = end;
            return Err(StopReading);
        }
        add_messages(frame, query.trace, (after, &mut page.messages));
        page.next = header.last().max(after);
        let is_far = after.0 + TRACE_READ_MAX <= page.next.0;
        let is_full = TRACED_MAX <= page.messages.len();
        if is_full || is_far { Err(StopReading) } else { Ok(()) }
    })?;
    Ok(page)
}

/// The beginning of the last hour of the log.
fn last_hour(reader: &dyn RecordReader, end: LogIndex) -> Result<Option<Stamp>, LogError> {
    let newest = reader.read(end)?;
    Ok(newest.map(|newest| Stamp(newest.stamp.0.saturating_sub(TRACE_PERIOD_US))))
}

fn add_messages(
    frame: &Frame<'_>,
    trace: TraceId,
    (after, messages): (LogIndex, &mut Vec<TracedMessage>),
) {
    let stamp = frame.header().batch.stamp;
    for record in frame.records().filter(|record| after < record.log_index) {
        // Most records are ruled out without being read: the id is 16 bytes of their fields.
        if !record.fields.windows(trace.len()).any(|bytes| bytes == trace) {
            continue;
        }
        let read = record::command::read_fields(record.kind, record.version, record.fields);
        let Some((id, found)) = read.ok().and_then(|command| traced(&command)) else { continue };
        if found == trace {
            messages.push(TracedMessage { id, log_index: record.log_index, stamp });
        }
    }
}

/// The payment of a message and its trace; `None` if the command is no message about one.
fn traced(command: &Command) -> Option<(TransferId, TraceId)> {
    Some(match command {
        Command::Prepare(it) => (it.id, it.trace),
        Command::Fulfil(it) => (it.id, it.trace),
        Command::Abort(it) => (it.id, it.trace),
        Command::PrepareBulk(it) => (it.id, it.trace),
        Command::FulfilBulk(it) => (it.id, it.trace),
        Command::AbortBulk(it) => (it.id, it.trace),
        Command::RecordQuote(it) => (*command.exchange()?, it.trace),
        Command::RecordQuoteAnswer(it) => (*command.exchange()?, it.trace),
        Command::RecordRequestToPay(it) => (it.request, it.trace),
        Command::Genesis(_)
        | Command::Tick
        | Command::FinishDeliveries(_)
        | Command::ChangeParties(_)
        | Command::Administer(_) => return None,
    })
}
