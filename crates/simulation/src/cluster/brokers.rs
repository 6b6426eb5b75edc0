//! The model of the topic: one partition on three brokers, as far as nodes can observe it.
//!
//! The leader appends and stamps; the others replicate from it. A message is committed when every
//! in-sync broker has it. Only committed messages are read and acknowledged. A leader is elected
//! among the in-sync brokers; uncommitted messages that it lacks are truncated on the others. No
//! message is accepted while fewer than two brokers are in sync.

use std::collections::BTreeMap;
use std::rc::Rc;

use ledger::Stamp;

use crate::parameters::EPOCH_US;

pub(crate) const BROKERS: usize = 3;
/// Fewest brokers in sync that take anything.
const IN_SYNC_MIN: usize = 2;

/// The sender of a message, and its number among the messages of that sender.
pub(crate) type Source = (u64, u64);

/// A message in the topic.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) at: Stamp,
    pub(crate) bytes: Vec<u8>,
    source: Source,
}

#[derive(Debug, Default)]
struct Broker {
    log: Vec<Rc<Entry>>,
    is_up: bool,
    in_sync: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Brokers {
    brokers: [Broker; BROKERS],
    leader: Option<usize>,
    /// Number of committed messages.
    committed: usize,
    /// Indices of each sender's messages in the leader's log.
    placed: BTreeMap<Source, usize>,
    /// How far their clocks are ahead.
    pub(crate) skew_us: u64,
    /// Uncommitted messages that were cut off.
    pub(crate) cut_off: u64,
}

impl Brokers {
    pub(crate) fn new() -> Self {
        let mut brokers = Self { leader: Some(0), ..Self::default() };
        for broker in &mut brokers.brokers {
            (broker.is_up, broker.in_sync) = (true, true);
        }
        brokers
    }

    pub(crate) fn committed(&self) -> usize {
        self.committed
    }

    pub(crate) fn leader(&self) -> Option<usize> {
        self.leader.filter(|leader| self.brokers[*leader].is_up)
    }

    pub(crate) fn is_up(&self, broker: usize) -> bool {
        self.brokers[broker].is_up
    }

    pub(crate) fn ups(&self) -> usize {
        self.brokers.iter().filter(|broker| broker.is_up).count()
    }

    /// The committed message at an offset.
    pub(crate) fn read(&self, offset: usize) -> Option<Rc<Entry>> {
        let leader = &self.brokers[self.leader()?];
        (offset < self.committed).then(|| Rc::clone(&leader.log[offset]))
    }

    /// All committed messages, whichever brokers are up.
    pub(crate) fn all(&self) -> Vec<Rc<Entry>> {
        let in_sync = self.brokers.iter().find(|broker| broker.in_sync);
        in_sync.expect("one is in sync at least").log[..self.committed].to_vec()
    }

    /// Whether a message is committed: its sender gets an acknowledgement.
    pub(crate) fn has(&self, source: Source) -> bool {
        self.placed.get(&source).is_some_and(|at| *at < self.committed)
    }

    /// The leader appends a message unless it has it; `again` appends a duplicate. Returns false
    /// when no broker accepts messages.
    pub(crate) fn append(
        &mut self,
        now: u64,
        source: Source,
        bytes: &[u8],
        again: Duplicates,
    ) -> bool {
        let Some(leader) = self.leader() else { return false };
        if self.brokers.iter().filter(|broker| broker.in_sync).count() < IN_SYNC_MIN {
            return false;
        }
        if self.placed.contains_key(&source) && again == Duplicates::No {
            return true;
        }
        let at = Stamp((EPOCH_US + now + self.skew_us) / 1_000 * 1_000);
        let log = &mut self.brokers[leader].log;
        self.placed.entry(source).or_insert(log.len());
        log.push(Rc::new(Entry { at, bytes: bytes.to_vec(), source }));
        true
    }

    /// A follower copies what the leader has. True when more is committed.
    pub(crate) fn replicate(&mut self, follower: usize) -> bool {
        let Some(leader) = self.leader() else { return false };
        if follower == leader || !self.brokers[follower].is_up {
            return self.commit();
        }
        let missing = self.brokers[leader].log[self.brokers[follower].log.len()..].to_vec();
        self.brokers[follower].log.extend(missing);
        self.brokers[follower].in_sync = true;
        self.commit()
    }

    fn commit(&mut self) -> bool {
        let in_sync = self.brokers.iter().filter(|broker| broker.in_sync);
        let all_have = in_sync.map(|broker| broker.log.len()).min().unwrap_or(0);
        let before = self.committed;
        self.committed = before.max(all_have);
        before < self.committed
    }

