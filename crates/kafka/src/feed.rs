//! Reading a topic: messages by offset, and where in it a copy of the log ends.

use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use ledger::Stamp;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::{Message, Offset, TopicPartitionList};
use record::bundle::{Bundle, BundleHeader};
use record::frame::{FrameHeader, LogIdentity};
use sequencer::LastMessage;

use crate::client::{PARTITION, Quiet};
use crate::{Address, OpenError};

/// One wait for the next message; several make up the patience.
pub(crate) const POLL: Duration = Duration::from_millis(100);
/// Longest wait for the answer to one question where the topic ends.
const ANSWER: Duration = Duration::from_secs(2);
/// Before a question is asked again that could not be answered.
const PAUSE: Duration = Duration::from_millis(50);
/// How long before its stamp a message is looked for, in milliseconds: the stamp may lie before
/// the time of its arrival, never behind it by much.
const EARLIER_MS: u64 = 10_000;

/// A message as it was read.
pub(crate) struct Found<'a> {
    pub(crate) offset: i64,
    pub(crate) at: Stamp,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Found<'a> {
    pub(crate) fn of(message: &'a BorrowedMessage<'_>) -> Self {
        let millis = message.timestamp().to_millis().unwrap_or(0).max(0) as u64;
        Self {
            offset: message.offset(),
            at: Stamp(millis * 1_000),
            bytes: message.payload().unwrap_or_default(),
        }
    }
}

/// Sees a message, and says whether it has enough.
type Visit<'a> = dyn FnMut(&Found<'_>) -> ControlFlow<()> + 'a;

/// A topic being read.
pub(crate) struct Feed {
    consumer: BaseConsumer<Quiet>,
    topic: String,
    patience: Duration,
}

impl Feed {
    pub(crate) fn new(
        consumer: BaseConsumer<Quiet>,
        address: &Address,
        patience: Duration,
    ) -> Self {
        Self { consumer, topic: address.topic.clone(), patience }
    }

    pub(crate) fn consumer(&self) -> &BaseConsumer<Quiet> {
        &self.consumer
    }

