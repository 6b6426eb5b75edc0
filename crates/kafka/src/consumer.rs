//! Reads a topic: messages by offset, and the offset that matches the end of the local copy.

use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use ledger::Stamp;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::{Offset, TopicPartitionList};
use record::bundle::{Bundle, BundleHeader};
use record::frame::{FrameHeader, LogIdentity};
use record::topic_message::TopicMessage;
use sequencer::LastMessage;

use crate::client::{self, ErrorLog, PARTITION};
use crate::connect::broker_error;
use crate::{Address, OpenError, TopicOptions};

/// One wait for the next message. Several of them make up the timeout.
pub(crate) const POLL: Duration = Duration::from_millis(100);
/// Timeout of one query for the end of the topic.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval before a failed query is repeated.
const PAUSE: Duration = Duration::from_millis(50);
/// How long before its stamp a message is searched, in milliseconds. The stamp may precede the
/// arrival, but is never much later.
const EARLIER_MS: u64 = 10_000;
/// Number of messages in the first step of a backward search. Each further step has four times as
/// many.
const BACK: i64 = 1_024;
/// Number of messages in the first step of the search for the last message.
const BACK_FROM_END: i64 = 16;

/// A message that was read.
pub(crate) struct ReadMessage<'a> {
    pub(crate) offset: i64,
    pub(crate) at: Stamp,
    pub(crate) bytes: &'a [u8],
}

impl<'a> ReadMessage<'a> {
    pub(crate) fn of(message: &'a BorrowedMessage<'_>) -> Self {
        let millis = message.timestamp().to_millis().unwrap_or(0).max(0) as u64;
        Self {
            offset: message.offset(),
            at: Stamp(millis * 1_000),
            bytes: message.payload().unwrap_or_default(),
        }
    }
}

/// Visits a message; `Break` ends the read.
type Visit<'a> = dyn FnMut(&ReadMessage<'_>) -> ControlFlow<()> + 'a;

/// Consumer of one topic.
pub(crate) struct TopicConsumer {
    consumer: BaseConsumer<ErrorLog>,
    topic: String,
    patience: Duration,
}

impl TopicConsumer {
    pub(crate) fn new(
        consumer: BaseConsumer<ErrorLog>,
        address: &Address,
        patience: Duration,
    ) -> Self {
        Self { consumer, topic: address.topic.clone(), patience }
    }

    pub(crate) fn consumer(&self) -> &BaseConsumer<ErrorLog> {
        &self.consumer
    }

