//! The partitions that this consumer has, and how far each is done.

use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::message::{Origin, ReceivedMessage};
use crate::offsets::Offsets;

/// All partitions that were ever assigned to this consumer. Their indexes never change.
#[derive(Debug, Default)]
pub(crate) struct Assignment {
    partitions: Vec<Partition>,
    /// Where the last message came from: the next one is likely from there too.
    last: usize,
}

#[derive(Debug)]
struct Partition {
    topic: String,
    number: i32,
    epoch: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    /// It belongs to another member of the group.
    Elsewhere,
    Assigned(Offsets),
    /// It will be released when its handlers are done. No further messages are taken from it.
    Revoked(Offsets),
}

impl Partition {
    fn offsets(&mut self) -> Option<&mut Offsets> {
        match &mut self.state {
            State::Elsewhere => None,
            State::Assigned(offsets) | State::Revoked(offsets) => Some(offsets),
        }
    }

    fn is(&self, topic: &str, number: i32) -> bool {
        self.number == number && self.topic == topic
    }
}

impl Assignment {
    pub(crate) fn add(&mut self, added: &TopicPartitionList) {
        for element in added.elements() {
            let at = self.find(element.topic(), element.partition());
            let at = at.unwrap_or_else(|| self.push(element.topic(), element.partition()));
            let partition = &mut self.partitions[at];
            partition.epoch += 1;
            partition.state = State::Assigned(Offsets::default());
        }
    }

    fn push(&mut self, topic: &str, number: i32) -> usize {
        let topic = topic.to_owned();
        self.partitions.push(Partition { topic, number, epoch: 0, state: State::Elsewhere });
        self.partitions.len() - 1
    }

    /// No further messages are taken from these.
    pub(crate) fn revoke(&mut self, revoked: &TopicPartitionList) {
        self.each(revoked, |partition| {
            let state = std::mem::replace(&mut partition.state, State::Elsewhere);
            partition.state = match state {
                State::Assigned(offsets) => State::Revoked(offsets),
                other => other,
            };
        });
    }

    pub(crate) fn remove(&mut self, removed: &TopicPartitionList) {
        self.each(removed, |partition| partition.state = State::Elsewhere);
    }

    /// Positions whose commit failed are offered again.
    pub(crate) fn commit_failed(&mut self, failed: &TopicPartitionList) {
        self.each(failed, |partition| {
            if let Some(offsets) = partition.offsets() {
                offsets.commit_failed();
            }
        });
    }

    fn each(&mut self, list: &TopicPartitionList, change: impl Fn(&mut Partition)) {
        for element in list.elements() {
            if let Some(at) = self.find(element.topic(), element.partition()) {
                change(&mut self.partitions[at]);
            }
        }
    }

    fn find(&self, topic: &str, number: i32) -> Option<usize> {
        let likely = self.partitions.get(self.last).filter(|it| it.is(topic, number));
        match likely {
            Some(_) => Some(self.last),
            None => self.partitions.iter().position(|it| it.is(topic, number)),
        }
    }

    /// Records a received message. `None`: its partition does not belong to this consumer any more.
    pub(crate) fn take(&mut self, topic: &str, number: i32, offset: i64) -> Option<Origin> {
        let at = self.find(topic, number)?;
        self.last = at;
        let partition = &mut self.partitions[at];
        let State::Assigned(offsets) = &mut partition.state else { return None };
        if !offsets.is_next(offset) {
            // The topic lost its end, or was created anew. Earlier messages count no longer.
            partition.epoch += 1;
            *offsets = Offsets::default();
        }
        offsets.take(offset);
        Some(Origin { partition: at, epoch: partition.epoch })
    }

    /// Whether messages from there may be given to a handler.
    pub(crate) fn is_assigned(&self, origin: Origin) -> bool {
        let partition = &self.partitions[origin.partition];
        partition.epoch == origin.epoch && matches!(partition.state, State::Assigned(_))
    }

