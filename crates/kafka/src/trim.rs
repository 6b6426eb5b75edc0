//! Deletes the oldest messages of a topic.

use std::ops::Range;

use rdkafka::{Offset, TopicPartitionList};
use record::frame::FrameHeader;

use crate::client::{self, PARTITION};
use crate::connect::broker_error;
use crate::consumer::TopicConsumer;
use crate::{Address, OpenError, TopicOptions, topic};

/// Messages that are to be, or were, deleted from a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrimReport {
    /// Their offsets.
    pub offsets: Range<i64>,
    /// The message that becomes the first one, or is the first one already; `None` if it was
    /// deleted before.
    pub first: Option<i64>,
}

impl TrimReport {
    /// Number of messages.
    #[must_use]
    pub fn deleted(&self) -> u64 {
        self.first.map_or(0, |first| first.saturating_sub(self.offsets.start).max(0) as u64)
    }
}

/// Deletes the messages before the one that a frame was made from, which becomes the topic's first;
/// or only determines them. The caller must know that they are stored elsewhere.
///
/// # Errors
/// [`OpenError`]; [`OpenError::OtherLog`] when the topic begins at its first message and does not
/// hold the frame's message.
pub fn trim(
    address: &Address,
    options: &TopicOptions,
    frame: &FrameHeader,
    only_look: bool,
) -> Result<TrimReport, OpenError> {
    let (consumer, quiet) = client::first_consumer(address, options)?;
    let _checked = topic::check((&consumer, &quiet), address, options, None)?;
    let feed = TopicConsumer::new(consumer, address, options.patience);
    let held = feed.range()?;
    let place = feed.locate(&held, frame)?;
    if place.is_none() && held.start == 0 {
        return Err(OpenError::OtherLog { topic: address.topic.clone(), end: frame.last() });
    }
    let trimming = TrimReport { offsets: held, first: place.map(|(offset, _)| offset) };
    if let (Some(first), false) = (trimming.first, only_look || trimming.deleted() == 0) {
        delete_before(address, options, first)?;
    }
    Ok(trimming)
}

fn delete_before(address: &Address, options: &TopicOptions, first: i64) -> Result<(), OpenError> {
    let mut place = TopicPartitionList::new();
    place
        .add_partition_offset(&address.topic, PARTITION, Offset::Offset(first))
        .map_err(broker_error)?;
    let answered = topic::administer(address, options, async |admin, asked| {
        admin.delete_records(&place, asked).await
    })?;
    answered.elements().iter().try_for_each(|element| element.error()).map_err(broker_error)
}