    /// The first offset, and the offset of the next message.
    pub(crate) fn range(&self) -> Result<Range<i64>, OpenError> {
        let since = Instant::now();
        loop {
            // A broker that has died may leave a query unanswered; it is repeated.
            let once = self.patience.min(QUERY_TIMEOUT);
            match self.consumer.fetch_watermarks(&self.topic, PARTITION, once) {
                Ok((low, high)) => return Ok(low..high),
                // The leader of the partition has just moved or returned.
                Err(error) if is_transient(&error) && since.elapsed() < self.patience => {
                    // A client without a subscription is not notified of a new leader, so it
                    // queries it. Without a response the query is repeated.
                    self.look_for_leader(once);
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(OpenError::Brokers(error.to_string())),
            }
        }
    }

    /// Queries the leader of the topic. The library then reads from that broker.
    pub(crate) fn look_for_leader(&self, patience: Duration) {
        let _leader = self.consumer.fetch_metadata(Some(&self.topic), patience);
    }

    /// Starts reading at an offset.
    pub(crate) fn seek(&self, offset: i64) -> Result<(), OpenError> {
        let failed = |error: KafkaError| OpenError::Brokers(error.to_string());
        let mut place = TopicPartitionList::new();
        place
            .add_partition_offset(&self.topic, PARTITION, Offset::Offset(offset))
            .map_err(failed)?;
        self.consumer.assign(&place).map_err(failed)
    }

    /// Visits the messages at these offsets in order, until the visitor stops.
    pub(crate) fn read(&self, offsets: Range<i64>, visit: &mut Visit<'_>) -> Result<(), OpenError> {
        let mut messages = self.messages(offsets)?;
        while let Some(message) = messages.next()? {
            if visit(&ReadMessage::of(&message)).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The messages at these offsets, in order.
    pub(crate) fn messages(&self, offsets: Range<i64>) -> Result<Messages<'_>, OpenError> {
        if !offsets.is_empty() {
            self.seek(offsets.start)?;
        }
        Ok(Messages { feed: self, offsets })
    }

    /// The identity of the log in the topic, from the first message that starts a log.
    pub(crate) fn identity(&self, range: &Range<i64>) -> Result<Option<LogIdentity>, OpenError> {
        let mut found = None;
        self.read(range.clone(), &mut |read| {
            let Ok(message) = TopicMessage::parse(read.bytes) else {
                return ControlFlow::Continue(());
            };
            let begins = match &message {
                TopicMessage::Bundle(bundle) => bundle.header.creates_log,
                TopicMessage::Frame(frame) => frame.header().first.0 == 1,
                TopicMessage::EndOfMovedLog(_)
                | TopicMessage::State(_)
                | TopicMessage::LogMoved(_) => false,
            };
            if !begins && range.start == 0 {
                return ControlFlow::Continue(());
            }
            found = Some(message.identity());
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// The offset of the message that the copy's last frame was made from, and the fields of a
    /// bundle that the next stamp needs. Searches around the time of its stamp, and backwards from
    /// there or from the end.
    pub(crate) fn locate(
        &self,
        range: &Range<i64>,
        last: &FrameHeader,
    ) -> Result<FrameOffset, OpenError> {
        let near = self.offset_at(last.batch.stamp.millis().saturating_sub(EARLIER_MS))?;
        let near = near.unwrap_or(range.start).clamp(range.start, range.end);
        let (mut until, mut back) = (range.end, BACK);
        // Migrated messages carry much older stamps than their arrival: the whole topic is later.
        if range.start < near {
            if let Some(found) = self.find(near..range.end, last)? {
                return Ok(Some(found));
            }
            until = near;
        }
        while range.start < until {
            let from = until.saturating_sub(back).max(range.start);
            if let Some(found) = self.find(from..until, last)? {
                return Ok(Some(found));
            }
            (until, back) = (from, back.saturating_mul(4));
        }
        Ok(None)
    }

    /// The first offset whose message arrived at or after this time.
    fn offset_at(&self, millis: u64) -> Result<Option<i64>, OpenError> {
        let failed = |error: KafkaError| OpenError::Brokers(error.to_string());
        let mut times = TopicPartitionList::new();
        let millis = Offset::Offset(i64::try_from(millis).unwrap_or(i64::MAX));
        times.add_partition_offset(&self.topic, PARTITION, millis).map_err(failed)?;
        let found = self.consumer.offsets_for_times(times, self.patience).map_err(failed)?;
        let offset = found.find_partition(&self.topic, PARTITION).map(|found| found.offset());
        Ok(offset.and_then(|offset| offset.to_raw()).filter(|offset| 0 <= *offset))
    }

    /// The offset after the last message at these offsets; `None` without a message. Needs a new
    /// consumer that reports the end of the partition.
    fn end_after_last(&self, offsets: &Range<i64>) -> Result<Option<i64>, OpenError> {
        self.seek(offsets.start)?;
        let (mut behind, since) = (None, Instant::now());
        while behind != Some(offsets.end) {
            match self.consumer.poll(POLL) {
                Some(Ok(message)) if offsets.end <= message.offset() => break,
                Some(Ok(message)) => behind = Some(message.offset() + 1),
                Some(Err(KafkaError::PartitionEOF(_))) => break,
                Some(Err(error)) if !is_transient(&error) => {
                    return Err(OpenError::Brokers(unreadable(offsets.start, &error)));
                }
                _ if self.patience < since.elapsed() => {
                    return Err(OpenError::Brokers(
                        "the end of the topic could not be determined".into(),
                    ));
                }
                _ => {}
            }
        }
        Ok(behind)
    }

    fn find(&self, offsets: Range<i64>, last: &FrameHeader) -> Result<FrameOffset, OpenError> {
        let mut found = None;
        self.read(offsets, &mut |read| {
            let of_it = match TopicMessage::parse(read.bytes) {
                Ok(TopicMessage::Bundle(bundle)) if is_made_of(last, &bundle) => {
                    let BundleHeader { node, wall, .. } = bundle.header;
                    Some(Some(LastMessage { at: read.at, node, wall }))
                }
                Ok(TopicMessage::Frame(frame)) if frame.header() == last => Some(None),
                _ => None,
            };
            let Some(last) = of_it else { return ControlFlow::Continue(()) };
            found = Some((read.offset, last));
            ControlFlow::Break(())
        })?;
        Ok(found)
    }
}

/// The offset after the last message in these offsets. Transactions of other clients occupy offsets
/// without a readable message, and no reader may wait for those.
pub(crate) fn end_of_messages(
    address: &Address,
    options: &TopicOptions,
    (range, patience): (&Range<i64>, Duration),
) -> Result<i64, OpenError> {
    let mut back = BACK_FROM_END;
    loop {
        let from = range.end.saturating_sub(back).max(range.start);
        // A consumer that was used elsewhere may still report the end of that partition.
        let consumer = client::consumer_to_end(address, options).map_err(broker_error)?;
        let feed = TopicConsumer::new(consumer, address, patience);
        if let Some(behind) = feed.end_after_last(&(from..range.end))? {
            return Ok(behind);
        }
        if from == range.start {
            return Ok(from);
        }
        back = back.saturating_mul(4);
    }
}

/// From the first offset of a topic to the offset after its last message.
pub(crate) fn range_of_messages(
    feed: &TopicConsumer,
    address: &Address,
    options: &TopicOptions,
) -> Result<Range<i64>, OpenError> {
    let range = feed.range()?;
    if range.is_empty() {
        return Ok(range);
    }
    let end = end_of_messages(address, options, (&range, options.patience))?;
    Ok(range.start..end)
}

/// Offset of a frame's message, and the fields of a bundle that the next stamp needs.
pub(crate) type FrameOffset = Option<(i64, Option<LastMessage>)>;

/// Whether a frame was made from a bundle, according to its header.
pub(crate) fn is_made_of(frame: &FrameHeader, bundle: &Bundle<'_>) -> bool {
    let BundleHeader { identity, node, epoch, sequence, wall, .. } = bundle.header;
    let batch = &frame.batch;
    (frame.identity, frame.count, batch.wall) == (identity, bundle.count, wall)
        && (batch.node, batch.epoch, batch.sequence) == (node, epoch, sequence)
}

/// Messages being read. Waits for messages that have not arrived yet.
pub(crate) struct Messages<'a> {
    feed: &'a TopicConsumer,
    /// The next offset, and the end.
    offsets: Range<i64>,
}

impl<'a> Messages<'a> {
    /// The next message; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<BorrowedMessage<'a>>, OpenError> {
        let next = self.offsets.start;
        let heard = Instant::now();
        while !self.offsets.is_empty() {
            match self.feed.consumer.poll(POLL) {
                // Messages fetched before a seek may still arrive.
                Some(Ok(message)) if message.offset() < next => {}
                Some(Ok(message)) => {
                    self.offsets.start = message.offset() + 1;
                    return Ok((message.offset() < self.offsets.end).then_some(message));
                }
                Some(Err(error)) if !is_transient(&error) => {
                    return Err(OpenError::Brokers(unreadable(next, &error)));
                }
                _ if self.feed.patience < heard.elapsed() => {
                    let seconds = self.feed.patience.as_secs();
                    let what = format!("no message from offset {next} for {seconds} s");
                    return Err(OpenError::Brokers(what));
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

impl Drop for Messages<'_> {
    fn drop(&mut self) {
        // The next read starts at its own offset.
        let _left = self.feed.consumer.unassign();
    }
}

/// Errors from which the library recovers by itself, or which it reports again. An unknown topic
/// that was found before is one of them: a broker may not know a new topic yet.
pub(crate) fn is_transient(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    !matches!(
        code,
        None | Some(
            RDKafkaErrorCode::AutoOffsetReset
                | RDKafkaErrorCode::OffsetOutOfRange
                | RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::Fatal
                | RDKafkaErrorCode::NotImplemented
                | RDKafkaErrorCode::BadCompression
        )
    )
}

/// Explanation for a topic that has disappeared.
pub(crate) const DELETED: &str = "It was deleted, recreated or trimmed while this node was \
                                  running. Restart the node: the start checks the topic and \
                                  names the remedy";

/// Whether a topic, or an offset of it, existed before and is gone.
pub(crate) fn is_deleted(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::AutoOffsetReset
                | RDKafkaErrorCode::OffsetOutOfRange
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::UnknownTopicOrPartition
        )
    )
}

/// Why an offset cannot be read.
pub(crate) fn unreadable(offset: i64, error: &KafkaError) -> String {
    let is_compressed = matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::NotImplemented | RDKafkaErrorCode::BadCompression)
    );
    if is_deleted(error) {
        return format!("offset {offset} of the topic no longer exists. {DELETED} ({error})");
    }
    if !is_compressed {
        return format!("cannot read offset {offset} of the topic: {error}");
    }
    format!(
        "cannot read offset {offset} of the topic: a message there or soon after it is compressed, \
         which nodes do not support ({error}). It was written while the topic's \
         compression.type was not uncompressed. Move the log before that message to a new topic: \
         `upesi restore` from the directory of a node, then `upesi export-log`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_topic_has_its_own_message() {
        let why = |code| unreadable(88, &KafkaError::MessageConsumption(code));
        for code in [RDKafkaErrorCode::AutoOffsetReset, RDKafkaErrorCode::UnknownTopic] {
            let text = why(code);
            assert!(text.starts_with("offset 88 of the topic no longer exists"), "{text}");
        }
        let text = why(RDKafkaErrorCode::TopicAuthorizationFailed);
        assert!(text.starts_with("cannot read offset 88 of the topic"), "{text}");
    }
}
