//! Everything that can happen, in order of virtual time.

use std::collections::VecDeque;

use delivery::AttemptResult;
use ledger::{Notice, NoticeId, Outcome};

use crate::script::Request;

/// Something that happens at a moment.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A request reaches the hub.
    Arrive(Request),
    /// The hub's answer to a request reaches who sent it; `None` is "unavailable".
    Answer(Request, Option<Outcome>),
    /// A callback reaches an FSP.
    Callback(u8, Box<Callback>),
    /// The next payer makes a transfer.
    NewTransfer,
    /// A payer looks after a transfer.
    PayerTimer(u32),
    /// A payee looks after a transfer.
    PayeeTimer(u32),
    /// The operator acts.
    Operate,
    /// The clerk acts.
    Clerk,
    /// The examiner acts.
    Examine,
    /// The treasurer acts.
    Treasurer,
    /// Something breaks.
    Fault(Fault),
    /// What was broken for a while works again.
    Mend(Fault),
    /// The state is stored beside the log.
    Snapshot,
    /// Closed segments are packed or leave.
    Archive,
    /// The hub's process starts.
    Start,
    /// Something within one life of the hub's process.
    Hub(u32, HubEvent),
    /// Is everything at rest?
    Look,
}

/// What an FSP receives.
#[derive(Clone, Debug)]
pub(crate) struct Callback {
    pub(crate) notice: Notice,
    /// The request that the notice is made from, if what it says needs it.
    pub(crate) source: Option<Request>,
}

/// Something within the hub's process.
#[derive(Clone, Debug)]
pub(crate) enum HubEvent {
    /// An I/O thread hands over what it gathered.
    Flush(u8),
    /// An I/O thread has mail.
    Mail(u8),
    /// An I/O thread's delivery policy wants to try something again.
    Retry(u8),
    /// Finished deliveries have waited long enough for a record.
    Record(u8),
    /// An attempt to deliver a notice ended.
    Attempted(u8, NoticeId, AttemptResult),
    /// An FSP asked for a pause, in microseconds.
    PauseAsked(u8, u8, u64),
    /// An FSP has registered an address.
    Addressed(u8),
    /// The sequencer's thread looks for work.
    Step,
    /// The sequencer's thread has slept long enough.
    Wake(u64),
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Crash,
    Torn,
    Sync,
    Full,
    Fsp,
    Clock,
}

/// The events to come, the earliest first; of one moment, the one added first.
///
/// A radix heap: an event waits among those whose moment has the same highest bit in which it
/// differs from the moment reached, and is moved on when they are next. So an event is moved a few
/// times, each time with its neighbours, and never compared with others one by one.
#[derive(Debug)]
pub(crate) struct Queue {
    reached: u64,
    /// Those of the moment reached.
    now: VecDeque<Event>,
    /// By the highest bit in which their moment differs from the one reached.
    later: [Vec<(u64, Event)>; u64::BITS as usize],
    /// A bit for each of these that holds any.
    held: u64,
}

impl Default for Queue {
    fn default() -> Self {
        let later = [const { Vec::new() }; u64::BITS as usize];
        Self { reached: 0, now: VecDeque::new(), later, held: 0 }
    }
}

impl Queue {
    pub(crate) fn add(&mut self, at: u64, event: Event) {
        assert!(self.reached <= at, "nothing happens before what has happened");
        match (at ^ self.reached).checked_ilog2() {
            None => self.now.push_back(event),
            Some(bit) => {
                self.later[bit as usize].push((at, event));
                self.held |= 1 << bit;
            }
        }
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        if self.now.is_empty() {
            self.move_on()?;
        }
        self.now.pop_front().map(|event| (self.reached, event))
    }

    /// On to the next moment: whoever waited for it and near it is sorted anew, in the order in
    /// which they came.
    fn move_on(&mut self) -> Option<()> {
        if self.held == 0 {
            return None;
        }
        let next = self.held.trailing_zeros() as usize;
        self.held &= !(1 << next);
        let mut near = std::mem::take(&mut self.later[next]);
        self.reached = near.iter().map(|(at, _)| *at).min()?;
        for (at, event) in near.drain(..) {
            self.add(at, event);
        }
        // None of them differs as much as before: its room is free.
        self.later[next] = near;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Events by number, at moments of all distances, some of them the same.
    #[test]
    fn events_come_in_order_and_those_of_one_moment_as_they_were_added() {
        let mut random = Random::new(1);
        let (mut queue, mut expected) = (Queue::default(), Vec::new());
        let (mut now, mut number) = (0, 0);
        for _ in 0..20_000 {
            if random.chance(510) {
                let bits = random.below(40);
                let at = now + random.below(1 << bits) / 3;
                queue.add(at, Event::PayerTimer(number));
                expected.push((at, number));
                number += 1;
            } else if let Some((at, event)) = queue.pop() {
                let first = expected.iter().enumerate().min_by_key(|(_, due)| **due);
                let (index, _) = first.expect("what came was added");
                let (due, number) = expected.remove(index);
                assert!(matches!(event, Event::PayerTimer(it) if (at, it) == (due, number)));
                now = at;
            }
        }
        expected.sort_unstable();
        for (due, number) in expected {
            let (at, event) = queue.pop().expect("what was added comes");
            assert!(matches!(event, Event::PayerTimer(it) if (at, it) == (due, number)));
        }
        assert!(queue.pop().is_none());
    }
}