    /// Whether handlers of messages from there should finish before the partition is released.
    pub(crate) fn is_revoked(&self, origin: Origin) -> bool {
        let partition = &self.partitions[origin.partition];
        partition.epoch == origin.epoch && matches!(partition.state, State::Revoked(_))
    }

    /// Records that a message was given to a handler.
    pub(crate) fn start(&mut self, message: &ReceivedMessage<'_>) {
        let partition = &mut self.partitions[message.origin.partition];
        if partition.epoch == message.origin.epoch
            && let Some(offsets) = partition.offsets()
        {
            offsets.start(message.offset());
        }
    }

    /// Whether a handler got a later message of the same partition. A commit then needs this one
    /// too.
    pub(crate) fn is_before_started(&self, message: &ReceivedMessage<'_>) -> bool {
        let partition = &self.partitions[message.origin.partition];
        let (State::Assigned(offsets) | State::Revoked(offsets)) = &partition.state else {
            return false;
        };
        partition.epoch == message.origin.epoch && offsets.is_before_started(message.offset())
    }

    /// Records that a message needs no further work, if its partition is still here.
    pub(crate) fn done(&mut self, origin: Origin, offset: i64) {
        let partition = &mut self.partitions[origin.partition];
        if partition.epoch == origin.epoch
            && let Some(offsets) = partition.offsets()
        {
            offsets.done(offset);
        }
    }

    /// The topic and number of a partition.
    pub(crate) fn name(&self, origin: Origin) -> (&str, i32) {
        let partition = &self.partitions[origin.partition];
        (&partition.topic, partition.number)
    }

    /// Partitions that this consumer has.
    pub(crate) fn count(&self) -> usize {
        self.partitions.iter().filter(|it| matches!(it.state, State::Assigned(_))).count()
    }

    /// Messages of these partitions that were received and are not done.
    pub(crate) fn unfinished(&self) -> usize {
        let offsets = self.partitions.iter().filter_map(|partition| match &partition.state {
            State::Elsewhere => None,
            State::Assigned(offsets) | State::Revoked(offsets) => Some(offsets),
        });
        offsets.map(Offsets::unfinished).sum()
    }

    /// All partitions that this consumer has.
    pub(crate) fn list(&self) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for partition in &self.partitions {
            if matches!(partition.state, State::Assigned(_)) {
                list.add_partition(&partition.topic, partition.number);
            }
        }
        list
    }

    /// The positions to commit, which count as requested from now on.
    pub(crate) fn take_positions(&mut self) -> KafkaResult<Option<TopicPartitionList>> {
        let mut list = TopicPartitionList::new();
        for partition in &mut self.partitions {
            let Some(offsets) = partition.offsets() else { continue };
            let Some(position) = offsets.to_commit() else { continue };
            offsets.requested(position);
            let (topic, number) = (&partition.topic, partition.number);
            list.add_partition_offset(topic, number, Offset::Offset(position))?;
        }
        Ok((list.count() != 0).then_some(list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(partitions: &[i32]) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for &number in partitions {
            list.add_partition("topic", number);
        }
        list
    }

    #[test]
    fn work_of_an_earlier_assignment_is_not_committed() {
        let mut assignment = Assignment::default();
        assignment.add(&list(&[0, 1]));
        let early = assignment.take("topic", 1, 7).unwrap();
        assignment.revoke(&list(&[1]));
        assert!(assignment.is_revoked(early) && !assignment.is_assigned(early));
        assert_eq!(assignment.take("topic", 1, 8), None);
        assignment.remove(&list(&[1]));
        assignment.add(&list(&[1]));
        let again = assignment.take("topic", 1, 7).unwrap();
        assignment.done(early, 7);
        assert!(assignment.take_positions().unwrap().is_none());
        assignment.done(again, 7);
        let positions = assignment.take_positions().unwrap().unwrap();
        let position = positions.find_partition("topic", 1).unwrap().offset();
        assert_eq!((positions.count(), position), (1, Offset::Offset(8)));
        assert!(assignment.take_positions().unwrap().is_none());
        assignment.commit_failed(&positions);
        assert!(assignment.take_positions().unwrap().is_some());
    }
}