    /// The first offset, and the one that the next message gets.
    pub(crate) fn range(&self) -> Result<Range<i64>, OpenError> {
        let since = Instant::now();
        loop {
            // A broker that has died may leave a question unanswered: it is asked again.
            let once = self.patience.min(ANSWER);
            match self.consumer.fetch_watermarks(&self.topic, PARTITION, once) {
                Ok((low, high)) => return Ok(low..high),
                // A partition whose leader has just moved, or just come back.
                Err(error) if is_passing(&error) && since.elapsed() < self.patience => {
                    // Whoever has no place in the topic is not told that its leader has moved: it
                    // asks. Without an answer to that either it goes on as before.
                    let _leader = self.consumer.fetch_metadata(Some(&self.topic), once);
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(OpenError::Brokers(error.to_string())),
            }
        }
    }

    /// Begins to read at an offset.
    pub(crate) fn seek(&self, offset: i64) -> Result<(), OpenError> {
        let failed = |error: KafkaError| OpenError::Brokers(error.to_string());
        let mut place = TopicPartitionList::new();
        place
            .add_partition_offset(&self.topic, PARTITION, Offset::Offset(offset))
            .map_err(failed)?;
        self.consumer.assign(&place).map_err(failed)
    }

    /// Shows the messages at these offsets in order, until the visitor has enough.
    pub(crate) fn read(&self, offsets: Range<i64>, visit: &mut Visit<'_>) -> Result<(), OpenError> {
        if offsets.is_empty() {
            return Ok(());
        }
        self.seek(offsets.start)?;
        let result = self.follow(&offsets, visit);
        self.consumer.unassign().map_err(|error| OpenError::Brokers(error.to_string()))?;
        result
    }

    fn follow(&self, offsets: &Range<i64>, visit: &mut Visit<'_>) -> Result<(), OpenError> {
        let mut next = offsets.start;
        let mut heard = Instant::now();
        while next < offsets.end {
            match self.consumer.poll(POLL) {
                Some(Ok(message)) => {
                    heard = Instant::now();
                    // What was fetched for an earlier place may still come.
                    if message.offset() < next {
                        continue;
                    }
                    next = message.offset() + 1;
                    if visit(&Found::of(&message)).is_break() {
                        return Ok(());
                    }
                }
                Some(Err(error)) if !is_passing(&error) => {
                    return Err(OpenError::Brokers(format!("reading offset {next}: {error}")));
                }
                _ if self.patience < heard.elapsed() => {
                    let seconds = self.patience.as_secs();
                    let what = format!("nothing came from offset {next} on for {seconds} s");
                    return Err(OpenError::Brokers(what));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The identity of the log in the topic: that of the first bundle which begins one.
    pub(crate) fn identity(&self, range: &Range<i64>) -> Result<Option<LogIdentity>, OpenError> {
        let mut found = None;
        self.read(range.clone(), &mut |message| match Bundle::parse(message.bytes) {
            Ok(bundle) if bundle.header.founding || 0 < range.start => {
                found = Some(bundle.header.identity);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        })?;
        Ok(found)
    }

    /// Where the bundle stands that the copy's last frame was made of. Looks around the time of
    /// its stamp, and through all of the topic when it is not there.
    pub(crate) fn locate(
        &self,
        range: &Range<i64>,
        last: &FrameHeader,
    ) -> Result<Option<(i64, LastMessage)>, OpenError> {
        let near = self.offset_at(last.batch.stamp.millis().saturating_sub(EARLIER_MS))?;
        let near = near.unwrap_or(range.start).clamp(range.start, range.end);
        match self.find(near..range.end, last)? {
            None => self.find(range.start..near, last),
            found => Ok(found),
        }
    }

    /// The first offset whose message arrived at this time, or later.
    fn offset_at(&self, millis: u64) -> Result<Option<i64>, OpenError> {
        let failed = |error: KafkaError| OpenError::Brokers(error.to_string());
        let mut times = TopicPartitionList::new();
        let millis = Offset::Offset(i64::try_from(millis).unwrap_or(i64::MAX));
        times.add_partition_offset(&self.topic, PARTITION, millis).map_err(failed)?;
        let found = self.consumer.offsets_for_times(times, self.patience).map_err(failed)?;
        let offset = found.find_partition(&self.topic, PARTITION).map(|found| found.offset());
        Ok(offset.and_then(|offset| offset.to_raw()).filter(|offset| 0 <= *offset))
    }

    fn find(
        &self,
        offsets: Range<i64>,
        last: &FrameHeader,
    ) -> Result<Option<(i64, LastMessage)>, OpenError> {
        let wanted = (last.identity, last.count, last.batch.node, last.batch.epoch);
        let mut found = None;
        self.read(offsets, &mut |message| {
            let Ok(bundle) = Bundle::parse(message.bytes) else {
                return ControlFlow::Continue(());
            };
            let header = bundle.header;
            let is_it = wanted == (header.identity, bundle.count, header.node, header.epoch)
                && (last.batch.sequence, last.batch.wall) == (header.sequence, header.wall);
            if !is_it {
                return ControlFlow::Continue(());
            }
            let BundleHeader { node, wall, .. } = header;
            found = Some((message.offset, LastMessage { at: message.at, node, wall }));
            ControlFlow::Break(())
        })?;
        Ok(found)
    }
}

/// Troubles that the library overcomes by itself, or says again. A topic that was found and is not
/// known is one: a broker may not have heard yet of one that was made just now.
pub(crate) fn is_passing(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    !matches!(
        code,
        None | Some(
            RDKafkaErrorCode::AutoOffsetReset
                | RDKafkaErrorCode::OffsetOutOfRange
                | RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::Fatal
        )
    )
}
