//! The tests that every [`Topic`](crate::Topic) must pass.
//!
//! A topic joins with a [`Subject`]: how members come to it, what they do, and how the broker that
//! leads it is lost.

use std::collections::BTreeSet;

use ledger::Stamp;

use crate::Arrival;

/// Messages that each member sends between two looks at what came.
const MESSAGES: u64 = 20;
/// Questions where the topic ends while a message has no end yet. A leader that died is noticed
/// after seconds, and others answer thousands of questions meanwhile.
const QUESTIONS_MAX: u64 = 1_000_000;

/// A topic under test: empty, or with what its maker put there.
pub trait Subject {
    /// Joins the topic and reads from this offset on. Answers with the member's number.
    fn join(&mut self, next: i64) -> usize;

    /// A member sends a message.
    fn send(&mut self, member: usize, message: &[u8], tag: u64);

    /// A member asks where the topic ends.
    fn ask_end(&mut self, member: usize, number: u64);

    /// What a member is told next; waits for it.
    fn hear(&mut self, member: usize) -> Arrival;

    /// The broker that leads dies; another one will lead.
    fn lose_leader(&mut self);
}

/// Runs the whole contract.
///
/// # Panics
/// Where the topic breaks it.
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
    assert!(late.starts_with(&before), "what was given to a reader is never taken back");
}

/// Everybody sends; everybody is given the same, in the order of each sender, at most once.
fn check_order(subject: &mut impl Subject, members: &mut [Member]) {
    for _ in 0..MESSAGES {
        members.iter_mut().for_each(|member| member.send(subject, 1));
    }
    members.iter_mut().for_each(|member| member.wait_for_own(subject));
    members.iter_mut().for_each(|member| member.catch_up(subject));
    for member in &*members {
        assert_eq!(member.seen, members[0].seen, "everybody reads the same");
        let of_it: Vec<_> = member.own(&members[0].seen).collect();
        assert!(of_it.is_sorted_by(|one, next| one < next), "in order and once: {of_it:?}");
        let all: BTreeSet<_> = of_it.into_iter().chain(member.lost.iter().copied()).collect();
        assert_eq!(all, (0..member.sent).collect(), "every message has an end");
    }
}

/// Whoever comes late is given the same from any offset on. Answers with all of it.
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

/// Where the topic ends is behind whatever has arrived anywhere.
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

/// A member, and what it was told.
struct Member {
    number: usize,
    next: i64,
    seen: Vec<Seen>,
    /// Its own messages, which are numbered from 0 on.
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

    /// Reads up to where the topic ends when it is asked for.
    fn catch_up(&mut self, subject: &mut impl Subject) {
        let mut until = None;
        self.ask(subject);
        while until.is_none_or(|until| self.next < until) {
            match subject.hear(self.number) {
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
                // While a leader is looked for nobody may know.
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

    /// Reads until each message of its own has arrived or is lost.
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