    pub(crate) fn stop(&mut self, broker: usize) {
        self.brokers[broker].is_up = false;
    }

    pub(crate) fn start(&mut self, broker: usize) {
        self.brokers[broker].is_up = true;
    }

    /// The sessions of crashed brokers have ended: they leave the in-sync set unless they are its
    /// last members, and an in-sync broker that is up becomes leader. Returns true if there is a
    /// leader.
    pub(crate) fn elect(&mut self) -> bool {
        let next = (0..BROKERS).find(|at| self.brokers[*at].in_sync && self.brokers[*at].is_up);
        let Some(next) = self.leader().or(next) else { return false };
        for broker in &mut self.brokers {
            broker.in_sync &= broker.is_up;
        }
        if self.leader != Some(next) {
            self.leader = Some(next);
            self.cut_off_others(next);
            let log = &self.brokers[next].log;
            assert!(self.committed <= log.len(), "a leader has all that is committed");
            self.placed.clear();
            for (at, entry) in log.iter().enumerate() {
                self.placed.entry(entry.source).or_insert(at);
            }
        }
        true
    }

    /// A new leader's log is authoritative: entries of other brokers beyond it, or that differ from
    /// it, are truncated. The log of a broker that is down is not read meanwhile.
    fn cut_off_others(&mut self, leader: usize) {
        let theirs = self.brokers[leader].log.clone();
        for broker in &mut self.brokers {
            let pairs = broker.log.iter().zip(&theirs);
            let same = pairs.take_while(|(own, other)| Rc::ptr_eq(own, other)).count();
            self.cut_off += (broker.log.len() - same) as u64;
            broker.log.truncate(same);
        }
    }
}

/// Whether a message may be taken twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicates {
    No,
    Yes,
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use ports::Arrival;
    use ports::contract::{Subject, check};

    use super::*;

    /// Nodes that use the brokers. A message in transit is delivered by the next read.
    struct Members {
        brokers: Brokers,
        members: Vec<Member>,
        now: u64,
    }

    #[derive(Default)]
    struct Member {
        next: usize,
        /// Sent and not known to be committed, by number.
        unsent: VecDeque<(u64, Vec<u8>)>,
        sent: u64,
        asked: VecDeque<u64>,
    }

    impl Members {
        /// Brings what was sent to the leader, again if it is another one, and on to the others.
        fn deliver(&mut self) {
            for (at, member) in (0..).zip(&mut self.members) {
                for (number, bytes) in &member.unsent {
                    self.now += 1_000;
                    self.brokers.append(self.now, (at, *number), bytes, Duplicates::No);
                }
            }
        }

        fn replicate(&mut self) {
            for follower in 0..BROKERS {
                self.brokers.replicate(follower);
            }
            for (at, member) in (0..).zip(&mut self.members) {
                member.unsent.retain(|(number, _)| !self.brokers.has((at, *number)));
            }
        }
    }

    impl Subject for Members {
        fn join(&mut self, next: i64) -> usize {
            self.members.push(Member { next: next as usize, ..Member::default() });
            self.members.len() - 1
        }

        fn send(&mut self, member: usize, message: &[u8], _tag: u64) {
            let member = &mut self.members[member];
            member.unsent.push_back((member.sent, message.to_vec()));
            member.sent += 1;
        }

        fn ask_end(&mut self, member: usize, number: u64) {
            self.members[member].asked.push_back(number);
        }

        fn receive(&mut self, member: usize) -> Arrival {
            self.deliver();
            self.replicate();
            let member = &mut self.members[member];
            if let Some(number) = member.asked.pop_front() {
                let offset = self.brokers.leader().map(|_| self.brokers.committed() as i64);
                return Arrival::End { number, offset };
            }
            let entry = self.brokers.read(member.next).expect("there is more");
            member.next += 1;
            let offset = member.next as i64 - 1;
            Arrival::Message { offset, at: entry.at, bytes: entry.bytes.clone() }
        }

        /// Before the others have copied what came last.
        fn lose_leader(&mut self) {
            self.deliver();
            let leader = self.brokers.leader().expect("somebody leads");
            self.brokers.stop(leader);
            assert!(self.brokers.elect());
            self.brokers.start(leader);
        }
    }

    #[test]
    fn it_is_a_topic() {
        let mut members = Members { brokers: Brokers::new(), members: Vec::new(), now: 0 };
        check(&mut members);
        assert!(0 < members.brokers.cut_off, "what only the lost leader had was sent again");
    }
}
