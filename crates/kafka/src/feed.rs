//! Reading a topic: messages by offset, and which of them are the log.

use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Message, Offset, TopicPartitionList};
use record::frame::{Frame, FrameHeader, LogIdentity, Tail};

use crate::client::{PARTITION, Quiet};
use crate::{Address, OpenError};

/// One wait for the next message; several make up the patience.
const POLL: Duration = Duration::from_millis(100);
/// Before a question is asked again that could not be answered.
const PAUSE: Duration = Duration::from_millis(50);
/// Messages that are looked through for a frame where it should be: some may be there that are no
/// part of the log.
const WINDOW: i64 = 64;

/// Sees an offset and its message, and says whether it has enough.
type Visit<'a> = dyn FnMut(i64, &[u8]) -> Result<ControlFlow<()>, OpenError> + 'a;

/// A topic being read.
pub(crate) struct Feed {
    consumer: BaseConsumer<Quiet>,
    topic: String,
    patience: Duration,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The next frame of the log; the log's end behind it.
    Next(Tail),
    /// A frame that does not continue the log where it stands: no part of it.
    Late,
}

impl Feed {
    pub(crate) fn new(
        consumer: BaseConsumer<Quiet>,
        address: &Address,
        patience: Duration,
    ) -> Self {
        Self { consumer, topic: address.topic.clone(), patience }
    }

    /// The first offset, and the one that the next message gets.
    pub(crate) fn range(&self) -> Result<Range<i64>, OpenError> {
        let since = Instant::now();
        loop {
            match self.consumer.fetch_watermarks(&self.topic, PARTITION, self.patience) {
                Ok((low, high)) => return Ok(low..high),
                // A partition whose leader has just moved, or just come back.
                Err(error) if is_passing(&error) && since.elapsed() < self.patience => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(OpenError::Brokers(error.to_string())),
            }
        }
    }

    /// Shows the messages at these offsets in order, until the visitor has enough.
    pub(crate) fn read(&self, offsets: Range<i64>, visit: &mut Visit<'_>) -> Result<(), OpenError> {
        if offsets.is_empty() {
            return Ok(());
        }
        let failed = |error: KafkaError| OpenError::Brokers(error.to_string());
        let mut place = TopicPartitionList::new();
        place
            .add_partition_offset(&self.topic, PARTITION, Offset::Offset(offsets.start))
            .map_err(failed)?;
        self.consumer.assign(&place).map_err(failed)?;
        let result = self.follow(&offsets, visit);
        self.consumer.unassign().map_err(failed)?;
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
                    let bytes = message.payload().unwrap_or_default();
                    if visit(message.offset(), bytes)?.is_break() {
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

    /// The identity of the log in the topic: that of its first message.
    pub(crate) fn identity(&self, range: &Range<i64>) -> Result<Option<LogIdentity>, OpenError> {
        let mut found = None;
        self.read(range.clone(), &mut |offset, bytes| {
            found = Some(self.header(offset, bytes)?.identity);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }

    /// The offset of the frame that `tail` ends with. Halves the range, and reads all of it only
    /// when messages that are no part of the log have misled it.
    pub(crate) fn locate(&self, range: &Range<i64>, tail: &Tail) -> Result<Option<i64>, OpenError> {
        let Range { mut start, mut end } = range.clone();
        while start < end {
            let middle = start + (end - start) / 2;
            let mut ends_before = false;
            self.read(middle..middle + 1, &mut |offset, bytes| {
                ends_before = self.header(offset, bytes)?.last() < tail.end;
                Ok(ControlFlow::Break(()))
            })?;
            if ends_before { start = middle + 1 } else { end = middle }
        }
        let near = start..range.end.min(start + WINDOW);
        match self.find(near, tail)? {
            None => self.find(range.clone(), tail),
            found => Ok(found),
        }
    }

    fn find(&self, offsets: Range<i64>, tail: &Tail) -> Result<Option<i64>, OpenError> {
        let mut found = None;
        self.read(offsets, &mut |offset, bytes| {
            let header = self.header(offset, bytes)?;
            if header.last() == tail.end && header.chain == tail.chain {
                found = Some(offset);
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// Says what a message is behind `tail`.
    ///
    /// # Errors
    /// [`OpenError::Foreign`] when it is no frame, or one of another log.
    pub(crate) fn judge(&self, offset: i64, bytes: &[u8], tail: &Tail) -> Result<Kind, OpenError> {
        let frame = Frame::parse(bytes).map_err(|error| self.foreign(offset, &error))?;
        if frame.as_bytes().len() != bytes.len() {
            return Err(self.foreign(offset, &"there are bytes behind its frame"));
        }
        let found = frame.header().identity;
        if found != tail.identity {
            let what = format!("it is a record of log {found}, and this is log {}", tail.identity);
            return Err(self.foreign(offset, &what));
        }
        Ok(frame.follows(tail).map_or(Kind::Late, Kind::Next))
    }

    fn header(&self, offset: i64, bytes: &[u8]) -> Result<FrameHeader, OpenError> {
        FrameHeader::parse(bytes).map_err(|error| self.foreign(offset, &error))
    }

    fn foreign(&self, offset: i64, reason: &dyn std::fmt::Display) -> OpenError {
        OpenError::Foreign { topic: self.topic.clone(), offset, reason: reason.to_string() }
    }
}

/// Troubles that the library overcomes by itself, or says again.
fn is_passing(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    !matches!(
        code,
        None | Some(
            RDKafkaErrorCode::AutoOffsetReset
                | RDKafkaErrorCode::OffsetOutOfRange
                | RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::UnknownPartition
                | RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::Fatal
        )
    )
}
