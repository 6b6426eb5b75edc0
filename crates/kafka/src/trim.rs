//! Deleting the oldest messages of a topic.

use std::ops::Range;

use rdkafka::{Offset, TopicPartitionList};
use record::frame::FrameHeader;

use crate::client::{self, PARTITION};
use crate::connect::cannot;
use crate::consumer::TopicConsumer;
use crate::{Address, OpenError, Options, topic};

/// What is to be deleted of a topic, or was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trim {
    /// Its messages, by offset.
    pub held: Range<i64>,
    /// The message that will be its first, or is already; `None` if that was deleted before.
    pub first: Option<i64>,
}

impl Trim {
    /// How many messages go.
    #[must_use]
    pub fn deleted(&self) -> u64 {
        self.first.map_or(0, |first| first.saturating_sub(self.held.start).max(0) as u64)
    }
}

/// Deletes what stands before the message that a frame was made of, which becomes the topic's
/// first; or only looks what that would be. Whether it is held elsewhere the caller knows.
///
/// # Errors
/// [`OpenError`]; [`OpenError::Another`] when the topic begins at its first message and does not
/// hold the frame's.
pub fn trim(
    address: &Address,
    options: &Options,
    frame: &FrameHeader,
    only_look: bool,
) -> Result<Trim, OpenError> {
    let (consumer, quiet) = client::first_consumer(address, options)?;
    let _checked = topic::check((&consumer, &quiet), address, options, None)?;
    let feed = TopicConsumer::new(consumer, address, options.patience);
    let held = feed.range()?;
    let place = feed.locate(&held, frame)?;
    if place.is_none() && held.start == 0 {
        return Err(OpenError::Another { topic: address.topic.clone(), end: frame.last() });
    }
    let trimming = Trim { held, first: place.map(|(offset, _)| offset) };
    if let (Some(first), false) = (trimming.first, only_look || trimming.deleted() == 0) {
        delete_before(address, options, first)?;
    }
    Ok(trimming)
}

fn delete_before(address: &Address, options: &Options, first: i64) -> Result<(), OpenError> {
    let mut place = TopicPartitionList::new();
    place.add_partition_offset(&address.topic, PARTITION, Offset::Offset(first)).map_err(cannot)?;
    let answered = topic::administer(address, options, async |admin, asked| {
        admin.delete_records(&place, asked).await
    })?;
    answered.elements().iter().try_for_each(|element| element.error()).map_err(cannot)
}
