//! The tests that every [`Topic`](crate::Topic) must pass.
//!
//! A topic implements [`Subject`]: how members join and send, and how the leading broker is
//! killed.

use std::collections::BTreeSet;

use ledger::Stamp;

use crate::Arrival;

/// Messages that each member sends between two reads.
const MESSAGES: u64 = 20;
/// Maximum number of requests for the end offset while a message is unconfirmed. A dead leader is
/// detected after seconds, in which the other brokers answer thousands of requests.
const QUESTIONS_MAX: u64 = 1_000_000;

/// A topic under test: empty, or with messages that the test added.
pub trait Subject {
    /// Joins the topic and reads from this offset. Returns the member's number.
    fn join(&mut self, next: i64) -> usize;

    /// A member sends a message.
    fn send(&mut self, member: usize, message: &[u8], tag: u64);

    /// A member requests the end offset.
    fn ask_end(&mut self, member: usize, number: u64);

    /// The next event of a member; blocks until there is one.
    fn receive(&mut self, member: usize) -> Arrival;

    /// Kills the leading broker; another broker takes over.
    fn lose_leader(&mut self);
}

/// Runs the whole contract.
///
/// # Panics
/// When the topic violates the contract.
pub fn check(subject: &mut impl Subject) {
    let mut members: Vec<Member> = (0..3).map(|_| Member::join(subject, 0)).collect();
    members.iter_mut().for_each(|member| member.catch_up(subject));
    let held = members[0].seen.len();
    check_order(subject, &mut members);
    assert_eq!(members[0].seen.len(), held + 3 * MESSAGES as usize, "each came once");
    check_late(subject, &members[0]);
    check_ends(subject, &mut members);
    let before = members[0].seen.clone();
    for member in &mut members {
        member.send(subject, MESSAGES);
    }
    subject.lose_leader();
    check_order(subject, &mut members);
    let late = check_late(subject, &members[0]);
    assert!(late.starts_with(&before), "a message given to a reader is never withdrawn");
}

/// All members send. All read the same messages, in each sender's order, at most once.
fn check_order(subject: &mut impl Subject, members: &mut [Member]) {
    for _ in 0..MESSAGES {
        members.iter_mut().for_each(|member| member.send(subject, 1));
    }
    members.iter_mut().for_each(|member| member.wait_for_own(subject));
    members.iter_mut().for_each(|member| member.catch_up(subject));
    for member in &*members {
        assert_eq!(member.seen, members[0].seen, "all members read the same");
        let own: Vec<_> = member.own(&members[0].seen).collect();
        assert!(own.is_sorted_by(|one, next| one < next), "in order and once: {own:?}");
        let all: BTreeSet<_> = own.into_iter().chain(member.lost.iter().copied()).collect();
        assert_eq!(all, (0..member.sent).collect(), "every message has an end");
    }
}

/// A late member reads the same messages from any offset. Returns all of them.
fn check_late(subject: &mut impl Subject, member: &Member) -> Vec<Seen> {
    let (from, _, _) = member.seen[member.seen.len() / 2];
    for next in [0, from] {
        let mut late = Member::join(subject, next);
        late.catch_up(subject);
        let rest: Vec<_> = member.seen.iter().filter(|seen| next <= seen.0).cloned().collect();
        assert_eq!(late.seen, rest, "from offset {next} on");
    }
    member.seen.clone()
}

/// The end offset is past every message that has arrived at any member.
fn check_ends(subject: &mut impl Subject, members: &mut [Member]) {
    for at in 0..members.len() {
        members[at].send(subject, 1);
        members[at].wait_for_own(subject);
        let arrived = members[at].next;
        let other = &mut members[(at + 1) % 3];
        other.catch_up(subject);
        assert!(arrived <= other.next, "an end asked for later is at least as far");
    }
}

/// A message as it was read.
type Seen = (i64, Stamp, Vec<u8>);

/// A member and the messages it has read.
struct Member {
    number: usize,
    next: i64,
    seen: Vec<Seen>,
    /// The number of its own messages, numbered from 0.
    sent: u64,
    lost: BTreeSet<u64>,
    asked: u64,
}

impl Member {
    fn join(subject: &mut impl Subject, next: i64) -> Self {
        let number = subject.join(next);
        Self { number, next, seen: Vec::new(), sent: 0, lost: BTreeSet::new(), asked: 0 }
    }

    fn send(&mut self, subject: &mut impl Subject, count: u64) {
        for _ in 0..count {
            let message = format!("{} {}", self.number, self.sent);
            subject.send(self.number, message.as_bytes(), self.sent);
            self.sent += 1;
        }
    }

    /// The numbers of this member's messages among those seen.
    fn own<'a>(&self, seen: &'a [Seen]) -> impl Iterator<Item = u64> + use<'a> {
        let prefix = format!("{} ", self.number);
        let texts = seen.iter().filter_map(|(_, _, bytes)| std::str::from_utf8(bytes).ok());
        texts.filter_map(move |text| text.strip_prefix(&prefix)?.parse().ok())
    }

    /// Reads up to the end offset at the time of the call.
    fn catch_up(&mut self, subject: &mut impl Subject) {
        let mut until = None;
        self.ask(subject);
        while until.is_none_or(|until| self.next < until) {
            match subject.receive(self.number) {
                Arrival::Message { offset, at, bytes } => {
                    assert!(self.next <= offset, "offsets rise: {offset} after {}", self.next);
                    self.next = offset + 1;
                    self.seen.push((offset, at, bytes));
                }
                Arrival::Lost { tag, .. } => {
                    assert!(self.lost.insert(tag), "{tag} is lost twice");
                }
                Arrival::End { number, offset: Some(offset) } if number == self.asked => {
                    until = Some(offset);
                }
                // No broker may know the end during an election.
                Arrival::End { number, offset: None } if number == self.asked => self.ask(subject),
                Arrival::End { .. } => {}
                Arrival::Broken { reason } => panic!("the topic broke: {reason}"),
            }
        }
    }

    fn ask(&mut self, subject: &mut impl Subject) {
        self.asked += 1;
        subject.ask_end(self.number, self.asked);
    }

    /// Reads until each of its own messages has arrived or is lost.
    fn wait_for_own(&mut self, subject: &mut impl Subject) {
        for _ in 0..QUESTIONS_MAX {
            self.catch_up(subject);
            let arrived: BTreeSet<_> = self.own(&self.seen).collect();
            let is_ended = |number: u64| arrived.contains(&number) || self.lost.contains(&number);
            if (0..self.sent).all(is_ended) {
                return;
            }
        }
        panic!("a message of member {} has no end", self.number);
    }
}
